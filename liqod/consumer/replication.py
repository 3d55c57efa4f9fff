"""Replication of ResourceSlices, NamespaceMaps and Renews to a peer, and of their status back.

Level-triggered and without finalizers: a replica whose source is gone is found by comparing lists,
now or after the next start, and a peer that does not answer holds nothing back here. Nothing is
deleted before both lists are complete, and only what carries our marks.
"""

from contextlib import AsyncExitStack, suppress
from typing import Any, NamedTuple, NoReturn

import msgspec
import trio

from liqod.consumer.leaving import Leaving
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.protected import ProtectedMappings
from liqod.consumer.namespaces.staying import Staying
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.consumer.remote import Remote
from liqod.consumer.remotes import Remotes
from liqod.consumer.replicas import ReplicaPlan, plan
from liqod.consumer.slices.borrowed import is_source
from liqod.consumer.slices.slices import deny
from liqod.errors import AlreadyExists, Conflict, Forbidden, LiqodError, NotFound
from liqod.inspect.events import Replicated
from liqod.kube.backoff import Backoff
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change
from liqod.kube.definitions import DOUBT, is_defined
from liqod.kube.kinds import NAMESPACES, NODES, Kind
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.peer import Peer
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    RENEWS,
    RESOURCE_SLICES,
    VIRTUAL_NODES,
    ResourceSlice,
    VirtualNode,
)
from liqod.tenancy import replicas_of

KINDS = (RESOURCE_SLICES, RENEWS, NAMESPACE_MAPS)
CONCURRENCY = 2
HELD = 1.0
"""Seconds between looks while a deletion waits."""
WITHDRAWN = 10.0
"""Seconds until another try where the peer refuses: rights may come back."""
REFUSALS = 7
"""How often the peer must refuse in a row, over six seconds of doubling pauses, to be believed: a
first refusal after the peering is only its authorizer's cache."""
LOOK_EVERY = 15.0
"""Seconds between looks whether we still may read there; nothing is asked while that works."""
PAUSES = Backoff(first=0.1, last=3.2)


class Item(NamedTuple):
    """One object, here and there: the names are the same."""

    kind: Kind
    name: str


