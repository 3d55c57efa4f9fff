"""A cluster's second node: its pods reach the peer by the gateway, over the overlay."""

import socket
import time
from functools import partial

import msgspec
import pytest

from liqod.network.dataplane import overlayplan
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import OVERLAY_PORT, OVERLAY_TABLE
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.overlay import members
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, echo, ping, run, set_up, wire
from tests.testbed.netns import Networks, nft

pytestmark = [pytest.mark.netns, pytest.mark.network]

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
        wire(self.gateway, "net0", self.second, "net0")
        set_up(self.gateway, "net0", f"{GATEWAY.address}/24")
        set_up(self.second, "net0", f"{SECOND.address}/24", via=GATEWAY.address)
        # As a CNI would: nodes know each other's pods.
        way = [*SECOND.pods[:1], "via", SECOND.address]
        run("ip", "-n", self.gateway, "route", "add", *way)

    def changes(self) -> list[str]:
        """Applies both plans; what had to be changed."""
        both = (GATEWAY, SECOND)
        owner = overlayplan.owned("rome")
        found = []
        for namespace, me in ((self.gateway, GATEWAY), (self.second, SECOND)):
            want = overlayplan.plan(me, GATEWAY, both, OVERLAY)
            done = enter(namespace, partial(change, want, owner))
            found += [each.text for each in done]
        return found


@pytest.fixture(scope="module")
def nodes(lab: Lab) -> Nodes:
    both = Nodes(lab)
    both.changes()
    return both


@pytest.fixture(scope="module")
def ours(nodes: Nodes) -> Pod:
    """A pod on the second node."""
    return nodes.lab.rome.pod("far", 5, node=nodes.second, network=1)


@pytest.fixture(scope="module")
def theirs(nodes: Nodes) -> Pod:
    """A pod of milan's."""
    return nodes.lab.milan.pod("pod", 7)


def test_a_node_that_is_not_the_gateway_is_an_unknown_source(nodes: Nodes, theirs: Pod) -> None:
    with echo(theirs.namespace, PORT):
        assert ask(nodes.second, "10.71.0.7", PORT) == "10.72.0.0"


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


def test_a_pod_outside_of_its_nodes_range(nodes: Nodes, theirs: Pod) -> None:
    """As with a CNI that has an IPAM of its own, and a route to each of its blocks."""
    odd = routed(nodes, "10.244.9.5")

    def talks(kind: str) -> None:
        with echo(theirs.namespace, PORT, kind):
            assert ask(odd.namespace, "10.71.0.7", PORT, kind, timeout=1) == "10.71.9.5"
        with echo(odd.namespace, PORT, kind):
            assert ask(theirs.namespace, "10.71.9.5", PORT, kind, timeout=1) == "10.71.0.7"

    try:
        applied(nodes, says_pods=True)
        with pytest.raises(TimeoutError):
            talks("udp")
        applied(nodes, says_pods=False)
        for kind in ("udp", "tcp"):
            talks(kind)
    finally:
        nodes.changes()


def test_the_peer_reaches_no_node_by_the_cnis_way_either(
    nodes: Nodes, ours: Pod, theirs: Pod
) -> None:
    """Where the CNI leads to the pods of other nodes, peers' packets come by its interfaces."""
    try:
        applied(nodes, says_pods=False)
        before = dropped(nodes.second, "strangers")
        with echo(nodes.second, PORT, "udp"), pytest.raises(TimeoutError):
            ask(theirs.namespace, "10.71.1.1", PORT, "udp", timeout=0.5)
        assert dropped(nodes.second, "strangers") == before + 1
        # Pods there are reached, the node answers an echo, and it reaches the peer itself.
        with echo(ours.namespace, PORT):
            assert ask(theirs.namespace, "10.71.1.5", PORT) == "10.71.0.7"
        assert ping(theirs.namespace, "10.71.1.1") == "reply from 10.71.1.1"
        with echo(theirs.namespace, PORT):
            assert ask(nodes.second, "10.71.0.7", PORT) == "10.72.0.0"
    finally:
        nodes.changes()


def test_a_cni_that_hides_senders_hides_no_peer(nodes: Nodes, ours: Pod, theirs: Pod) -> None:
    """Some have what is no pod's come from the sending node's own address among the pods."""
    hook = "type nat hook postrouting priority srcnat"
    rule = "ip saddr != 10.244.0.0/16 ip daddr 10.244.1.0/24 masquerade"
    nft(nodes.gateway, f"table inet cni {{ chain hiding {{ {hook}; {rule}; }}; }}")
    try:
        applied(nodes, says_pods=False)
        with echo(ours.namespace, PORT):
            assert ask(theirs.namespace, "10.71.1.5", PORT) == "10.71.0.7"
        before = dropped(nodes.second, "strangers")
        with echo(nodes.second, PORT, "udp"), pytest.raises(TimeoutError):
            ask(theirs.namespace, "10.71.1.1", PORT, "udp", timeout=0.5)
        assert dropped(nodes.second, "strangers") == before + 1
    finally:
        run("nft", "delete", "table", "inet", "cni", namespace=nodes.gateway)
        nodes.changes()


