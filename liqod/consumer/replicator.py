"""Replicates ResourceSlices, NamespaceMaps and Renews to a peer, and their status back.

Level-triggered and without finalizers: a replica whose source is gone is found by comparing lists,
now or after the next start, and a peer that does not answer holds nothing back here. Nothing is
deleted before both lists are complete, and only objects with our marks.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NAMESPACES, NODES, Kind
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import replicas_of
from liqod.consumer.link import ProviderPeer
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.enforcedmappings import EnforcedMappings
from liqod.consumer.namespaces.unoffloadable import UnoffloadableNamespaces
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.consumer.providercleanup import ProviderCleanup
from liqod.consumer.remote import Remote
from liqod.consumer.replicas import ReplicaPlan, plan
from liqod.consumer.slices.borrowedslices import deny
from liqod.consumer.slices.sliceobjects import is_source
from liqod.errors import AlreadyExists, Conflict, Forbidden, LiqodError, NotFound
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.definitions import name_of
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model.crossing import namespaceuids
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    RENEWS,
    RESOURCE_SLICES,
    VIRTUAL_NODES,
    ResourceSlice,
    VirtualNode,
)
from liqod.resources.authentication import PERMISSION_WITHDRAWN
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.telemetry.events import Replicated

KINDS = (RESOURCE_SLICES, RENEWS, NAMESPACE_MAPS)
CONCURRENCY = 2
HELD = 1.0
"""Seconds until another try while a deletion, or a smaller map, is held back."""
LATE = 5.0
"""Longest that a watch may be behind a write of ours: until then nothing is written again."""
WITHDRAWN = 10.0
"""Seconds until another try where the peer refuses: rights may come back."""
REFUSALS = 7
"""How often the peer must refuse in a row, over six seconds of doubling pauses, to be believed: a
first refusal after the peering is only its authorizer's cache."""


class Item(NamedTuple):
    """One object in both clusters: the names are the same."""

    kind: Kind
    name: str


async def deny_withdrawn(client: Client, found: ResourceSlice) -> None:
    """Report on a slice that the provider does not let us request it any more."""
    message = "the provider has withdrawn its permission"
    await deny(client, found, PERMISSION_WITHDRAWN, message)


