"""The pods of this cluster that are watched."""

from typing import Any, cast

import pytest
import trio
import trio.testing

from liqod.cluster.podselection import LONGEST, NOT_GUESTS, PodSelection, select_pods
from liqod.errors import Forbidden


def fields(found: PodSelection) -> list[str]:
    return [each for each in found.selection.fields.split(",") if each]


def test_what_is_on_own_nodes_is_left_out():
    found = PodSelection()
    assert (found.selection.labels, fields(found)) == (NOT_GUESTS, [])
    found.exclude(["n2", "n1"])
    assert fields(found) == ["spec.nodeName!=n1", "spec.nodeName!=n2"]


def test_only_as_many_nodes_are_named_as_there_is_room_for():
    found = PodSelection()
    found.exclude(f"worker-{number:04}.example.com" for number in range(5000))
    assert 0 < len(found.selection.fields) <= LONGEST
    assert len(fields(found)) > 90


async def test_a_virtual_node_is_never_left_out():
    found = PodSelection()
    found.exclude(["milan", "n1"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.changed)
        await trio.testing.wait_all_tasks_blocked()
        found.need(["turin"])
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        found.need(["milan"])
    assert fields(found) == ["spec.nodeName!=n1"]


@pytest.mark.parametrize("error", [Forbidden("nodes")])
async def test_all_pods_are_watched_where_nodes_cannot_be_listed(error):
    class Refusing:
        async def list(self, *_, **__):
            raise error

    found = await select_pods(cast("Any", Refusing()))
    assert found.selection == PodSelection().selection
