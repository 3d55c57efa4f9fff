"""Room as a viewer sees it: what peers tell, why pods wait, and marks of those that returned."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from liqod.apimachinery.kinds import DEPLOYMENTS, NODES, PODS
from liqod.cli.commands import explain
from liqod.inspect.access import Guest
from liqod.inspect.answers import Answers
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.protocol import ExplainPod, Text
from liqod.inspect.stream import Collector
from liqod.inspect.summary import EventSummary
from liqod.model.view.podanswer import pod_lines
from liqod.model.view.roomrows import HOME
from liqod.model.view.state import LiveState
from liqod.plugins import loader
from liqod.procedures import explaining
from liqod.procedures.nodeexplaining import explain_node
from liqod.resources import VIRTUAL_NODES
from tests.simulated.borrower import eventually
from tests.simulated.consumer.test_returns import shut
from tests.simulated.consumer.test_scarce_room import (
    HERE,
    clusters,
    filled,
    opened,
    pod,
    returning,
    web,
)
from tests.simulated.members import AT_ROME, Member, members

pytestmark = pytest.mark.long


class Viewer:
    """What a viewer of a member's daemon is shown, and the daemon's facts."""

    def __init__(self, member: Member) -> None:
        nothing: Any = None
        parts = member.context, member.components
        self.facts = FactsInMemory(*parts, nothing, EventSummary(), nothing)
        self._collector = Collector(member.context, self.facts, dict)

    async def state(self) -> LiveState:
        """All that is shown now."""
        await self.facts.refresh()
        return await self._collector.collect(whole=False)


async def until(viewer: Viewer, holds: Callable[[LiveState], Any]) -> LiveState:
    """The state of a viewer as soon as that is so."""

    async def look() -> LiveState | None:
        state = await viewer.state()
        return state if holds(state) else None

    found: LiveState = await eventually(look, seconds=120)
    return found


async def verdicts(member: Member, pod: str) -> str:
    """What the member's daemon answers a viewer that asks about a pod of the shop."""
    facts: Any = SimpleNamespace(daemon=SimpleNamespace(started=0.0))
    nothing: Any = None
    answers = Answers(member.context, member.components, nothing, facts, nothing)
    told: list[Text] = []

    async def tell(message: Any) -> None:
        told.append(message)

    ask = ExplainPod(id=1, namespace=HERE, pod=pod)
    await answers.answer(ask, Guest("root", acting=True), tell)
    (answer,) = told
    return answer.text


async def test_what_a_peer_tells_and_who_finds_no_place_here() -> None:
    plugins = loader.load(sources=loader.built_in())
    settings = returning(5) + "[provider]\nshow_free = true\n"
    more: dict[str, Any] = {"settings": settings, "plugins": plugins, "nodes": 2}
    async with members("rome", "milan", **more) as [rome, milan]:
        await filled(milan, "5")
        await opened(rome, milan)
        viewer = Viewer(rome)
        state = await until(viewer, lambda now: now.rooms["milan"].told)
        told = state.rooms["milan"]
        assert (told.peer, told.message, told.largest[0]["cpu"]) == ("milan", "", "3")
        assert (told.free["cpu"], [each.nodes for each in told.groups]) == ("6", [2])

        assert told.at > 0
        assert told.older  # nobody has seen it change
        at = viewer.facts.words["milan"].at
        await rome.admin.patch(
            VIRTUAL_NODES, "milan", {"metadata": {"labels": {"a": "b"}}}, AT_ROME
        )
        assert (await viewer.state()).rooms["milan"].at == at

        node = (await rome.admin.get(NODES, "milan"))["status"]["allocatable"]["cpu"]
        assert told.allocatable["cpu"] == state.nodes["milan"].resources["cpu"] == node
        assert state.nodes["milan"].granted["cpu"] == "16"

        explained = await explain_node(rome.admin, "milan")
        assert explained.told is not None
        assert explained.told.groups == told.groups
        lines = list(explain.virtual_node_lines(explained))
        assert any(each.startswith("  free, by its last word: cpu 6") for each in lines)
        assert any(each.startswith("    2 machines with ") for each in lines)

        await rome.admin.create(PODS, pod("own", cpu="40"), "default")  # it is not offloaded
        for number in range(3):
            await rome.admin.create(PODS, pod(f"big-{number}", cpu="40"), HERE)
        state = await until(viewer, lambda now: now.room is not None and now.room.here == 3)
        assert {each.cause for each in state.waits.values()} == {"Unschedulable"}
        assert all(each.message for each in state.waits.values())
        assert {each.namespace for each in state.waits.values()} == {HERE}
        name = next(iter(state.waits.values())).name
        lines = (await verdicts(rome, name)).splitlines()
        body = await rome.admin.get(PODS, name, HERE)
        own = await explaining.explain(rome.admin, {"kind": "Pod", **body}, HERE, "liqo")
        assert lines == list(pod_lines(own))
        assert "  milan: no" in lines
        assert any("no machine has cpu 40" in each for each in lines)

        home = (await until(Viewer(milan), lambda now: now.rooms[HOME].told)).rooms[HOME]
        assert (home.free["cpu"], home.allocatable["cpu"]) == ("6", "16")


async def test_what_waits_at_a_peer_that_tells_nothing_returns_and_is_marked() -> None:
    async with clusters("milan", "turin", after=20) as [rome, milan, turin]:
        await shut(milan)
        await opened(rome, milan, turin)
        viewer = Viewer(rome)
        await rome.admin.create(DEPLOYMENTS, web(6, cpu="2"), HERE)
        state = await until(
            viewer,
            lambda now: any(
                each.node and each.cause == "Unschedulable" for each in now.waits.values()
            ),
        )
        assert not state.rooms["milan"].told
        assert (state.rooms[HOME].told, state.rooms[HOME].allocatable["cpu"]) == (False, "16")
        untold = await explain_node(rome.admin, "milan")
        assert "  free: the provider does not tell" in explain.virtual_node_lines(untold)
        assert state.rooms["milan"].free == {}
        (waits,) = [
            each for each in state.waits.values() if each.node and each.cause == "Unschedulable"
        ]
        assert (waits.node, waits.cause, waits.owner.split()[0]) == (
            *("milan", "Unschedulable", "ReplicaSet"),
        )
        await until(viewer, lambda now: any(each.step == "Unknown" for each in now.waits.values()))
        state = await until(viewer, lambda now: now.avoided)
        (mark,) = state.avoided.values()
        assert (mark.namespace, mark.peer, mark.cause) == (HERE, "milan", "Unschedulable")
        assert mark.until - mark.since == 600
        state = await until(viewer, lambda now: now.room is not None and not now.room.there)
        assert all(not each.node for each in state.waits.values())
