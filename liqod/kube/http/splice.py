"""Joins two wires, as :mod:`liqod.runtime.splice`, within a CPU budget and with bounded pieces."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from liqod.kube.http.cpubudget import CpuBudget, Metered
from liqod.kube.http.wire import SocketWire, TlsWire, Wire
from liqod.runtime import splice as connections
from liqod.runtime.splice import PIECE, plainly

T = TypeVar("T")


async def splice(
    one: Wire,
    other: Wire,
    *,
    idle: float = float("inf"),
    lingering: float = float("inf"),
    budget: CpuBudget | None = None,
) -> None:
    """Carry bytes in both directions, as :func:`liqod.runtime.splice.splice`.

    Args:
        one, other, idle, lingering: the same.
        budget: CPU budget that is charged.

    Raises:
        Broken: one of the connections broke.
        Silent: no byte has passed for too long.
    """
    _read_pieces(one)
    _read_pieces(other)
    run = plainly if budget is None else _Charged(budget)
    await connections.splice(one, other, idle=idle, lingering=lingering, run=run)


class _Charged:
    """Runs steps, and charges their time to a budget."""

    def __init__(self, budget: CpuBudget) -> None:
        self._budget = budget

    async def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        metered = Metered(work)
        result = await metered
        # As with a backlog: tiny pieces cost by their number.
        await self._budget.spend(metered.used, backlog=True)
        return result


def _read_pieces(wire: Wire) -> None:
    """Bound the bytes a connection hands over at once; one that is no socket has its own bound."""
    while isinstance(wire, TlsWire):
        wire = wire.wire
    if isinstance(wire, SocketWire):
        wire.most = PIECE
