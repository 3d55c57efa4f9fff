"""The doctor's layers of a joined network: each fault is named at the first layer that has it."""

from typing import Any

import msgspec
import pytest

from liqod.model.view.networkfacts import NetworkFacts, NodeWay, PodTrip
from liqod.plugins.checks.network import liqod_checks
from liqod.plugins.diagnosis import ClusterFacts, PeerFacts

WELL = NetworkFacts(
    aliases=("10.244.0.0/16 as 10.71.0.0/16",),
    backend="wireguard",
    side="client",
    path="userspace",
    candidates=("198.18.2.2:51840", "203.0.113.7:51840"),
    endpoint="198.18.2.2:51840",
    heard=0.4,
    received=4096,
    sent=4096,
    handshake=20.0,
    echo=0.9,
    rtt=0.0007,
    loss=0.0,
    mtu=1420,
    passes=1420,
    gateway="rome",
    nodes=(NodeWay("rome-2", told=4.0),),
    pods=PodTrip(ago=9.0, took=0.001, way="rome to milan"),
)
LAYERS = ["network", "underlay", "tunnel", "mtu", "routes", "translation", "pods"]


def ladder(known: NetworkFacts | None) -> dict[str, str]:
    """The verdict of each layer that applies, as the doctor goes through them."""
    facts = PeerFacts(now=0.0, peer="milan", cluster=ClusterFacts(now=0.0), network=known)
    verdicts: dict[str, str] = {}
    for check in liqod_checks():
        if any(verdicts.get(below, "ok") != "ok" for below in check.needs):
            verdicts[check.name] = "skipped"
            continue
        found = check.look(facts)
        if found is not None:
            assert found.evidence
            assert bool(found.remedy) == (found.verdict == "failing")
            verdicts[check.name] = found.verdict
    return verdicts


def first_failing(verdicts: dict[str, str]) -> str:
    return next((name for name, verdict in verdicts.items() if verdict == "failing"), "")


def test_all_is_well():
    assert ladder(WELL) == dict.fromkeys(LAYERS, "ok")


def test_where_no_network_is_joined_there_are_no_layers():
    assert ladder(None) == {}


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("a right is missing", {"problem": "no CAP_NET_ADMIN"}, "network"),
    ("the way is cut", {"underlay": "no route to host"}, "underlay"),
    ("a firewall drops UDP", {"heard": None, "endpoint": ""}, "underlay"),
    ("the other gateway died", {"heard": 9.0, "echo": 9.0}, "underlay"),
    (
        "nobody answers at any endpoint",
        {"heard": None, "candidates": (), "endpoint": ""},
        "underlay",
    ),
    ("the server hears nothing", {"heard": None, "side": "server", "port": 51840}, "underlay"),
    (
        "the tunnel's process was killed",
        {"device": "wireguard does not run", "heard": 9.0},
        "tunnel",
    ),
    ("the interface was deleted", {"device": "lqtab12 is not there", "heard": None}, "tunnel"),
    ("nothing comes back through it", {"echo": None}, "tunnel"),
    ("it stopped answering", {"echo": 9.0}, "tunnel"),
    ("a key is wrong", {"heard": 90.0, "echo": 90.0, "arrived": 2.0}, "tunnel"),
    ("a key was wrong", {"heard": 90.0, "echo": 90.0, "arrived": 60.0}, "underlay"),
    ("packets are lost", {"loss": 0.3}, "tunnel"),
    ("large packets are lost", {"passes": 1300}, "mtu"),
    ("the mtu is absurd", {"mtu": 576, "passes": 576}, "mtu"),
    ("a route was deleted", {"missing": ("route to 10.71.0.0/16",)}, "routes"),
    ("a route and a rule", {"missing": ("route", "rule")}, "routes"),
    ("a node lacks its route", {"nodes": (NodeWay("a", ("route",), 1.0),)}, "routes"),
    ("a node cannot set it", {"nodes": (NodeWay("a", (), 1.0, "no rights"),)}, "routes"),
    ("a node has died", {"nodes": (NodeWay("a", (), 300.0),)}, "routes"),
    ("a node was never heard of", {"nodes": (NodeWay("a"),)}, "routes"),
    ("nftables was flushed", {"translation": ("table inet liqod",)}, "translation"),
    ("a policy stops pods", {"pods": PodTrip(1.0, error="no answer in 2 s")}, "pods"),
]


