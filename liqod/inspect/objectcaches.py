"""Kinds of objects that are looked at, and caches of them: a few always, the rest while watched.

:data:`LISTED` is what ``liqod status`` lists too, so that a daemon knows the same objects.
A cache opens no watch: it sits on an informer that a component has open, or is empty while none
has. A change costs it one entry in a set; decoding waits for :meth:`Cache.refresh`.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, guest_of
from liqod.model.peering import capacity, healthsummary
from liqod.model.view import objectfacts, requests, viewrows
from liqod.model.view.facts import REACHABLE
from liqod.model.view.objectfacts import SliceFacts
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.viewrows import CountedPod, counted
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    INCOMING_PEERINGS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    NAMESPACE_OFFLOADINGS,
    OUTGOING_PEERINGS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
    ForeignCluster,
    Identity,
    IncomingPeering,
    InternalFabric,
    InternalNode,
    NamespaceOffloading,
    OutgoingPeering,
    ResourceSlice,
    Tenant,
    VirtualNode,
)
from liqod.resources.networking import CONNECTIONS, Connection

T = TypeVar("T")
TURN = 200
"""Objects decoded before other tasks get a turn."""


class Expiry(NamedTuple):
    """The end of an identity's certificate: the peer, the identity, and the Unix second."""

    peer: str
    name: str
    ends: float


def expiry(found: Identity) -> Expiry:
    """The end of an identity's certificate. Raises ProtocolError where that cannot be read."""
    pem = found.spec.auth_params.signed_crt
    ends = certificates.read(pem).not_after if pem else float("inf")
    return Expiry(found.spec.cluster_id, found.name, ends)


def lives(found: Iterable[Expiry]) -> dict[tuple[str, str], float]:
    """Seconds of life left of certificates, by (peer, identity)."""
    now = time.time()
    return {(peer, name): ends - now for peer, name, ends in found if ends < float("inf")}


def itself(found: T) -> T:
    """Keep the whole object."""
    return found


class Listed(NamedTuple):
    """One kind of which a snapshot has all objects.

    Attributes:
        type: what its objects are decoded as.
        make: what is kept of each; raises ProtocolError for one that cannot be read.
        labels: of those with these labels alone; empty for all.
        own: of those in liqod's own namespace alone.
        newer: an installation from before, or its rights, may lack it.
    """

    kind: Kind
    type: type[Any]
    make: Callable[[Any], Any] = itself
    labels: str = ""
    own: bool = False
    newer: bool = False

    def selection(self, namespace: str) -> Selection:
        """Those that are listed; ``namespace`` is liqod's own."""
        return Selection(namespace if self.own else None, labels=self.labels)


LISTED: Mapping[str, Listed] = {
    "foreign_clusters": Listed(FOREIGN_CLUSTERS, ForeignCluster),
    "slices": Listed(RESOURCE_SLICES, ResourceSlice),
    "tenants": Listed(TENANTS, Tenant),
    "virtual_nodes": Listed(VIRTUAL_NODES, VirtualNode),
    "offloadings": Listed(NAMESPACE_OFFLOADINGS, NamespaceOffloading),
    "expiries": Listed(IDENTITIES, Identity, expiry),
    "guests": Listed(PODS, LivePod, guest_of, labels=labels.GUEST_PODS),
    "connections": Listed(CONNECTIONS, Connection),
    "fabrics": Listed(INTERNAL_FABRICS, InternalFabric, newer=True),
    "internal_nodes": Listed(INTERNAL_NODES, InternalNode, newer=True),
    "incoming": Listed(INCOMING_PEERINGS, IncomingPeering, requests.incoming, own=True, newer=True),
    "outgoing": Listed(OUTGOING_PEERINGS, OutgoingPeering, requests.outgoing, own=True, newer=True),
}
"""The kinds by the field of a snapshot that has them; nodes, and the pods on virtual ones, are
chosen by each other, and not in it."""


class Cache(Generic[T]):
    """The objects of one informer, decoded.

    Args:
        type: what to decode them as.
        make: what to keep of each.

    Attributes:
        rows: what is kept of the objects, by key.
    """

    def __init__(self, type: type[Any], make: Callable[[Any], T]) -> None:
        self.rows: dict[Key, T] = {}
        self._type = type
        self._make = make
        self._informer: SharedInformer | None = None
        self._dirty: set[Key] = set()
        self._stops: list[Callable[[], None]] = []
        self._changed = False

    def sit_on(self, informer: SharedInformer | None) -> None:
        """Take the objects of this informer from now on; None for none."""
        if informer is self._informer:
            return
        self.release()
        self._informer = informer
        if informer is not None:
            self._stops.append(informer.subscribe(self._on_change))

    def release(self) -> None:
        """Release the informer and all objects."""
        for stop in self._stops:
            stop()
        self._stops.clear()
        self._informer = None
        self._changed = bool(self.rows)
        self.rows.clear()
        self._dirty.clear()

    async def refresh(self) -> bool:
        """Decode the changed objects; True if any changed since the last time."""
        dirty, self._dirty = self._dirty, set()
        for number, key in enumerate(dirty, 1):
            self._decode(key)
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()
        changed, self._changed = self._changed or bool(dirty), False
        return changed

    def _decode(self, key: Key) -> None:
        found: T | None = None
        if self._informer is not None and self._wanted(key):
            try:
                decoded = self._informer.store.decode(key, self._type)
                found = None if decoded is None else self._make(decoded)
            except ProtocolError:
                found = None  # its component has named it in the log
        if found is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = found

    def _wanted(self, key: Key) -> bool:
        return True

    def _on_change(self, change: StoreChange) -> None:
        self._dirty.add(change.key)