class Replicator(Controller[Item]):
    """Replicates to one peer under one identity.

    Args:
        peer: the provider.
        remote: the identity.
        leaving: whether this cluster is about to leave; then nothing is created any more.
        queue: the objects that wait to be replicated.
    """

    def __init__(
        self, peer: ProviderPeer, remote: Remote, leaving: ProviderCleanup, queue: KeyedQueue[Item]
    ) -> None:
        self._peer = peer
        self._remote = remote
        self._leaving = leaving
        here = (peer.tenant_namespace,)
        there = Selection(remote.namespace, labels=replicas_of(peer.context.cluster_id))
        shares = peer.context.config.services.enabled
        kinds: tuple[Kind, ...] = (*KINDS, SERVICE_EXCHANGES) if shares else KINDS
        # Nothing waits for a kind that either cluster may lack.
        self._sources = {
            kind: Watched(kind, partial(_items, kind), within=here, wait=kind in KINDS)
            for kind in kinds
        }
        self._replicas = {
            kind: Watched(
                kind, partial(_items, kind), there, client=remote.client, wait=kind in KINDS
            )
            for kind in kinds
        }
        self._virtual_nodes = Watched(VIRTUAL_NODES, self._of_virtual_node, within=here)
        self._patched: dict[Item, tuple[str, float]] = {}
        """The resourceVersion of each replica that was changed, and how long it is waited for."""
        self._nodes = Watched[Item](NODES, selection=Selection(labels=SELECTOR))
        self._offloadings = Watched[Item](NAMESPACE_OFFLOADINGS)
        self._namespaces = Watched(NAMESPACES, self._of_namespace)
        super().__init__(
            peer,
            "replication",
            *self._sources.values(),
            *(self._virtual_nodes, self._nodes, self._offloadings, self._namespaces),
            *self._replicas.values(),
            tasks=(self._resume, self._follow_foretold if shares else self._withdraw),
            concurrency=CONCURRENCY,
            budget=peer.work,
            queue=queue,
        )

    @property
    def unfollowed(self) -> dict[str, str]:
        """The kinds of ours that cannot be followed there, with the reason."""
        found = ((kind.plural, self._replicas[kind].problem) for kind in KINDS)
        return {kind: problem for kind, problem in found if problem}

    @property
    def slices(self) -> list[str]:
        """Names of the slices that this cluster has at the peer, for inspection."""
        there = self._replicas[RESOURCE_SLICES]
        return sorted(name for _, name in there.store.keys()) if there.opened else []  # noqa: SIM118

    async def prepare(self) -> None:
        """Prepare the replication, after all objects of both clusters have been read."""
        context = self._peer.context
        maps = self._sources[NAMESPACE_MAPS].store
        views = ClusterViews(self._virtual_nodes.store, self._nodes.store, maps)
        unoffloadable = UnoffloadableNamespaces(context.namespace, self._namespaces.store)
        self._protected = EnforcedMappings(
            context.cluster_id, views, self._offloadings.store, unoffloadable
        )
        self._peer.report(Replicated(state="running", server=self._remote.client.server))

    def _of_virtual_node(self, change: StoreChange) -> Iterable[Item]:
        """A slice is held until its virtual node is gone."""
        if change.new is None:
            slices = self._sources[RESOURCE_SLICES].store
            for _, name in slices.indexed("namespace", self._peer.tenant_namespace):
                yield Item(RESOURCE_SLICES, name)
            yield Item(RESOURCE_SLICES, change.key[1])

    def _of_namespace(self, change: StoreChange) -> Iterable[Item]:
        """Yield the map of a namespace that came: it may be another than the map's of that name."""
        if change.old is None:
            yield Item(NAMESPACE_MAPS, self._peer.id)

    def _annotations(self, kind: Kind, source: dict[str, Any]) -> dict[str, str] | None:
        """Annotations of a replica: UIDs of a map's namespaces, statements on keys for a Renew, the
        virtual nodes that a slice asks for."""
        if kind == RENEWS:
            noted = source["metadata"].get("annotations") or {}
            about = (labels.SUCCESSION, labels.PROVIDER_KEY)
            return {key: noted[key] for key in about if noted.get(key)}
        if kind == RESOURCE_SLICES:
            asked = (source["metadata"].get("annotations") or {}).get(labels.VIRTUAL_NODES)
            return {labels.VIRTUAL_NODES: asked} if asked else None
        if kind != NAMESPACE_MAPS:
            return None
        uids = {}
        for name in source.get("spec", {}).get("desiredMapping") or {}:
            found = self._namespaces.store.decode(("", name), Partial)
            if found is not None:
                uids[name] = found.metadata.uid
        return {labels.NAMESPACE_UIDS: namespaceuids.render(uids)}

    async def _resume(self) -> NoReturn:
        """Wake everything when the peer answers again: none waits for the end of a pause."""
        link = self._peer.link
        lost = link.reconnections
        while True:
            await link.wait_changed()
            if link.up:
                for each in self._replicas.values():
                    if link.reconnections != lost:
                        each.informer.restart()
                    each.informer.wake()
                lost = link.reconnections
                for kind in self._sources:
                    here = self._sources[kind].store.indexed(
                        "namespace", self._peer.tenant_namespace
                    )
                    for _, name in (*here, *self._replicas[kind].store.keys()):
                        self.queue.add(Item(kind, name))

    async def _follow_foretold(self) -> NoReturn:
        with self._peer.foretold.following(lambda source: self.queue.add(Item(*source))):
            await trio.sleep_forever()

    async def _withdraw(self) -> None:
        """Delete the exchanges that are there since this cluster shared Services."""
        client, remote = self._peer.context.client, self._remote
        there = Selection(remote.namespace, labels=replicas_of(self._peer.context.cluster_id))
        while True:
            try:
                if await client.find(CUSTOM_RESOURCES, name_of(SERVICE_EXCHANGES)) is not None:
                    await remote.client.delete_selected(SERVICE_EXCHANGES, there)
                return
            except (Forbidden, NotFound):
                return  # a cluster that shares no Services
            except LiqodError:
                await trio.sleep(WITHDRAWN)

    async def reconcile(self, item: Item) -> float | None:
        """Make the replica as its source is, and the source's status as the replica's."""
        if item.kind not in KINDS and not self._replicas[item.kind].store.synced:
            return WITHDRAWN  # a peer that shares no Services
        raw = self._sources[item.kind].store.get((self._peer.tenant_namespace, item.name))
        present = msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else None
        source = self._foretold(item, present) if present and self._is_source(present) else None
        there = self._replicas[item.kind].store.get((self._remote.namespace, item.name))
        replica = msgspec.json.decode(there, type=dict[str, Any]) if there is not None else None
        decided = plan(
            source,
            replica,
            namespace=self._remote.namespace,
            origin=self._peer.context.cluster_id,
            told=self._annotations(item.kind, source) if source else None,
        )
        if decided.delete is not None:
            if self._in_use(item):
                return HELD
            if not await self._surely_gone(item):
                return DOUBT
            await self._delete(item, decided.delete)
        if source is not None and not self._leaving.now:
            if replica is not None and item == Item(NAMESPACE_MAPS, self._peer.id):
                lost = self._protected.lost(self._peer.id, source, replica)
                if lost:
                    self._peer.report(Replicated(name=item.name, waits=" ".join(lost)))
                    return HELD
            return await self._write(item, source, decided)
        return None

    def _foretold(self, item: Item, source: dict[str, Any]) -> dict[str, Any]:
        """A source with the spec that is being written here now."""
        meta = source["metadata"]
        spec = self._peer.foretold.spec(item, meta["uid"], meta.get("generation", 0))
        return source if spec is None else {**source, "spec": spec}

    def _is_late(self, item: Item) -> bool:
        """True if a change of the replica was made that its watch has yet to show, or soon was."""
        version, until = self._patched.get(item, ("", 0.0))
        late = not self._replicas[item.kind].informer.shows(version)
        if late and trio.current_time() < until:
            return True
        self._patched.pop(item, None)
        return False

    def _is_source(self, found: dict[str, Any]) -> bool:
        meta = found["metadata"]
        return "deletionTimestamp" not in meta and is_source(meta.get("labels", {}), self._peer.id)

    async def _surely_gone(self, item: Item) -> bool:
        """True if the API server confirms that there is no source."""
        return await self._sources[item.kind].surely_gone(
            (self._peer.tenant_namespace, item.name),
            counts=lambda live: is_source(live.metadata.labels, self._peer.id),
        )

    def _in_use(self, item: Item) -> bool:
        """True if a virtual node still works with the slice, or needs the map.

        A map that a user deleted is made again for as long as there is a virtual node.
        """
        store = self._virtual_nodes.store
        for key in store.indexed("namespace", self._peer.tenant_namespace):
            node = store.decode(key, VirtualNode)
            if node is None:
                continue
            slice_name = node.metadata.labels.get(labels.RESOURCE_SLICE_NAME, key[1])
            needed = {RESOURCE_SLICES: slice_name, NAMESPACE_MAPS: node.spec.cluster_id}
            if needed.get(item.kind) == item.name:
                return True
        return False

    async def _delete(self, item: Item, uid: str) -> None:
        remote = self._remote
        self._patched.pop(item, None)
        try:
            if item.kind == NAMESPACE_MAPS:
                # A map that is only gone may have been deleted by hand; an empty one is meant.
                nothing = {"metadata": {"uid": uid}, "spec": {"desiredMapping": None}}
                await remote.client.patch(item.kind, item.name, nothing, remote.namespace)
            await remote.client.delete(item.kind, item.name, remote.namespace, uid=uid)
        except Forbidden:
            pass  # the permission was withdrawn: the provider has cleared, or will
        except (Conflict, NotFound):
            return  # it was replaced or has gone; the watch shows it
        self._peer.report(Replicated(kind=item.kind.name, name=item.name, did="deleted"))

    async def _write(
        self, item: Item, source: dict[str, Any], decided: ReplicaPlan
    ) -> float | None:
        remote = self._remote
        again: float | None = None
        try:
            if decided.create is not None:
                await remote.client.create(item.kind, decided.create, remote.namespace)
                self._peer.report(Replicated(kind=item.kind.name, name=item.name, did="created"))
            if decided.patch is not None and self._is_late(item):
                again = HELD  # its watch comes first: what it lacks now was written a moment ago
            elif decided.patch is not None:
                patched = await remote.client.patch(
                    item.kind, item.name, decided.patch, remote.namespace
                )
                until = trio.current_time() + LATE
                self._patched[item] = patched.metadata.resource_version, until
        except AlreadyExists:
            return await self._on_existing(item, source)
        except Forbidden as error:
            self._peer.report(Replicated(name=item.name, refused=str(error)))
            if self.queue.failures(item) < REFUSALS:
                raise
            if item.kind == RESOURCE_SLICES and decided.create is not None:
                await deny_withdrawn(
                    self._peer.context.client, msgspec.convert(source, ResourceSlice)
                )
            return WITHDRAWN
        await self._note(item, decided)
        return again

    async def _note(self, item: Item, decided: ReplicaPlan) -> None:
        """Record on the source the provider's annotations."""
        client, namespace = self._peer.context.client, self._peer.tenant_namespace
        with suppress(NotFound):  # deleted meanwhile; the watch shows it
            if decided.notes is not None:
                note = {"metadata": {"annotations": decided.notes}}
                await client.patch(item.kind, item.name, note, namespace)
            if decided.status is not None:
                told = {"status": decided.status}
                await client.patch(item.kind, item.name, told, namespace, subresource="status")

    async def _on_existing(self, item: Item, source: dict[str, Any]) -> float | None:
        """Resolve a name taken there: by our replica that the watch has yet to show, or not."""
        remote = self._remote
        found = await remote.client.find(item.kind, item.name, remote.namespace, decode=Partial)
        if found is None or found.metadata.labels.get(labels.ORIGIN_ID) == (
            self._peer.context.cluster_id
        ):
            return HELD
        message = f"the peer's namespace {remote.namespace} has another {item.kind.name} so named"
        self._peer.report(Replicated(name=item.name, refused=message))
        if item.kind == RESOURCE_SLICES:
            wanted = msgspec.convert(source, ResourceSlice)
            await deny(self._peer.context.client, wanted, "ReplicaNameTaken", message)
        return WITHDRAWN


def _items(kind: Kind, change: StoreChange) -> tuple[Item]:
    return (Item(kind, change.key[1]),)
