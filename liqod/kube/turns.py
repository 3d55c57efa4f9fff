"""How long one reader may go on before others get their turn, and how much of all time it may take.

Trio runs one task at a time. Who reads what another cluster sends decides by that how long all
others wait; so what is read in one go is bounded, and where more has come than that, the reader
pauses for a multiple of what its turn took, the work that it made for others included.
"""

import time

import trio

TURN_OBJECTS = 64
TURN_BYTES = 262144
"""Objects, or bytes, that are read before others get a turn."""
SHARE = 0.2
"""Part of the time that reading a backlog may take, with what follows from it."""
LONGEST = 1.0
"""Seconds of pause at most for one turn."""


class Budget:
    """The time of one peer, shared by all that is read from it."""

    def __init__(self) -> None:
        self._free = float("-inf")

    async def rest(self, used: float) -> None:
        """Pause for what a turn took that used so many seconds.

        What others did at the end of the turn counts as well: it may follow from what was read,
        and if it does not, there is somebody to make room for.
        """
        began = time.perf_counter()
        await trio.lowlevel.checkpoint()
        used += time.perf_counter() - began
        pause = min(used / SHARE - used, LONGEST)
        self._free = max(self._free, trio.current_time()) + pause
        await trio.sleep_until(self._free)


class Turn:
    """Counts what has been read in this turn, and the time that it took.

    Args:
        budget: the peer's, where it is not this cluster's own API server that is read.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._begin()

    def _begin(self) -> None:
        self._objects = self._bytes = 0
        self._began = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """So long was only waited."""
        self._began += seconds

    async def spend(self, size: int, *, backlog: bool = True) -> None:
        """An object of that many bytes was read; perhaps it is time for others.

        Args:
            size: its bytes.
            backlog: whether more has come already; who keeps up need not pause.
        """
        self._objects += 1
        self._bytes += size
        if self._objects < TURN_OBJECTS and self._bytes < TURN_BYTES:
            return
        if self._budget is None or not backlog:
            await trio.lowlevel.checkpoint()
        else:
            await self._budget.rest(time.perf_counter() - self._began)
        self._begin()
