"""The writes of a starting pod's status, on a real kubelet.

A consumer without nodes of its own, and a provider with a real kubelet and containerd (this needs
root). Pods of several kinds start there, a few of each; for each kind this prints how often the
kubelet wrote a pod's status, how often the daemons wrote it at the consumer and at the ShadowPod,
and the states that were seen at the provider and at the consumer.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import trio

from benchmarks.report import Report, number
from benchmarks.stage import parser, run, say
from benchmarks.watching import watching
from liqod.apimachinery.kinds import PODS
from liqod.kube.cache.store import StoreChange
from tests.testbed.api import wait_until
from tests.testbed.clusters import DAEMONS_OWN
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import start_all
from tests.testbed.node import NodeCluster, node_pod, prepare

Json = dict[str, Any]

CONSUMER, PROVIDER = "rome", "naples"
NAMESPACE = "starting"
POD_CIDR = "10.201.0.0/16"
ROUTED = {"peer_defaults": {"pod_network": "routed", "pod_cidrs": ["10.0.0.0/8"]}}
STATUS = ("PATCH", "pods/status"), ("PUT", "pods/status")
SHADOW_STATUS = ("PATCH", "shadowpods/status"), ("PUT", "shadowpods/status")
SETTLED = 12.0
"""Seconds after which nothing more of a start is written."""
DEADLINE = 90.0


def kinds() -> dict[str, Json]:
    """A pod of each kind."""
    found: dict[str, Json] = {"plain": pod("sleep 1000000")}
    probed = found["probe succeeds at once"] = pod("httpd -f -p 8080 -h /www")
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    probed["spec"]["containers"][0]["readinessProbe"] = probe
    later = found["probe succeeds after 3 s"] = pod("sleep 3; exec httpd -f -p 8080 -h /www")
    later["spec"]["containers"][0]["readinessProbe"] = probe
    first = found["with an init container"] = pod("sleep 1000000")
    init = copy.deepcopy(first["spec"]["containers"][0])
    init |= {"name": "init", "command": ["/bin/sh", "-c", "sleep 1"]}
    first["spec"]["initContainers"] = [init]
    two = found["two containers"] = pod("sleep 1000000")
    two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "beside"})
    once = found["runs once"] = pod("sleep 2")
    once["spec"]["restartPolicy"] = "Never"
    return found


def pod(command: str) -> Json:
    """A pod for the virtual node."""
    made: Json = copy.deepcopy(node_pod("x", command))
    made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": PROVIDER}
    return made


@contextlib.contextmanager
def peered() -> Iterator[tuple[Member, Member]]:
    """A consumer, and a provider with a real node."""
    try:
        prepare()
    except Unavailable as error:
        raise TestbedError(str(error)) from error
    say("starting two clusters with liqod, one with a real kubelet")
    lender, made = NodeCluster(PROVIDER), Federation()
    plane = ControlPlane(CONSUMER, Settings(pod_cidr=POD_CIDR))
    try:
        lender.start()
        start_all([plane])
        rome = made.join(plane, {"cluster": {"pod_cidrs": [POD_CIDR]}, **ROUTED})
        own = {"cluster": {"pod_cidrs": ["10.244.0.0/16"]}}
        webhook = {"webhook": {"host": lender.machine.gateway}}
        naples = made.join(lender.plane, {**own, **webhook, **ROUTED}, nodes=0)
        for path in DAEMONS_OWN:
            wait_until(path, lambda path=path: naples.api.exists(path), 60)
        made.peer(rome, naples)
        rome.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        rome.liqod("offload", "namespace", NAMESPACE, "--pod-offloading-strategy", "Remote")
        yield rome, naples
    finally:
        made.close()
        plane.destroy()
        lender.destroy()


def measure(chosen: argparse.Namespace) -> Report:
    """Each kind in turn."""
    report = Report("The statuses of a starting pod", rows=[("", "kubelet", "home", "ShadowPod")])
    states: list[tuple[str, str]] = []
    with peered() as (rome, naples):
        time.sleep(SETTLED)
        for what, body in kinds().items():
            say(f"{chosen.pods} pods: {what}")
            written, seen = trio.run(one_kind, rome, naples, what, body, chosen.pods)
            report.rows.append((what, *(number(count / chosen.pods) for count in written)))
            report.figures[what] = {"written": written, **seen}
            states += [(f"{what}, {where}", each) for where, each in seen.items()]
    report.rows += [("", ""), *states]
    return report


async def one_kind(
    rome: Member, naples: Member, what: str, body: Json, count: int
) -> tuple[list[int], dict[str, str]]:
    """Start so many; how often was written where, and the states of the first one."""
    names = [f"{what.replace(' ', '-')}-{number}" for number in range(count)]
    there = f"{NAMESPACE}-{CONSUMER}"
    seen: dict[str, list[str]] = {"there": [], "home": []}

    def see(where: str) -> Callable[[StoreChange], None]:
        def changed(change: StoreChange) -> None:
            if change.key[1] == names[0] and change.new is not None:
                state = shown(msgspec.json.decode(change.new))
                if state not in seen[where][-1:]:
                    seen[where].append(state)

        return changed

    async with (
        watching(rome.plane.kubeconfig, PODS, NAMESPACE) as home,
        watching(naples.plane.kubeconfig, PODS, there) as peer,
    ):
        home.informer.subscribe(see("home"))
        peer.informer.subscribe(see("there"))
        before = writes(rome, naples)
        for name in names:
            made = {**body, "metadata": {"name": name}}
            await home.client.create(PODS, made, NAMESPACE)
        done = "Succeeded" if body["spec"].get("restartPolicy") == "Never" else "Ready"

        def good(text: bytes) -> bool:
            return done in shown(msgspec.json.decode(text))

        for name in names:
            await home.until(name, lambda name=name: home.has(NAMESPACE, name, good), DEADLINE)  # type: ignore[misc]
        await trio.sleep(SETTLED)
        after = writes(rome, naples)
        for name in names:
            await home.client.delete(PODS, name, NAMESPACE, grace=0)
        await peer.until("remote pods gone", lambda: not peer.informer.store.keys(), DEADLINE)
        await trio.sleep(SETTLED / 4)
    written = [now - then for now, then in zip(after, before, strict=True)]
    return written, {where: " | ".join(each) for where, each in seen.items()}


def writes(rome: Member, naples: Member) -> list[int]:
    """Statuses written so far: by the kubelet, at the consumer, at ShadowPods."""
    there, here = Counter(naples.plane.requests()), Counter(rome.plane.requests())
    sums = ((there, STATUS), (here, STATUS), (there, SHADOW_STATUS))
    return [sum(counts[key] for key in keys) for counts, keys in sums]


def shown(found: Json) -> str:
    """A pod's status in short."""
    status = found.get("status") or {}
    true = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    states = [
        next(iter(each.get("state") or {"none": None}))
        for field in ("initContainerStatuses", "containerStatuses")
        for each in status.get(field) or ()
    ]
    address = "address" if status.get("podIP") else "no address"
    short = ["".join(letter for letter in each if letter.isupper()) for each in true]
    ready = "Ready" if "Ready" in true else "not yet"
    return f"{status.get('phase')} {ready} {address} {'+'.join(states)} {','.join(short)}"


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("starting", __doc__ or "")
    made.add_argument("--pods", type=int, default=4, help="pods of each kind; default 4")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
