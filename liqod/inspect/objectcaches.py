"""Caches of decoded objects for the inspector: a few kinds always, the rest while watched.

:data:`LISTED` has the kinds that ``liqod status`` lists, so that a daemon has the same objects.
A cache opens no watch: it subscribes to an informer that a component has open, or is empty without
one. A change costs it one entry in a set; decoding waits for :meth:`Cache.refresh`.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.kube import times
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index, node_of
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, guest_of
from liqod.model.peering import capacity, healthsummary
from liqod.model.view import objectfacts, podwaits, requests, viewrows
from liqod.model.view.facts import REACHABLE
from liqod.model.view.objectfacts import SliceFacts
from liqod.model.view.podwaits import PodWait
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.viewrows import CountedPod, counted
from liqod.provider.slices import freenodes
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
    """The end of an identity's certificate. Raises ProtocolError if it cannot be read."""
    pem = found.spec.auth_params.signed_crt
    ends = certificates.read(pem).not_after if pem else float("inf")
    return Expiry(found.spec.cluster_id, found.name, ends)


def lives(found: Iterable[Expiry]) -> dict[tuple[str, str], float]:
    """Seconds until the expiry of certificates, by (peer, identity)."""
    now = time.time()
    return {(peer, name): ends - now for peer, name, ends in found if ends < float("inf")}


def itself(found: T) -> T:
    """Keep the whole object."""
    return found


class Listed(NamedTuple):
    """A kind of which a snapshot has all objects.

    Attributes:
        type: type that its objects are decoded as.
        make: gives the part of each to keep; raises ProtocolError for one that cannot be read.
        labels: only objects with these labels; empty for all.
        own: only objects in liqod's own namespace.
        newer: an older installation, or its rights, may lack the kind.
    """

    kind: Kind
    type: type[Any]
    make: Callable[[Any], Any] = itself
    labels: str = ""
    own: bool = False
    newer: bool = False

    def selection(self, namespace: str) -> Selection:
        """The selection of the listed objects; ``namespace`` is liqod's own."""
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
"""The kinds by their field in a snapshot; nodes, and the pods on virtual nodes, are selected by
each other, and not in it."""


class Cache(Generic[T]):
    """The objects of one informer, decoded.

    Args:
        type: type to decode them as.
        make: gives the part of each to keep; None: nothing of it.

    Attributes:
        rows: the parts kept of the objects, by key.
    """

    def __init__(self, type: type[Any], make: Callable[[Any], T | None]) -> None:
        self.rows: dict[Key, T] = {}
        self._type = type
        self._make = make
        self._informer: SharedInformer | None = None
        self._dirty: set[Key] = set()
        self._stops: list[Callable[[], None]] = []
        self._changed = False

    def sit_on(self, informer: SharedInformer | None) -> None:
        """Subscribe to the objects of this informer; None for none."""
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
        """Decode the changed objects; True if any changed since the last call."""
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
                found = None  # its component has logged it
        if found is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = found

    def _wanted(self, key: Key) -> bool:
        return True

    def _on_change(self, change: StoreChange) -> None:
        self._dirty.add(change.key)


class Placed(Cache[T]):
    """A cache of the pods on some nodes, from an informer of all pods."""

    def __init__(self, type: type[Any], make: Callable[[Any], T]) -> None:
        super().__init__(type, make)
        self._nodes: dict[str, Callable[[], None]] = {}

    def sit_on(self, informer: SharedInformer | None) -> None:
        if informer is not self._informer:
            self.release()
            self._informer = informer

    def on(self, nodes: Iterable[str]) -> None:
        """Select the pods of these nodes from now on."""
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


class Unplaced(Cache[T]):
    """A cache of the pods that have no node yet, from an informer of all pods."""

    def _wanted(self, key: Key) -> bool:
        assert self._informer is not None
        return not node_of(self._informer.store.get(key) or b"{}")

    def _on_change(self, change: StoreChange) -> None:
        if change.key in self.rows or (change.new is not None and not node_of(change.new)):
            super()._on_change(change)


