"""A peer whose real API server is frozen, or comes back from an old backup.

While it lasts: the node is NotReady, the ForeignCluster and `status` say why, one Event and a few
log lines report it, and no pod is lost. Afterwards all is as before, by itself. One that is stopped
or gone is tried on embedded clusters (`simulated/peering/test_lost_peers.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from liqod.model.peering import intervals
from tests.cluster.test_offloading import offload, settle
from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, Clusters
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.witness import Witness
from tests.testbed.workloads import core, deployment, deployments, pod

pytestmark = pytest.mark.cluster

FROZEN = intervals.FROZEN_WITHIN + 3.5
"""Seconds within which a server that accepts and says nothing is noticed, on a machine at work."""
FEW = 20
"""Lines that an outage may cost a daemon, its end included; it has dozens of watches."""
FALTERS = 2
"""Events that an outage may cost: an API server that has just started may falter once more."""
EVENTS = "/api/v1/namespaces/default/events"


def lost(member: Member, peer: str) -> list[dict[str, Any]]:
    """The Events that say that a peer does not answer."""
    return [
        one
        for one in member.api.get(EVENTS)["items"]
        if one["reason"] == "PeerUnreachable" and one["involvedObject"]["name"] == peer
    ]


def api_condition(member: Member, peer: str) -> dict[str, Any]:
    """Returns the ForeignCluster's condition of the peer's API server."""
    conditions = member.api.get(f"{FOREIGN_CLUSTERS}/{peer}")["status"]["conditions"]
    (found,) = [one for one in conditions if one["type"] == "APIServerStatus"]
    return dict(found)


def uids(member: Member, namespace: str) -> dict[str, str]:
    return {name: one["metadata"]["uid"] for name, one in member.pods(namespace).items()}


@pytest.fixture
def shop(peered: Clusters) -> Iterator[str]:
    """A namespace of rome with three pods that run at milan; everything runs again afterwards."""
    rome, milan = peered.rome, peered.milan
    made = peered.namespace(rome)
    offload(rome, made, "--pod-offloading-strategy", "Remote")
    rome.create(deployments(made), deployment("web", 3))
    settle(rome, made, 3)
    yield made
    milan.plane.start()


def noticed(rome: Member, seconds: float, since: float) -> None:
    """Waits until the node is NotReady, and everything says why."""
    wait_until("NotReady", lambda: not rome.node_is_ready("milan"), 2 * seconds)
    print(f"noticed after {time.monotonic() - since:.1f} s")
    wait_until("the condition", lambda: api_condition(rome, "milan")["status"] == "Error", 40)
    shown = rome.liqod("status", "milan").stdout
    assert "its API server does not answer" in shown
    assert "virtual node milan" in shown
    node = rome.api.get("/api/v1/nodes/milan")["status"]["conditions"]
    (ready,) = [one for one in node if one["type"] == "Ready"]
    assert ready["reason"] == "PeerUnreachable"


def withdrawn(rome: Member, shop: str) -> None:
    """Waits until no pod at milan is Ready any more: nothing but its API server reports them."""
    wait_until("no Ready pods", lambda: not rome.ready_pods(shop), 10)
    for one in rome.pods(shop).values():
        (ready,) = [each for each in one["status"]["conditions"] if each["type"] == "Ready"]
        assert ready["reason"] == "RemoteUnavailable"
    wait_until("a count of none", lambda: "0/3" in rome.liqod("status", "milan").stdout, 10)


def back(rome: Member, shop: str, pods: int) -> None:
    """Waits until all is as before."""
    wait_until("Ready", lambda: rome.node_is_ready("milan"), 60)
    settle(rome, shop, pods)
    wait_until("it", lambda: api_condition(rome, "milan")["status"] == "Established", 5)
    wait_until("a quiet status", lambda: "problems" not in rome.liqod("status").stdout, 30)


def test_frozen(peered: Clusters, shop: str) -> None:
    rome, milan = peered.rome, peered.milan
    here, there = uids(rome, shop), uids(milan, f"{shop}-rome")
    events, mark = len(lost(rome, "milan")), rome.daemon.mark()
    began = time.monotonic()
    milan.plane.freeze()
    try:
        noticed(rome, FROZEN, began)
        withdrawn(rome, shop)
        rome.create(core(shop, "pods"), pod("meanwhile"))
    finally:
        milan.plane.thaw()
    back(rome, shop, 4)
    assert uids(rome, shop).items() >= here.items()
    assert uids(milan, f"{shop}-rome").items() >= there.items()
    assert events < len(lost(rome, "milan")) <= events + FALTERS
    lines = rome.daemon.lines(mark)
    assert len(lines) <= FEW, lines


def test_restored_from_an_old_backup(peered: Clusters, shop: str) -> None:
    """Its versions are of the past again, and so is what it holds; then both sides agree."""
    rome, milan = peered.rome, peered.milan
    there = f"{shop}-rome"
    rome.create(core(shop, "pods"), pod("early"))
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "early"}, "data": {"a": "old"}})
    settle(rome, shop, 4)
    wait_until("it", lambda: milan.api.exists(core(there, "configmaps", "early")), 40)
    others = core("default", "configmaps")
    milan.create(others, {"metadata": {"name": f"{shop}-theirs"}, "data": {"whose": "milan's"}})
    backup = milan.plane.back_up()
    settle(rome, shop, 4)

    # After the backup: a pod and an object more, one of each less, and one changed.
    rome.api.call("DELETE", core(shop, "pods", "early"))
    rome.create(core(shop, "pods"), pod("late"))
    rome.create(core(shop, "configmaps"), {"metadata": {"name": "late"}, "data": {"a": "b"}})
    rome.patch(core(shop, "configmaps", "early"), {"data": {"a": "new"}})
    second = peered.namespace(rome)
    offload(rome, second, "--pod-offloading-strategy", "Remote")
    rome.create(core(second, "pods"), pod("newcomer"))
    settle(rome, second, 1)
    settle(rome, shop, 4)
    here = uids(rome, shop)

    milan.plane.restore(backup)
    back(rome, shop, 4)

    def differences() -> dict[str, object]:
        old = milan.api.raw("GET", core(there, "configmaps", "early"))[1]
        compared = {
            "pods": (set(milan.pods(there)), set(here)),
            "the ConfigMap that changed": (b'"new"' in old, True),
            "a new ConfigMap": (milan.api.exists(core(there, "configmaps", "late")), True),
            "a new namespace": (set(milan.pods(f"{second}-rome")), {"newcomer"}),
        }
        return {what: pair for what, pair in compared.items() if pair[0] != pair[1]}

    try:
        wait_until("both sides to agree", lambda: not differences(), 60)
    except TestbedError as late:
        raise TestbedError(f"{late}: there and here {differences()}") from late
    settle(rome, second, 1)
    assert uids(rome, shop) == here
    assert milan.api.exists(f"{others}/{shop}-theirs")
    milan.api.call("DELETE", f"{others}/{shop}-theirs")
    # What is asked of it now is done at once: nobody waits for versions to catch up.
    with Witness(milan.api, there) as away:
        rome.patch(deployments(shop, "web"), {"spec": {"replicas": 5}})
        settle(rome, shop, 6, 20)
    assert not away.replaced()