@pytest.mark.parametrize(
    ("changes", "layer"), [fault[1:] for fault in FAULTS], ids=[f[0] for f in FAULTS]
)
def test_a_fault_is_named_at_its_first_layer(changes: dict[str, Any], layer: str):
    verdicts = ladder(msgspec.structs.replace(WELL, **changes))
    assert first_failing(verdicts) == layer
    above = LAYERS[LAYERS.index(layer) + 1 :]
    if layer != "mtu":  # what goes through in small packets does so all the same
        assert {verdicts[each] for each in above} <= {"skipped"}
    below = LAYERS[: LAYERS.index(layer)]
    assert {verdicts[each] for each in below if each in verdicts} <= {"ok"}


@pytest.mark.parametrize(
    ("changes", "layer"),
    [
        ({"waits": "Configuration milan has no aliases yet"}, "network"),
        ({"passes": None}, "mtu"),
        ({"pods": None}, "pods"),
        ({"pods": PodTrip(ago=600.0, took=0.001)}, "pods"),
    ],
)
def test_what_is_not_known_is_not_good(changes: dict[str, Any], layer: str):
    verdicts = ladder(msgspec.structs.replace(WELL, **changes))
    assert verdicts[layer] == "unknown"
    assert first_failing(verdicts) == ""


def test_the_evidence_has_figures_and_the_remedy_says_what_to_let_through():
    deaf = msgspec.structs.replace(WELL, heard=None, endpoint="", side="server", port=51840)
    facts = PeerFacts(now=0.0, peer="milan", cluster=ClusterFacts(now=0.0), network=deaf)
    underlay = next(each for each in liqod_checks() if each.name == "underlay")
    found = underlay.look(facts)
    assert found is not None
    assert "198.18.2.2:51840 or 203.0.113.7:51840" in found.evidence
    assert "UDP port 51840" in found.remedy


def test_a_tunnel_that_does_not_encrypt_says_so():
    plain = msgspec.structs.replace(WELL, backend="vxlan", encrypted=False, path="kernel")
    facts = PeerFacts(now=0.0, peer="milan", cluster=ClusterFacts(now=0.0), network=plain)
    tunnel = next(each for each in liqod_checks() if each.name == "tunnel")
    found = tunnel.look(facts)
    assert found is not None
    assert "not encrypted" in found.evidence


def test_a_chain_that_drops_by_default_is_named_beside_a_trip_that_does_not_go_by_it():
    guarded = msgspec.structs.replace(WELL, guards=("ip filter FORWARD",))
    facts = PeerFacts(now=0.0, peer="milan", cluster=ClusterFacts(now=0.0), network=guarded)
    pods = next(each for each in liqod_checks() if each.name == "pods")
    found = pods.look(facts)
    assert found is not None
    assert (found.verdict, "ip filter FORWARD drops" in found.evidence) == ("ok", True)
    silent = msgspec.structs.replace(guarded, pods=PodTrip(1.0, error="nothing came back"))
    found = pods.look(msgspec.structs.replace(facts, network=silent))
    assert found is not None
    assert "ip filter FORWARD" in found.remedy


@pytest.mark.parametrize(
    ("agreed", "first"), [(None, "see that each side has the other's key"), (90.0, "let UDP")]
)
def test_a_key_that_was_never_agreed_on_comes_before_a_firewall(agreed: float | None, first: str):
    deaf = msgspec.structs.replace(WELL, heard=None, endpoint="", echo=None, handshake=agreed)
    facts = PeerFacts(now=0.0, peer="milan", cluster=ClusterFacts(now=0.0), network=deaf)
    underlay = next(each for each in liqod_checks() if each.name == "underlay")
    found = underlay.look(facts)
    assert found is not None
    assert found.remedy.startswith(first)
