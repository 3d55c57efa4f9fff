"""A pod that gets ready: until the kernels of its own cluster and of a peer lead calls to it.

Two clusters with a kubelet, kube-proxy and containerd each, peered and with joined networks (this
needs root). A pod of the first has a readiness gate of its own, which is opened and closed again in
each round. Milliseconds from when the API server shows that the kubelet has written the pod ready,
until it shows the pod's EndpointSlice and the kernel has kube-proxy's rule for the pod; and of the
same change, until the exporter has told it, the peer has that, the peer's API server shows the
EndpointSlice of the import, and its kernel has the rule.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
import trio

from benchmarks.report import Aim, Report
from benchmarks.stage import parser, run, say
from benchmarks.watching import Changes, Watcher, watching
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES, PODS
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import SOURCE_CLUSTER
from tests.testbed.api import wait_until
from tests.testbed.errors import TestbedError
from tests.testbed.joined import SETTINGS, Joined
from tests.testbed.node import NodeCluster, node_pod
from tests.testbed.workloads import core, group, is_ready, service

EXPORTER, READER = "rome", "milan"
NAMESPACE, NAME = "shop", "web"
GATE: Final = "benchmarks.liqod.io/open"
CLOSED: Final = '"ready":false'
HOME: Final = ("slice at home", "rule at home")
PEER: Final = ("told", "heard", "slice at the peer", "rule at the peer")
DEADLINE: Final = 60.0
PAUSE: Final = 3.0
"""Seconds between changes: each finds kube-proxy, which waits a second between two, at rest."""
CHANGE = Aim("a ready pod until the peer's kernel leads to it, times as long as at home", "", 1.5)

Json = dict[str, Any]


class Monitor(Changes):
    """The text of each change of a machine's nftables, for those who wait.

    Args:
        cluster: the machine's.
    """

    def __init__(self, cluster: NodeCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._lines: list[str] = []
        self._rest = ""

    def forget(self) -> None:
        """Forget what has come so far."""
        self._lines.clear()

    def take(self, text: str) -> None:
        """Keep what has come, by lines; raises where some has been lost."""
        *lines, self._rest = (self._rest + text).split("\n")
        if any(each.startswith("# ERROR") for each in lines):
            raise TestbedError(f"nft monitor: {lines}")
        self._lines += lines
        self.notify()

    async def until_added(self, address: str) -> float:
        """The time at which a rule was added that leads to an address; raises if it is late, with
        what the kernel has."""
        words = f"dnat to {address}:"

        def is_added() -> bool:
            return any(each.startswith("add ") and words in each for each in self._lines)

        try:
            return await self.until(f"a rule for {address}", is_added, DEADLINE)
        except TestbedError as error:
            rules = self._cluster.machine.run("nft", "list", "ruleset").splitlines()
            there = [each.strip() for each in rules if "dnat to" in each]
            seen = "\n".join(self._lines)
            logs = self._cluster.logs(40)
            raise TestbedError(f"{error}\nthe kernel has {there}\nseen:\n{seen}\n{logs}") from error


@asynccontextmanager
async def monitoring(cluster: NodeCluster) -> AsyncIterator[Monitor]:
    """Follow the changes of nftables in a cluster's machine."""
    made = Monitor(cluster)
    words = [*cluster.machine.inside, "stdbuf", "-oL", "nft", "-n", "monitor", "new", "rules"]

    async def read(process: trio.Process) -> None:
        assert process.stdout is not None
        async for data in process.stdout:
            made.take(data.decode(errors="replace"))
        raise TestbedError(f"nft monitor of {cluster.name} has ended")

    async with trio.open_nursery() as nursery:
        start = functools.partial(trio.run_process, words, capture_stdout=False, stdout=-1)
        process = await nursery.start(start)
        nursery.start_soon(read, process)
        yield made
        nursery.cancel_scope.cancel()


def measure(chosen: argparse.Namespace) -> Report:
    """Some rounds."""
    say("starting two clusters with a node each")
    clusters = Joined(EXPORTER, READER, settings={**SETTINGS, "services": {"enabled": True}})
    try:
        clusters.start()
        prepare(clusters)
        say(f"{chosen.rounds} rounds")
        took = trio.run(timed, clusters, chosen.rounds)
    finally:
        clusters.destroy()
    return report(took)


def prepare(clusters: Joined) -> None:
    """Peer the clusters, and export a Service with one pod, which is not ready."""
    rome, milan = (clusters.members[name] for name in (EXPORTER, READER))
    for member, peer in ((rome, milan), (milan, rome)):
        member.liqod("install", "--services")
        marks = {"annotations": {labels.SHARE_SERVICES: peer.name}}
        member.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, **marks}})
    clusters.peer(rome, milan)
    pod = node_pod(NAME)
    pod["spec"]["readinessGates"] = [{"conditionType": GATE}]
    rome.create(core(NAMESPACE, "pods"), pod)
    rome.create(core(NAMESPACE, "services"), service(NAME))
    wish = {"metadata": {"name": NAME}, "apiVersion": "multicluster.x-k8s.io/v1beta1"}
    wish["kind"] = "ServiceExport"
    rome.create(group(str(wish["apiVersion"]), NAMESPACE, "serviceexports"), wish)
    running = core(NAMESPACE, "pods", NAME)
    wait_until("the pod", lambda: rome.api.get(running)["status"].get("podIP"), 120)


