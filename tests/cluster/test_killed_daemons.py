"""Daemons that are killed, doubled and replaced under load, on real control planes.

Kubernetes is the database: a daemon may end at any instant, and the next one goes on. Nothing that
runs is touched by it, nothing is done twice, and nothing is forgotten.
"""

from __future__ import annotations

import http.client
import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.test_offloading import offload, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import Clusters
from tests.testbed.daemon import Daemon
from tests.testbed.federation import LEASE, Member
from tests.testbed.processes import free_ports
from tests.testbed.witness import Witness
from tests.testbed.workloads import Manifest, core, deployment, deployments, pod

pytestmark = pytest.mark.cluster

MANY = 200
KILLS = 4
"""Of each daemon, while those pods are on their way."""
TAKEOVER = 15.0
"""Seconds within which a standby leads after a crash."""
SHADOW_PODS = "/apis/offloading.liqo.io/v1beta1/namespaces/{}/shadowpods"


@contextmanager
def unelected(*members: Member) -> Iterator[None]:
    """Daemons that lead at once when they are started: a killed one still holds its Lease."""
    for member in members:
        member.daemon.settings["election"] = {"enabled": False}
    yield
    for member in members:
        del member.daemon.settings["election"]
        member.daemon.stop()
        member.daemon.start(60)


def kill_and_start(member: Member, moments: list[float]) -> None:
    for moment in moments:
        time.sleep(moment)
        member.daemon.kill()
        member.daemon.start(60)


def only_remote(name: str, replicas: int) -> Manifest:
    """A Deployment that needs no webhook to go to virtual nodes: none answers for a dead daemon."""
    made = deployment(name, replicas)
    made["spec"]["template"]["spec"]["runtimeClassName"] = "liqo"
    return made


@pytest.mark.load
def test_killed_at_any_moment_nothing_is_lost_or_done_twice(clusters: Clusters) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    rome, milan = clusters.rome, clusters.milan
    clusters.peer(rome, milan, cpu="20", memory="8Gi", pods=str(MANY + 20))
    shop = clusters.namespace(rome)
    there = f"{shop}-rome"
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    moments = {
        member.name: [chance.uniform(0.05, 1.5) for _ in range(KILLS)] for member in (rome, milan)
    }
    with (
        Witness(rome.api, shop) as context,
        Witness(milan.api, there) as away,
        ThreadPoolExecutor(2) as pool,
        unelected(rome, milan),
    ):
        rome.create(deployments(shop), only_remote("web", MANY))
        killing = [
            pool.submit(kill_and_start, member, moments[member.name]) for member in (rome, milan)
        ]
        for one in killing:
            one.result()
        settle(rome, shop, MANY, 120)
        settle(milan, there, MANY, 40)
    told = f"seed {seed}, moments {moments}"
    assert not context.replaced(), told
    assert not away.replaced(), told
    assert not away.restarted, told
    assert len(context.uids) == len(away.uids) == MANY, told
    assert context.uids.keys() == away.uids.keys(), told
    assert milan.names(SHADOW_PODS.format(there)) == set(away.uids), told
    rome.api.call("DELETE", deployments(shop, "web"))
    wait_until("no pod", lambda: not rome.pods(shop) and not milan.pods(there), 60)


