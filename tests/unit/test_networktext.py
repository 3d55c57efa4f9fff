"""`liqod network status` as text: a line for each peer, or all of one."""

import msgspec

from liqod.cli.commands.network import render
from liqod.model.view.facts import PeerFacts
from liqod.model.view.networkfacts import JoinedFacts, NetworkFacts, PodTrip
from liqod.procedures.networkstatus import NodeNetworkStatus, shown

OBJECTS = JoinedFacts(
    state="Connected",
    latency="1.25ms",
    side="client",
    backend="wireguard",
    endpoints=("192.0.2.1:51840",),
    mtu=1340,
    own=("10.244.0.0/16",),
    ranges=("10.244.0.0/16",),
    aliases=("10.71.0.0/16",),
    pods="reached",
)
NODES = (
    NodeNetworkStatus(name="rome-1", state="gateway", address="192.0.2.5"),
    NodeNetworkStatus(name="rome-3", state="failing", dropped=7, problem="no rights"),
)
LIVE = NetworkFacts(
    own=("10.244.0.0/16 as 10.65.0.0/16",),
    backend="wireguard", side="client", path="userspace", api="in-band",
    endpoint="198.51.100.2:51840", echo=0.0, rtt=0.0009, loss=0.02,
    mtu=1340, passes=1300, received=2_500_000, sent=900,
    handshake=70.0, strangers=3, gateway="rome-1", standbys=("rome-2",),
    pods=PodTrip(9.0, 0.001, "", "10.244.0.1 to 10.71.0.1"),
)  # fmt: skip


def milan(by_objects: JoinedFacts = OBJECTS, live: NetworkFacts | None = None) -> PeerFacts:
    return PeerFacts(peer="milan", joined=by_objects, network=live)


def test_without_a_daemon_it_says_what_the_objects_say_and_no_more():
    _, line, *nodes = render([milan()], NODES, whole=False).splitlines()
    assert next(each.split()[:2] for each in nodes if "rome-" in each) == ["rome-1", "gateway"]
    assert line.split()[:9] == [
        *(
            "milan",
            "Connected",
            "1.25ms",
            "-",
            "-",
            "wireguard",
            "client",
            "192.0.2.1:51840",
            "1340",
        )
    ]
    assert "reached" in line


def test_with_one_the_figures_are_of_this_moment():
    status = milan(live=LIVE)
    line = render([status], NODES, whole=False).splitlines()[1]
    for told in ("0.9 ms", "2 %", "now", "(userspace)", "198.51.100.2:51840", "1300 of 1340"):
        assert told in line
    whole = render([status], NODES, whole=True)
    for told in (
        *("2.5 MB", "900 B", "10.244.0.0/16 as 10.71.0.0/16", "rome-2", "rome-3: no rights"),
        *("3 to what was not lent", "10.244.0.1 to 10.71.0.1, 1 ms, 9 s ago"),
        "its API server  in-band",
        "own ranges      10.244.0.0/16 as 10.65.0.0/16",
    ):
        assert told in whole


def test_silence_is_not_dressed_up():
    silent = msgspec.structs.replace(LIVE, echo=40.0, rtt=None, loss=None)
    broken = msgspec.structs.replace(OBJECTS, problems=("from pod to pod: nothing came back",))
    status = milan(broken, silent)
    whole = render([status], NODES, whole=True)
    assert "round trip" not in whole
    assert "40 s ago" in whole
    assert "✗ from pod to pod: nothing came back" in whole


def test_of_several_nodes_it_says_which_has_the_tunnels():
    """By the objects alone, while no daemon answers."""
    one = msgspec.structs.replace(OBJECTS, gateway="node-a", standbys=("node-b", "node-c"))
    text = render([milan(one)], NODES, whole=False)
    assert "GATEWAY" in text
    assert "node-a" in text
    assert "node-b, node-c" in text
    assert "GATEWAY" not in render([milan()], NODES, whole=False)
    assert "standing by     node-b, node-c" in render([milan(one)], NODES, whole=True)


def test_programs_get_each_field_where_it_has_always_been():
    found = msgspec.to_builtins(shown(milan(live=LIVE), NODES))
    assert [*found] == [
        *("peer", "state", "latency", "side", "backend", "endpoints", "mtu", "own", "ranges"),
        *("aliases", "pods", "gateway", "standbys", "nodes", "problems", "live"),
    ]
    assert (found["peer"], found["state"], found["live"]["rtt"]) == ("milan", "Connected", 0.0009)
    assert [each["name"] for each in found["nodes"]] == ["rome-1", "rome-3"]
    assert shown(milan(), ())["live"] is None
