"""Granted resources, beside the capacity of nodes."""

from typing import Any

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects.partial import Node, NodeStatus
from liqod.model.objects.quantities import parse_all
from liqod.model.peering import capacity

TWO = parse_all({"cpu": "2", "memory": "4Gi"})


def node(virtual: bool = False, **allocatable: int | str) -> Node:
    marks = {"liqo.io/type": "virtual-node"} if virtual else {}
    return Node(metadata=ObjectMeta(labels=marks), status=NodeStatus(allocatable=allocatable))


def test_virtual_nodes_have_nothing_of_their_own():
    found = capacity.of_nodes([node(cpu="1500m"), node(cpu=1), node(virtual=True, cpu="64")])
    assert found == parse_all({"cpu": "2500m"})
    assert capacity.of_nodes([node(cpu="nonsense")]) == {}


@pytest.mark.parametrize(
    ("granted", "said"),
    [
        ([], ""),
        ([{"cpu": "2", "memory": "1Gi"}], ""),
        ([{"cpu": "nonsense"}], ""),
        (
            [{"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1"}],
            "consumers are granted cpu 2500m, and the nodes here have cpu 2",
        ),
        ([{"gpu": 1}], "consumers are granted gpu 1, and the nodes here have gpu 0"),
    ],
)
def test_what_is_beyond_is_named_with_both_amounts(granted: Any, said: str):
    assert capacity.beyond(TWO, granted) == said


def test_where_no_nodes_are_known_nothing_is_said():
    assert capacity.beyond({}, [{"cpu": "64"}]) == ""


@pytest.mark.parametrize(
    ("granted", "word"),
    [
        (None, ""),
        ({"cpu": "2", "memory": "4Gi"}, ""),
        ({"cpu": "nonsense"}, ""),
        ({"memory": "5Gi", "cpu": "400"}, "cpu,memory"),
    ],
)
def test_a_slice_says_of_what_it_has_more_than_there_is(granted: Any, word: str):
    assert capacity.word(TWO, granted) == word
    assert capacity.word({}, granted) == ""


def test_a_provider_s_word_counts_for_what_is_granted_alone():
    granted = {"cpu": "400", "memory": "1Gi"}
    assert capacity.overcommit_warning({"liqod.io/beyond-nodes": "cpu"}, granted) == (
        "more cpu is granted than the nodes there have in all"
    )
    said = "memory,gold\x1b[2J,cpu,cpu"
    assert "more cpu, memory is granted" in capacity.overcommit_warning(
        {"liqod.io/beyond-nodes": said}, granted
    )
    assert "gold" not in capacity.overcommit_warning({"liqod.io/beyond-nodes": said}, granted)
    assert capacity.overcommit_warning({"liqod.io/beyond-nodes": ""}, {"": 1, **granted}) == ""
    assert capacity.overcommit_warning({}, granted) == ""


def amounts(**found):
    return parse_all(found)


def test_the_largest_machines_are_those_that_no_other_holds():
    small, wide, tall = amounts(cpu=4), amounts(cpu=8, memory=1), amounts(cpu=2, memory=9)
    found = capacity.largest_machines([small, wide, tall, small])
    assert found == (wide, tall)
    assert capacity.largest_machines([]) == ()


def test_too_many_sizes_become_fewer_that_hold_as_much_or_more():
    every = [amounts(cpu=each, memory=100 - each) for each in range(1, 41)]
    found = capacity.largest_machines(every)
    assert len(found) == capacity.MOST_MACHINES
    for each in every:
        assert not capacity.too_large(each, found)
    many = {f"example.com/{each}": 1 for each in range(capacity.MOST_RESOURCES + 1)}
    assert capacity.largest_machines([many]) == ()


def test_what_waits_at_the_peer_is_beside_the_grant_and_at_most_as_much():
    granted = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    assert capacity.with_waiting(granted, {}) == granted
    waiting = parse_all({"cpu": "500m", "memory": "40Gi", "nvidia.com/gpu": "4"})
    raised = {"cpu": "8500m", "memory": "32Gi", "pods": "20"}
    assert capacity.with_waiting(granted, waiting) == raised
    assert capacity.with_waiting({"cpu": "nonsense"}, waiting) == {"cpu": "nonsense"}
    assert capacity.with_waiting({"cpu": 2}, {"cpu": -1}) == {"cpu": "2"}


def test_while_pods_wait_no_more_comes_than_one_machine_has_free():
    granted, most = {"cpu": "100", "memory": "1Ti"}, parse_all({"cpu": "28", "gold": "1"})
    waiting = parse_all({"cpu": "20"})
    assert capacity.with_waiting(granted, waiting, most)["cpu"] == "28"
    assert capacity.with_waiting(granted, waiting, parse_all({"cpu": "128"}))["cpu"] == "120"
    assert capacity.with_waiting(granted, {}) == granted
    assert capacity.with_waiting(granted, {}, most) == {**granted, "cpu": "28"}
