"""The ShadowPods of peers here that should have a pod and have none, for the doctor."""

from typing import Final

import trio

from liqod.inspect.objectcaches import Cache
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import Key
from liqod.provider.workloads.shadow import TERMINAL, Shadow
from liqod.resources import SHADOW_PODS

UNMADE_AFTER: Final = 60.0
"""Seconds without a pod and without a reason after which a ShadowPod is a fault."""


class LentPods:
    """The ShadowPods here of which no pod is made or that are not read, by consumer.

    Args:
        informers: of this cluster.
        guests: the pods that were made.

    Attributes:
        unmade: ShadowPods that have long had neither a pod nor the reason why not; None: unknown.
        left_out: the kinds of which a consumer has more than is kept in memory.
    """

    def __init__(self, informers: Informers, guests: Cache[str]) -> None:
        self.unmade: dict[str, tuple[str, ...]] | None = None
        self.left_out: dict[str, tuple[str, ...]] = {}
        self._informers = informers
        self._guests = guests
        self._asked = Cache[bool](Shadow, _asks)
        self._since: dict[Key, float] = {}

    async def refresh(self) -> None:
        """Read the changes that the informer reported; those of the pods have been read."""
        found = self._informers.find(SHADOW_PODS)
        self._asked.sit_on(found)
        await self._asked.refresh()
        at = trio.current_time()
        without = self._asked.rows.keys() - self._guests.rows.keys()
        self._since = {key: self._since.get(key, at) for key in without}
        known = found is not None and found.store.synced and not found.problem
        self.unmade = self._long_without(at) if known else None
        self.left_out = self._crowded()

    def _long_without(self, now: float) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        holdings = self._informers.holdings
        for key, since in self._since.items():
            if now - since >= UNMADE_AFTER and holdings is not None:
                found.setdefault(holdings.owner(key[0]), []).append("/".join(key))
        return {peer: tuple(names) for peer, names in found.items()}

    def _crowded(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[str]] = {}
        for each in self._informers.all():
            for peer in () if each.store.part is None else each.store.part.crowded():
                found.setdefault(peer, set()).add(each.kind.plural)
        return {peer: tuple(sorted(kinds)) for peer, kinds in found.items()}


def _asks(found: Shadow) -> bool | None:
    """True for one that should have a pod, or the reason why not."""
    going = found.metadata.deletion_timestamp is not None
    return None if going or found.status.reason or found.status.phase in TERMINAL else True
