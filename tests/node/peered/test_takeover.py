"""Two daemons of one cluster, each on a real node of its own, of which one is the gateway.

Both become candidates, the one at work is unplugged, comes back, and the one that took over is
killed, and then cordoned. Each test goes on from where the one before ended, and gets there by
itself where it is the first, as on new clusters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from liqod.apimachinery import labels
from tests.node.peered.second import FABRIC, Flow, Gone, aliased, says
from tests.testbed.agent import Agent
from tests.testbed.api import wait_until
from tests.testbed.daemon import LEADING, Daemon
from tests.testbed.federation import Member
from tests.testbed.joined import Joined
from tests.testbed.worker import Worker

pytestmark = [pytest.mark.node, pytest.mark.network]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/liqo/leases/liqod-gateway"
MOST = 3.0
"""Seconds without an answer that a take-over may take here: three times what is aimed at."""
STANDBYS, HEARD = labels.GATEWAY_STANDBYS, labels.GATEWAY_ENDPOINTS


@pytest.fixture(scope="module")
def standby(clusters: Joined, worker: Worker, agent: Agent) -> Daemon:
    """The daemon on the second node; that of the first, and both `liqod node`, are there, too."""
    clusters.add_agent("rome", clusters.clusters["rome"])
    clusters.members["rome"].daemon.settings["network"] |= {"candidates": "all", "node": "rome"}
    return clusters.add_standby("rome", candidates="all", node=worker.name)


@contextmanager
def flowing(clusters: Joined, pods: dict[str, str]) -> Iterator[list[Gone]]:
    """Echoes from a pod of rome's first node to one of milan's and back; losses come at the end."""
    rome, milan = clusters.members["rome"], clusters.members["milan"]
    flows = [
        Flow(rome, "echo-rome", aliased(clusters, "rome", "milan", pods)),
        Flow(milan, "echo-milan", aliased(clusters, "milan", "rome", pods)),
    ]
    found: list[Gone] = []
    for each in flows:
        each.start()
    yield found
    time.sleep(0.5)
    found += [each.end() for each in flows]


def lease(rome: Member) -> Any:
    """The Lease that says who is the gateway."""
    return rome.api.get(LEASE)


def is_gateway(rome: Member, node: str) -> bool:
    """True if the Lease and the overlay both lead to a node."""
    if not rome.api.exists(LEASE) or not rome.api.exists(FABRIC):
        return False
    leads = rome.api.get(FABRIC)["spec"]["gateway"]["node"]
    return {lease(rome)["spec"]["holderIdentity"], leads} == {node}


def answers(rome: Member, node: str, alias: str) -> bool:
    """True if a pod of milan's answers a pod of one of rome's nodes."""
    ping = ("exec", f"echo-{node}", "--", "busybox", "ping", "-c", "1", "-W", "1", alias)
    return " 0% packet loss" in rome.plane.kubectl(*ping, check=False)


def notes(rome: Member) -> dict[str, str]:
    """Returns the annotations of the Lease."""
    return dict(lease(rome)["metadata"].get("annotations", {}))


@pytest.fixture(scope="module")
def both(clusters: Joined, standby: Daemon) -> None:
    """Both are there: that of the second node began first, so it is the gateway."""
    rome = clusters.members["rome"]
    rome.crash()
    standby.start()
    wait_until("a gateway", lambda: is_gateway(rome, "rome-2"), 30)
    rome.daemon.launch()
    wait_until("company", lambda: "rome" in notes(rome).get(STANDBYS, ""), 30)
    wait_until("where milan is", lambda: "milan" in notes(rome).get(HEARD, ""), 30)
    wait_until("the way by it", lambda: says(rome, "rome", "GatewayReachable"), 30)


@pytest.fixture
def followed(clusters: Joined, both: None) -> None:
    """The first node has taken over from the second, which is unplugged where it was not yet."""
    rome = clusters.members["rome"]
    if is_gateway(rome, "rome-2"):
        clusters.workers["rome"].machine.unplug()
        wait_until("another gateway", lambda: is_gateway(rome, "rome"), 15)


@pytest.fixture
def stands_by(clusters: Joined, pods: dict[str, str], followed: None) -> None:
    """The second node is there again; the Lease names it also while it is unplugged."""
    if not answers(clusters.members["rome"], "rome-2", aliased(clusters, "rome", "milan", pods)):
        come_back(clusters, pods)


def come_back(clusters: Joined, pods: dict[str, str]) -> None:
    """Has the second node be plugged in, and waits until it stands by."""
    rome = clusters.members["rome"]
    clusters.workers["rome"].machine.plug()
    alias = aliased(clusters, "rome", "milan", pods)
    wait_until("milan", lambda: answers(rome, "rome-2", alias), 30)
    wait_until("company", lambda: "rome-2" in notes(rome).get(STANDBYS, ""), 30)
    wait_until("the gateway", lambda: says(rome, "rome-2", "GatewayReachable"), 30)


@pytest.mark.usefixtures("both")
def test_of_two_daemons_the_first_is_the_gateway(clusters: Joined, pods: dict[str, str]) -> None:
    rome = clusters.members["rome"]
    alias = aliased(clusters, "rome", "milan", pods)
    for node in ("rome", "rome-2"):
        wait_until("milan", lambda node=node: answers(rome, node, alias), 30)


@pytest.mark.usefixtures("both")
def test_one_that_is_unplugged_is_followed(clusters: Joined, pods: dict[str, str]) -> None:
    """Tunnels, the overlay and the nodes' routes: what pods of both sides say goes on."""
    rome, worker = clusters.members["rome"], clusters.workers["rome"]
    epoch = lease(rome)["spec"]["leaseTransitions"]
    with flowing(clusters, pods) as found:
        time.sleep(1.0)
        worker.machine.unplug()
        wait_until("another gateway", lambda: is_gateway(rome, "rome"), 15)
        alias = aliased(clusters, "rome", "milan", pods)
        wait_until("milan", lambda: answers(rome, "rome", alias), 15)
    print(f"the gateway's node unplugged: from rome {found[0]}; from milan {found[1]}")
    assert lease(rome)["spec"]["leaseTransitions"] == epoch + 1
    for each in found:
        assert each.gap < MOST, each


