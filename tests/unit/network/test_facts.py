"""Facts of a peer's network that the doctor is shown."""

import pytest
import trio

from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network.dataplane.names import PeerNames
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway, TunnelState
from liqod.network.probing.pathmetrics import PathMetrics
from liqod.network.probing.peernetworkfacts import facts, measured, relayed
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.providers import TunnelStatus
from liqod.tunnel.probes.messages import PeerHello, ProbeResult

GATEWAY = Gateway(
    side="client", backend="wireguard", name="g", uid="u", mtu=1340, endpoints=("192.0.2.1:51840",)
)
ENDS = TunnelEndpoints(gateway=GATEWAY, waits="", looked=True)
RANGES = PeerRanges(
    peer=ClusterCidrs(pod=("10.244.0.0/16",)), seen=ClusterCidrs(pod=("10.64.0.0/16",))
)
CONNECTED = TunnelState("Connected", latency=0.001)


def test_a_network_that_stands():
    found = facts("", ENDS, RANGES, "", CONNECTED, ProbeResult(True, 0.001, lost=0.1), 30.0)
    assert (found.echo, found.heard, found.rtt, found.loss) == (0.0, 0.0, 0.001, 0.1)
    assert found.aliases == ("10.244.0.0/16 as 10.64.0.0/16",)
    assert found.candidates == ("192.0.2.1:51840",)


def test_own_ranges_are_shown_as_the_other_side_says_that_it_sees_them():
    own = ClusterCidrs(pod=("10.244.0.0/16",), external=("10.70.0.0/16",))
    ranges = PeerRanges(own=own, peer=RANGES.peer, seen=RANGES.seen)
    told = PeerHello(seen_as=("10.65.0.0/16", "10.66.0.0/16", "10.67.0.0/16"))
    found = facts("", ENDS, ranges, "", CONNECTED, ProbeResult(True, hello=told), None)
    assert found.own == ("10.244.0.0/16 as 10.65.0.0/16", "10.70.0.0/16 as 10.66.0.0/16")
    assert facts("", ENDS, ranges, "", CONNECTED, ProbeResult(True), None).own == ()


def test_one_that_went_silent():
    found = facts("", ENDS, RANGES, "", TunnelState("Connecting"), ProbeResult(False), 4.0)
    assert (found.echo, found.heard, found.rtt) == (4.0, 4.0, None)


def test_a_machine_that_refuses():
    found = facts("", ENDS, RANGES, "", TunnelState("Error", "there is no wireguard"), None, None)
    assert found.device == "there is no wireguard"


@pytest.mark.parametrize(
    ("problem", "ends", "ranges", "waits"),
    [
        ("no CAP_NET_ADMIN", ENDS, RANGES, ""),
        ("", TunnelEndpoints(), RANGES, "there is no GatewayServer"),
        ("", ENDS, None, "no aliases"),
    ],
)
def test_what_is_not_there_yet_is_waited_for(problem, ends, ranges, waits):
    found = facts(problem, ends, ranges, "no aliases yet", CONNECTED, None, None)
    assert found.problem == problem
    assert waits in found.waits
    assert found.backend == ""


@pytest.mark.parametrize(
    ("heard", "said"), [(ProbeResult(True), ""), (ProbeResult(False), "TLS ends")]
)
def test_what_the_tunnel_says_is_in_its_way_is_shown_while_nothing_comes(heard, said):
    measures = PathMetrics(PeerNames("rome", "milan"), None, lambda: None)
    measures.status = TunnelStatus(path="websocket", why="TLS ends")
    found = facts("", ENDS, RANGES, "", TunnelState("Connecting"), heard, 4.0)
    trio.run(check, found, measures, said)


async def test_a_backend_that_breaks_is_told_as_a_fault_of_the_tunnel():
    measures = PathMetrics(PeerNames("rome", "milan"), None, lambda: None)
    measures.broken = "the network rope raised KeyError: 'a'"
    found = facts("", ENDS, RANGES, "", TunnelState("Connecting"), ProbeResult(False), 4.0)
    assert measured(found, measures, "", None).device == measures.broken


def test_a_way_by_a_relay_names_it():
    found = NetworkFacts(path="userspace", endpoint="10.75.0.2:51840")
    whose = {"10.75.0.2": "hub"}
    assert relayed(found, lambda at: whose.get(at, "")).path == "userspace, relayed by hub"
    direct = NetworkFacts(path="kernel", endpoint="[2001:db8::1]:51840")
    assert relayed(direct, lambda at: whose.get(at, "")) == direct
    nowhere = NetworkFacts(path="kernel")
    assert relayed(nowhere, lambda at: "hub") == nowhere


async def check(found: NetworkFacts, measures: PathMetrics, said: str) -> None:
    assert measured(found, measures, "", WEBSOCKET).underlay == said
