"""A recording as a source: plays what a daemon said, at its own pace or faster."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path

from liqod.inspect.protocol import InspectorRequest, InspectorResponse, ServerMessage
from tui.link import NotConnected, Receive
from tui.recording import load
from tui.session import Lost

LONGEST_PAUSE = 10.0
"""Seconds that a gap in a recording lasts at most when it is played."""


class Replay:
    """Plays one recording to its end, where it stays until it is wound back.

    Args:
        path: the file; a bad one raises when it is opened here, see :func:`tui.recording.load`.
        speed: how many times faster than it was recorded; 0 plays everything at once.

    Attributes:
        at: Unix time of what was played last.
        paused: whether it stands still.
        ended: whether there is no more; :meth:`run` has returned then.
    """

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        self.name = path.stem
        self.at = 0.0
        self.paused = self.ended = False
        self._path = path
        self._messages: Iterator[ServerMessage | Lost] = load(path)
        self._speed = speed
        self._target = 0.0
        self._again = False
        self._disturbed = asyncio.Event()

    def pause(self) -> None:
        """Stand still, or go on."""
        self.paused = not self.paused
        self._disturbed.set()

    def seek(self, seconds: float) -> None:
        """Go so far forward, or back: then it is played from the beginning, as fast as it goes."""
        self._target = self.at + seconds
        self._again = seconds < 0
        self._disturbed.set()

    async def run(self, receive: Receive) -> None:
        """Hand on each message when its time has come; after the end, what :meth:`seek` chose."""
        self.ended = False
        if self._again:
            self._start()
        while await self._play(receive):
            self._start()
        self.ended = True
        receive(Lost("the recording ends here", self.at))

    def _start(self) -> None:
        self._messages, self._again = load(self._path), False

    async def _play(self, receive: Receive) -> bool:
        """Play the rest; True if it is to begin again."""
        last: float | None = None
        for message in self._messages:
            at = getattr(message, "at", None)
            if at is not None:
                if last is not None:
                    await self._wait(at, at - last)
                if self._again:
                    return True
                last = self.at = at
            receive(message)
        return False

    async def _wait(self, at: float, pause: float) -> None:
        """Wait until it is time for a message of that time; less where somebody seeks."""
        if at > self._target and self._speed:
            await self._rest(min(LONGEST_PAUSE, max(0.0, pause)) / self._speed)
        while self.paused and at > self._target and not self._again:
            await self._rest(None)

    async def _rest(self, seconds: float | None) -> None:
        """Wait so long, or until something is wanted."""
        self._disturbed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._disturbed.wait()

    async def ask(
        self, request: Callable[[int], InspectorRequest]
    ) -> AsyncGenerator[InspectorResponse, None]:
        """A recording answers nothing: raises NotConnected."""
        raise NotConnected("this is a recording: there is nobody to ask")
        yield  # pragma: no cover - makes this a generator
