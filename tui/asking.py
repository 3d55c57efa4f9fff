"""Requests to a daemon beyond the stream: actions, pages of text, tasks and history."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

from rich.text import Text as Painted
from textual.app import App

from liqod.inspect.protocol import (
    Act,
    ActionPlan,
    ActionProgress,
    ExplainPod,
    GetHistory,
    GetLogs,
    GetObject,
    GetTasks,
    InspectorRequest,
    Preview,
    RequestRefused,
    Text,
    Verb,
)
from tui.link import NotConnected, Source, first, outcome
from tui.pages import Object
from tui.session import TREND
from tui.table import Cell
from tui.widgets.dialogs import Confirm, TextPage

TASKS_EVERY = 2.0
FILLED = 32
"""Peers whose trend is filled from the daemon's history; the others grow from now on."""
AT_ONCE = 4

PAINT = {
    "": "",
    "good": "green",
    "fair": "yellow",
    "bad": "bold red",
    "dim": "dim",
    "name": "bold",
}
"""Tones outside the grid; the sixteen colours that every terminal has."""


def painted(cells: Iterable[Cell], *, fold: bool = False) -> Painted:
    """Lines in their tones; cut where they are too long, or folded."""
    lines = [Painted(cell.text, PAINT[cell.tone]) for cell in cells]
    made = Painted("\n").join(lines)
    made.no_wrap, made.overflow = not fold, "fold" if fold else "ellipsis"
    return made


async def act(
    app: App[None], source: Source, verb: Verb, subjects: list[str], options: dict[str, str]
) -> None:
    """Say what would change, ask, and do it for one subject after another."""
    plans = []
    for subject in subjects:
        answer = await first(source, _preview(verb, subject, options))
        if not isinstance(answer, ActionPlan):
            app.notify(f"{verb} {subject}: {outcome(answer)}", severity="error", markup=False)
            return
        plans.append(answer)
    if not await app.push_screen_wait(Confirm(plans)):
        return
    for plan in plans:
        await _one(app, source, plan, options)


def _preview(
    verb: Verb, subject: str, options: dict[str, str]
) -> Callable[[int], InspectorRequest]:
    return lambda number: Preview(id=number, verb=verb, subject=subject, options=options)


async def _one(app: App[None], source: Source, plan: ActionPlan, options: dict[str, str]) -> None:
    def request(number: int) -> InspectorRequest:
        return Act(id=number, verb=plan.verb, subject=plan.subject, options=options)  # type: ignore[arg-type]

    what = f"{plan.verb} {plan.subject}"
    async for answer in source.ask(request):
        if isinstance(answer, ActionProgress):
            app.notify(f"{what}: {answer.step}", markup=False, timeout=3)
        elif isinstance(answer, RequestRefused):
            app.notify(f"{what}: {answer.reason}", severity="error", markup=False)
        else:
            app.notify(f"{what}: {outcome(answer)}", markup=False)


async def look_at_tasks(source: Source) -> None:
    """Ask for the task tree; the answer comes with the stream."""
    with contextlib.suppress(NotConnected):
        await first(source, lambda number: GetTasks(id=number))


async def fill_trends(source: Source, peers: list[str]) -> None:
    """Ask for the last minute of the first peers; the answers come with the stream."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(peer: str) -> None:
        async with limit:
            with contextlib.suppress(NotConnected):
                await first(
                    source,
                    lambda number: GetHistory(id=number, metric="rtt", peer=peer, span=TREND),
                )

    await asyncio.gather(*(one(peer) for peer in peers[:FILLED]))


def page_of_text(title: str, text: str) -> TextPage:
    """A page of something that is known already."""

    async def lines() -> AsyncIterator[str]:
        yield text

    return TextPage(title, lines())


def page_of_object(source: Source, wanted: Object) -> TextPage:
    """A page with an object as YAML."""

    def request(number: int) -> InspectorRequest:
        return GetObject(id=number, kind=wanted.kind, name=wanted.name, namespace=wanted.namespace)

    return TextPage(f"{wanted.kind} {_name(wanted)}", _texts(source, request))


def page_of_log(source: Source, wanted: Object) -> TextPage:
    """A page with the log of a pod, which goes on until it is closed."""

    def request(number: int) -> InspectorRequest:
        return GetLogs(id=number, namespace=wanted.namespace, pod=wanted.name, follow=True)

    return TextPage(f"log of {_name(wanted)}", _texts(source, request), follow=True)


def page_of_verdicts(source: Source, wanted: Object) -> TextPage:
    """A page with the verdict of each node on a pod."""

    def request(number: int) -> InspectorRequest:
        return ExplainPod(id=number, namespace=wanted.namespace, pod=wanted.name)

    return TextPage(f"explain {_name(wanted)}", _texts(source, request))


OF_PODS: Final[Mapping[str, Callable[[Source, Object], TextPage]]] = {
    "log": page_of_log,
    "verdicts": page_of_verdicts,
}
"""The pages on a pod."""


async def _texts(source: Source, request: Callable[[int], InspectorRequest]) -> AsyncIterator[str]:
    try:
        async for answer in source.ask(request):
            yield answer.text if isinstance(answer, Text) else outcome(answer)
    except NotConnected as error:
        yield f"\n({error})"


def _name(wanted: Object) -> str:
    return f"{wanted.namespace}/{wanted.name}" if wanted.namespace else wanted.name
