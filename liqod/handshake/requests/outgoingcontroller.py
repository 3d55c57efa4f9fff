"""Asking others: a task pursues each OutgoingPeering until it is a peering, or has another end.

The resource holds the progress, so that a daemon which is killed at any moment goes on from there:
its uid is the request, by which the provider knows it again. A cluster that was not confirmed by an
invitation, the configuration or a person who compared the words is asked, and no more: pods and
secrets of this cluster go to no unconfirmed peer. Clocks of both sides need not agree: each side
ends a request by its own.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import find_tenant_namespace, tenant_of
from liqod.config import PeerSettings
from liqod.errors import AlreadyExists, LiqodError
from liqod.handshake.protocol.requestphase import RequestPhase, count_phases
from liqod.handshake.requests.outgoingrequest import OutgoingRequest, is_over
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering
from liqod.runtime.supervise import explain

log = logging.getLogger(__name__)


MakeRequest = Callable[[ClusterContext, OutgoingPeering], OutgoingRequest]
"""Makes the pursuit of a request: to ask a lender that it dials or that dials it, or to lend."""


class OutgoingController(Controller[str]):
    """Pursues each request, and releases those whose peering was ended.

    Args:
        pursuing: makes what pursues a request.
        left: is notified of the id of a cluster of which nothing is borrowed any more.
    """

    def __init__(
        self, context: ClusterContext, pursuing: MakeRequest, left: Callable[[str], None]
    ) -> None:
        self.context, self._client = context, context.client
        self._make, self._left = pursuing, left
        self._tasks: dict[str, tuple[str, trio.CancelScope, OutgoingRequest]] = {}
        self._nursery: trio.Nursery
        self._requests = Watched(OUTGOING_PEERINGS, self._on_request, Selection(context.namespace))
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        watches = (self._requests, self._namespaces)
        super().__init__(context, "asking", *watches, tasks=(self._pursue_all,))

    def reload(self, context: ClusterContext) -> None:
        """Go by another configuration from now on, and ask those that it names."""
        self.context = context
        for _, _, pursuit in self._tasks.values():
            pursuit.reload(context)
        self._nursery.start_soon(self._request_configured)

    def requests(self) -> Iterator[OutgoingPeering]:
        """All requests, from memory."""
        return self._requests.store.values(OutgoingPeering)

    def phases(self) -> Counter[RequestPhase]:
        """How many requests are in each phase."""
        return count_phases(
            each.status.phase for each in self._requests.store.values(OutgoingPeering)
        )

    def _on_request(self, change: StoreChange) -> Iterator[str]:
        yield change.key[1]

    def _on_namespace(self, change: StoreChange) -> Iterator[str]:
        """Handles a tenant namespace that went, so a peering was ended; or a revoked provider."""
        body = change.new or change.old
        assert body is not None
        namespace = msgspec.json.decode(body, type=Partial)
        gone = tenant_of(namespace)
        if gone is None:
            return
        if change.new is not None:
            if labels.REVOKED_PROVIDER in namespace.metadata.annotations:
                self._left(gone)
            return
        self._left(gone)
        for request in self._requests.store.values(OutgoingPeering):
            if request.status.cluster_id == gone:
                yield request.name

    async def reconcile(self, name: str) -> float | None:
        """Begin with a request that is new, end one that is gone, release one that is over."""
        request = self._requests.store.decode((self.context.namespace, name), OutgoingPeering)
        uid = request.metadata.uid if request is not None and not request.leaving else ""
        if name in self._tasks and self._tasks[name][0] != uid:
            self._nursery.start_soon(self._take_back, *self._tasks.pop(name))
        if request is None or not uid:
            return None
        if name not in self._tasks and not is_over(request):
            scope, pursuit = trio.CancelScope(), self._make(self.context, request)
            self._tasks[name] = (uid, scope, pursuit)
            self._nursery.start_soon(self._pursue, name, uid, scope, pursuit)
        return await self._follow(request) if request.status.phase == "Done" else None

    async def _take_back(self, uid: str, scope: trio.CancelScope, pursuit: OutgoingRequest) -> None:
        """End the request of a resource that was deleted."""
        await pursuit.withdraw(uid)
        scope.cancel()

    async def _follow(self, request: OutgoingPeering) -> float | None:
        if self._namespaces.doubtful:
            return DOUBT
        peer = request.status.cluster_id
        if await find_tenant_namespace(self._client, peer) is None:
            uid = request.metadata.uid
            await self._client.delete(
                OUTGOING_PEERINGS, request.name, self.context.namespace, uid=uid
            )
        return None

    async def _pursue_all(self) -> NoReturn:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._request_configured)
            await trio.sleep_forever()
        raise AssertionError("sleeping for ever has ended")

    async def _pursue(
        self, name: str, uid: str, scope: trio.CancelScope, pursuit: OutgoingRequest
    ) -> None:
        """Try until it is over. The wall: what fails is this request's alone."""
        failures = 0
        with scope:
            while True:
                try:
                    if await pursuit.run():
                        break
                    failures = 0
                except* LiqodError as group:
                    failures += 1
                    pause = pursuit.pauses.delay(failures)
                    log.info("asking %s: %s; again in %.0f s", name, explain(group), pause)
                    with suppress(LiqodError):
                        await self._note(name, explain(group), pause)
                    await trio.sleep(pause)
                except* Exception as group:
                    failures += 1
                    log.warning("asking %s failed", name, exc_info=group)
                    await trio.sleep(pursuit.pauses.last)
        if name in self._tasks and self._tasks[name][0] == uid:
            del self._tasks[name]

    async def _note(self, name: str, why: str, pause: float) -> None:
        when = times.of(times.seconds(times.now()) + pause)
        patch = {"status": {"nextTry": when, "message": why[:1000]}}
        await self._client.patch(
            OUTGOING_PEERINGS, name, patch, self.context.namespace, subresource="status"
        )

    async def _request_configured(self) -> None:
        """Send requests to the clusters that the configuration names, once each."""
        for peer in self.context.config.peers:
            if peer.addresses:
                with suppress(LiqodError):
                    await self._request_peering(peer)

    async def _request_peering(self, peer: PeerSettings) -> None:
        parts = {labels.VIRTUAL_NODES: peer.virtual_nodes} if peer.virtual_nodes else {}
        made = {
            "metadata": {
                "name": peer.id,
                "labels": {labels.CONFIGURED: labels.TRUE},
                "annotations": parts,
            },
            "spec": {
                "addresses": list(peer.addresses),
                "clusterID": peer.id,
                "key": peer.key,
                "resources": dict(peer.resources),
                "networking": self.context.config.network.enabled,
            },
        }
        with suppress(AlreadyExists):
            await self._client.create(OUTGOING_PEERINGS, made, self.context.namespace)