def applied(nodes: Nodes, *, says_pods: bool) -> None:
    """Has the overlay as Nodes say it, whose ranges may not be those of their pods."""
    found = [members.member(as_node(each), says_pods=says_pods) for each in (GATEWAY, SECOND)]
    known, reached = [each for each in found if each], dict(OVERLAY.aliases)
    fabric = members.fabric(GATEWAY.name, known, {}, reached, OVERLAY.pods, 1480)
    assert fabric is not None
    for namespace, me in ((nodes.gateway, GATEWAY), (nodes.second, SECOND)):
        every = fabric.nodes
        want = overlayplan.plan(every[me.name], fabric.gateway, every.values(), fabric.overlay)
        enter(namespace, partial(change, want, overlayplan.owned("rome")))


def routed(nodes: Nodes, address: str) -> Pod:
    """A pod on the second node as Calico makes it: by routes alone, without a bridge."""
    pod = Pod(f"{nodes.second}-odd", address, "")
    nodes.lab.make(pod.namespace)
    wire(nodes.second, "cali0", pod.namespace, "eth0")
    run("sysctl", "-qw", "net.ipv4.conf.cali0.proxy_arp=1", namespace=nodes.second)
    set_up(nodes.second, "cali0")
    run("ip", "-n", nodes.second, "route", "add", f"{address}/32", "dev", "cali0")
    set_up(pod.namespace, "eth0", f"{address}/32")
    run("ip", "-n", pod.namespace, "route", "add", "169.254.1.1", "dev", "eth0")
    run("ip", "-n", pod.namespace, "route", "add", "default", "via", "169.254.1.1")
    block = f"{address.rpartition('.')[0]}.0/26"
    run("ip", "-n", nodes.gateway, "route", "add", block, "via", SECOND.address)
    return pod


def as_node(node: OverlayNode) -> bytes:
    """A Node, as its cluster has it."""
    address = {"type": "InternalIP", "address": node.address}
    spec = {"podCIDR": node.pods[0], "podCIDRs": list(node.pods)}
    said = {"metadata": {"name": node.name}, "spec": spec, "status": {"addresses": [address]}}
    return msgspec.json.encode(said)


def dropped(namespace: str, counter: str) -> int:
    """Returns a counter of the overlay's table on a node."""
    return labs.packets(namespace, OVERLAY_TABLE, counter)


def test_nodes_that_reach_each_other_by_ipv6_alone(networks: Networks) -> None:
    """And what is forged is dropped there, too."""
    places = {number: networks.make(f"six{number}") for number in (1, 2)}
    wire(places[1], "net0", places[2], "net0")
    every = []
    for number, place in places.items():
        own = f"fd00:172::{number}"
        set_up(place, "net0", f"{own}/64")
        pods = (f"10.244.{number}.0/24", f"fd00:10:244:0:{number}::/80")
        every.append(OverlayNode(name=str(number), address=own, index=number, pods=pods))
    for number, place in places.items():
        plan = overlayplan.plan(every[number - 1], every[0], every, OVERLAY)
        assert enter(place, partial(change, plan, overlayplan.owned("rome")))
        assert enter(place, partial(change, plan, overlayplan.owned("rome"))) == []
    for inner in ("169.254.32.1", "fd18:6c71:20::1"):
        assert ping(places[2], inner) == f"reply from {inner}"
    assert dropped(places[1], "forged") == 0
    run("ip", "-n", places[2], "addr", "add", "fd00:172::9/64", "dev", "net0", "nodad")
    datagram = b"\x08\0\0\0\0\0\x12\0" + b"\x0a\x20\0\0\0\x01\x0a\x20\0\0\0\x02\x08\0" + bytes(20)
    for number, source in enumerate(("fd00:172::9", "fd00:172::2"), 1):
        # Of a stranger; then of the node, with the link-layer address of another.
        data = datagram if number == 1 else datagram.replace(b"\0\x02\x08", b"\0\x03\x08")
        enter(places[2], partial(send, source, "fd00:172::1", data))
        time.sleep(0.1)
        assert dropped(places[1], "forged") == number


def send(source: str, to: str, data: bytes) -> None:
    """Sends a datagram to the overlay's port."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as made:
        made.bind((source, 0))
        made.sendto(data, (to, OVERLAY_PORT))
