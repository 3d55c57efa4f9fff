"""How long one reader may go on before others get their turn, and how much of all time it may take.

Trio runs one task at a time. A reader of another cluster's data decides by that how long all
others wait; so what is read in one go is bounded, and where more has come than that, the reader
pauses for a multiple of what its turn took, the work that it made for others included.

The CPU time of the thread is counted, not the time that passes: on a busy machine a peer is not
charged for what other programs do meanwhile. The call takes 0.3 µs, a clock's 0.1.
"""

import functools
from collections.abc import Callable, Coroutine, Generator
from time import thread_time as clock
from typing import Any, Generic, TypeVar

import trio

from liqod.errors import ProtocolError
from liqod.kube.cache.memoryquota import MemoryQuota, StoreUsage

TURN_OBJECTS = 64
TURN_BYTES = 262144
"""Objects, or bytes, that are read before others get a turn."""
TURN_SECONDS = 0.02
"""The same in time: what is sent in crumbs costs by their number, not by their bytes."""
SHARE = 0.2
"""Part of the time that reading a backlog may take, with what follows from it."""
LASTING_SHARE = 0.012
"""Part of the time that reading from one peer may take in the long run, backlog or not. The work
that follows has a budget of its own: both together are to stay below a twentieth, with what is
not counted."""
CREDIT = 3.0
"""Seconds that a peer may take beyond that: what the first reading of ten thousand objects takes
several times over. It grows again at the lasting share."""
LONGEST = 1.0
"""Seconds of pause at most for one turn, while there is credit."""
LONGEST_IN_DEBT = 30.0
"""The same without: a turn may have been one object of the largest size."""
FOLLOWS = 4.0
"""How many times the time of reading may be what follows from it; more is others' own work."""
ASKERS_CREDIT = 1.0
"""Seconds that who asks a server may take at once beyond its share: some two thousand reviews."""
ASKERS_SHARE = 0.02
"""Part of the time that it may take in the long run; what is closed at once costs something too."""
ASKERS = 1024
"""Sources of which it is known how much time they had."""

T = TypeVar("T")


class CpuBudget:
    """The time of one peer, shared by all that is read from it, and the memory.

    Args:
        holdings: where what is held of its objects is counted.
        credit: seconds, where it has less than others.
        share: part of the time in the long run, where it is not that of others.
    """

    def __init__(
        self,
        holdings: MemoryQuota | None = None,
        credit: float = float("inf"),
        share: float | None = None,
    ) -> None:
        self._holdings = holdings
        self._most = min(credit, CREDIT)
        self._share = LASTING_SHARE if share is None else share
        self._free = self._counted = float("-inf")
        self._credit = self._most
        self._unrested = 0.0

    @property
    def spent(self) -> bool:
        """True if there is no credit left."""
        self.charge(0.0)
        return self._credit < 0

    def part(self) -> StoreUsage | None:
        """The part in which a store counts what it holds of this peer; any excess is refused."""
        return None if self._holdings is None else self._holdings.part(self._refuse)

    def _refuse(self, body: bytes) -> None:
        assert self._holdings is not None
        raise ProtocolError(f"the peer has more for us than is held: {self._holdings}")

    async def rest(self, used: float, *, backlog: bool = True) -> None:
        """Pause for what a turn took that used so many seconds.

        Others' work at the end of the turn counts as well: it may follow from what was read,
        and if it does not, there is somebody to make room for. A reader that keeps up
        pauses only when its credit is used up.
        """
        began = clock()
        await trio.lowlevel.checkpoint()
        others = clock() - began
        self.charge(used + min(others, FOLLOWS * used))
        if self._credit < 0:
            await self._pause(min(used / self._share - used, LONGEST_IN_DEBT))
        elif backlog:
            used += others
            await self._pause(min(used / SHARE - used, LONGEST))

    async def spend(self, used: float, *, backlog: bool = False) -> None:
        """Note time that was used outside of turns; pause where it adds up, or no credit is left.

        Args:
            used: seconds.
            backlog: whether more has come already.
        """
        self.charge(used)
        self._unrested += used
        if self._credit < 0:
            await self._pause(min(used / self._share, LONGEST_IN_DEBT))
        elif backlog and self._unrested >= TURN_SECONDS:
            await self._pause(min(self._unrested / max(SHARE, self._share), LONGEST))

    async def repaid(self) -> None:
        """Wait until what is owed now would be paid."""
        self.charge(0.0)
        await trio.sleep(max(-self._credit, 0.0) / self._share)

    def charge(self, used: float) -> None:
        """Note seconds that were used, and pause nobody; fewer than none are given back."""
        now = trio.current_time()
        if now > self._counted:
            grown = self._credit + (now - self._counted) * self._share
            self._credit, self._counted = min(self._most, grown), now
        self._credit = min(self._most, self._credit - used)

    async def _pause(self, seconds: float) -> None:
        self._unrested = 0.0
        self._free = max(self._free, trio.current_time()) + seconds
        await trio.sleep_until(self._free)


class Turn:
    """Counts what has been read in this turn, and the time that it took.

    Args:
        budget: the peer's, where it is not this cluster's own API server that is read.
    """

    def __init__(self, budget: CpuBudget | None = None) -> None:
        self._budget = budget
        self._start()

    def _start(self) -> None:
        self._objects = self._bytes = 0
        self._began = clock()

    def exclude(self, seconds: float) -> None:
        """Leave out seconds in which it only waited."""
        self._began += seconds

    async def spend(self, size: int, *, objects: int = 1, backlog: bool = True) -> None:
        """Something of that many bytes was read; perhaps it is time for others.

        Args:
            size: its bytes.
            objects: how many objects it is.
            backlog: whether more has come already; who keeps up need not pause.
        """
        self._objects += objects
        self._bytes += size
        used = clock() - self._began
        if self._objects < TURN_OBJECTS and self._bytes < TURN_BYTES and used < TURN_SECONDS:
            return
        if self._budget is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._budget.rest(used, backlog=backlog)
        self._start()


class Metered(Generic[T]):
    """Awaits something and measures the time that it works, without that in which it waits.

    Attributes:
        used: seconds so far.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.used = 0.0
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = functools.partial(self._work.send, None)
        while True:
            began = clock()
            try:
                waits_for = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.used += clock() - began
            try:
                step = functools.partial(self._work.send, (yield waits_for))
            except BaseException as error:
                step = functools.partial(self._work.throw, error)


class SourceBudgets:
    """The time of each source that asks a server: a credit, and a share in the long run.

    Args:
        credit: seconds that each may take at once beyond its share.
        share: part of the time that each may take in the long run.
    """

    def __init__(self, credit: float = ASKERS_CREDIT, share: float = ASKERS_SHARE) -> None:
        self._credit, self._share = credit, share
        self._budgets: dict[str, CpuBudget] = {}

    def of(self, source: str) -> CpuBudget:
        """The time of a source; of very many the one that came first is forgotten."""
        found = self._budgets.get(source)
        if found is None:
            found = self._budgets[source] = CpuBudget(credit=self._credit, share=self._share)
            if len(self._budgets) > ASKERS:
                del self._budgets[next(iter(self._budgets))]
        return found
