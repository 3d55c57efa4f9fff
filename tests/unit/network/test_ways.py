"""How the ways of nodes are shown, from each one's own report."""

from typing import Any

import msgspec
import pytest

from liqod.cli.report import overview
from liqod.model.view.networkfacts import NodeWay, ways
from liqod.model.view.snapshot import Snapshot
from liqod.procedures.networkstatus import nodes_of
from liqod.resources.fabric import InternalFabric, InternalNode

SPEC = {
    "cluster": "rome",
    "gateway": {"node": "one", "index": 1, "address": "192.168.1.10"},
}
FABRIC = msgspec.convert(
    {"metadata": {"name": "gateway", "generation": 4}, "spec": SPEC}, InternalFabric
)


def node(name: str, **told: Any) -> InternalNode:
    """An InternalNode; ``Applied`` and ``GatewayReachable`` by their messages, empty for good."""
    names = {"applied": "Applied", "reached": "GatewayReachable"}
    conditions = [
        {
            "type": names[key],
            "status": "False" if told[key] else "True",
            "reason": "R",
            "message": told[key],
            "lastTransitionTime": "",
        }
        for key in names
        if key in told
    ]
    status = {
        "observedGeneration": told.get("seen", 2),
        "fabricGeneration": told.get("followed", 4),
        "latency": "0.40ms",
        "dropped": {"forged": told.get("forged", 0)},
        "conditions": conditions,
    }
    made = {
        "metadata": {"name": name, "generation": 2},
        "spec": {"index": 2, "address": "192.168.1.11"},
        "status": status,
    }
    return msgspec.convert(made, InternalNode)


GOOD = node("two", applied="", reached="")


@pytest.mark.parametrize(
    ("one", "way"),
    [
        (GOOD, NodeWay("two", told=0.0)),
        (node("two"), NodeWay("two")),
        (node("two", applied="no lqx"), NodeWay("two", told=0.0, problem="no lqx")),
        (
            node("two", applied="", reached="it is silent"),
            NodeWay("two", told=0.0, problem="it is silent"),
        ),
    ],
)
def test_a_node_is_as_it_says(one: InternalNode, way: NodeWay) -> None:
    assert ways(FABRIC, [node("one"), one]) == (way,)


@pytest.mark.parametrize("behind", [{"seen": 1}, {"followed": 3}])
def test_one_that_does_not_follow_is_seen_by_what_it_has_applied(behind: dict[str, int]) -> None:
    (way,) = ways(FABRIC, [node("two", applied="", reached="", **behind)])
    assert "has not followed" in way.problem


def test_what_is_left_out_is_said_with_its_node() -> None:
    found = ways(FABRIC, [GOOD], {"three": "it has no InternalIP", "two": "its pods are another's"})
    assert [(each.name, each.problem) for each in found] == [
        ("three", "it has no InternalIP"),
        ("two", "its pods are another's"),
    ]


def test_without_an_overlay_there_is_none() -> None:
    assert ways(None, [GOOD]) == ()
    assert nodes_of(None, [GOOD]) == ()


def test_the_status_shows_each_node_and_which_is_the_gateway() -> None:
    bad = node("three", applied="no lqx", forged=3)
    found = nodes_of(FABRIC, [bad, GOOD, node("one"), node("four")])
    assert [(each.name, each.state, each.gateway) for each in found] == [
        ("four", "silent", False),
        ("one", "gateway", True),
        ("three", "failing", False),
        ("two", "ok", False),
    ]
    assert (found[2].dropped, found[2].problem, found[3].latency) == (3, "no lqx", "0.40ms")


def test_status_names_the_nodes_whose_pods_reach_no_peer() -> None:
    nodes = (node("one"), GOOD, node("three", applied="no lqx"), node("four"))
    whole = Snapshot(
        cluster_id="rome", leader="x", leader_age=1.0, fabrics=(FABRIC,), internal_nodes=nodes
    )
    said = " ".join(each.what for each in overview(whole).problems if "reach no peer" in each.what)
    assert "node three may reach no peer: no lqx" in said
    assert "node four may reach no peer: `liqod node` has never run" in said
    assert "two" not in said
    assert not [
        each for each in overview(Snapshot(cluster_id="rome")).problems if "node" in each.what
    ]
