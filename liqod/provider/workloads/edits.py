"""Edits of what is there already: how much of the daemon's time one consumer's may take.

A pod is made once and ends once, and quotas bound how many there are; but its labels and
annotations can be edited without end, and each time a Pod has to follow. So an edit waits its turn
beside the others of the same consumer, and none gets one while they have had their share. What
makes, ends or frees something never waits here.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.kube.cache.store import Change, Key
from liqod.kube.http.turns import Budget, Metered
from liqod.kube.meta import ObjectMeta
from liqod.kube.queue import KeyedQueue

CREDIT: Final = 0.5
"""Seconds that edits may take at once: some hundreds of them."""
SHARE: Final = 0.01
"""Part of the time that they may take in the long run; reading fifty of them a second, which is to
be done at once, costs some three times as much."""

Work = Callable[[Key], Coroutine[Any, Any, float | None]]


class _Seen(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(_Seen)


class Edits:
    """The edits of one consumer's objects.

    Args:
        queue: where an edit goes when it is its turn.
    """

    def __init__(self, queue: KeyedQueue[Key]) -> None:
        self._queue = queue
        self._waiting: KeyedQueue[Key] = KeyedQueue(name="edits")
        self._budget = Budget(credit=CREDIT, share=SHARE)
        self._counted: set[Key] = set()

    def add(self, key: Key) -> None:
        """Have an edited object worked on when there is time."""
        self._waiting.add(key)

    async def run(
        self,
        worker: Work,
        *,
        concurrency: int,
        on_error: Callable[[Key, Exception], None],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Run the queue with that worker until cancelled, and give edits their turns in it."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._waiting.run, self._turn)
            await self._queue.run(
                partial(self._work, worker),
                concurrency=concurrency,
                on_error=on_error,
                task_status=task_status,
            )
        raise AssertionError("the queue ends by cancellation only")

    async def _work(self, worker: Work, key: Key) -> float | None:
        """Work on a key, and count the time where it is an edit."""
        if key not in self._counted:
            return await worker(key)
        self._counted.discard(key)
        metered = Metered(worker(key))
        try:
            return await metered
        finally:
            self._budget.charge(metered.used)

    async def _turn(self, key: Key) -> None:
        await self._budget.repaid()
        self._counted.add(key)
        self._queue.add(key)


def is_edit(change: Change, *, told: bool = True) -> bool:
    """Whether an object changed that was there and stays.

    Args:
        change: what happened.
        told: whether a new status is an edit, too.
    """
    if change.old is None or change.new is None:
        return False
    old, new = _decoder.decode(change.old), _decoder.decode(change.new)
    if old.metadata.uid != new.metadata.uid or not (told or old.status == new.status):
        return False
    return old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
