"""The places that are left where pods were sent that the provider does not count yet."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from liqod.model.objects.quantities import parse, parse_all
from liqod.model.peering import freecapacity, places
from liqod.model.peering.freecapacity import FreeCapacity, FreeNode, read, tell, tell_each
from liqod.model.peering.places import Left, left, without


def told(*cpus: int, counted: int = 0, **more: Any) -> FreeCapacity:
    """The word of a provider whose nodes have so many CPUs free, as it arrives."""
    nodes = [FreeNode({}, (), parse_all({"cpu": str(cpu), "memory": "8Gi"})) for cpu in cpus]
    found = read(tell(nodes, ()))
    assert found is not None
    return msgspec.structs.replace(found, counted={"pods": str(counted)}, **more)


def sent(*cpus: int) -> Sequence[tuple[Mapping[str, int], int]]:
    """Pods that ask for so many CPUs, the last one first."""
    return [(parse_all({"cpu": str(cpu)}), 1) for cpu in cpus]


def cpus(found: Left | None) -> tuple[int, int] | None:
    """The largest place that is left, and what fits of pods as large as those that were sent."""
    if found is None:
        return None
    assert set(found.largest) == set(found.fitting) == {"cpu"}
    return found.largest["cpu"] // parse(1), found.fitting["cpu"] // parse(1)


MILAN = (7, 3, 3, 3, 3, 3, 3, 3)
TURIN = (7, 7, 5, 5, 2, 2, 2, 2)


@pytest.mark.parametrize(
    ("free", "asked", "shown"),
    [
        (MILAN, (6,), (3, 3)),  # 22 are left, and no place for another one
        (TURIN, (6,), (7, 7)),
        (TURIN, (6, 6), (5, 5)),
        (TURIN, (4,), (7, 12)),  # 22 are left, and places for three
        (TURIN, (4, 4, 4), (5, 5)),
        ((4,) * 8, (4, 4), (4, 24)),
        ((3,) * 8, (2, 2), (3, 12)),
        ((8,), (1,), (7, 7)),
        ((8, 8), (20,), (8, 8)),  # it has no place: what it could take is not there any more
        ((1,), (1,), (0, 0)),
        ((8, 3), (3, 6), (2, 2)),  # the pod of six came first
    ],
)
def test_what_was_sent_takes_the_largest_places(
    free: tuple[int, ...], asked: tuple[int, ...], shown: tuple[int, int]
) -> None:
    assert cpus(left(told(*free), sent(*asked), len(asked))) == shown


def test_a_pod_takes_its_place_until_it_is_counted() -> None:
    last_first = sent(2, 6, 6)
    assert cpus(left(told(*TURIN), last_first, 3)) == (5, 5)
    # The first two are in what is told: the last one alone takes a place.
    assert cpus(left(told(*TURIN, counted=2), last_first, 3)) == (7, 26)
    assert left(told(*TURIN, counted=3), last_first, 3) is None
    assert left(told(*TURIN, counted=9), last_first, 3) is None
    # Pods that are settled count among those that are placed, and take nothing.
    assert cpus(left(told(*TURIN, counted=40), last_first, 41)) == (7, 26)
    assert left(told(*TURIN), (), 41) is None


def test_nothing_is_taken_where_no_places_are_told_or_nodes_are_added() -> None:
    for found in (None, FreeCapacity(), told(8, autoscales=True)):
        assert not places.are_told(found)
        assert left(found, sent(2), 1) is None
    assert places.are_told(told(8))


def test_a_machine_that_is_told_by_itself_is_one_place() -> None:
    free = parse_all({"cpu": "8", "example.com/gpu": "0"})
    found = read(tell_each([FreeNode({}, (), free, "0a1b2c3d")], ()))
    assert places.are_told(found)
    assert cpus(left(found, sent(2, 3), 2)) == (3, 3)
    assert cpus(left(found, sent(3), 1)) == (5, 5)
    gone = left(found, [(parse_all({"example.com/gpu": "1"}), 1)], 1)
    assert gone == Left({"example.com/gpu": 0}, {"example.com/gpu": 0})


def test_of_a_resource_that_nobody_asks_for_nothing_is_taken() -> None:
    found = left(told(8, 8), [({}, 5), (parse_all({"memory": "6Gi"}), 1)], 6)
    assert found is not None
    assert set(found.largest) == {"memory"}


@pytest.mark.parametrize("seed", range(20))
def test_pods_are_put_where_the_most_is_free(seed: int) -> None:
    chance = random.Random(seed)
    free = [chance.randrange(1, 40) for _ in range(chance.randrange(1, 30))]
    pods = [(chance.randrange(1, 12), chance.randrange(1, 6)) for _ in range(10)]
    nodes = list(free)
    for amount in (amount for amount, number in pods for _ in range(number)):
        index = nodes.index(max(nodes))
        nodes[index] = max(0, nodes[index] - amount)
    found = without({size: free.count(size) for size in free}, pods)
    assert sorted(size for size, n in found.items() for _ in range(n)) == sorted(
        filter(None, nodes)
    )


def test_many_pods_and_nodes_take_few_steps_and_no_word_takes_many() -> None:
    assert without({64: 1_000_000}, [(1, 5_000_000)]) == {59: 1_000_000}
    assert without({10**12: 1}, [(1, 10**9)]) == {}
    steps = {str(size): freecapacity.MOST_NODES for size in range(1, 500)}
    lie = FreeCapacity((freecapacity.NodeGroup(1, holes={"cpu": steps}),))
    assert cpus(left(read(msgspec.json.encode(lie).decode()), sent(3), 1)) == (499, 497_999_997)


@pytest.mark.parametrize("text", ["nonsense", "-4"])
def test_places_that_are_no_amounts_are_not_believed(text: str) -> None:
    lie = FreeCapacity((freecapacity.NodeGroup(1, holes={"cpu": {text: 1}}),))
    assert read(msgspec.json.encode(lie).decode()) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_place_is_told_that_is_not_there(seed: int) -> None:
    chance = random.Random(seed)
    free = [chance.randrange(0, 10 ** chance.randrange(1, 4)) for _ in range(12)]
    [group] = told(*free).groups
    steps = [(parse(text) // parse(1), number) for text, number in group.holes["cpu"].items()]
    assert len(steps) <= freecapacity.MOST_STEPS
    assert all(sum(each >= size for each in free) >= number for size, number in steps)
    if max(free):
        most = steps[0][0]
        assert most == max(size for size, _ in steps)
        assert 0.9 * max(free) <= most <= max(free)


def test_steps_are_where_they_say_the_most() -> None:
    shown = [dict(told(*free).groups[0].holes["cpu"]) for free in (MILAN, TURIN, (4,) * 8, (0, 0))]
    assert shown == [{"7": 1, "3": 8}, {"7": 2, "5": 4, "2": 8}, {"4": 8}, {}]
    spread = told(*range(1, 17)).groups[0].holes["cpu"]
    assert spread == {"16": 1, "12": 5, "8": 9}