class Replication:
    """Replicates to one peer for as long as its control plane gives an identity.

    Args:
        peer: the provider.
        remotes: the identities there.
        leaving: whether this cluster is about to leave; then nothing is created any more.

    Attributes:
        queue: what waits to be replicated.
    """

    def __init__(self, peer: Peer, remotes: Remotes, leaving: Leaving) -> None:
        self._peer = peer
        self._remotes = remotes
        self._leaving = leaving
        self.queue: KeyedQueue[Item] = KeyedQueue(name="replication")
        self._local: dict[Kind, Informer] = {}
        self._remote: dict[Kind, Informer] = {}

    @property
    def unfollowed(self) -> dict[str, str]:
        """The kinds of ours that cannot be followed there now, with the reason."""
        return {kind.plural: each.problem for kind, each in self._remote.items() if each.problem}

    @property
    def slices(self) -> list[str]:
        """Names of the slices that this cluster has at the peer, for those who look."""
        there = self._remote.get(RESOURCE_SLICES)
        return [] if there is None else sorted(name for _, name in there.store.keys())  # noqa: SIM118

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Replicate until cancelled."""
        namespace = self._peer.tenant_namespace
        informers = self._peer.home.informers
        async with AsyncExitStack() as stack:
            for kind in KINDS:
                self._local[kind] = await stack.enter_async_context(informers.share(kind))
            self._nodes = await stack.enter_async_context(informers.share(VIRTUAL_NODES))
            nodes = await stack.enter_async_context(
                informers.share(NODES, Selection(labels=SELECTOR))
            )
            asked = await stack.enter_async_context(informers.share(NAMESPACE_OFFLOADINGS))
            namespaces = await stack.enter_async_context(informers.share(NAMESPACES))
            maps = self._local[NAMESPACE_MAPS].store
            views = ClusterViews(self._nodes.store, nodes.store, maps)
            staying = Staying(self._peer.home.namespace, namespaces.store)
            self._protected = ProtectedMappings(
                self._peer.home.cluster_id, views, asked.store, staying
            )
            for kind in KINDS:
                stack.callback(self._local[kind].subscribe(self._adder(kind), namespace=namespace))
            stack.callback(self._nodes.subscribe(self._on_node, namespace=namespace))
            task_status.started()
            while True:
                remote = self._remotes.control()
                if remote is None:
                    await self._remotes.changed()
                    continue
                async with trio.open_nursery() as session:
                    session.start_soon(self._replicate, remote)
                    await self._until_another(remote)
                    session.cancel_scope.cancel()
        raise AssertionError("the loop never ends")

    async def _until_another(self, remote: Remote) -> None:
        """Until the identity is gone or leads elsewhere; a renewed certificate is no reason."""
        while True:
            await self._remotes.changed()
            found = self._remotes.control()
            if found is None or (found.client, found.namespace) != (
                remote.client,
                remote.namespace,
            ):
                return

    def _adder(self, kind: Kind) -> Any:
        def add(change: Change) -> None:
            # Without an identity there nothing waits; with one, everything is looked at first.
            if self._remotes.control() is not None:
                self.queue.add(Item(kind, change.key[1]))

        return add

    def _on_node(self, change: Change) -> None:
        """A slice is held until its virtual node is gone."""
        if change.new is None:
            for _, name in self._local[RESOURCE_SLICES].store.indexed(
                "namespace", self._peer.tenant_namespace
            ):
                self.queue.add(Item(RESOURCE_SLICES, name))
            self.queue.add(Item(RESOURCE_SLICES, change.key[1]))

    async def _replicate(self, remote: Remote) -> None:
        """Reconcile while the peer lets us, until cancelled."""
        selector = replicas_of(self._peer.home.cluster_id)
        while True:
            await self._until_allowed(remote, selector)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow, remote, selector)
                await self._until_refused(remote, selector)
                nursery.cancel_scope.cancel()

    async def _follow(self, remote: Remote, selector: str) -> None:
        """Follow the replicas at the peer and reconcile, until cancelled."""
        async with trio.open_nursery() as nursery:
            for kind in KINDS:
                informer = Informer(
                    remote.client, kind, Selection(remote.namespace, labels=selector)
                )
                self._remote[kind] = informer
                nursery.start_soon(informer.run)
            for kind in KINDS:
                await self._remote[kind].synced()
                self._remote[kind].subscribe(self._adder(kind))
            self._add_all()
            nursery.start_soon(self._resume)
            self._peer.report(Replicated(state="running", server=remote.client.server))

            async def reconcile(item: Item) -> float | None:
                return await self._reconcile(item, remote)

            await self.queue.run(
                self._peer.paced(reconcile),
                concurrency=CONCURRENCY,
                on_error=self._peer.failures("replication"),
            )

    async def _until_allowed(self, remote: Remote, selector: str) -> None:
        """Wait until the peer lets us list; where it persists in refusing, say so on the slices."""
        refusals = 0
        while True:
            try:
                await self._ask(remote, selector)
            except Forbidden:
                refusals += 1
            except LiqodError as error:
                self._peer.report(Replicated(failed=str(error)))
                refusals = 0
            else:
                return
            if refusals >= REFUSALS:
                await self._on_withdrawn()
            await trio.sleep(PAUSES.delay(refusals) if 0 < refusals < REFUSALS else HELD)

    async def _until_refused(self, remote: Remote, selector: str) -> None:
        """Until the peer refuses what it allowed: what it deleted before may have been missed."""
        while True:
            await trio.sleep(LOOK_EVERY)
            slices = self._remote.get(RESOURCE_SLICES)
            if slices is None or slices.problem is None:
                continue
            try:
                await self._ask(remote, selector)
            except Forbidden:
                return
            except LiqodError:
                continue

    async def _ask(self, remote: Remote, selector: str) -> None:
        """Read something of ours there. Raises Forbidden where that is not allowed (any more)."""
        await remote.client.list(
            RESOURCE_SLICES, Selection(remote.namespace, labels=selector), decode=Partial
        )

    async def _on_withdrawn(self) -> None:
        """The provider has taken our rights: its word that the peering is over, or drained."""
        store = self._local[RESOURCE_SLICES].store
        for key in store.indexed("namespace", self._peer.tenant_namespace):
            found = store.decode(key, ResourceSlice)
            if found is None or not is_source(found.metadata.labels, self._peer.id):
                continue
            try:
                await self._deny(found)
            except LiqodError as error:
                self._peer.report(Replicated(name=found.name, failed=str(error)))

    async def _deny(self, found: ResourceSlice) -> None:
        message = "the provider has withdrawn its permission"
        await deny(self._peer.home.client, found, "PermissionWithdrawn", message)

    async def _resume(self) -> NoReturn:
        """When the peer answers again, nobody waits for the end of a pause."""
        link = self._peer.link
        lost = link.lost
        while True:
            await link.wait_changed()
            if link.up:
                for informer in self._remote.values():
                    if link.lost != lost:
                        informer.restart()
                    informer.wake()
                lost = link.lost
                self._add_all()

    def _add_all(self) -> None:
        namespace = self._peer.tenant_namespace
        for kind in KINDS:
            for _, name in self._local[kind].store.indexed("namespace", namespace):
                self.queue.add(Item(kind, name))
            for _, name in self._remote[kind].store.keys():  # noqa: SIM118
                self.queue.add(Item(kind, name))

    async def _reconcile(self, item: Item, remote: Remote) -> float | None:
        local = self._local[item.kind]
        raw = local.store.get((self._peer.tenant_namespace, item.name))
        present = msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else None
        source = present if present is not None and self._is_source(present) else None
        there = self._remote[item.kind].store.get((remote.namespace, item.name))
        replica = msgspec.json.decode(there, type=dict[str, Any]) if there is not None else None
        decided = plan(
            source, replica, namespace=remote.namespace, origin=self._peer.home.cluster_id
        )
        if decided.delete is not None:
            if local.suspect is not None or self._is_held(item) or await self._is_there(item):
                return HELD
            if not await is_defined(self._peer.home.client, item.kind):
                return DOUBT
            await self._delete(item, remote, decided.delete)
        if source is not None and not self._leaving.now:
            if replica is not None and item == Item(NAMESPACE_MAPS, self._peer.id):
                lost = self._protected.lost(self._peer.id, source, replica)
                if lost:
                    self._peer.report(Replicated(name=item.name, waits=" ".join(lost)))
                    return HELD
            return await self._write(item, remote, source, decided)
        return None

    def _is_source(self, found: dict[str, Any]) -> bool:
        meta = found["metadata"]
        return "deletionTimestamp" not in meta and is_source(meta.get("labels", {}), self._peer.id)

    async def _is_there(self, item: Item) -> bool:
        """Whether the source exists after all: before anything is destroyed, the API server itself
        is asked for the one object (rule 3)."""
        namespace = self._peer.tenant_namespace
        live = await self._peer.home.client.find(item.kind, item.name, namespace, decode=Partial)
        if live is None or live.metadata.deletion_timestamp is not None:
            return False
        return is_source(live.metadata.labels, self._peer.id)

    def _is_held(self, item: Item) -> bool:
        """Whether a virtual node still works with the slice, or needs the map.

        A map that somebody deleted is made again for as long as there is a virtual node.
        """
        store = self._nodes.store
        for key in store.indexed("namespace", self._peer.tenant_namespace):
            node = store.decode(key, VirtualNode)
            if node is None:
                continue
            slice_name = node.metadata.labels.get(labels.RESOURCE_SLICE_NAME, key[1])
            needed = {RESOURCE_SLICES: slice_name, NAMESPACE_MAPS: node.spec.cluster_id}
            if needed.get(item.kind) == item.name:
                return True
        return False

    async def _delete(self, item: Item, remote: Remote, uid: str) -> None:
        try:
            if item.kind == NAMESPACE_MAPS:
                # A map that is only gone may have been deleted by hand; an empty one says it.
                nothing = {"metadata": {"uid": uid}, "spec": {"desiredMapping": None}}
                await remote.client.patch(item.kind, item.name, nothing, remote.namespace)
            await remote.client.delete(item.kind, item.name, remote.namespace, uid=uid)
        except Forbidden:
            pass  # the permission was withdrawn: the provider has cleared, or will
        except (Conflict, NotFound):
            return  # another object by now, or none; the watch tells
        self._peer.report(Replicated(kind=item.kind.name, name=item.name, did="deleted"))

    async def _write(
        self, item: Item, remote: Remote, source: dict[str, Any], decided: ReplicaPlan
    ) -> float | None:
        try:
            if decided.create is not None:
                await remote.client.create(item.kind, decided.create, remote.namespace)
                self._peer.report(Replicated(kind=item.kind.name, name=item.name, did="created"))
            if decided.patch is not None:
                spec = {"spec": decided.patch}
                await remote.client.patch(item.kind, item.name, spec, remote.namespace)
        except AlreadyExists:
            return await self._on_existing(item, remote, source)
        except Forbidden as error:
            self._peer.report(Replicated(name=item.name, refused=str(error)))
            if self.queue.failures(item) < REFUSALS:
                raise
            if item.kind == RESOURCE_SLICES and decided.create is not None:
                await self._deny(msgspec.convert(source, ResourceSlice))
            return WITHDRAWN
        await self._note(item, decided)
        return None

    async def _note(self, item: Item, decided: ReplicaPlan) -> None:
        """Keep with the source what the provider says of it."""
        client, namespace = self._peer.home.client, self._peer.tenant_namespace
        with suppress(NotFound):  # deleted meanwhile; the watch tells
            if decided.notes is not None:
                note = {"metadata": {"annotations": decided.notes}}
                await client.patch(item.kind, item.name, note, namespace)
            if decided.status is not None:
                told = {"status": decided.status}
                await client.patch(item.kind, item.name, told, namespace, subresource="status")

    async def _on_existing(
        self, item: Item, remote: Remote, source: dict[str, Any]
    ) -> float | None:
        """The name is taken there: by our own replica that the watch has yet to show, or not."""
        found = await remote.client.find(item.kind, item.name, remote.namespace, decode=Partial)
        if found is None or found.metadata.labels.get(labels.ORIGIN_ID) == (
            self._peer.home.cluster_id
        ):
            return HELD
        message = f"the peer's namespace {remote.namespace} has another {item.kind.name} so named"
        self._peer.report(Replicated(name=item.name, refused=message))
        if item.kind == RESOURCE_SLICES:
            wanted = msgspec.convert(source, ResourceSlice)
            await deny(self._peer.home.client, wanted, "ReplicaNameTaken", message)
        return WITHDRAWN
