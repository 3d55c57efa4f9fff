"""The program in a terminal of a test: what is on it, line by line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.events import Key
from textual.pilot import Pilot

from tests.unit.model.states import NOW
from tests.unit.tui.links import FakeLink
from tui.app import Top
from tui.table import Place
from tui.views import catalog


class Terminal:
    """The running program and its link."""

    def __init__(self, app: Top, pilot: Pilot[None], links: Sequence[FakeLink]) -> None:
        self.app = app
        self.pilot = pilot
        self.links = links

    @property
    def link(self) -> FakeLink:
        """The first daemon."""
        return self.links[0]

    def lines(self) -> list[str]:
        """The lines on the screen, without the blanks at their ends."""
        return lines(self.app)

    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines())

    def said(self) -> str:
        """The notifications at the edge, drawn yet or not."""
        return "\n".join(each.message for each in self.app._notifications)

    async def press(self, *keys: str) -> None:
        """Press keys and wait for what they do."""
        await self.pilot.press(*keys)
        await self.settle()

    async def type(self, text: str) -> None:
        """Type a text and ``enter``: the first letter may open a line, the others come at once."""
        names = {":": "colon", "/": "slash", " ": "space", "-": "minus", "=": "equals_sign"}
        first, others = text[0], text[1:]
        await self.pilot.press(names.get(first, first))
        driver = self.app._driver
        assert driver is not None
        # The pilot waits after each key until nobody has worked for some forty milliseconds.
        for letter in others:
            driver.send_message(Key(names.get(letter, letter), letter))
        await self.press("enter")

    async def settle(self) -> None:
        """Draw what has come."""
        await self.pilot.pause()
        self.app._draw()
        await self.pilot.pause()


def lines(app: Top) -> list[str]:
    """The lines on the screen of a program, without the blanks at their ends."""
    strips = app.screen._compositor.render_strips()
    return ["".join(part.text for part in strip).rstrip() for strip in strips]


@asynccontextmanager
async def terminal(
    *links: FakeLink,
    size: tuple[int, int] = (120, 24),
    read_only: bool = False,
    start: Place = catalog.HOME,
) -> AsyncIterator[Terminal]:
    """The program at a fixed time, with these daemons or one that says nothing yet."""
    chosen = links or (FakeLink(),)
    app = Top(chosen, read_only=read_only, start=start, wall=lambda: NOW, steady=lambda: 0.0)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield Terminal(app, pilot, chosen)
