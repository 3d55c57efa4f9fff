"""Bounds the turn of one reader before others run, and its share of all CPU time.

Trio runs one task at a time, so all other tasks wait for a reader of another cluster's data. The
data read in one turn is bounded, and if more has come than that, the reader pauses for a multiple
of the time of its turn, the work that it caused for others included.

The CPU time of the thread is counted, not the time that passes: on a busy machine a peer is not
charged for the work of other programs. The call takes 0.3 µs, a clock's 0.1.
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
"""The same in time: data in tiny pieces costs by their number, not by their bytes."""
SHARE = 0.2
"""Share of time that reading a backlog may take, with the work that follows from it."""
LASTING_SHARE = 0.012
"""Share of time that reading from one peer may take in the long run, backlog or not. The work
that follows has a budget of its own: both together are to stay below a twentieth, uncounted work
included."""
CREDIT = 3.0
"""Seconds that a peer may take beyond that: several times the first reading of ten thousand
objects. It grows again at the lasting share."""
LONGEST = 1.0
"""Longest pause in seconds for one turn, while there is credit."""
LONGEST_IN_DEBT = 30.0
"""The same without credit: a turn may have been one object of the largest size."""
FOLLOWS = 4.0
"""Longest work that follows from reading, as a multiple of its time; more is others' own work."""
ASKERS_CREDIT = 1.0
"""Seconds that a client may take at once beyond its share: some two thousand reviews."""
ASKERS_SHARE = 0.02
"""Share of time that it may take in the long run; connections closed at once cost time, too."""
ASKERS = 1024
"""Most sources whose used time is remembered."""

T = TypeVar("T")


class CpuBudget:
    """The CPU time and memory of one peer, shared by all readers of its data.

    Args:
        holdings: counts the bytes held of its objects.
        credit: seconds, if it has less than others.
        share: share of time in the long run, if not the default.
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
        """The part in which a store counts the bytes held of this peer; any excess is refused."""
        return None if self._holdings is None else self._holdings.part(self._refuse)

    def _refuse(self, body: bytes) -> None:
        assert self._holdings is not None
        raise ProtocolError(f"the peer has more for us than is held: {self._holdings}")

    async def rest(self, used: float, *, backlog: bool = True) -> None:
        """Pause after a turn that used so many seconds.

        Others' work at the end of the turn counts as well: it may follow from the data read,
        and if it does not, other tasks need the time. A reader that keeps up pauses only when its
        credit is used up.
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
        """Note time used outside of turns; pause if it adds up, or no credit is left.

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

    @property
    def debt(self) -> float:
        """Seconds until the present debt would be paid."""
        self.charge(0.0)
        return max(-self._credit, 0.0) / self._share

    async def repaid(self) -> None:
        """Wait until the present debt would be paid."""
        await trio.sleep(self.debt)

    def charge(self, used: float) -> None:
        """Note used seconds without a pause; negative seconds are given back."""
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
    """Counts the data read in one turn, and its time.

    Args:
        budget: the peer's; None for this cluster's own API server.
    """

    def __init__(self, budget: CpuBudget | None = None) -> None:
        self._budget = budget
        self._start()

    def _start(self) -> None:
        self._objects = self._bytes = 0
        self._began = clock()

    def exclude(self, seconds: float) -> None:
        """Exclude seconds of waiting."""
        self._began += seconds

    async def spend(self, size: int, *, objects: int = 1, backlog: bool = True) -> None:
        """Count that many bytes as read, and let others run if the turn is over.

        Args:
            size: bytes read.
            objects: number of objects read.
            backlog: whether more has come already; a reader that keeps up need not pause.
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
    """Awaits something and measures its working time, without its waiting time.

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
    """The CPU time of each client address of a server: a credit, and a share in the long run.

    Args:
        credit: seconds that each may take at once beyond its share.
        share: share of time that each may take in the long run.
    """

    def __init__(self, credit: float = ASKERS_CREDIT, share: float = ASKERS_SHARE) -> None:
        self._credit, self._share = credit, share
        self._budgets: dict[str, CpuBudget] = {}

    def of(self, source: str) -> CpuBudget:
        """The CPU time of a source; of very many the oldest is forgotten."""
        found = self._budgets.get(source)
        if found is None:
            found = self._budgets[source] = CpuBudget(credit=self._credit, share=self._share)
            if len(self._budgets) > ASKERS:
                del self._budgets[next(iter(self._budgets))]
        return found
