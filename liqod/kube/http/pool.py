"""The connections of one identity to one server: bounded, reused, replaced on its renewal.

The most recently used connection is taken first, so that unneeded ones grow old and are closed.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from liqod.kube.http.connection import HttpConnection

MAX_IDLE = 60.0
"""Seconds after which an idle connection is closed; API servers do it after 90."""
URGENT_AT_ONCE = 2
"""Connections, beside the others, for urgent requests."""


class Loan(NamedTuple):
    """A connection that is lent."""

    connection: HttpConnection
    generation: int
    gate: trio.Semaphore


class Pool:
    """Lends connections, at most ``limit`` at a time.

    Args:
        dial: makes a new connection; raises the project's errors.
        limit: most lent at once; later requests wait. Urgent ones have their own limit.
    """

    def __init__(self, dial: Callable[[], Awaitable[HttpConnection]], limit: int) -> None:
        self._dial = dial
        self._limit = trio.Semaphore(limit, max_value=limit)
        self._lane = trio.Semaphore(URGENT_AT_ONCE, max_value=URGENT_AT_ONCE)
        self._idle: list[tuple[HttpConnection, float]] = []
        self._generation = 0
        self._closed = False

    async def borrow(self, *, fresh: bool = False, urgent: bool = False) -> Loan:
        """Lend a connection for one exchange; :meth:`give_back` it, whatever its outcome.

        Args:
            fresh: do not take one that was used before.
            urgent: do not wait behind those that are not urgent.
        """
        gate = self._lane if urgent else self._limit
        # The exchange that follows waits for its response: with a place free there is no need for a
        # checkpoint here. A cancelled exchange must not begin, though.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            gate.acquire_nowait()
        except trio.WouldBlock:
            await gate.acquire()
        generation = self._generation
        try:
            connection = None if fresh else self._take()
            if connection is None:
                connection = await self._dial()
        except BaseException:
            gate.release()
            raise
        return Loan(connection, generation, gate)

    def give_back(self, loan: Loan) -> None:
        """Return a connection after its exchange; it is kept if it can serve another."""
        loan.gate.release()
        connection = loan.connection
        if self._closed or loan.generation != self._generation or not connection.reusable:
            connection.close()
            return
        self._idle.append((connection, trio.current_time()))
        self.tidy()

    def renew(self) -> None:
        """Close idle connections now, and lent ones when they come back."""
        self._generation += 1
        self._drop_idle()

    def close(self) -> None:
        """Close all; lent ones when they come back."""
        self._closed = True
        self._drop_idle()

    def tidy(self) -> None:
        """Close the connections that were idle for too long; each use of the pool does so too."""
        oldest = trio.current_time() - MAX_IDLE
        while self._idle and self._idle[0][1] < oldest:
            self._idle.pop(0)[0].close()

    @property
    def lent(self) -> int:
        """The number of connections in use."""
        both = (self._limit, self._lane)
        return sum(int(each.max_value or 0) - each.value for each in both)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a connection."""
        return sum(each.statistics().tasks_waiting for each in (self._limit, self._lane))

    def _take(self) -> HttpConnection | None:
        self.tidy()
        return self._idle.pop()[0] if self._idle else None

    def _drop_idle(self) -> None:
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()
