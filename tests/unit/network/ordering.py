"""A daemon's end of the connection to a machine's side."""

from __future__ import annotations

from typing import TypeVar

import trio

from liqod.errors import NetworkError
from liqod.network.framestream import FrameStream
from liqod.network.orders import messages
from liqod.network.orders.greeting import ANSWERS, Admitted, Generation, Greeting

R = TypeVar("R")


def hello(generation: int = 1, *, oldest: int = 1, newest: int = 1, of: str = "rome") -> Greeting:
    """What a daemon begins with that was started then."""
    return Greeting(oldest, newest, of, Generation(started=generation))


async def admitted(stream: trio.abc.Stream, greeting: Greeting) -> FrameStream:
    """The connection, which may order. Raises NetworkError: it is denied."""
    connection = FrameStream(stream)
    answer = messages.read(ANSWERS, await connection.greet(greeting))
    if not isinstance(answer, Admitted):
        raise NetworkError(answer.problem)
    assert answer == Admitted(1)
    connection.admit()
    return connection


async def reply(connection: FrameStream, kind: type[R]) -> R:
    """The next reply of a kind; others are passed over."""
    while True:
        found = messages.REPLIES.decode(await connection.receive())
        if isinstance(found, kind):
            return found