def answered(port: int) -> tuple[int, str]:
    """Returns the status and the text with which a daemon answers ``/readyz``."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_a_standby_says_so_and_takes_over(peered: Clusters) -> None:
    rome = peered.rome
    shop = peered.namespace(rome)
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 2))
    settle(rome, shop, 2)
    folder = rome.folder / "second"
    folder.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    settings = {**rome.daemon.settings, "health": {"port": port}}
    second = Daemon("rome-2", rome.kubeconfig, folder, settings)
    assert rome.daemon.child is not None
    leader = rf"-{rome.daemon.child.pid}-\w+ leads"
    try:
        second.launch()
        wait_until("a standby", lambda: second.has_said("STATUS=standing by;"), 40)
        # It says whom it waits for: to systemd, in its log, to probes, and in `status`.
        logged = f"standing by; {rome.api.get(LEASE)['spec']['holderIdentity']} leads"
        wait_until("its log", lambda: sum(logged in line for line in second.lines()) == 1, 40)
        assert answered(port)[0] == 200
        assert re.search(leader, answered(port)[1])
        assert second.child is not None
        waits = rf"-{second.child.pid}-\w+ standing by"
        wait_until("its place in status", lambda: re.search(waits, rome.liqod("status").stdout), 40)
        assert not second.has_said("STATUS=leading")
        mark = second.mark()

        rome.daemon.kill()
        killed = time.monotonic()
        rome.patch(deployments(shop, "web"), {"spec": {"replicas": 4}})
        wait_until("another leader", lambda: second.has_said("STATUS=leading"), TAKEOVER)
        took = time.monotonic() - killed
        print(f"the standby led after {took:.1f} s")
        assert took < 3 * TAKEOVER
        settle(rome, shop, 4)
        shown = rome.liqod("status").stdout
        assert f"-{second.child.pid}" in shown
        assert "standing by" not in shown
        assert len(second.lines(mark)) < 10, second.lines(mark)
        assert second.stop() < 10
    finally:
        second.close()
    rome.daemon.start(60)


class Churn:
    """Pods that come and go all the time, as fast as one client makes them."""

    def __init__(self, member: Member, namespace: str) -> None:
        self._member = member
        self._namespace = namespace
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="churn")
        self.made = 0

    def __enter__(self) -> Churn:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            name = f"churn-{self.made}"
            self._member.create(core(self._namespace, "pods"), pod(name))
            self.made += 1
            if self.made > 5:
                old = core(self._namespace, "pods", f"churn-{self.made - 6}")
                self._member.api.call("DELETE", old)
            time.sleep(0.1)


@pytest.mark.load
def test_replaced_in_place_under_load(peered: Clusters) -> None:
    """A new daemon after the old, and definitions upgraded under both, while pods come and go."""
    rome, milan = peered.rome, peered.milan
    shop = peered.namespace(rome)
    there = f"{shop}-rome"
    offload(rome, shop, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(shop), deployment("web", 10))
    settle(rome, shop, 10)
    uid = rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"]
    with Witness(rome.api, shop) as context, Witness(milan.api, there) as away:
        with Churn(rome, shop) as churn:
            for member in (rome, milan):
                before = churn.made
                age_definitions(member)
                member.liqod("install")
                assert member.daemon.stop() < 10
                member.daemon.start(30)
                wait_until("more pods", lambda before=before: churn.made > before + 10, 30)
        last = {f"churn-{number}" for number in range(churn.made - 5, churn.made)}

        def settled() -> bool:
            here = rome.ready_pods(shop)
            kept = {name for name in here if name.startswith("web-")}
            return len(kept) == 10 and here - kept == last and set(milan.pods(there)) == here

        wait_until("the pods that are to be there, and no other", settled, 60)
    twice = away.replaced()
    told = [line for name in twice for line in (*context.story(name), *twice[name])]
    assert not twice, "\n".join(told)
    assert not away.restarted
    assert rome.api.get("/api/v1/nodes/milan")["metadata"]["uid"] == uid


def age_definitions(member: Member) -> None:
    """Makes the definitions those of an older revision, with a field and a column less."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for plural in ("shadowpods", "namespacemaps", "virtualnodes"):
        path = f"{definitions}/{plural}.offloading.liqo.io"
        live = member.api.get(path)
        live["metadata"]["annotations"]["liqod.io/crd-revision"] = "0"
        version = live["spec"]["versions"][0]
        version["additionalPrinterColumns"] = version["additionalPrinterColumns"][:1]
        member.api.call("PUT", path, live)
