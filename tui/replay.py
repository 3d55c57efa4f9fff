"""A recording as a source: plays what a daemon said, at its own pace or faster."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

from liqod.inspect.protocol import Answer, Request, ServerMessage
from tui.link import NotConnected, Receive
from tui.recording import load
from tui.session import Lost

LONGEST_PAUSE = 10.0
"""Seconds that a gap in a recording lasts at most when it is played."""


class Replay:
    """Plays one recording to its end, where it stays.

    Args:
        path: the file; a bad one raises when it is opened here, see :func:`tui.recording.load`.
        speed: how many times faster than it was recorded; 0 plays everything at once.
    """

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        self.name = path.stem
        self._messages: Iterator[ServerMessage | Lost] = load(path)
        self._speed = speed

    async def run(self, receive: Receive) -> None:
        """Hand on each message when its time has come."""
        last: float | None = None
        for message in self._messages:
            at = getattr(message, "at", None)
            if at is not None:
                if last is not None and self._speed:
                    await asyncio.sleep(min(LONGEST_PAUSE, max(0.0, at - last)) / self._speed)
                last = at
            receive(message)
        receive(Lost("the recording ends here", last or 0.0))

    async def ask(self, request: Callable[[int], Request]) -> AsyncGenerator[Answer, None]:
        """A recording answers nothing: raises NotConnected."""
        raise NotConnected("this is a recording: there is nobody to ask")
        yield  # pragma: no cover - makes this a generator
