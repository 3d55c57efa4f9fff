"""Joins two connections: the bytes of each go to the other, unread.

A piece is read when the other side has taken the one before: so little is held, and a slow reader
slows the sender. When one side ends its stream, the end is passed on, and the other side may go on
sending.
"""

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import trio

from liqod.errors import Unreachable
from liqod.kube.http.cpubudget import CpuBudget, Metered
from liqod.kube.http.wire import SocketWire, TlsWire, Wire
from liqod.model.text import printable

PIECE: Final = 32768
"""Most bytes held in each direction (TLS holds as much again, encrypted)."""

T = TypeVar("T")


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


async def splice(
    one: Wire,
    other: Wire,
    *,
    idle: float = float("inf"),
    lingering: float = float("inf"),
    budget: CpuBudget | None = None,
) -> None:
    """Carry bytes in both directions until both have ended; closes neither connection.

    Args:
        one: a connection.
        other: another.
        idle: seconds without a byte after which it ends.
        lingering: likewise, once one side has ended.
        budget: CPU budget that is charged.

    Raises:
        Broken: one of the connections broke.
        Silent: no byte has passed for too long.
    """
    broken: list[Broken] = []
    ended = False
    _read_pieces(one)
    _read_pieces(other)
    async with trio.open_nursery() as nursery:
        scope = nursery.cancel_scope

        def passed() -> None:
            scope.deadline = trio.current_time() + (lingering if ended else idle)

        async def carry(source: Wire, sink: Wire) -> None:
            nonlocal ended
            at = source
            try:
                while True:
                    at = source
                    data = await _spent(source.receive(), budget)
                    at = sink
                    if not data:
                        break
                    await _spent(sink.send(data), budget)
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


def _read_pieces(wire: Wire) -> None:
    """Bound the bytes a connection hands over at once; one that is no socket has its own bound."""
    while isinstance(wire, TlsWire):
        wire = wire.wire
    if isinstance(wire, SocketWire):
        wire.most = PIECE


async def _spent(work: Coroutine[Any, Any, T], budget: CpuBudget | None) -> T:
    """Run a coroutine, and charge its time to the budget."""
    if budget is None:
        return await work
    metered = Metered(work)
    result = await metered
    # As with a backlog: tiny pieces cost by their number.
    await budget.spend(metered.used, backlog=True)
    return result
