"""Finalizers that Liqo has left on what liqod looks after in its place.

They would keep a peering from ending for ever, since nobody is left to take them off. liqod has no
finalizer for another cluster's sake (rule 2), so they go as soon as they are seen, whether or not
the peer answers. Where Liqo takes over again, it puts its own back.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, NoReturn

import trio

from liqod.errors import Conflict, NotFound
from liqod.inspect.events import InheritedFreed
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change, Key
from liqod.kube.kinds import SECRETS, Kind
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import EVERY, Selection
from liqod.model import labels
from liqod.peer import Peer
from liqod.resources import FOREIGN_CLUSTERS, NAMESPACE_MAPS, RENEWS, RESOURCE_SLICES

LEFT: Final[dict[Kind, str]] = {
    RESOURCE_SLICES: labels.FINALIZER_REPLICATOR,
    RENEWS: labels.FINALIZER_REPLICATOR,
    NAMESPACE_MAPS: labels.FINALIZER_REPLICATOR,
    SECRETS: labels.FINALIZER_REPLICATOR_SECRET,
    FOREIGN_CLUSTERS: labels.FINALIZER_API_SERVER_CHECKER,
}
"""What Liqo's replicator and checker put on the objects of a peering. Those of other controllers
are taken off by the rooms that end such objects."""


class Inherited:
    """Takes Liqo's finalizers off the objects of one peer.

    Args:
        peer: the peer.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._queue: KeyedQueue[tuple[Kind, Key]] = KeyedQueue(name="inherited")
        self._informers: dict[Kind, Informer] = {}

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Look until cancelled."""
        namespace = self._peer.tenant_namespace
        share = self._peer.home.informers.share
        async with AsyncExitStack() as stack:
            for kind in LEFT:
                which = Selection(namespace) if kind == SECRETS else EVERY
                informer = await stack.enter_async_context(share(kind, which))
                self._informers[kind] = informer
                where = namespace if kind.namespaced else None
                stack.callback(informer.subscribe(self._hear(kind), namespace=where))
            await self._queue.run(
                self._free, on_error=self._peer.failures("inherited"), task_status=task_status
            )
        raise AssertionError("a queue never ends")

    def _hear(self, kind: Kind) -> Callable[[Change], None]:
        mark = LEFT[kind].encode()

        def hear(change: Change) -> None:
            own = kind.namespaced or change.key[1] == self._peer.id
            if own and change.new is not None and mark in change.new:
                self._queue.add((kind, change.key))

        return hear

    async def _free(self, item: tuple[Kind, Key]) -> None:
        kind, (namespace, name) = item
        found = self._informers[kind].store.decode((namespace, name), Partial)
        if found is None or LEFT[kind] not in found.metadata.finalizers:
            return
        meta = found.metadata
        left = [each for each in meta.finalizers if each != LEFT[kind]]
        patch = {"metadata": {"finalizers": left, "resourceVersion": meta.resource_version}}
        try:
            await self._peer.home.client.patch(kind, name, patch, namespace or None)
        except (Conflict, NotFound):
            return  # the watch tells what is so now
        self._peer.report(InheritedFreed(kind=kind.name, name=name, finalizer=LEFT[kind]))
