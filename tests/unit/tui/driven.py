"""The program in asyncio with a state to show and a daemon that answers, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from liqod.inspect.protocol import (
    Act,
    ActionPlan,
    ActionProgress,
    ExplainPod,
    GetLogs,
    GetObject,
    GetTasks,
    InspectorRequest,
    InspectorResponse,
    Preview,
    RequestDone,
    RequestRefused,
    Tasks,
    Text,
)
from liqod.model.view.daemonfacts import SightingFacts
from liqod.model.view.rows import NodeRow, PodRow, Task
from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, failing, peer, state
from tests.unit.tui.links import FakeLink
from tests.unit.tui.screens import Terminal, terminal


def run(scenario: Callable[[Terminal], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a scenario in asyncio, which is what Textual needs."""
    links: Sequence[FakeLink] = options.pop("links", ())

    async def inner() -> None:
        async with terminal(*links, **options) as made:
            await scenario(made)

    asyncio.run(inner())


def several() -> LiveState:
    """Three peers, one of them down, and pods on one."""
    return state(
        peer("bern"),
        peer("milan"),
        peer("turin", link="down", since=NOW - 14, reason="no answer"),
        nodes={"milan": NodeRow("milan", "milan", True, "", {"cpu": "4"}, 2, 1)},
        pods={
            "shop/a": PodRow("shop", "a", "milan", "Running", True, peer="milan"),
            "shop/b": PodRow("shop", "b", "milan", "Pending", False, "over quota", peer="milan"),
        },
        ladders={"milan": failing("milan", "clock", evidence="5 s apart")},
        sightings={"manual/oslo": SightingFacts("oslo", "manual", kubeconfig=True)},
    )


def answers(request: InspectorRequest) -> Sequence[InspectorResponse]:
    """A daemon that can do everything."""
    match request:
        case Preview(id=number, verb=verb, subject=subject):
            return [
                ActionPlan(
                    id=number,
                    verb=verb,
                    subject=subject,
                    changes=(f"the tenant of {subject} goes",),
                    destructive=verb == "unpeer",
                    command=f"liqod {verb} {subject}",
                )
            ]
        case Act(id=number):
            return [
                ActionProgress(id=number, step="under way"),
                RequestDone(id=number, text="it is gone"),
            ]
        case GetObject(id=number, kind=kind):
            return [Text(id=number, text=f"kind: {kind}\nname: x\x1b[2J\n")]
        case GetLogs(id=number):
            return [Text(id=number, text="one\ntw", last=False), Text(id=number, text="o\n\nthree")]
        case ExplainPod(id=number, pod=pod):
            return [Text(id=number, text=f"Pod shop/{pod}\n  milan: no\n    not to milan:")]
        case GetTasks(id=number):
            return [Tasks(id=number, tasks=(Task("main", 0),))]
    return [RequestRefused(id=request.id, code="unknown", reason="what?")]


def asked(screen: Terminal, kind: type[InspectorRequest]) -> list[InspectorRequest]:
    """The requests of one kind."""
    return [each for each in screen.link.asked if isinstance(each, kind)]
