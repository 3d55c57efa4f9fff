"""Ends borrowing from a peer once the OutgoingPeering that declared the peering was deleted.

One that was written, as into git: those of commands and of the daemon are records, and end nothing.
The tenant namespace has the name of that OutgoingPeering, so that one which is deleted while no
daemon runs is missed by none. It may come back within a minute: a replacement deletes an object
first. The order is that of ``liqod unpeer``: pods leave first, then the virtual node, the network
and the identity. The borrowing of the peer from this cluster stays. One that comes back later stops
the end: what is still there stays, and the request makes the rest anew.
"""

import logging
from collections.abc import Iterator

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import find_tenant, tenant_of
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.procedures import unpeering
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering

WORKERS = 8
"""Peers that are left side by side: each waits until its pods are gone."""

log = logging.getLogger(__name__)


class PrunedPeerings(Controller[str]):
    """Ends what was declared and is so no more; a key is a peer's id."""

    def __init__(self, context: ClusterContext, timings: HandshakeTimings = ORDINARY) -> None:
        self._context, self._client, self._timings = context, context.client, timings
        self._missed: dict[str, float] = {}
        """Since when a peer's OutgoingPeering is not there."""
        self._endings: dict[str, trio.CancelScope] = {}
        """The ends that are under way."""
        place = Selection(context.namespace)
        self._requests = Watched(OUTGOING_PEERINGS, self._on_request, place)
        self._namespaces = Watched(NAMESPACES, _peer_of)
        watches = (self._requests, self._namespaces)
        super().__init__(context, "asking", *watches, name="pruned peerings", concurrency=WORKERS)

    def _on_request(self, change: StoreChange) -> Iterator[str]:
        for body in (change.old, change.new):
            if body is not None:
                yield from _peers(msgspec.json.decode(body, type=OutgoingPeering))
        if change.new is not None:
            self._stop_ending(msgspec.json.decode(change.new, type=OutgoingPeering))

    def _stop_ending(self, request: OutgoingPeering) -> None:
        for peer in _peers(request) & self._endings.keys():
            if _declares(request):
                self._endings[peer].cancel()

    async def reconcile(self, peer: str) -> float | None:
        """Note the declaration of a peering, or end one whose declaration is gone."""
        tenant = await find_tenant(self._client, peer)
        if tenant is None or labels.REVOKED_PROVIDER in tenant.annotations:
            self._missed.pop(peer, None)
            return None
        if any(peer in _peers(each) for each in self._known()):
            self._missed.pop(peer, None)
            await unpeering.stay(self._client, tenant)
            await self._note(tenant, peer)
            return None
        name = tenant.annotations.get(labels.DECLARED_BY)
        if not name:
            return None
        now = trio.current_time()
        left = self._missed.setdefault(peer, now) + self._timings.pruned - now
        if left > 0:
            return left
        return await self._end(peer, name)

    async def _end(self, peer: str, name: str) -> float | None:
        """End it, unless it is declared again meanwhile."""
        with trio.CancelScope() as self._endings[peer]:
            try:
                if not await self._is_gone(peer, name):
                    return DOUBT
                log.info("the OutgoingPeering %s is gone: nothing is borrowed any more", name)
                await unpeering.end_declared(self._client, peer, self._context.namespace)
            finally:
                del self._endings[peer]
        # One that stopped the end has put the peer into the queue.
        self._missed.pop(peer, None)
        return None

    def _known(self) -> Iterator[OutgoingPeering]:
        return filter(_declares, self._requests.store.values(OutgoingPeering))

    async def _note(self, tenant: ObjectMeta, peer: str) -> None:
        """Record the OutgoingPeering on the tenant namespace, once it is a peering by it."""
        done = [
            each.name
            for each in self._known()
            if each.is_written and each.status.phase == "Done" and each.status.cluster_id == peer
        ]
        if done and tenant.annotations.get(labels.DECLARED_BY) not in done:
            patch = {"metadata": {"annotations": {labels.DECLARED_BY: min(done)}}}
            await self._client.patch(NAMESPACES, tenant.name, patch)

    async def _is_gone(self, peer: str, name: str) -> bool:
        """True if the API server itself has none of a peer's."""
        if not await self._requests.surely_gone((self._context.namespace, name)):
            return False
        place = Selection(self._context.namespace)
        every = await self._client.list(OUTGOING_PEERINGS, place, decode=OutgoingPeering)
        return not any(peer in _peers(each) for each in filter(_declares, every))


def _declares(request: OutgoingPeering) -> bool:
    """True if a request is to borrow, and stays."""
    return not (request.leaving or request.spec.lend)


def _peers(request: OutgoingPeering) -> set[str]:
    """The peer that a request is about: by its spec, and as it was met."""
    return {request.spec.cluster_id, request.status.cluster_id} - {""}


def _peer_of(change: StoreChange) -> Iterator[str]:
    if change.new is None:
        return
    found = msgspec.json.decode(change.new, type=Partial)
    if labels.DECLARED_BY in found.metadata.annotations and (peer := tenant_of(found)):
        yield peer