class Placed(Cache[T]):
    """Of an informer of all pods those that are on some nodes."""

    def __init__(self, type: type[Any], make: Callable[[Any], T]) -> None:
        super().__init__(type, make)
        self._nodes: dict[str, Callable[[], None]] = {}

    def sit_on(self, informer: SharedInformer | None) -> None:
        if informer is not self._informer:
            self.release()
            self._informer = informer

    def on(self, nodes: Iterable[str]) -> None:
        """Take the pods of these nodes from now on."""
        wanted = set(nodes) if self._informer is not None else set()
        for gone in self._nodes.keys() - wanted:
            self._nodes.pop(gone)()
            self._dirty.update(self.rows)
        for node in wanted - self._nodes.keys():
            assert self._informer is not None
            self._nodes[node] = node_index(self._informer).follow(node, self._dirty_key)

    def release(self) -> None:
        for stop in self._nodes.values():
            stop()
        self._nodes.clear()
        super().release()

    def _wanted(self, key: Key) -> bool:
        assert self._informer is not None
        placed = node_index(self._informer)
        return any(placed.holds(node, key) for node in self._nodes)

    def _dirty_key(self, key: Key) -> None:
        self._dirty.add(key)


class CheckedObjects:
    """The objects that the doctor reads, a few words of each.

    Attributes:
        guests: of each pod here that belongs to a consumer, that consumer.
        slices: of each ResourceSlice.
        tenants: of each Tenant the peer's id, and its condition.
        nodes: of each virtual Node its name, and why nothing can run there.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._informers = context.informers
        self.guests = Cache[str](Partial, viewrows.origin)
        self.slices = Cache[SliceFacts](ResourceSlice, objectfacts.slice_facts)
        self.tenants = Cache[tuple[str, str]](Tenant, _tenant)
        self.nodes = Cache[tuple[str, str]](Node, viewrows.usefulness)

    async def refresh_guests(self) -> None:
        """Take in what the informer of guests reported."""
        self.guests.sit_on(self._informers.find(PODS, Selection(labels=labels.GUEST_PODS)))
        await self.guests.refresh()

    async def refresh(self) -> None:
        """Take in what the other informers reported."""
        find = self._informers.find
        self.slices.sit_on(find(RESOURCE_SLICES))
        self.tenants.sit_on(find(TENANTS))
        self.nodes.sit_on(find(NODES, Selection(labels=SELECTOR)))
        for cache in (self.slices, self.tenants, self.nodes):
            await cache.refresh()


class WatchedObjects:
    """The objects that viewers see, decoded while somebody watches."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._listed = {field: Cache[Any](each.type, each.make) for field, each in LISTED.items()}
        self._virtual: Cache[VirtualNode] = self._listed["virtual_nodes"]
        self._nodes = Cache[tuple[str, str]](Node, viewrows.readiness)
        self._own_nodes = Cache[Node](Node, itself)
        self._pods = Placed[CountedPod](LivePod, counted)

    @property
    def pods(self) -> Iterable[CountedPod]:
        """This cluster's pods on virtual nodes."""
        return self._pods.rows.values()

    async def refresh(self) -> bool:
        """Take in what informers reported; True if anything did since the last time."""
        changed = False
        for cache, kind, selection in self._sources():
            cache.sit_on(self._context.informers.find(kind, selection))
            changed |= await cache.refresh()
        # Which nodes there are is known now; their pods belong into the first state, too.
        self._pods.sit_on(self._context.informers.find(PODS, self._context.own_pods.selection))
        self._pods.on(each.name for each in self._virtual.rows.values())
        return await self._pods.refresh() or changed

    def release(self) -> None:
        """Release everything, as nobody watches."""
        for cache, *_ in self._sources():
            cache.release()
        self._pods.release()

    def _sources(self) -> list[tuple[Cache[Any], Kind, Selection]]:
        """Each cache, with the kind and the selection of the informer that it sits on."""
        namespace = self._context.namespace
        return [
            *(
                (self._listed[field], each.kind, each.selection(namespace))
                for field, each in LISTED.items()
            ),
            (self._nodes, NODES, Selection(labels=SELECTOR)),
            (self._own_nodes, NODES, Selection()),
        ]

    def snapshot(self, webhook: str, policies: tuple[str, ...]) -> Snapshot:
        """The objects as of the last refresh.

        Args:
            webhook: the verdict on its path; empty: not known.
            policies: those that are missing.
        """
        listed: dict[str, Any] = {
            field: tuple(cache.rows.values()) for field, cache in self._listed.items()
        }
        listed["expiries"] = lives(listed["expiries"])
        return Snapshot(
            cluster_id=self._context.cluster_id,
            leader=f"{os.getpid()}",
            leader_age=0.0,
            webhook=labels.TRUE if webhook == REACHABLE else webhook,
            **listed,
            nodes=dict(self._nodes.rows.values()),
            pods=tuple(each.row for each in self.pods),
            policies=policies,
            capacity=capacity.of_nodes(self._own_nodes.rows.values()),
        )


def _tenant(found: Tenant) -> tuple[str, str]:
    return found.spec.cluster_id, healthsummary.tenant(found)
