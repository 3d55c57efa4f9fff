"""Writes the status of a peer's ShadowPods, and remembers its writes until the store shows them.

A reason or another phase is reported to viewers, too, and to a consumer that runs Liqo.
"""

from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import Conflict, NotFound
from liqod.kube import recorder
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.queue import KeyedQueue
from liqod.peers.peer import Peer
from liqod.provider.workloads import shadow as rules
from liqod.provider.workloads.shadow import Shadow, ShadowStatus
from liqod.resources import SHADOW_PODS
from liqod.telemetry.events import ShadowPodPhase, ShadowPodWaits

LAG: Final = 1.0
"""Seconds until the next check of an object that the store will show in a moment."""


class ShadowStatusWriter:
    """Writes the statuses of one peer's ShadowPods, and remembers its writes.

    Args:
        peer: the consumer.
        queue: takes the key of a ShadowPod that changed while its status was written.

    Attributes:
        written: the resourceVersion that each status was written over, and the status now.
    """

    def __init__(self, peer: Peer, queue: KeyedQueue[Key]) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._queue = queue
        self.written: dict[Key, tuple[str, ShadowStatus]] = {}

    def shows_own_write(self, change: StoreChange) -> bool:
        """True if a change of a ShadowPod is no more than the status that was written.

        Then the store has it, and nothing is remembered: a ShadowPod that comes back from a backup
        may have the very version again that it was written over.
        """
        written = self.written.get(change.key)
        own = written is not None and rules.only_status(change.old, change.new, written[1])
        if own:
            del self.written[change.key]
        return own

    async def write(
        self, key: Key, shadow: Shadow, status: dict[str, Any], *, only_this: bool = False
    ) -> None:
        """Write the ShadowPod's status, and only that.

        An end is written over the very version that was read (``only_this``, too): on a ShadowPod
        that was made anew under the same name it would keep the pod from ever running.
        """
        patch: dict[str, Any] = {"status": status}
        if only_this or status.get("phase") in rules.TERMINAL:
            patch["metadata"] = {"resourceVersion": shadow.metadata.resource_version}
        try:
            await self._client.patch(SHADOW_PODS, key[1], patch, key[0], subresource="status")
        except NotFound:
            return
        except Conflict:
            self._queue.add(key, after=LAG)
            return
        after = msgspec.structs.replace(
            shadow.status, **{name: value or "" for name, value in status.items()}
        )
        self.written[key] = (shadow.metadata.resource_version, after)
        if after.reason and after.reason != shadow.status.reason:
            why = {"reason": after.reason, "message": after.message}
            self._peer.report(ShadowPodWaits(namespace=key[0], pod=key[1], **why))
            await self._notify_liqo(key, shadow, after)
        elif after.phase != shadow.status.phase:
            self._peer.report(ShadowPodPhase(namespace=key[0], pod=key[1], phase=after.phase))

    async def _notify_liqo(self, key: Key, shadow: Shadow, after: ShadowStatus) -> None:
        """Report to a consumer that runs Liqo why it has no pod: by an Event about the pod to be.

        Its virtual kubelet reads no reason in a ShadowPod, but reflects Events about pods.
        """
        if labels.LOCAL_UID in shadow.metadata.annotations or after.phase in rules.TERMINAL:
            return
        about = ObjectMeta(name=key[1], namespace=key[0])
        await recorder.record(self._client, PODS, about, after.reason, after.message)

    def with_written(self, key: Key, shadow: Shadow) -> Shadow:
        """The ShadowPod with the status that was written last, where the store is behind."""
        written = self.written.get(key)
        if written is None:
            return shadow
        if written[0] != shadow.metadata.resource_version:
            del self.written[key]
            return shadow
        return msgspec.structs.replace(shadow, status=written[1])
