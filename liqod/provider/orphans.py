"""What a consumer leaves behind when its tenant namespace, its Tenant or its map is gone.

Namespaces, cluster-wide bindings and signing requests live outside the tenant namespace, so nothing
collects them with it, and no finalizer holds it back for them. This room looks for them: at start,
and whenever something they depend on goes. Before anything is deleted the API server itself is
asked once more, object by object (rule 3 of the architecture).

A map that is gone is no farewell while its consumer has slices here: somebody deleted the replica
by hand, and the consumer will put it back, be it only when it can reach this cluster again. It ends
its namespaces by taking them off the map, or by giving back its slices.
"""

from contextlib import AsyncExitStack
from typing import NamedTuple, NoReturn

import msgspec
import trio

from liqod.context import ClusterContext
from liqod.errors import NotFound
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change
from liqod.kube.definitions import is_defined
from liqod.kube.kinds import CLUSTER_ROLE_BINDINGS, NAMESPACES
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.model import ids, labels
from liqod.provider.slices.slices import is_from
from liqod.provider.tenants import bindings
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, TENANTS, NamespaceMap

WAIT = 5.0
"""Seconds until another look while an informer's list is under suspicion."""


class Suspect(NamedTuple):
    """Something that may have been left behind.

    Attributes:
        kind: ``namespace`` (mapped), ``released`` (mapped, and taken off its map before that went),
            ``peer`` (its bindings), ``bindings`` or ``requests`` (of anybody).
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


class Leftovers:
    """Collects what consumers left behind in this cluster.

    Args:
        home: this cluster.
    """

    def __init__(self, home: ClusterContext) -> None:
        self._home = home
        self._client = home.client
        self._queue: KeyedQueue[Suspect] = KeyedQueue(name="leftovers")
        self._awaiting: set[str] = set()
        """Namespaces whose map is gone and will be put back, as far as is known."""

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Collect until cancelled."""
        informers = self._home.informers
        async with AsyncExitStack() as stack:
            self._maps = await stack.enter_async_context(informers.share(NAMESPACE_MAPS))
            self._namespaces = await stack.enter_async_context(informers.share(NAMESPACES))
            self._tenants = await stack.enter_async_context(informers.share(TENANTS))
            self._slices = await stack.enter_async_context(informers.share(RESOURCE_SLICES))
            stack.callback(self._maps.subscribe(self._on_map))
            stack.callback(self._slices.subscribe(self._on_slice))
            stack.callback(self._namespaces.subscribe(self._on_namespace))
            stack.callback(self._tenants.subscribe(self._on_tenant))
            self._queue.add(Suspect("bindings", "*"))
            self._queue.add(Suspect("requests", "*"))
            self._home.signing_requests.on_lost = self._on_lost
            await self._queue.run(self._look, on_error=self._on_error, task_status=task_status)
        raise AssertionError("a queue never ends")

    def _on_error(self, key: Suspect, error: Exception) -> None:
        self._home.hub.publish("leftovers", kind=key.kind, name=key.name, failed=str(error))

    def _on_lost(self) -> None:
        """What is still on its way to the API server will have arrived by then."""
        self._queue.add(Suspect("requests", "*"), after=WAIT)

    def _on_map(self, change: Change) -> None:
        body = change.new or change.old
        assert body is not None
        found = msgspec.json.decode(body, type=NamespaceMap)
        if change.new is not None and not found.leaving:
            return
        wanted = set(found.spec.desired_mapping.values())
        for each in self._namespaces.store.values(Partial):
            if map_of(each) == change.key:
                kind = "namespace" if each.metadata.name in wanted else "released"
                self._queue.add(Suspect(kind, each.metadata.name))

    def _on_slice(self, change: Change) -> None:
        found = None if change.new is None else msgspec.json.decode(change.new, type=Partial)
        if not _ended(found):
            return
        for each in self._namespaces.store.values(Partial):
            owner = map_of(each)
            if owner is not None and owner[0] == change.key[0]:
                self._queue.add(Suspect("namespace", each.metadata.name))

    def _on_namespace(self, change: Change) -> None:
        body = change.new or change.old
        assert body is not None
        namespace = msgspec.json.decode(body, type=Partial)
        if change.new is not None and map_of(namespace) is not None:
            self._queue.add(Suspect("namespace", namespace.metadata.name))
        if change.new is None and labels.TENANT_NAMESPACE in namespace.metadata.labels:
            self._suspect_peer(namespace.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""))

    def _on_tenant(self, change: Change) -> None:
        if change.new is None:
            self._suspect_peer(change.key[1])

    def _suspect_peer(self, peer: str) -> None:
        if ids.cluster_id_problem(peer) is None:
            self._queue.add(Suspect("peer", peer))

    async def _list_bindings(self) -> None:
        found = await self._client.list(
            CLUSTER_ROLE_BINDINGS, Selection(labels=labels.REMOTE_CLUSTER_ID), decode=Partial
        )
        for each in found:
            self._suspect_peer(each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, ""))

    async def _sweep_requests(self) -> None:
        swept = await self._home.signing_requests.sweep(self._client)
        if swept:
            self._home.hub.publish("leftovers", kind="requests", swept=swept)

    async def _look(self, suspect: Suspect) -> float | None:
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
        if namespace is None or owner is None or namespace.metadata.deletion_timestamp:
            self._awaiting.discard(suspect.name)
            return None
        known = self._maps.store.decode(owner, Partial)
        if not _ended(known):
            self._awaiting.discard(suspect.name)
            return None
        if known is None and _doubtful(self._maps):
            return WAIT
        facts = {"name": suspect.name, "map": "/".join(owner)}
        if suspect.kind == "namespace" and await self._is_awaited(namespace, owner):
            if suspect.name not in self._awaiting:
                self._awaiting.add(suspect.name)
                self._home.hub.publish("leftovers", kind="namespace", awaits="its map", **facts)
            return WAIT
        self._awaiting.discard(suspect.name)
        if not _ended(await self._client.find(NAMESPACE_MAPS, owner[1], owner[0], decode=Partial)):
            return WAIT
        if not await is_defined(self._client, NAMESPACE_MAPS):
            return WAIT
        await self._client.delete(NAMESPACES, suspect.name, uid=namespace.metadata.uid)
        self._home.hub.publish("leftovers", kind="namespace", **facts)
        return None

    async def _is_awaited(self, namespace: Partial, owner: tuple[str, str]) -> bool:
        """Whether the consumer still borrows here, so that it will put its map back."""
        tenant, peer = owner[0], namespace.metadata.labels[labels.REMOTE_CLUSTER_ID]
        store = self._slices.store
        known = [store.decode(key, Partial) for key in store.indexed("namespace", tenant)]
        if any(_lends(each, peer) for each in known) or _doubtful(self._slices):
            return True
        live = await self._client.list(RESOURCE_SLICES, Selection(tenant), decode=Partial)
        if any(_lends(each, peer) for each in live):
            return True
        return not await is_defined(self._client, RESOURCE_SLICES)

    async def _look_at_peer(self, peer: str) -> float | None:
        tenants = {key for key in self._tenants.store.keys() if key[1] == peer}  # noqa: SIM118
        if tenants:
            return None
        if _doubtful(self._tenants):
            return WAIT
        try:
            live = await self._client.list(TENANTS, decode=Partial)
        except NotFound:
            return WAIT
        if any(each.metadata.name == peer for each in live):
            return WAIT
        if not await is_defined(self._client, TENANTS):
            return WAIT
        if await bindings.unbind(self._client, ids.cluster_wide_binding(peer), None, peer):
            self._home.hub.publish("leftovers", kind="binding", name=peer)
        return None


def _ended(found: Partial | None) -> bool:
    """Whether an object is gone, or on its way: whose finalizers hold it back does not matter."""
    return found is None or found.metadata.deletion_timestamp is not None


def _lends(found: Partial | None, peer: str) -> bool:
    """Whether an object is the replica of a slice that the peer has here and does not give back."""
    return found is not None and not _ended(found) and is_from(found.metadata.labels, peer)


def _doubtful(informer: Informer) -> bool:
    return not informer.store.synced or informer.suspect is not None
