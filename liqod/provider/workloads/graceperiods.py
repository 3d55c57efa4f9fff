"""Bounds the grace of guests' pods that end: as the consumer requests, up to the cap here."""

from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.store import Key, StoreChange
from liqod.model.crossing import graces
from liqod.model.objects.partial import PodSpec
from liqod.provider.workloads.shadow import GuestPod

MIN_GRACE: Final = 1
"""Seconds; with none a Pod would be off the API server, and off the books, while it still runs."""
_KEY: Final = labels.DELETION_GRACE.encode()


class GracePeriods:
    """The grace of the pods of one peer's ShadowPods.

    Args:
        most: the longest that a pod may take to end, in seconds.

    Attributes:
        requested: those of ShadowPods, also of deleted ones whose pods still exist: their
            UID, and the grace.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.requested: dict[Key, tuple[str, int]] = {}

    def update(self, change: StoreChange) -> None:
        """Record the requested grace of a ShadowPod that changed or went."""
        body = change.new or change.old
        if body is None or _KEY not in body:
            return
        meta = msgspec.json.decode(body, type=Partial).metadata
        grace = graces.noted(meta.annotations)
        if grace is not None:
            self.requested[change.key] = (meta.uid, grace)

    def exceeds(self, key: Key, pod: GuestPod) -> bool:
        """True if a pod is being deleted with a longer grace than it may have."""
        meta = pod.metadata
        if meta.deletion_timestamp is None:
            return False
        requested = self._of(key, pod)
        most = self._most if requested is None else requested
        return (meta.deletion_grace_period_seconds or 0) > most

    def grace(self, key: Key, pod: GuestPod) -> int | None:
        """The grace to delete a pod with, where it is not to be the pod's own; None otherwise."""
        requested = self._of(key, pod)
        if requested is not None:
            return requested
        try:
            own = msgspec.json.decode(pod.spec, type=PodSpec).termination_grace_period_seconds
        except msgspec.MsgspecError:
            own = None
        going = pod.metadata.deletion_grace_period_seconds
        return self._most if max(own or 0, going or 0) > self._most else None

    def _of(self, key: Key, pod: GuestPod) -> int | None:
        """The grace (seconds) that was requested for this very pod, within what is allowed."""
        uid, requested = self.requested.get(key, ("", 0))
        if not any(owner.uid == uid for owner in pod.metadata.owner_references):
            return None
        return max(MIN_GRACE, min(requested, self._most))
