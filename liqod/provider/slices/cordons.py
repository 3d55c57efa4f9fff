"""Slices that this cluster's administrator has cordoned, remembered where no consumer can write.

The cordon is an annotation on the consumer's own replica, which the consumer may delete and make
anew. So it is noted on the tenant namespace too, with the UID of the slice: one that comes back
under the same name without its cordon is a new object, and gets the cordon again; the same object
without it was released by the administrator.
"""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.peers.peer import Peer
from liqod.resources import RESOURCE_SLICES, ResourceSlice
from liqod.telemetry.events import SliceLent


class Cordons:
    """The cordoned slices of one peer. No other component writes the note.

    Args:
        peer: the consumer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._known: dict[str, str] | None = None

    async def keep(self, wanted: ResourceSlice) -> bool:
        """True if a slice is cordoned by itself; puts back a cordon that was shed."""
        known = await self._read()
        uid, noted = wanted.metadata.uid, known.get(wanted.name)
        if labels.CORDON in wanted.metadata.annotations:
            if noted != uid:
                await self._note(wanted.name, uid)
            return True
        if noted is None:
            return False
        if noted == uid:
            await self._note(wanted.name, None)
            return False
        patch = {"metadata": {"annotations": {labels.CORDON: labels.TRUE}}}
        await self._client.patch(RESOURCE_SLICES, wanted.name, patch, wanted.namespace)
        await self._note(wanted.name, uid)
        self._peer.report(SliceLent(slice=wanted.name, cordoned="it came back without its cordon"))
        return True

    async def _read(self) -> dict[str, str]:
        if self._known is None:
            namespace = self._peer.tenant_namespace
            live = await self._client.find(NAMESPACES, namespace, decode=Partial)
            notes = {} if live is None else live.metadata.annotations
            self._known = _decode(notes.get(labels.CORDONED_SLICES, ""))
        return self._known

    async def _note(self, name: str, uid: str | None) -> None:
        known = {key: value for key, value in (await self._read()).items() if key != name}
        if uid is not None:
            known[name] = uid
        text = msgspec.json.encode(known).decode() if known else None
        patch: dict[str, Any] = {"metadata": {"annotations": {labels.CORDONED_SLICES: text}}}
        await self._client.patch(NAMESPACES, self._peer.tenant_namespace, patch)
        self._known = known


def _decode(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}
