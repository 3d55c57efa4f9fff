"""Bounds the daemon's time that one consumer's edits of existing objects may take.

A pod is made once and ends once, and quotas bound how many there are; but its labels and
annotations can be edited without end, and each time a Pod has to follow. So an edit waits its turn
beside the others of the same consumer, and none gets one while they have had their share. A change
that makes, ends or frees something never waits here.
"""

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec

from liqod.apimachinery.meta import ObjectMeta
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller, ControllerHost
from liqod.kube.http.cpubudget import CpuBudget, Metered
from liqod.kube.queue import KeyedQueue

T = TypeVar("T")

CREDIT: Final = 0.5
"""Seconds that edits may take at once: some hundreds of them."""
SHARE: Final = 0.004
"""Part of the time that they may take in the long run; reading fifty of them a second, which is to
be done at once, costs some three times as much."""


class _EditedObject(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: msgspec.Raw = msgspec.Raw(b"{}")


_decoder = msgspec.json.Decoder(_EditedObject)


class EditLimiter(Controller[Key]):
    """Gives the edits of one consumer's objects their turns among the other work for it.

    Args:
        host: the consumer.
        queue: receives an edit when it is its turn.
        credit: seconds of the processor that edits may take at once.
    """

    def __init__(
        self, host: ControllerHost, queue: KeyedQueue[Key], credit: float = CREDIT
    ) -> None:
        super().__init__(host, "edits")
        self._turns = queue
        self._budget = CpuBudget(credit=credit, share=SHARE)
        self._counted: set[Key] = set()

    async def reconcile(self, key: Key) -> None:
        """Wait until there is time for an edit, and give it its turn."""
        await self._budget.repaid()
        self._counted.add(key)
        self._turns.add(key)

    async def meter(self, key: Key, work: Coroutine[Any, Any, T]) -> T:
        """Do the work for a key that had its turn, and count the time where it is an edit."""
        if key not in self._counted:
            return await work
        self._counted.discard(key)
        metered = Metered(work)
        try:
            return await metered
        finally:
            self._budget.charge(metered.used)


def is_edit(change: StoreChange, *, status: bool = True) -> bool:
    """True if an object changed that existed and stays.

    Args:
        change: the change.
        status: whether a new status is an edit, too.
    """
    if change.old is None or change.new is None:
        return False
    old, new = _decoder.decode(change.old), _decoder.decode(change.new)
    if old.metadata.uid != new.metadata.uid or not (status or old.status == new.status):
        return False
    return old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