class CheckedObjects:
    """The objects that the doctor reads, a few fields of each.

    Attributes:
        guests: the consumer of each of its pods in this cluster.
        slices: the fields of each ResourceSlice.
        tenants: the peer's id and the condition of each Tenant.
        nodes: the name of each virtual Node, and the reason that no pod can run there.
        words: the name of each VirtualNode, and a hash of its provider's word on what is free.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._informers = context.informers
        self.guests = Cache[str](Partial, viewrows.origin)
        self.slices = Cache[SliceFacts](ResourceSlice, objectfacts.slice_facts)
        self.tenants = Cache[tuple[str, str]](Tenant, _tenant)
        self.nodes = Cache[tuple[str, str]](Node, viewrows.usefulness)
        self.words = Cache[tuple[str, int]](VirtualNode, _word)

    async def refresh_guests(self) -> None:
        """Read the changes that the informer of guests reported."""
        self.guests.sit_on(self._informers.find(PODS, Selection(labels=labels.GUEST_PODS)))
        await self.guests.refresh()

    async def refresh(self) -> None:
        """Read the changes that the other informers reported."""
        find = self._informers.find
        self.slices.sit_on(find(RESOURCE_SLICES))
        self.tenants.sit_on(find(TENANTS))
        self.nodes.sit_on(find(NODES, Selection(labels=SELECTOR)))
        self.words.sit_on(find(VIRTUAL_NODES))
        for cache in (self.slices, self.tenants, self.nodes, self.words):
            await cache.refresh()


class WatchedObjects:
    """The objects that viewers see, decoded while there are viewers."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._listed = {field: Cache[Any](each.type, each.make) for field, each in LISTED.items()}
        self._virtual: Cache[VirtualNode] = self._listed["virtual_nodes"]
        self._nodes = Cache[Node](Node, itself)
        self._own_nodes = Cache[Node](Node, itself)
        self._pods = Placed[CountedPod](LivePod, counted)
        self._unplaced = Unplaced[PodWait](LivePod, podwaits.waiting)

    @property
    def pods(self) -> Iterable[CountedPod]:
        """This cluster's pods on virtual nodes."""
        return self._pods.rows.values()

    @property
    def own_free(self) -> str:
        """The free resources of this cluster's own nodes, as consumers are told them; empty: not
        known."""
        pods = self._context.informers.find(PODS, freenodes.PLACED)
        free = None if pods is None else freenodes.followed(pods)
        return free.text.now if free is not None and free.known else ""

    def waits(self, offloadings: Iterable[NamespaceOffloading]) -> Iterator[PodWait]:
        """The pods that wait: on virtual nodes, and in offloaded namespaces without a node."""
        namespaces = {each.namespace for each in offloadings}
        yield from (each.wait for each in self.pods if each.wait is not None)
        yield from (each for each in self._unplaced.rows.values() if each.namespace in namespaces)

    async def refresh(self) -> bool:
        """Read the changes that informers reported; True if any since the last call."""
        changed = False
        for cache, kind, selection in self._sources():
            cache.sit_on(self._context.informers.find(kind, selection))
            changed |= await cache.refresh()
        # The nodes are known now; their pods belong into the first state, too.
        pods = self._context.informers.find(PODS, self._context.own_pods.selection)
        self._pods.sit_on(pods)
        self._unplaced.sit_on(pods)
        self._pods.on(each.name for each in self._virtual.rows.values())
        changed |= await self._unplaced.refresh()
        return await self._pods.refresh() or changed

    def release(self) -> None:
        """Release all objects, as there are no viewers."""
        for cache, *_ in self._sources():
            cache.release()
        self._pods.release()
        self._unplaced.release()

    def _sources(self) -> list[tuple[Cache[Any], Kind, Selection]]:
        """Each cache, with the kind and the selection of its informer."""
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
            webhook: the verdict on its path; empty: unknown.
            policies: the missing policies.
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
            now=times.now(),
            nodes=dict(map(viewrows.readiness, self._nodes.rows.values())),
            allocatable=capacity.of_virtual(self._nodes.rows.values()),
            pods=tuple(each.row for each in self.pods),
            policies=policies,
            capacity=capacity.of_nodes(self._own_nodes.rows.values()),
        )


def _word(found: VirtualNode) -> tuple[str, int] | None:
    text = found.metadata.annotations.get(labels.FREE_CAPACITY)
    return (found.name, hash(text)) if text else None


def _tenant(found: Tenant) -> tuple[str, str]:
    return found.spec.cluster_id, healthsummary.tenant(found)
