"""A cluster's second node: its pods reach the peer by the gateway, over the overlay."""

from collections.abc import Iterator
from functools import partial

import pytest

from liqod.network import nodeplan
from liqod.network.kernel.apply import change
from liqod.network.kernel.namespaces import enter
from liqod.network.names import OVERLAY_TABLE
from liqod.network.nodeplan import Overlay, OverlayNode
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, echo, ping, run
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up

pytestmark = pytest.mark.netns

PORT = 8000
GATEWAY = OverlayNode(
    name="gateway", address="172.30.0.1", index=1, pods=("10.244.0.0/24", "fd00:10:244::/80")
)
SECOND = OverlayNode(
    name="second", address="172.30.0.2", index=2, pods=("10.244.1.0/24", "fd00:10:244:0:1::/80")
)
OVERLAY = Overlay(
    pods=labs.PODS, aliases=dict.fromkeys((*labs.SEEN.pod, *labs.SEEN.external), labs.MTU)
)


class Nodes:
    """Rome with a second node."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.gateway = lab.rome.node
        self.second = f"{lab.rome.node}-2"
        lab.make(self.second)
        ends = ((self.gateway, "net0", GATEWAY), (self.second, "net0", SECOND))
        run(*f"ip -n {self.gateway} link add net0 type veth peer net0 netns {self.second}".split())
        for namespace, link, node in ends:
            run("ip", "-n", namespace, "addr", "add", f"{node.address}/24", "dev", link)
            run("ip", "-n", namespace, "link", "set", link, "up")
        # As a CNI would: nodes know each other's pods.
        way = [*SECOND.pods[:1], "via", SECOND.address]
        run("ip", "-n", self.gateway, "route", "add", *way)
        run("ip", "-n", self.second, "route", "add", "default", "via", GATEWAY.address)

    def changes(self) -> list[str]:
        """Applies both plans; what had to be changed."""
        both = (GATEWAY, SECOND)
        owner = nodeplan.owned("rome")
        found = []
        for namespace, me in ((self.gateway, GATEWAY), (self.second, SECOND)):
            want = nodeplan.plan(me, GATEWAY, both, OVERLAY)
            found += enter(namespace, partial(change, want, owner))
        return found


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    lacking = labs.possible()
    if lacking:
        give_up(Unavailable(lacking))
    with labs.lab(tmp_path_factory.mktemp("cni")) as made:
        both = Nodes(made)
        both.changes()
        yield both


@pytest.fixture(scope="module")
def ours(nodes: Nodes) -> Pod:
    """A pod on the second node."""
    return nodes.lab.rome.pod("far", 5, node=nodes.second, network=1)


@pytest.fixture(scope="module")
def theirs(nodes: Nodes) -> Pod:
    """A pod of milan's."""
    return nodes.lab.milan.pod("pod", 7)


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_pods_of_another_node_talk_both_ways(ours: Pod, theirs: Pod, kind: str) -> None:
    ways = (
        ("10.71.0.7", "10.71.1.5", "10.71.1.5"),
        ("fd00:10:71::7", "fd00:10:71:0:1::5", "fd00:10:71:0:1::5"),
    )
    for there, here, seen in ways:
        with echo(theirs.namespace, PORT, kind):
            assert ask(ours.namespace, there, PORT, kind) == seen
        with echo(ours.namespace, PORT, kind):
            assert ask(theirs.namespace, here, PORT, kind) == there


def test_a_node_that_is_not_the_gateway_is_an_unknown_source(nodes: Nodes, theirs: Pod) -> None:
    with echo(theirs.namespace, PORT):
        assert ask(nodes.second, "10.71.0.7", PORT) == "10.72.0.0"


def test_pods_of_the_gateway_talk_as_well(nodes: Nodes, theirs: Pod) -> None:
    near = nodes.lab.rome.pod("near", 6)
    with echo(theirs.namespace, PORT):
        assert ask(near.namespace, "10.71.0.7", PORT) == "10.71.0.6"


def test_what_is_too_large_is_told_at_the_first_node(ours: Pod, theirs: Pod) -> None:
    found = ping(ours.namespace, "10.71.0.7", size=labs.MTU)
    assert found == f"3/4 from 10.244.1.1 mtu {labs.MTU}"


def test_a_node_cannot_send_as_anothers_pod(nodes: Nodes, ours: Pod, theirs: Pod) -> None:
    """The gateway knows whose pods are where."""
    before = dropped(nodes.gateway, "spoofed")
    run("ip", "-n", nodes.second, "addr", "add", "10.244.0.99/32", "dev", "lo")
    with echo(theirs.namespace, PORT, "udp"), pytest.raises(TimeoutError):
        ask(nodes.second, "10.71.0.7", PORT, "udp", source="10.244.0.99", timeout=0.5)
    assert dropped(nodes.gateway, "spoofed") == before + 1


def test_the_peer_reaches_no_node(nodes: Nodes, ours: Pod, theirs: Pod) -> None:
    """The bridge's address on the second node lies among its pods'."""
    before = dropped(nodes.second, "strangers")
    with echo(nodes.second, PORT), pytest.raises(TimeoutError):
        ask(theirs.namespace, "10.71.1.1", PORT, timeout=0.5)
    assert dropped(nodes.second, "strangers") > before


def test_applied_plans_are_what_the_kernel_has(nodes: Nodes) -> None:
    """Neither owner touches what is the other's, in the gateway's namespace."""
    assert nodes.changes() == []
    assert nodes.lab.rome.changes() == []
    assert nodes.changes() == []


def dropped(namespace: str, counter: str) -> int:
    """What the overlay's table has counted on a node."""
    return labs.packets(namespace, OVERLAY_TABLE, counter)
