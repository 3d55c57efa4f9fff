"""The ledger of one consumer, fed with ShadowPods and Quotas as they are in the stores."""

import logging
from typing import Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import ConfigError
from liqod.kube.cache.store import IndexedStore, Key, StoreChange
from liqod.model import ids
from liqod.model.objects import quantities
from liqod.model.peering.quota import Running, complaint, pod_cost
from liqod.model.peering.quotadecision import QuotaDecision
from liqod.provider.slices.demands import Demand, UserGrant
from liqod.provider.slices.quotas import Ledger
from liqod.provider.workloads import shadow as rules
from liqod.provider.workloads.shadow import GuestPod, Shadow
from liqod.resources import Quota
from liqod.resources.offloading import ENFORCE_NONE

TURN = 64
"""Pods booked at start before other tasks get a turn."""

logger = logging.getLogger(__name__)
_quota = msgspec.json.Decoder(Quota)


class QuotaLedger:
    """Bookings of one consumer's ShadowPods.

    Args:
        consumer: its cluster id.
    """

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        self._ledger = Ledger()

    def quota_changed(self, change: StoreChange) -> None:
        """Take in a change of a Quota of the consumer's tenant namespace."""
        old = None if change.old is None else _quota.decode(change.old)
        new = None if change.new is None else _quota.decode(change.new)
        if old is not None and (new is None or new.spec.user != old.spec.user):
            self._ledger.revoke(old.spec.user)
        if new is not None:
            self._ledger.grant(grant(new))

    def hold(self, key: Key, found: Shadow | GuestPod, *, again: bool = True) -> bool:
        """Book a pod that exists; ``again=False`` leaves one alone that is booked already.

        A pod that is being resized counts as what it has or as what it is to have, whichever is
        more. Returns whether that leaves more for others.

        Args:
            key: the ShadowPod.
            found: the pod itself, wherever it is known: its ShadowPod may now state less
                than what the pod was made with.
            again: whether it is booked anew.
        """
        if not again and self._ledger.holds(key):
            return False
        if isinstance(found, GuestPod):
            spec, running = found.spec, rules.running(found)
        else:
            spec, running = found.spec.pod, {}
        try:
            return self._ledger.hold(key, self._demand(found.metadata, _spec(spec), running))
        except ConfigError as error:
            logger.warning("pod %s/%s is not counted: %s", *key, error)
            return False

    async def hold_existing(
        self, namespace: str, shadows: IndexedStore, pods: IndexedStore
    ) -> None:
        """Book existing pods of a namespace, regardless of the bounds."""
        found = frozenset().union(
            *(each.indexed("namespace", namespace) for each in (shadows, pods))
        )
        for number, key in enumerate(found, 1):
            pod, shadow = pods.decode(key, GuestPod), shadows.decode(key, Shadow)
            if pod is not None and rules.uses_resources(pod):
                self.hold(key, pod)
            elif shadow is not None and shadow.status.phase == "Running":
                self.hold(key, shadow)
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()

    def book(self, key: Key, shadow: Shadow) -> QuotaDecision:
        """Book a pod that is to be made, or give the reason that it waits."""
        try:
            spec = _spec(shadow.spec.pod)
            demand = self._demand(shadow.metadata, spec)
            unstated = complaint(spec, self._ledger.enforcement(demand.user))
        except ConfigError as error:
            return QuotaDecision(False, rules.REFUSED, str(error))
        return self._ledger.book(key, demand, unstated)

    def grow(self, key: Key, spec: dict[str, Any]) -> QuotaDecision:
        """Book the growth of a running pod, or give the reason that it may not grow.

        Args:
            key: its ShadowPod.
            spec: as the pod is to be.
        """
        try:
            cost = pod_cost(spec)
            unstated = complaint(spec, self._ledger.enforcement(self._ledger.booked_on(key)))
        except ConfigError as error:
            return QuotaDecision(False, rules.REFUSED, str(error))
        return self._ledger.grow(key, tuple(sorted(cost.items())), unstated)

    def holds(self, key: Key) -> bool:
        """True if a pod is booked."""
        return self._ledger.holds(key)

    def release(self, key: Key) -> bool:
        """Take a pod off; whether that leaves more for others."""
        return self._ledger.release(key)

    def mark_unplaced(self, key: Key, *, unplaced: bool) -> bool:
        """Note if no node has room for a pod; whether others may have room now for that."""
        return self._ledger.mark_unplaced(key, unplaced=unplaced)

    def displaced(self, key: Key) -> list[Key]:
        """The pods that have to give way to a smaller one that waits."""
        return self._ledger.displaced(key)

    def ready(self) -> list[Key]:
        """The pods that wait and would be admitted now, as far as one call looks."""
        return self._ledger.ready()

    @property
    def unfinished(self) -> bool:
        """True if another call of :meth:`ready` has more to look at."""
        return self._ledger.unfinished

    def waiting(self) -> list[Key]:
        """All pods that wait."""
        return list(self._ledger.waiting())

    def within(self, namespace: str) -> list[Key]:
        """The pods of a namespace that are booked or wait."""
        return self._ledger.within(namespace)

    def _demand(
        self, metadata: ObjectMeta, spec: dict[str, Any], running: Running | None = None
    ) -> Demand:
        cost = pod_cost(spec, running or {})
        return Demand(self._user(metadata), tuple(sorted(cost.items())))

    def _user(self, metadata: ObjectMeta) -> str:
        """The user that the label names, or that of the slice which the virtual node is named by.

        A Liqo consumer sets no label of creator (Liqo's own webhook does that), or has copied that
        of its own guest, which names no user here; its virtual nodes mostly have the names of their
        slices. Otherwise all slices of the consumer are booked.
        """
        user = metadata.labels.get(labels.CREATOR_USER, "")
        if ids.is_slice_user(user, self._consumer):
            return user
        guess = ids.slice_user(metadata.labels.get(labels.NODE_NAME, ""), self._consumer)
        return guess if self._ledger.grant_of(guess) is not None else ""


def _spec(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"the pod's spec is no object: {error}") from error


def grant(quota: Quota) -> UserGrant:
    """The grant of a Quota; nothing where its quantities cannot be read."""
    spec = quota.spec
    try:
        amounts = quantities.parse_all(spec.resources)
    except ConfigError as error:
        logger.warning("Quota %s/%s grants nothing: %s", quota.namespace, quota.name, error)
        amounts = {}
    return UserGrant(
        spec.user, amounts, spec.limits_enforcement or ENFORCE_NONE, bool(spec.cordoned)
    )
