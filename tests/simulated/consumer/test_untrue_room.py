"""Providers whose word about their room is not true, or that say nothing: where pods end, and what
is shown meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, NODES, PODS
from liqod.kube.selection import Selection
from liqod.model.crossing import guestrules
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.plugins import loader
from liqod.procedures.nodeexplaining import explain_node
from liqod.provider.timings import ProviderTimings
from liqod.resources import RESOURCE_SLICES, VIRTUAL_NODES
from liqod.resources.authentication import GROWTH_DENIED
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.consumer.test_node_parts import SOON
from tests.simulated.consumer.test_returns import codes, marks, shut
from tests.simulated.consumer.test_scarce_room import (
    HERE,
    ROOM,
    THERE,
    clusters,
    opened,
    returning,
    served,
    web,
)
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members

pytestmark = [pytest.mark.long, pytest.mark.placement]

MUCH = {"cpu": "900", "memory": "900Gi", "pods": "900"}


@asynccontextmanager
async def liars() -> AsyncIterator[list[Member]]:
    """Rome, milan and turin; what their slices tell of free room stays as somebody writes it."""
    plugins = loader.load(sources=loader.built_in())
    settings = returning(5) + "[provider]\nshow_free = true\n"
    late = ProviderTimings(free_every=10_000.0)
    names = ("rome", "milan", "turin")
    more: dict[str, Any] = {"settings": settings, "plugins": plugins, "nodes": 2}
    async with members(*names, **more, timings=late, consumer_timings=SOON) as made:
        yield made


async def lies(milan: Member) -> None:
    """Have milan's slice tell of far more room than there is, and of groups of it."""
    groups = tuple(NodeGroup(9, {"pool": pool}, free=MUCH, largest=(MUCH,)) for pool in "ab")
    word = msgspec.json.encode(FreeCapacity(groups)).decode()
    note = {"metadata": {"annotations": {labels.FREE_CAPACITY: word}}}
    await milan.admin.patch(RESOURCE_SLICES, "milan", note, AT_MILAN)


async def allocatable(rome: Member) -> list[str]:
    """The CPUs of the virtual nodes of milan."""
    where = Selection(labels=f"{labels.REMOTE_CLUSTER_ID}=milan")
    found = await rome.admin.list(NODES, where)
    return sorted(each["status"]["allocatable"]["cpu"] for each in found)


async def rests(rome: Member, placed: dict[str, str]) -> None:
    """Nothing moves any more, and nothing is sent back."""
    told = (await codes(rome)).count("Returning")
    await trio.sleep(30)
    assert await nodes_of(rome) == placed
    assert (await codes(rome)).count("Returning") == told


async def nodes_of(rome: Member) -> dict[str, str]:
    """The node of each pod of the shop, by its name."""
    found = await rome.admin.list(PODS, Selection(HERE))
    return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found}


@pytest.mark.parametrize("asked", ["whole", "groups"])
async def test_who_tells_of_room_that_is_not_there_has_no_more_than_it_granted(asked: str) -> None:
    async with liars() as [rome, milan, turin]:
        await shut(milan)
        await opened(rome, milan, turin)
        await lies(milan)
        note = {"metadata": {"annotations": {labels.VIRTUAL_NODES: asked}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", note, AT_ROME)
        bounds = {"whole": ["16"], "groups": ["8", "8"]}[asked]

        async def shown() -> bool:
            return await allocatable(rome) == bounds

        await eventually(shown, seconds=60)
        await rome.admin.create(DEPLOYMENTS, web(4, cpu="3"), HERE)
        pods = await served(rome, 4)
        placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}
        assert set(placed.values()) == {"turin"}
        assert await milan.admin.list(PODS, Selection(THERE)) == []
        assert {mark.cluster for mark in await marks(rome)} == {"milan"}
        assert 1 <= (await codes(rome)).count("Returning") <= 4
        await rests(rome, placed)
        assert await allocatable(rome) == bounds


@pytest.mark.parametrize("rules", [True, False], ids=["older", "liqo"])
async def test_who_tells_nothing_of_its_room_has_its_grant_and_one_node(
    rules: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rules:
        monkeypatch.setattr(guestrules, "render", lambda rules: "")
    async with clusters("milan", "turin", after=5) as [rome, milan, turin]:
        await shut(milan)
        await opened(rome, milan, turin)
        note = {"metadata": {"annotations": {labels.VIRTUAL_NODES: "nodes"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", note, AT_ROME)

        def not_told(each: Json) -> bool:
            conditions = each.get("status", {}).get("conditions", ())
            return any(one.get("reason") == "NotTold" for one in conditions)

        await rome.until(VIRTUAL_NODES, "milan", AT_ROME, not_told)
        assert await allocatable(rome) == [ROOM["cpu"]]
        await rome.admin.create(DEPLOYMENTS, web(4, cpu="3"), HERE)
        pods = await served(rome, 4)
        placed = {each["metadata"]["name"]: each["spec"]["nodeName"] for each in pods}
        assert set(placed.values()) == {"turin"}
        await rests(rome, placed)
        assert await allocatable(rome) == [ROOM["cpu"]]


@pytest.mark.parametrize("asked", ["whole", "groups"])
async def test_a_growth_that_is_denied_leaves_what_is_allocatable(asked: str) -> None:
    plugins = loader.load(sources=loader.built_in())
    bound = f'[guests]\nmax_resources = {{ cpu = "{ROOM["cpu"]}" }}\n'
    settings = f"{returning(5)}[provider]\nshow_free = true\n{bound}"
    more: dict[str, Any] = {"settings": settings, "plugins": plugins, "nodes": 2}
    async with members("rome", "milan", **more, consumer_timings=SOON) as [rome, milan]:
        await opened(rome, milan)
        note = {"metadata": {"annotations": {labels.VIRTUAL_NODES: asked}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", note, AT_ROME)
        where = Selection(labels=f"{labels.REMOTE_CLUSTER_ID}=milan")

        async def alone() -> Json | None:
            nodes = await rome.admin.list(NODES, where)
            parts = [labels.PART in each["metadata"]["labels"] for each in nodes]
            return nodes[0] if parts == [asked == "groups"] else None

        node = await eventually(alone, seconds=60)
        await rome.admin.create(DEPLOYMENTS, web(2, cpu="3"), HERE)
        before = await served(rome, 2)
        larger = {"spec": {"resources": {"cpu": "64"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", larger, AT_ROME)

        def denied(each: Json) -> bool:
            return condition(each, "Resources").get("reason") == GROWTH_DENIED

        await rome.until(RESOURCE_SLICES, "milan", AT_ROME, denied)
        await trio.sleep(30)
        assert await allocatable(rome) == ["16"]
        told = await explain_node(rome.admin, node["metadata"]["name"])
        assert [each["cpu"] for each in (told.asked, told.granted, told.quota)] == [
            "64",
            "16",
            "16",
        ]
        assert await nodes_of(rome) == {
            each["metadata"]["name"]: each["spec"]["nodeName"] for each in before
        }
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, HERE)
        await served(rome, 4)
