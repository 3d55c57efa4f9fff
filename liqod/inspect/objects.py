"""Caches of the shared informers' objects, decoded: a few always, the rest while somebody watches.

A cache opens no watch: it sits on an informer that a component has open, or is empty while none
has. A change costs it one entry in a set; decoding waits for :meth:`Cache.refresh`.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.objects.podsight import LivePod, guest_of
from liqod.model.peering import capacity, healthsummary
from liqod.model.view import objectfacts, requests, viewrows
from liqod.model.view.facts import REACHABLE
from liqod.model.view.objectfacts import SliceFacts
from liqod.model.view.requests import Request
from liqod.model.view.snapshot import LISTED, Guest, Snapshot
from liqod.model.view.viewrows import CountedPod, counted
from liqod.resources import (
    IDENTITIES,
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    RESOURCE_SLICES,
    TENANTS,
    Identity,
    IncomingPeering,
    OutgoingPeering,
    ResourceSlice,
    Tenant,
    VirtualNode,
)

Expiry = tuple[str, str, float]

T = TypeVar("T")


def itself(found: T) -> T:
    """Keep the whole object."""
    return found


TURN = 200
"""Objects decoded before other tasks get a turn."""


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
        self._informer: Informer | None = None
        self._dirty: set[Key] = set()
        self._stops: list[Callable[[], None]] = []
        self._changed = False

    def sit_on(self, informer: Informer | None) -> None:
        """Take the objects of this informer from now on; None for none."""
        if informer is self._informer:
            return
        self.leave()
        self._informer = informer
        if informer is not None:
            self._stops.append(informer.subscribe(self._on_change))

    def leave(self) -> None:
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

    def sit_on(self, informer: Informer | None) -> None:
        if informer is not self._informer:
            self.leave()
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

    def leave(self) -> None:
        for stop in self._nodes.values():
            stop()
        self._nodes.clear()
        super().leave()

    def _wanted(self, key: Key) -> bool:
        assert self._informer is not None
        placed = node_index(self._informer)
        return any(placed.holds(node, key) for node in self._nodes)

    def _dirty_key(self, key: Key) -> None:
        self._dirty.add(key)


class CheckedObjects:
    """The objects that the doctor reads, a few words of each.

    Args:
        context: this cluster.

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
    """The objects that viewers see, decoded while somebody watches.

    Args:
        context: this cluster.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._listed = {field: Cache[Any](type_, itself) for field, (_, type_) in LISTED.items()}
        self._virtual: Cache[VirtualNode] = self._listed["virtual_nodes"]
        self._expiries = Cache[Expiry](Identity, expiry)
        self._incoming = Cache[Request](IncomingPeering, requests.incoming)
        self._outgoing = Cache[Request](OutgoingPeering, requests.outgoing)
        self._nodes = Cache[tuple[str, str]](Node, viewrows.readiness)
        self._own_nodes = Cache[Node](Node, itself)
        self._guests = Cache[Guest](LivePod, guest_of)
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

    def leave(self) -> None:
        """Release everything, as nobody watches."""
        for cache, *_ in self._sources():
            cache.leave()
        self._pods.leave()

    def _sources(self) -> list[tuple[Cache[Any], Kind, Selection]]:
        """Each cache, with the kind and the selection of the informer that it sits on."""
        everything, here = Selection(), Selection(self._context.namespace)
        return [
            *((self._listed[field], kind, everything) for field, (kind, _) in LISTED.items()),
            (self._expiries, IDENTITIES, everything),
            (self._incoming, INCOMING_PEERINGS, here),
            (self._outgoing, OUTGOING_PEERINGS, here),
            (self._nodes, NODES, Selection(labels=SELECTOR)),
            (self._own_nodes, NODES, everything),
            (self._guests, PODS, Selection(labels=labels.GUEST_PODS)),
        ]

    def snapshot(self, webhook: str, policies: tuple[str, ...]) -> Snapshot:
        """The objects as of the last refresh.

        Args:
            webhook: the verdict on its path; empty: not known.
            policies: those that are missing.
        """
        now = time.time()
        listed: dict[str, Any] = {
            field: tuple(cache.rows.values()) for field, cache in self._listed.items()
        }
        return Snapshot(
            cluster_id=self._context.cluster_id,
            leader=f"{os.getpid()}",
            leader_age=0.0,
            webhook=labels.TRUE if webhook == REACHABLE else webhook,
            **listed,
            nodes=dict(self._nodes.rows.values()),
            pods=tuple(each.row for each in self.pods),
            expiries={
                (peer, name): ends - now
                for peer, name, ends in self._expiries.rows.values()
                if ends < float("inf")
            },
            guests=tuple(self._guests.rows.values()),
            incoming=tuple(self._incoming.rows.values()),
            outgoing=tuple(self._outgoing.rows.values()),
            policies=policies,
            capacity=capacity.of_nodes(self._own_nodes.rows.values()),
        )


def _tenant(found: Tenant) -> tuple[str, str]:
    return found.spec.cluster_id, healthsummary.tenant(found)


def expiry(found: Identity) -> Expiry:
    """The peer and the identity of a certificate, and the Unix second at which it ends."""
    pem = found.spec.auth_params.signed_crt
    ends = certificates.read(pem).ends if pem else float("inf")
    return found.spec.cluster_id, found.name, ends
