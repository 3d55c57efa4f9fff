"""Joins two connections: the bytes of each go to the other, unread.

A piece is read when the other side has taken the one before: so little is held, and a slow reader
slows the sender. When one side ends its stream, the end is passed on, and the other side may go on
sending.
"""

from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar

import trio

from liqod.errors import Unreachable
from liqod.model.text import printable

PIECE: Final = 32768
"""Most bytes held in each direction (TLS holds as much again, encrypted)."""

T = TypeVar("T")


class End(Protocol):
    """One connection; each method raises Unreachable where it broke."""

    async def receive(self) -> bytes:
        """Some bytes; none at the end of the stream."""

    async def send(self, data: bytes, /) -> None:
        """Send all of the bytes."""

    async def finish(self) -> None:
        """End the stream of what is sent."""


class Run(Protocol):
    """Runs each step of a splice."""

    async def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Run it, and return its result."""


class Broken(Unreachable):
    """One of the two connections broke.

    Attributes:
        first: whether it is the first of them.
    """

    def __init__(self, message: str, *, first: bool) -> None:
        super().__init__(message)
        self.first = first


class Silent(Unreachable):
    """No byte has passed for so long that the connections are released."""


async def plainly(work: Coroutine[Any, Any, T], /) -> T:
    """Run a step, and nothing besides."""
    return await work


async def splice(
    one: End,
    other: End,
    *,
    idle: float = float("inf"),
    lingering: float = float("inf"),
    run: Run = plainly,
) -> None:
    """Carry bytes in both directions until both have ended; closes neither connection.

    Args:
        one: a connection.
        other: another.
        idle: seconds without a byte after which it ends.
        lingering: likewise, once one side has ended.
        run: runs each step.

    Raises:
        Broken: one of the connections broke.
        Silent: no byte has passed for too long.
    """
    broken: list[Broken] = []
    ended = False
    async with trio.open_nursery() as nursery:
        scope = nursery.cancel_scope

        def passed() -> None:
            scope.deadline = trio.current_time() + (lingering if ended else idle)

        async def carry(source: End, sink: End) -> None:
            nonlocal ended
            at = source
            try:
                while True:
                    at = source
                    data = await run(source.receive())
                    at = sink
                    if not data:
                        break
                    await run(sink.send(data))
                    del data  # else it is held as long as nothing comes
                    passed()
                await sink.finish()
            except Unreachable as error:
                broken.append(Broken(printable(str(error)), first=at is one))
                scope.cancel()
            ended = True
            passed()

        passed()
        nursery.start_soon(carry, other, one)
        await carry(one, other)
    if broken:
        raise broken[0]
    if scope.cancelled_caught:
        raise Silent("nothing has passed for too long")