@pytest.mark.usefixtures("followed")
def test_it_comes_back_and_stands_by(clusters: Joined, pods: dict[str, str]) -> None:
    """It led, too: the other one's daemon takes that over while it is away, and loses nothing."""
    rome = clusters.members["rome"]
    epoch = lease(rome)["spec"]["leaseTransitions"]
    with flowing(clusters, pods) as found:
        wait_until("another leader", lambda: rome.daemon.has_said(LEADING), 40)
        come_back(clusters, pods)
    print(f"it comes back: from rome {found[0]}; from milan {found[1]}")
    assert is_gateway(rome, "rome")
    assert lease(rome)["spec"]["leaseTransitions"] == epoch
    assert [each.lost for each in found] == [0, 0], found


@pytest.mark.usefixtures("stands_by")
def test_a_gateways_daemon_that_is_killed_loses_no_packet(
    clusters: Joined, pods: dict[str, str]
) -> None:
    rome = clusters.members["rome"]
    with flowing(clusters, pods) as found:
        rome.crash()
        before = lease(rome)["spec"]
        time.sleep(1.0)
        rome.daemon.launch()
        # Times sort as texts.
        wait_until("it renews", lambda: lease(rome)["spec"]["renewTime"] > before["renewTime"], 30)
    print(f"its daemon killed and begun again: from rome {found[0]}; from milan {found[1]}")
    now = lease(rome)["spec"]
    assert (now["holderIdentity"], now["leaseTransitions"]) == ("rome", before["leaseTransitions"])
    assert [each.lost for each in found] == [0, 0], found


@pytest.mark.usefixtures("stands_by")
def test_a_cordoned_gateway_gives_way(clusters: Joined, pods: dict[str, str]) -> None:
    """To one whose daemon leads, and to one whose daemon does not: there and back."""
    rome = clusters.members["rome"]
    gives_way(clusters, pods, "rome", "rome-2")
    assert is_gateway(rome, "rome-2")
    gives_way(clusters, pods, "rome-2", "rome")
    assert is_gateway(rome, "rome")


def gives_way(clusters: Joined, pods: dict[str, str], node: str, other: str) -> None:
    """Cordons the gateway's node under traffic, and uncordons it, which moves nothing."""
    rome = clusters.members["rome"]
    wait_until("company", lambda: other in notes(rome).get(STANDBYS, ""), 30)
    epoch = lease(rome)["spec"]["leaseTransitions"]
    try:
        with flowing(clusters, pods) as found:
            time.sleep(1.0)
            rome.plane.kubectl("cordon", node)
            wait_until("another gateway", lambda: is_gateway(rome, other), 15)
            alias = aliased(clusters, "rome", "milan", pods)
            for each in (node, other):
                wait_until("milan", lambda each=each: answers(rome, each, alias), 15)
    finally:
        rome.plane.kubectl("uncordon", node)
    print(f"the node {node} cordoned: from rome {found[0]}; from milan {found[1]}")
    time.sleep(2.0)
    assert lease(rome)["spec"]["leaseTransitions"] == epoch + 1
    for flow in found:
        assert flow.gap < MOST, flow
