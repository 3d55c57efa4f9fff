"""Collects the garbage of a consumer whose tenant namespace, Tenant or map is gone.

Namespaces, cluster-wide bindings and signing requests live outside the tenant namespace, so nothing
collects them with it, and no finalizer holds it back for them. This controller looks for them: at
start, and whenever something they depend on goes. Before anything is deleted the API server itself
is read once more, object by object (rule 3 of the architecture).

A map that is gone does not mean that its consumer has left while that has slices here: a user
deleted the replica by hand, and the consumer will put it back, be it only when it can reach this
cluster again. It ends its namespaces by taking them off the map, or by giving back its slices.
"""

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLUSTER_ROLE_BINDINGS, NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.cluster.tenancy import is_from
from liqod.errors import NotFound
from liqod.identity.signingrequests import SigningRequests
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.provider.tenants import bindings
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, TENANTS, NamespaceMap
from liqod.telemetry.events import OrphanSwept


class Suspect(NamedTuple):
    """Something that may have been left behind.

    Attributes:
        kind: ``namespace`` (mapped), ``released`` (mapped, and taken off its map before that went),
            ``peer`` (its bindings), ``bindings`` or ``requests`` (of any peer).
        name: of the namespace, or the peer's id.
    """

    kind: str
    name: str


def map_of(namespace: Partial) -> tuple[str, str] | None:
    """Namespace and name of the map that a namespace was made for, if it was."""
    owner = namespace.metadata.annotations.get(labels.MANAGED_BY_NAMESPACE_MAP, "")
    tenant, slash, name = owner.partition("/")
    if not slash or labels.REMOTE_CLUSTER_ID not in namespace.metadata.labels:
        return None
    return tenant, name


