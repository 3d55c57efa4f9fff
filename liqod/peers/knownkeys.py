"""Knows other clusters by their keys, beside the ids that they have here.

Ids are each cluster's own choice of words: two peers may each know another cluster under one id.
Where both sides of a peering know a third cluster by a key that it has proved to have, they can see
that. A provider that was peered with by a kubeconfig has proved none.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import consumer_keys, tenant_of
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model.peering import providerkeys
from liqod.peers.peer import Neighbours
from liqod.resources import OUTGOING_PEERINGS, OutgoingPeering

AGREED: Final = ("Accepted", "Done")
"""Phases of a request whose other side has proved its key."""
_PEER: Final = "peer"


class KnownKeys(Controller[str]):
    """Keeps the keys of other clusters; a key of its queue is a cluster's id.

    Args:
        context: this cluster.
        neighbours: notified of the keys.
    """

    def __init__(self, context: ClusterContext, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._tenants: Watched[str] = Watched(NAMESPACES, _of_tenant, indexes={_PEER: _peers})
        self._requests: Watched[str] = Watched(
            OUTGOING_PEERINGS, _of_request, Selection(context.namespace)
        )
        super().__init__(context, "keys", self._tenants, self._requests, name="keys of clusters")

    async def prepare(self) -> None:
        """Have all keys known at once."""
        found = {each.status.cluster_id for each in self._requests.store.values(OutgoingPeering)}
        for namespace in self._tenants.store.values(Partial):
            found.update(_peers(namespace))
        self._neighbours.know({each: self._keys(each) for each in found})

    async def reconcile(self, cluster: str) -> None:
        """Have the keys of one cluster known."""
        self._neighbours.know({cluster: self._keys(cluster)})

    def _keys(self, cluster: str) -> frozenset[str]:
        """The keys that a cluster has proved to have, SHA-256 in hexadecimal."""
        store = self._tenants.store
        found = [store.decode(each, Partial) for each in store.indexed(_PEER, cluster)]
        tenants = [each.metadata.annotations for each in found if each is not None]
        note = " ".join(marks.get(labels.PROVIDER_KEYS, "") for marks in tenants)
        asked = (each.status for each in self._requests.store.values(OutgoingPeering))
        mine = (each for each in asked if each.cluster_id == cluster and each.phase in AGREED)
        shown = providerkeys.with_next(note, (each.key for each in mine))
        return shown.union(*map(consumer_keys, tenants))


def _peers(found: Partial) -> Iterator[str]:
    peer = tenant_of(found)
    if peer is not None:
        yield peer


def _of_tenant(change: StoreChange) -> Iterator[str]:
    for body in filter(None, (change.old, change.new)):
        yield from _peers(msgspec.json.decode(body, type=Partial))


def _of_request(change: StoreChange) -> Iterator[str]:
    for body in filter(None, (change.old, change.new)):
        cluster = msgspec.json.decode(body, type=OutgoingPeering).status.cluster_id
        if cluster:
            yield cluster
