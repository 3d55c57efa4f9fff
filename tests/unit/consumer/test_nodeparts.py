"""The parts of a slice, by the provider's word and what runs on each."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.consumer.slices.nodeparts import NodeParts
from liqod.consumer.timings import ConsumerTimings
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.model.peering.parts import Part
from liqod.resources import ResourceSlice

RED, BLUE = (NodeGroup(1, {"pool": pool}, free={"cpu": "8"}) for pool in ("red", "blue"))
LONG_AGO = "2026-01-01T00:00:00Z"


def text(*groups: NodeGroup) -> str:
    return msgspec.json.encode(FreeCapacity(groups)).decode()


def divider() -> NodeParts:
    """One that knows of no pods yet."""
    context = SimpleNamespace(
        informers=SimpleNamespace(find=lambda *_: None), own_pods=SimpleNamespace(selection=None)
    )
    return NodeParts(cast("Any", context), ConsumerTimings())


def slice_of(told: str | None) -> ResourceSlice:
    notes = {labels.VIRTUAL_NODES: "groups"}
    if told is not None:
        notes[labels.FREE_CAPACITY] = told
    body = {"metadata": {"name": "milan", "annotations": notes}}
    return msgspec.convert(body, ResourceSlice)


def node(key: str, group: NodeGroup, since: str = LONG_AGO) -> dict[str, ObjectMeta]:
    name = f"milan-{key}"
    notes = {labels.FREE_CAPACITY: text(group), labels.NOT_TOLD_SINCE: since}
    return {name: ObjectMeta(name=name, labels={labels.PART: key}, annotations=notes)}


def keys(parts: tuple[Part, ...]) -> dict[str, str]:
    return {each.key: each.not_told_since for each in parts}


@pytest.mark.parametrize("told", [None, "nonsense", text()])
async def test_of_a_provider_that_says_nothing_all_parts_stay_without_end(told):
    found = divider().divide(slice_of(told), node("aaaaaaaa", RED))
    assert keys(found.parts) == {"aaaaaaaa": LONG_AGO}
