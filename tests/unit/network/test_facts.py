"""Facts of a peer's network that the doctor is shown, by objects and by the machine's report."""

import msgspec
import pytest

from liqod.model.network.pathfigures import TransitFacts
from liqod.model.network.ranges import ClusterCidrs, PeerRanges, TransitEntrance
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway, PodsTrip, TunnelFigures
from liqod.network.peernetworkfacts import facts, measured, relayed, transiting

GATEWAY = Gateway(
    side="client", backend="wireguard", name="g", uid="u", mtu=1340, endpoints=("192.0.2.1:51840",)
)
ENDS = TunnelEndpoints(gateway=GATEWAY, waits="", looked=True)
RANGES = PeerRanges(
    own=ClusterCidrs(pod=("10.244.0.0/16",), external=("10.70.0.0/16",)),
    peer=ClusterCidrs(pod=("10.244.0.0/16",)),
    seen=ClusterCidrs(pod=("10.64.0.0/16",)),
)
STANDS = TunnelFigures(alive=True, echo=0.0, heard=0.0, rtt=0.001, loss=0.1, path="kernel")


def of(figures: TunnelFigures, age: float = 0.0) -> NetworkFacts:
    return measured(facts("", ENDS, RANGES, ""), RANGES, figures, age)


def test_a_network_by_its_objects_alone():
    found = facts("", ENDS, RANGES, "")
    assert found.aliases == ("10.244.0.0/16 as 10.64.0.0/16",)
    assert found.candidates == ("192.0.2.1:51840",)
    assert (found.backend, found.side, found.mtu) == ("wireguard", "client", 1340)
    assert (found.heard, found.echo, found.device) == (None, None, "")


def test_a_network_that_stands_is_as_fresh_as_when_it_was_reported():
    found = of(STANDS, age=9.0)
    assert (found.echo, found.heard, found.rtt, found.loss) == (0.0, 0.0, 0.001, 0.1)
    assert found.path == "kernel"
    assert found.answers


def test_ages_grow_with_the_time_since_the_report():
    silent = TunnelFigures(
        echo=4.0, heard=3.0, arrived=2.0, handshake=1.0, trip=PodsTrip(5.0, "a to b")
    )
    found = of(silent, age=9.0)
    assert (found.echo, found.heard) == (13.0, 12.0)
    assert (found.arrived, found.handshake) == (11.0, 10.0)
    assert found.pods is not None
    assert (found.pods.ago, found.pods.error, found.pods.way) == (
        14.0,
        "nothing came back",
        "a to b",
    )
    never = of(TunnelFigures(), age=9.0)
    assert (never.echo, never.heard, never.arrived, never.pods) == (None, None, None, None)


def test_a_trip_that_came_back():
    found = of(TunnelFigures(trip=PodsTrip(1.0, "a to b", 0.002)))
    assert found.pods is not None
    assert (found.pods.took, found.pods.error) == (0.002, "")


def test_own_ranges_are_shown_as_the_other_side_says_that_it_sees_them():
    seen = TunnelFigures(alive=True, seen_as=("10.65.0.0/16", "10.66.0.0/16", "10.67.0.0/16"))
    assert of(seen).own == ("10.244.0.0/16 as 10.65.0.0/16", "10.70.0.0/16 as 10.66.0.0/16")
    assert of(STANDS).own == ()


@pytest.mark.parametrize(
    ("problem", "ends", "ranges", "waits"),
    [
        ("no CAP_NET_ADMIN", ENDS, RANGES, ""),
        ("", TunnelEndpoints(), RANGES, "there is no GatewayServer"),
        ("", ENDS, None, "no aliases"),
    ],
)
def test_what_is_not_there_yet_is_waited_for(problem, ends, ranges, waits):
    found = facts(problem, ends, ranges, "no aliases yet")
    assert found.problem == problem
    assert waits in found.waits
    assert found.backend == ""
    assert measured(found, ranges, STANDS, 0.0) == found


def test_endpoints_at_other_peers_are_counted_with_what_passed():
    passed = TransitFacts("turin", packets=10, bytes=1200)
    ways = (
        TransitEntrance("turin", "10.99.0.5", "10.70.0.5"),
        TransitEntrance("turin", "10.99.0.6", "10.70.0.6"),
    )
    ranges = msgspec.structs.replace(RANGES, transit=ways)
    found = transiting(of(TunnelFigures(transit=(passed,))), ranges, ["turin", "oslo"])
    assert found.transit == (TransitFacts("oslo"), TransitFacts("turin", 2, 10, 1200))
    assert str(found.transit[1]) == "2 endpoints at turin (10 packets, 1.2 kB)"
    # One that is allowed no more is shown with what it had.
    late = transiting(of(TunnelFigures(transit=(passed,))), RANGES, [])
    assert late.transit == (TransitFacts("turin", 0, 10, 1200),)
    assert transiting(NetworkFacts(), None, []).transit == ()


def test_a_way_by_a_relay_names_it():
    found = NetworkFacts(path="userspace", endpoint="10.75.0.2:51840")
    whose = {"10.75.0.2": "hub"}
    assert relayed(found, lambda at: whose.get(at, "")).path == "userspace, relayed by hub"
    direct = NetworkFacts(path="kernel", endpoint="[2001:db8::1]:51840")
    assert relayed(direct, lambda at: whose.get(at, "")) == direct
    nowhere = NetworkFacts(path="kernel")
    assert relayed(nowhere, lambda at: "hub") == nowhere
