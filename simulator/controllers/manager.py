"""Runs the controllers: keys that are due, one task, no timer while nothing is due.

Reconciling is synchronous, since objects are in this process, except where an admission webhook
may have to be asked: such a step is run beside the others, never twice for one key.
"""

import heapq
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol

import trio

from simulator.storage.storage import Change
from simulator.wire.failures import ApiError

log = logging.getLogger(__name__)

RETRY = 0.5
"""Seconds until a failed key is tried again."""


class Controller(Protocol):
    """One concern: from a key to what should be."""

    def reconcile(self, key: Any) -> Awaitable[float | None] | float | None:
        """Make it so; returns seconds until the key is due again, or None.

        Raises:
            ApiError: a write was refused; the key is tried again.
        """
        ...


Entry = tuple[Controller, Hashable]


class Manager:
    """The queue and the task of a cluster's controllers.

    Attributes:
        caught_up: all that was due at the start has been done.
    """

    def __init__(self) -> None:
        self.caught_up = trio.Event()
        self._due: dict[Entry, float] = {}
        self._heap: list[tuple[float, int, Entry]] = []
        self._sequence = 0
        self._busy: set[Entry] = set()
        self._wake = trio.Event()

    def add(self, controller: Controller, key: Hashable, after: float = 0.0) -> None:
        """Have a key reconciled, at the earliest time that anybody asked for."""
        entry = (controller, key)
        due = trio.current_time() + after
        known = self._due.get(entry)
        if known is not None and known <= due:
            return
        self._due[entry] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, entry))
        self._wake.set()

    def follow(
        self,
        listeners: list[Callable[[Change], None]],
        controller: Controller,
        keys: Callable[[Change], Hashable | None],
    ) -> None:
        """Have a controller reconcile a key for each change of a collection."""

        def listen(change: Change) -> None:
            key = keys(change)
            if key is not None:
                self.add(controller, key)

        listeners.append(listen)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reconcile what is due, until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                entry = await self._next()
                controller, key = entry
                try:
                    result = controller.reconcile(key)
                except ApiError as error:
                    self._failed(entry, error)
                    continue
                except Exception:  # a wall: an object that one controller chokes on stops no other
                    log.exception("controller failed", extra={"key": str(key)})
                    continue
                if result is None:
                    continue
                if isinstance(result, Awaitable):
                    self._busy.add(entry)
                    nursery.start_soon(self._finish, entry, result)
                else:
                    self.add(controller, key, result)

    async def _next(self) -> Entry:
        """The next entry that is due and not being worked at."""
        while True:
            await trio.lowlevel.checkpoint()
            self._wake = trio.Event()
            deadline = float("inf")
            blocked: list[tuple[float, int, Entry]] = []
            found: Entry | None = None
            while self._heap and found is None:
                due, _, entry = self._heap[0]
                if self._due.get(entry) != due:
                    heapq.heappop(self._heap)
                elif due > trio.current_time():
                    deadline = due
                    break
                elif entry in self._busy:
                    blocked.append(heapq.heappop(self._heap))
                else:
                    heapq.heappop(self._heap)
                    del self._due[entry]
                    found = entry
            for each in blocked:
                heapq.heappush(self._heap, each)
            if found is not None:
                return found
            self.caught_up.set()
            with trio.move_on_at(deadline):
                await self._wake.wait()

    async def _finish(self, entry: Entry, step: Awaitable[float | None]) -> None:
        try:
            again = await step
        except ApiError as error:
            self._failed(entry, error)
        except Exception:  # the same wall
            log.exception("controller failed", extra={"key": str(entry[1])})
        else:
            if again is not None:
                self.add(*entry, again)
        finally:
            self._busy.discard(entry)
            self._wake.set()

    def _failed(self, entry: Entry, error: ApiError) -> None:
        log.debug("%s %s: %s", type(entry[0]).__name__, entry[1], error)
        self.add(*entry, RETRY)