class GarbageCollector(Controller[Suspect]):
    """Collects the garbage of consumers in this cluster.

    Args:
        signing_requests: those of consumers that are being worked on; all others are garbage.
    """

    def __init__(
        self,
        context: ClusterContext,
        signing_requests: SigningRequests,
        timings: ProviderTimings = ORDINARY,
    ) -> None:
        self._context = context
        self._signing_requests = signing_requests
        self._timings = timings
        self._client = context.client
        self._awaiting: set[str] = set()
        """Namespaces whose map is gone and will be put back, as far as it is known."""
        self._maps = Watched(NAMESPACE_MAPS, self._on_map)
        self._slices = Watched(RESOURCE_SLICES, self._on_slice)
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        self._tenants = Watched(TENANTS, self._on_tenant)
        watches = (self._maps, self._slices, self._namespaces, self._tenants)
        # Suspects that no change of an object shows.
        first = (Suspect("bindings", "*"), Suspect("requests", "*"))
        super().__init__(context, "orphans", *watches, first=first, tasks=(self._follow_requests,))

    async def _follow_requests(self) -> NoReturn:
        while True:
            await self._signing_requests.lost()
            # Requests still under way to the API server will have arrived by then.
            self.queue.add(Suspect("requests", "*"), after=self._timings.orphans)

    def _on_map(self, change: StoreChange) -> Iterator[Suspect]:
        body = change.new or change.old
        assert body is not None
        found = msgspec.json.decode(body, type=NamespaceMap)
        if change.new is not None and not found.leaving:
            return
        wanted = set(found.spec.desired_mapping.values())
        for each in self._namespaces.store.values(Partial):
            if map_of(each) == change.key:
                kind = "namespace" if each.metadata.name in wanted else "released"
                yield Suspect(kind, each.metadata.name)

    def _on_slice(self, change: StoreChange) -> Iterator[Suspect]:
        found = None if change.new is None else msgspec.json.decode(change.new, type=Partial)
        if not _ended(found):
            return
        for each in self._namespaces.store.values(Partial):
            owner = map_of(each)
            if owner is not None and owner[0] == change.key[0]:
                yield Suspect("namespace", each.metadata.name)

    def _on_namespace(self, change: StoreChange) -> Iterator[Suspect]:
        body = change.new or change.old
        assert body is not None
        namespace = msgspec.json.decode(body, type=Partial)
        if change.new is not None and map_of(namespace) is not None:
            yield Suspect("namespace", namespace.metadata.name)
        if change.new is None and labels.TENANT_NAMESPACE in namespace.metadata.labels:
            yield from _peer(namespace.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""))

    def _on_tenant(self, change: StoreChange) -> Iterator[Suspect]:
        if change.new is None:
            yield from _peer(change.key[1])

    async def _list_bindings(self) -> None:
        found = await self._client.list(
            CLUSTER_ROLE_BINDINGS, Selection(labels=labels.REMOTE_CLUSTER_ID), decode=Partial
        )
        for each in found:
            for suspect in _peer(each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")):
                self.queue.add(suspect)

    async def _sweep_requests(self) -> None:
        swept = await self._signing_requests.sweep(self._client)
        if swept:
            self._context.hub.publish(OrphanSwept(kind="requests", swept=swept))

    async def reconcile(self, suspect: Suspect) -> float | None:
        """Collect one suspect, if its owner is gone."""
        if suspect.kind == "bindings":
            await self._list_bindings()
            return None
        if suspect.kind == "requests":
            await self._sweep_requests()
            return None
        if suspect.kind == "peer":
            return await self._look_at_peer(suspect.name)
        return await self._look_at_namespace(suspect)

    async def _look_at_namespace(self, suspect: Suspect) -> float | None:
        namespace = self._namespaces.store.decode(("", suspect.name), Partial)
        owner = map_of(namespace) if namespace is not None else None
        if namespace is None or owner is None:
            self._awaiting.discard(suspect.name)
            return None
        if namespace.metadata.deletion_timestamp:
            self._awaiting.discard(suspect.name)
            return None
        known = self._maps.store.decode(owner, Partial)
        if not _ended(known):
            self._awaiting.discard(suspect.name)
            return None
        told = OrphanSwept(kind="namespace", name=suspect.name, map="/".join(owner))
        if suspect.kind == "namespace" and await self._is_awaited(namespace, owner):
            if suspect.name not in self._awaiting:
                self._awaiting.add(suspect.name)
                self._context.hub.publish(msgspec.structs.replace(told, awaits="its map"))
            return self._timings.orphans
        self._awaiting.discard(suspect.name)
        if not await self._maps.surely_gone(owner):
            return DOUBT
        await self._client.delete(NAMESPACES, suspect.name, uid=namespace.metadata.uid)
        self._context.hub.publish(told)
        return None

    async def _is_awaited(self, namespace: Partial, owner: tuple[str, str]) -> bool:
        """True if the consumer still borrows here, so that it will put its map back."""
        tenant, peer = owner[0], namespace.metadata.labels[labels.REMOTE_CLUSTER_ID]
        store = self._slices.store
        known = [store.decode(key, Partial) for key in store.indexed("namespace", tenant)]
        if any(_lends(each, peer) for each in known) or self._slices.doubtful:
            return True
        live = await self._client.list(RESOURCE_SLICES, Selection(tenant), decode=Partial)
        if any(_lends(each, peer) for each in live):
            return True
        return not await is_defined(self._client, RESOURCE_SLICES)

    async def _look_at_peer(self, peer: str) -> float | None:
        tenants = {key for key in self._tenants.store.keys() if key[1] == peer}  # noqa: SIM118
        if tenants:
            return None
        if self._tenants.doubtful:
            return DOUBT
        try:
            live = await self._client.list(TENANTS, decode=Partial)
        except NotFound:
            return DOUBT
        if any(each.metadata.name == peer for each in live):
            return DOUBT
        if not await is_defined(self._client, TENANTS):
            return DOUBT
        if await bindings.unbind(self._client, ids.cluster_wide_binding(peer), None, peer):
            self._context.hub.publish(OrphanSwept(kind="binding", name=peer))
        return None


def _peer(peer: str) -> Iterator[Suspect]:
    """A peer, if that can be one's id."""
    if ids.cluster_id_problem(peer) is None:
        yield Suspect("peer", peer)


def _ended(found: Partial | None) -> bool:
    """True if an object is gone or being deleted, whatever finalizers hold it back."""
    return found is None or found.metadata.deletion_timestamp is not None


def _lends(found: Partial | None, peer: str) -> bool:
    """True if an object is the replica of a slice that the peer has here and does not give back."""
    return found is not None and not _ended(found) and is_from(found.metadata.labels, peer)
