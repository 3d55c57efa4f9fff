"""A queue of keys: duplicates collapse, one worker at a time has a key, a failing key waits.

Level-triggered: a key means only "reconcile this"; the worker reads the current state. A key
that is added while a worker has it runs once more afterwards.
"""

import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import trio

from liqod.errors import Overloaded, PluginError
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import PEER
from liqod.telemetry import registry
from liqod.telemetry.histogram import Histogram

K = TypeVar("K", bound=Hashable)

SLOWEST_KEPT = 10
"""Seconds that :meth:`KeyedQueue.slowest` remembers, of those in which a key was done."""
SPARE = 64
"""Entries beyond twice the waiting keys that the heap may have before it is rebuilt."""

log = logging.getLogger(__name__)


class KeyedQueue(Generic[K]):
    """Keys that wait for a worker.

    Args:
        backoff: pauses of a key that fails.
        name: its name in the inspector, after its keys.

    Attributes:
        done: number of successes of the worker.
        failed: number of its failures.
        worked: Trio time of the last success.
        delays: seconds of keys from their due time to their success.
    """

    def __init__(self, backoff: Backoff = Backoff(), *, name: str = "") -> None:  # noqa: B008  # frozen
        self.name = name
        self._backoff = backoff
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._busy: set[K] = set()
        self._failures: dict[K, int] = {}
        self._apart = 0.0
        self._taken: dict[K, float] = {}
        """The times at which keys were taken, for as long as they count; the earliest first."""
        self._numbers = itertools.count()
        self._wake = trio.Event()
        self.done = self.failed = 0
        self.worked = float("-inf")
        self._slowest: deque[tuple[int, float]] = deque(maxlen=SLOWEST_KEPT)
        self.delays = Histogram()

    def add(self, key: K, *, after: float = 0.0, apart: float = 0.0) -> None:
        """Add a key; of two due times the earlier counts.

        Args:
            key: the key.
            after: seconds until it is due.
            apart: seconds from when a worker last took it until it is due again: what happens once
                is done at once, and what happens often is taken together.
        """
        due = trio.current_time() + after
        if apart:
            self._apart = max(self._apart, apart)
            due = max(due, self._taken.get(key, float("-inf")) + apart)
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        if key not in self._busy:
            self._push(key, due)

    def __len__(self) -> int:
        """The number of waiting keys, those that are not yet due included."""
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    @property
    def busy(self) -> int:
        """The number of keys in work."""
        return len(self._busy)

    @property
    def waiting(self) -> int:
        """The number of keys that are due, or have failed; without those not yet due."""
        now = trio.current_time()
        return sum(due <= now or key in self._failures for key, due in self._due.items())

    @property
    def oldest(self) -> float:
        """Seconds that the longest waiting key is overdue; 0 without one."""
        self._prune()
        return max(0.0, trio.current_time() - self._heap[0][0]) if self._heap else 0.0

    def slowest(self, begin: int, end: int) -> float:
        """The longest time from due to done, of the keys done between two seconds.

        Args:
            begin: whole second of Trio's clock, the first that counts.
            end: the first that does not count.

        Returns:
            Seconds; 0 if none was done, or the time is no longer remembered.
        """
        return max((took for at, took in self._slowest if begin <= at < end), default=0.0)

    def failures(self, key: K) -> int:
        """The number of failures of a key in a row."""
        return self._failures.get(key, 0)

    def discard(self, key: K) -> None:
        """Forget a key, unless a worker has it."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    async def run(
        self,
        worker: Callable[[K], Awaitable[float | None]],
        *,
        concurrency: int = 1,
        on_error: Callable[[K, Exception], None] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Work until cancelled.

        Args:
            worker: gets a key; returns the seconds after which the key is due again, or None. Its
                errors do not end the queue: the key is retried after a pause that doubles.
            concurrency: most keys in work at once.
            on_error: called with each error; without it they are logged.
            task_status: started at once.
        """
        work = partial(self._work_on, worker, on_error or _log)
        with registry.current().of(RunningQueue).holding(RunningQueue(self, PEER.get())):
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    key, due = await self._next(concurrency)
                    nursery.start_soon(self._work, key, due, work)
        raise AssertionError("the nursery ends by cancellation only")

    async def _next(self, concurrency: int) -> tuple[K, float]:
        """Wait for a free worker and a due key; returns the earliest one and its due time."""
        while True:
            free = len(self._busy) < concurrency
            if free and (taken := self._take()) is not None:
                return taken
            self._wake = trio.Event()
            with trio.move_on_at(self._heap[0][0] if free and self._heap else float("inf")):
                await self._wake.wait()

    def _take(self) -> tuple[K, float] | None:
        """Take the earliest due key, with its due time; a worker has it now."""
        self._prune()
        if not self._heap or self._heap[0][0] > trio.current_time():
            return None
        _, _, key = heapq.heappop(self._heap)
        self._busy.add(key)
        if self._apart:
            self._note(key)
        return key, self._due.pop(key)

    def _note(self, key: K) -> None:
        """Take note of the time at which a key is taken."""
        now, taken = trio.current_time(), self._taken
        taken.pop(key, None)
        taken[key] = now
        while taken[first := next(iter(taken))] < now - self._apart:
            del taken[first]

    async def _work(self, key: K, due: float, work: Callable[[K, float], Awaitable[None]]) -> None:
        """Work on a key, and on others as long as some are due: a task of its own costs more."""
        while True:
            await work(key, due)
            taken = self._take()
            if taken is None:
                break
            key, due = taken
            # A cancellation waits for the work, which gives the key back.
            await trio.lowlevel.cancel_shielded_checkpoint()
        self._wake.set()

    async def _work_on(
        self,
        worker: Callable[[K], Awaitable[float | None]],
        on_error: Callable[[K, Exception], None],
        key: K,
        due: float,
    ) -> None:
        again: float | None = None
        try:
            again = await worker(key)
            self._failures.pop(key, None)
            self._succeeded(due)
        except* Exception as group:
            error = _only(group)
            again = self._fail(key, error)
            on_error(key, error)
        finally:
            self._busy.discard(key)
            if (waits := self._due.get(key)) is not None:
                self._push(key, waits)
        if again is not None:
            self.add(key, after=again)

    def _succeeded(self, due: float) -> None:
        self.done += 1
        self.worked = trio.current_time()
        took = max(self.worked - due, 0.0)
        second, slowest = int(self.worked), self._slowest
        if not slowest or slowest[-1][0] != second:
            slowest.append((second, took))
        elif took > slowest[-1][1]:
            slowest[-1] = (second, took)
        self.delays.add(took)

    def _fail(self, key: K, error: Exception) -> float:
        """The pause after one more failure."""
        self.failed += 1
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = self._backoff.delay(failures)
        asked = error.retry_after if isinstance(error, Overloaded | PluginError) else None
        return max(pause, asked or 0.0)

    def _push(self, key: K, due: float) -> None:
        if len(self._heap) > SPARE + 2 * len(self._due):  # left behind by keys that came sooner
            waiting = self._due.items()
            self._heap = [(at, next(self._numbers), k) for k, at in waiting if k not in self._busy]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (due, next(self._numbers), key))
        if self._heap[0][2] == key:
            self._wake.set()

    def _prune(self) -> None:
        """Drop outdated heap entries: of keys in work, moved forward or discarded."""
        heap = self._heap
        while heap and (heap[0][2] in self._busy or self._due.get(heap[0][2]) != heap[0][0]):
            heapq.heappop(heap)


def _log(key: Hashable, error: Exception) -> None:
    log.warning("key failed", extra={"key": key, "reason": str(error)})


def _only(group: BaseExceptionGroup[Exception]) -> Exception:
    """The error of a group of one; the group otherwise."""
    error: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error


class RunningQueue(NamedTuple):
    """The registry entry of a queue in use.

    Attributes:
        queue: the queue, named after its purpose.
        peer: the peer that its tasks work for, if any.
    """

    queue: KeyedQueue[Any]
    peer: str
