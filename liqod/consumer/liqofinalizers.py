"""Finalizers that Liqo has left on objects that liqod manages in its place.

They would keep a peering from ending for ever, since nothing is left to take them off. liqod has no
finalizer for another cluster's sake (rule 2), so they go as soon as they are seen, whether or not
the peer answers. Where Liqo takes over again, it puts its own back.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import Conflict
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import set_finalizers
from liqod.kube.selection import EVERY, Selection
from liqod.kube.watched import Watched
from liqod.model import finalizers
from liqod.peers.peer import Peer
from liqod.resources import FOREIGN_CLUSTERS, NAMESPACE_MAPS, RENEWS, RESOURCE_SLICES
from liqod.telemetry.events import InheritedFreed

LEFT: Final[dict[Kind, str]] = {
    RESOURCE_SLICES: finalizers.REPLICATOR,
    RENEWS: finalizers.REPLICATOR,
    NAMESPACE_MAPS: finalizers.REPLICATOR,
    SECRETS: finalizers.REPLICATOR_SECRET,
    FOREIGN_CLUSTERS: finalizers.API_SERVER_CHECKER,
}
"""Finalizers that Liqo's replicator and checker put on the objects of a peering. Those of other
controllers are taken off by the components that end such objects."""


Item = tuple[Kind, Key]


class LiqoFinalizers(Controller[Item]):
    """Takes Liqo's finalizers off the objects of one peer; a key is an object of some kind."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._followed = {kind: self._follow(kind) for kind in LEFT}
        super().__init__(peer, "inherited", *self._followed.values())

    def _follow(self, kind: Kind) -> Watched[Item]:
        mark, namespace = LEFT[kind].encode(), self._peer.tenant_namespace

        def with_finalizer(change: StoreChange) -> Iterator[Item]:
            own = kind.namespaced or change.key[1] == self._peer.id
            if own and change.new is not None and mark in change.new:
                yield kind, change.key

        which = Selection(namespace) if kind == SECRETS else EVERY
        within = (namespace,) if kind.namespaced else None
        return Watched(kind, with_finalizer, which, within=within)

    async def reconcile(self, item: Item) -> None:
        """Take the finalizer of Liqo's off one object."""
        kind, (namespace, name) = item
        found = self._followed[kind].store.decode((namespace, name), Partial)
        if found is None:
            return
        with suppress(Conflict):  # the watch shows the present state
            if await set_finalizers(
                self._peer.context.client, kind, found.metadata, remove=[LEFT[kind]]
            ):
                self._peer.report(InheritedFreed(kind=kind.name, name=name, finalizer=LEFT[kind]))