async def timed(clusters: Joined, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each step in each round."""
    found: dict[str, list[float]] = {}
    rome, milan = (clusters.clusters[name] for name in (EXPORTER, READER))
    here, there = rome.kubeconfig, milan.kubeconfig
    async with AsyncExitStack() as stack:
        kinds = (ENDPOINT_SLICES, SERVICE_EXCHANGES)
        pods = await stack.enter_async_context(watching(here, PODS, NAMESPACE))
        home, told = [await stack.enter_async_context(watching(here, each)) for each in kinds]
        peer, heard = [await stack.enter_async_context(watching(there, each)) for each in kinds]
        rules = [await stack.enter_async_context(monitoring(each)) for each in (rome, milan)]
        steps: dict[str, tuple[Watcher, Callable[[bytes], bool]]] = {
            "pod": (pods, is_ready),
            "slice at home": (home, lambda body: _is_open(body, own=True)),
            "told": (told, _tells),
            "heard": (heard, _tells),
            "slice at the peer": (peer, lambda body: _is_open(body, own=False)),
        }
        for slices, own in ((home, True), (peer, False)):
            known = functools.partial(_address, slices, own=own)
            await slices.until("the pod's EndpointSlice", known, DEADLINE)
        await _round(steps, rules, pods)  # of which only the addresses count
        for number in range(rounds):
            for name, at in (await _round(steps, rules, pods)).items():
                found.setdefault(name, []).append(at)
            say(f"round {number + 1}")
    return found


async def _round(
    steps: dict[str, tuple[Watcher, Callable[[bytes], bool]]], rules: list[Monitor], pods: Watcher
) -> dict[str, float]:
    """Close the gate, rest, open it; milliseconds of each step after the pod."""
    await _set(pods, "False")
    for name, (by, opened) in steps.items():
        await by.until(f"closed: {name}", lambda b=by, o=opened: not _any(b, o), DEADLINE)  # type: ignore[misc]
    await trio.sleep(PAUSE)
    at: dict[str, float] = {}
    for each in rules:
        each.forget()

    async def look(name: str, by: Watcher, opened: Callable[[bytes], bool]) -> None:
        at[name] = await by.until(f"open: {name}", lambda: _any(by, opened), DEADLINE)

    async def follow(name: str, slices: Watcher, *, own: bool, rule: Monitor) -> None:
        address = _address(slices, own=own)
        at[name] = await rule.until_added(address)

    async with trio.open_nursery() as nursery:
        for name, (by, opened) in steps.items():
            nursery.start_soon(look, name, by, opened)
        for name, own, rule in zip(("home", "the peer"), (True, False), rules, strict=True):
            slices = steps[f"slice at {name}"][0]
            begin = functools.partial(follow, f"rule at {name}", slices, own=own, rule=rule)
            nursery.start_soon(begin)
        await _set(pods, "True")
    await trio.sleep(PAUSE)
    return {name: (when - at["pod"]) * 1e3 for name, when in at.items() if name != "pod"}


async def _set(pods: Watcher, status: str) -> None:
    """Open or close the gate."""
    (key,) = pods.informer.store.indexed("namespace", NAMESPACE)
    found: Json = msgspec.json.decode(pods.informer.store.get(key) or b"{}")
    others = [each for each in found["status"]["conditions"] if each["type"] != GATE]
    change = {"status": {"conditions": [*others, {"type": GATE, "status": status}]}}
    await pods.client.patch(PODS, NAME, change, NAMESPACE, subresource="status")


def _any(by: Watcher, good: Callable[[bytes], bool]) -> bool:
    store = by.informer.store
    return any(good(store.get(key) or b"") for key in store)


def _is_open(body: bytes, *, own: bool) -> bool:
    """True for the Service's own EndpointSlice, or the import's, with a ready endpoint."""
    found: Json = msgspec.json.decode(body)
    marks = found["metadata"].get("labels", {})
    if found["metadata"]["namespace"] != NAMESPACE or (SOURCE_CLUSTER in marks) == own:
        return False
    endpoints = found.get("endpoints") or ()
    return any(each["conditions"]["ready"] for each in endpoints)


def _tells(body: bytes) -> bool:
    found: Json = msgspec.json.decode(body)
    text: str = found["spec"].get("exports", {}).get(NAME, CLOSED)
    return CLOSED not in text and '"addresses"' in text


def _address(slices: Watcher, *, own: bool) -> str:
    """The pod's address in a cluster, as its EndpointSlice has it, ready or not; empty without."""
    store = slices.informer.store
    for key in store.indexed("namespace", NAMESPACE):
        found: Json = msgspec.json.decode(store.get(key) or b"{}")
        if (SOURCE_CLUSTER not in found["metadata"].get("labels", {})) == own:
            return next((each["addresses"][0] for each in found.get("endpoints") or ()), "")
    return ""


def report(took: dict[str, list[float]]) -> Report:
    """All of it."""
    made = Report("A ready pod until kernels lead calls to it")
    middle = {name: statistics.median(found) for name, found in took.items()}
    made.rows = [("ms after the pod is ready, the median", "least", "median", "most")]
    for name in (*HOME, *PEER):
        found = took[name]
        made.rows.append(
            (name, *(f"{each:.0f}" for each in (min(found), middle[name], max(found))))
        )
    made.aims = [(CHANGE, middle["rule at the peer"] / middle["rule at home"])]
    made.figures = {"milliseconds": took}
    return made


def arguments() -> argparse.ArgumentParser:
    """Its command line."""
    made = parser("rules", __doc__ or "")
    made.add_argument("--rounds", type=int, default=9, help="default 9")
    return made


if __name__ == "__main__":
    sys.exit(run(measure, arguments()))
