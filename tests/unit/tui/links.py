"""A daemon that is not there: says what a test tells it to, and remembers what it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from liqod.inspect.protocol import InspectorRequest, InspectorResponse, ServerMessage
from tests.unit.tui.sessions import hello, snapshot
from tui.link import NotConnected, Receive
from tui.session import Lost

Reply = Callable[[InspectorRequest], Sequence[InspectorResponse]]


class FakeLink:
    """A source for :class:`tui.app.Top`.

    Args:
        reply: what it answers to a request; nothing means that nobody is there.
    """

    name = "rome.sock"

    def __init__(self, reply: Reply | None = None) -> None:
        self.asked: list[InspectorRequest] = []
        self._reply = reply
        self._receive: Receive | None = None
        self._ended = asyncio.Event()

    async def run(self, receive: Receive) -> None:
        """Hand on what :meth:`say` is told."""
        self._receive = receive
        await self._ended.wait()

    async def ask(
        self, request: Callable[[int], InspectorRequest]
    ) -> AsyncGenerator[InspectorResponse, None]:
        """The answers of ``reply``."""
        made = request(len(self.asked) + 1)
        self.asked.append(made)
        answers = self._reply(made) if self._reply is not None else ()
        if not answers:
            raise NotConnected("there is nobody to ask")
        for answer in answers:
            yield answer

    def say(self, *messages: ServerMessage | Lost) -> None:
        """Let the daemon say something."""
        assert self._receive is not None, "nobody listens yet"
        for message in messages:
            self._receive(message)

    def show(self, state, sequence: int = 7, **greeting) -> None:
        """Greet, and say how everything is."""
        self.say(hello(**greeting), snapshot(state, sequence))
