"""The parts of a slice, by the provider's word and what runs on each."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import trio
from trio.testing import MockClock

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.slices.nodeparts import NodeParts
from liqod.consumer.timings import ConsumerTimings
from liqod.kube import times
from liqod.model.objects.quantities import NANO
from liqod.model.peering import parts as dividing
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.model.peering.parts import MOST_PARTS, Part
from liqod.resources import ResourceSlice
from tests.unit.consumer.test_pendingpods import Feed

RED, BLUE = (NodeGroup(1, {"pool": pool}, free={"cpu": "8"}) for pool in ("red", "blue"))
HERE = "aaaaaaaa"
"""The key of the part whose virtual node the feed's pods are on."""
LONG_AGO = "2026-01-01T00:00:00Z"


def text(*groups: NodeGroup) -> str:
    return msgspec.json.encode(FreeCapacity(groups)).decode()


def always() -> tuple[float, float]:
    return float("-inf"), trio.current_time()


def divider(
    feed: Feed | None = None, heard: Callable[[], tuple[float, float]] | None = None
) -> NodeParts:
    """One that knows of the pods of a feed; of none yet without."""
    context = SimpleNamespace(
        informers=SimpleNamespace(find=lambda *_: feed), own_pods=SimpleNamespace(selection=None)
    )
    return NodeParts(cast("Any", context), ConsumerTimings(), heard or always)


def slice_of(told: str | None, asked: str = "groups") -> ResourceSlice:
    notes = {labels.VIRTUAL_NODES: asked}
    if told is not None:
        notes[labels.FREE_CAPACITY] = told
    body = {"metadata": {"name": "milan", "annotations": notes}}
    return msgspec.convert(body, ResourceSlice)


def node(key: str, group: NodeGroup, since: str = LONG_AGO) -> dict[str, ObjectMeta]:
    name = f"milan-{key}" if key != HERE else "milan"
    notes = {labels.FREE_CAPACITY: text(group), labels.NOT_TOLD_SINCE: since}
    return {name: ObjectMeta(name=name, labels={labels.PART: key}, annotations=notes)}


def keys(parts: tuple[Part, ...]) -> dict[str, str]:
    return {each.key: each.not_told_since for each in parts}


@pytest.mark.parametrize("told", [None, "nonsense", text()])
async def test_of_a_provider_that_says_nothing_all_parts_stay_without_end(told):
    found = divider().divide(slice_of(told), node(HERE, RED))
    assert keys(found.parts) == {HERE: LONG_AGO}


@pytest.mark.parametrize(
    ("phase", "reason", "stays"),
    [
        ("Running", "", True),
        ("Pending", "", True),
        ("Pending", "Unschedulable", False),
        ("Succeeded", "", False),
        ("", "", False),
    ],
)
@pytest.mark.parametrize("key", ["", "0123abcd"])
async def test_a_part_that_is_not_told_goes_only_once_nothing_runs_on_it(phase, reason, stays, key):
    feed = Feed()
    group = msgspec.structs.replace(RED, key=key)
    nodes = node(HERE, group) | node("bbbbbbbb", group)
    divider(feed).divide(slice_of(text(BLUE)), nodes)
    if phase:
        feed.tell("web", 1, phase, reason)
    parts = divider(feed).divide(slice_of(text(BLUE)), nodes).parts
    assert (HERE in keys(parts)) == stays
    assert "bbbbbbbb" not in keys(parts)
    assert not stays or keys(parts)[HERE] == LONG_AGO


async def test_before_the_pods_are_known_no_part_goes():
    parts = divider().divide(slice_of(text(BLUE)), node(HERE, RED)).parts
    assert LONG_AGO in keys(parts).values()


async def test_machines_that_are_busy_take_no_place_from_the_groups_asked_for_now():
    feed, nodes = Feed(), dict[str, ObjectMeta]()
    for number in range(MOST_PARTS["groups"]):
        machine = msgspec.structs.replace(RED, key=f"{number:08x}")
        nodes |= node(machine.key, machine, times.now())
    assert len(divider(feed).divide(slice_of(text(BLUE)), nodes).parts) == len(nodes) + 1
    for each in nodes.values():
        each.annotations[labels.FREE_CAPACITY] = text(RED)
    assert len(divider(feed).divide(slice_of(text(BLUE)), nodes).parts) == len(nodes)


async def test_of_a_provider_that_is_silent_the_division_stays(autojump_clock: MockClock) -> None:
    feed, heard, timings = Feed(), [0.0, 0.0], ConsumerTimings()
    parts = divider(feed, lambda: (heard[0], heard[1]))
    found, nodes = slice_of(text(RED)), node(HERE, RED)
    status = msgspec.structs.replace(found.status, resources={"cpu": "64"})
    found = msgspec.structs.replace(found, status=status)
    key = dividing.key_of(RED)
    nodes = {"milan": msgspec.structs.replace(nodes["milan"], labels={labels.PART: key})}

    def share() -> int:
        (part,) = parts.divide(found, nodes).parts
        return part.share["cpu"] // NANO

    assert share() == 8
    feed.tell("web", 5, "Running")
    for _ in range(60):  # it was told long ago that eight are free, beside nothing
        await trio.sleep(timings.parts_every)
        assert share() == 8
        assert (parts.divide(found, nodes).again or 0) >= timings.parts_pause
    heard[:] = trio.current_time() - 1, trio.current_time()  # it has just come back
    assert share() == 8
    heard[1] = heard[0] + timings.parts_every
    assert share() == 13  # it goes on to say so while it runs
