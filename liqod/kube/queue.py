"""A queue of keys: duplicates collapse, one worker at a time has a key, a failing key waits.

Level-triggered: a key says only "look at this"; the worker reads what is so now. Whatever happens
while a worker has a key makes it run once more afterwards.
"""

import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NoReturn, TypeVar

import trio

from liqod.errors import Overloaded
from liqod.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

SPARE = 64
"""How many more places than twice the waiting keys the heap may have before it is made anew."""

log = logging.getLogger(__name__)


class KeyedQueue(Generic[K]):
    """Keys that wait for a worker.

    Args:
        backoff: pauses of a key that fails.
    """

    def __init__(self, backoff: Backoff = Backoff()) -> None:  # noqa: B008  # frozen
        self._backoff = backoff
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._busy: set[K] = set()
        self._failures: dict[K, int] = {}
        self._numbers = itertools.count()
        self._wake = trio.Event()

    def add(self, key: K, *, after: float = 0.0) -> None:
        """Have a key worked on, in ``after`` seconds; of two such wishes the earlier counts."""
        due = trio.current_time() + after
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        if key not in self._busy:
            self._push(key, due)

    def __len__(self) -> int:
        """How many keys wait, also those that wait for a time to come."""
        return len(self._due)

    def __contains__(self, key: object) -> bool:
        return key in self._due

    @property
    def oldest(self) -> float:
        """Seconds that the key which waits longest is overdue, 0 when none is."""
        self._prune()
        return max(0.0, trio.current_time() - self._heap[0][0]) if self._heap else 0.0

    def failures(self, key: K) -> int:
        """How often a key failed in a row."""
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
            worker: gets a key; gives the seconds after which it wants it again, or None. An error
                of its does not end the queue: the key comes again, after a pause that doubles.
            concurrency: how many keys are worked on at once.
            on_error: told of each error; without it they are logged.
            task_status: started at once.
        """
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                key = await self._next(concurrency)
                self._busy.add(key)
                nursery.start_soon(self._work, key, worker, on_error)
        raise AssertionError("the nursery ends by cancellation only")

    async def _next(self, concurrency: int) -> K:
        """The earliest key that is due, when there is a worker for it."""
        while True:
            self._prune()
            due = self._heap[0][0] if self._heap else float("inf")
            free = len(self._busy) < concurrency
            if free and due <= trio.current_time():
                _, _, key = heapq.heappop(self._heap)
                del self._due[key]
                return key
            self._wake = trio.Event()
            with trio.move_on_at(due if free else float("inf")):
                await self._wake.wait()

    async def _work(
        self,
        key: K,
        worker: Callable[[K], Awaitable[float | None]],
        on_error: Callable[[K, Exception], None] | None,
    ) -> None:
        again: float | None = None
        try:
            again = await worker(key)
            self._failures.pop(key, None)
        except* Exception as group:
            error = _only(group)
            again = self._fail(key, error)
            if on_error is not None:
                on_error(key, error)
            else:
                log.warning("key failed", extra={"key": key, "reason": str(error)})
        finally:
            self._busy.discard(key)
            if (due := self._due.get(key)) is not None:
                self._push(key, due)
            self._wake.set()
        if again is not None:
            self.add(key, after=again)

    def _fail(self, key: K, error: Exception) -> float:
        """The pause after one more failure."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        pause = self._backoff.delay(failures)
        asked = error.retry_after if isinstance(error, Overloaded) else None
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
        """Drop what is on the heap no more as it was: worked on, moved forward or discarded."""
        heap = self._heap
        while heap and (heap[0][2] in self._busy or self._due.get(heap[0][2]) != heap[0][0]):
            heapq.heappop(heap)


def _only(group: BaseExceptionGroup[Exception]) -> Exception:
    """The error of a group of one; the group otherwise."""
    error: Exception | BaseExceptionGroup[Exception] = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    assert isinstance(error, Exception)
    return error
