"""Namespaces that reach into peers: NamespaceOffloadings, NamespaceMaps, and the namespace's label.

One component for the whole cluster, since one NamespaceOffloading concerns many providers. Each
provider with virtual nodes has a NamespaceMap in its tenant namespace; entries are written key by
key, so that many namespaces never overwrite each other. When a NamespaceOffloading goes, or
selects a provider no more, its pods there are moved first
(:mod:`liqod.consumer.namespaces.relocation`); then its entry goes, and the rest is the provider's.
Nothing here waits for a cluster that does not answer.
"""

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property

import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.namespaces import clusterviews, offloadplan
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.heldvolumes import held_by
from liqod.consumer.namespaces.namespacelabels import NamespaceLabels
from liqod.consumer.namespaces.offloadplan import ClusterView, OffloadingPlan
from liqod.consumer.namespaces.relocation import Relocations
from liqod.consumer.namespaces.unoffloadable import UnoffloadableNamespaces
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import AlreadyExists, Conflict, NotFound
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.deletion import set_finalizers
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model import finalizers
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    VIRTUAL_NODES,
    NamespaceMap,
    NamespaceOffloading,
)
from liqod.telemetry.events import OffloadingChanged

FINALIZER = labels.HOLD_NAMESPACE_OFFLOADING
CONFLICT_PAUSE = 0.2
DOUBT_AGAIN = 10.0
CONCURRENCY = 4

Task = tuple[str, str, str]
"""``offloading`` or ``map``, then namespace and name."""
OFFLOADING, MAP = "offloading", "map"
EMPTY = NamespaceMap()


class OffloadingController(Controller[Task]):
    """Keeps maps, labels and status by the NamespaceOffloadings of this cluster."""

    def __init__(self, context: ClusterContext, timings: ConsumerTimings = ORDINARY) -> None:
        self._context, self._timings = context, timings
        self._client = context.client
        self._relocations = Relocations(context.client)
        self._holding: set[str] = set()
        """Namespaces that volumes keep at a provider."""
        self._outdone: set[str] = set()
        """The namespaces whose name at a provider is another namespace's."""
        self._ending: dict[str, float] = {}
        """Time until which the end of a namespace at providers is waited for."""
        self._offloadings = Watched(NAMESPACE_OFFLOADINGS, self._on_offloading)
        self._namespaces = Watched(NAMESPACES, self._on_namespace)
        self._virtual_nodes = Watched(VIRTUAL_NODES, self._on_virtual_node)
        self._maps = Watched(NAMESPACE_MAPS, self._on_map)
        self._nodes = Watched(NODES, self._on_node, Selection(labels=SELECTOR))
        watches = (
            self._offloadings,
            self._namespaces,
            self._virtual_nodes,
            self._maps,
            self._nodes,
        )
        super().__init__(context, "offloading", *watches, concurrency=CONCURRENCY)

    @cached_property
    def _unoffloadable(self) -> UnoffloadableNamespaces:
        return UnoffloadableNamespaces(self._context.namespace, self._namespaces.store)

    @cached_property
    def _labels(self) -> NamespaceLabels:
        return NamespaceLabels(self._context, self._namespaces.store)

    @cached_property
    def _views(self) -> ClusterViews:
        return ClusterViews(self._virtual_nodes.store, self._nodes.store, self._maps.store)

    # Changes, and the objects that they concern

    def _on_offloading(self, change: StoreChange) -> Iterator[Task]:
        yield (OFFLOADING, *change.key)

    def _on_namespace(self, change: StoreChange) -> Iterator[Task]:
        key = (change.key[1], labels.NAMESPACE_OFFLOADING_NAME)
        if key in self._offloadings.store:
            yield (OFFLOADING, *key)

    def _on_virtual_node(self, change: StoreChange) -> Iterator[Task]:
        before, after = clusterviews.selectable(change.old), clusterviews.selectable(change.new)
        if before == after:
            return
        for seen in (before, after):
            if seen is not None:
                yield (MAP, change.key[0], seen[0])
        yield from self._all()

    def _on_map(self, change: StoreChange) -> Iterator[Task]:
        before, after = clusterviews.entries(change.old), clusterviews.entries(change.new)
        if before is after is None:
            return  # a consumer's request, which concerns nothing that is offloaded from here
        self._views.seen(change.key, after)
        if before is None or after is None:
            yield (MAP, *change.key)
            yield from self._all()
        concerned = clusterviews.changed(before or EMPTY, after or EMPTY)
        if clusterviews.gives_up(before or EMPTY, after or EMPTY):
            concerned |= self._outdone
        for namespace in concerned:
            yield (OFFLOADING, namespace, labels.NAMESPACE_OFFLOADING_NAME)

    def _on_node(self, change: StoreChange) -> Iterator[Task]:
        if clusterviews.labels_of(change.old) != clusterviews.labels_of(change.new):
            yield from self._all()

    def _all(self) -> Iterator[Task]:
        for key in list(self._offloadings.store.keys()):
            yield (OFFLOADING, *key)

    async def reconcile(self, task: Task) -> float | None:
        """Keep one NamespaceOffloading, or one provider's map, as they should be."""
        what, namespace, name = task
        try:
            if what == MAP:
                return await self._keep_map(namespace, name)
            offloading = self._offloadings.store.decode((namespace, name), NamespaceOffloading)
            if offloading is not None:
                return await self._keep_offloading(offloading)
            if name == labels.NAMESPACE_OFFLOADING_NAME:
                return await self._end(namespace)
        except Conflict:
            return CONFLICT_PAUSE
        return None

    # NamespaceMaps

    async def _keep_map(self, tenant: str, cluster: str) -> float | None:
        """One map for each provider with virtual nodes; it goes with the last of them."""
        nodes = [node for node in self._views.borrowed(tenant) if node.spec.cluster_id == cluster]
        namespace_map = self._maps.store.decode((tenant, cluster), NamespaceMap)
        if namespace_map is None:
            if any(not node.leaving for node in nodes):
                wanted = clusterviews.new_map(tenant, cluster, self._desired(cluster))
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(NAMESPACE_MAPS, wanted)
        elif not nodes and clusterviews.is_source(namespace_map) and not namespace_map.leaving:
            if self._virtual_nodes.doubtful:
                return DOUBT_AGAIN
            if not await is_defined(self._client, VIRTUAL_NODES):
                return DOUBT_AGAIN
            if not await self._sees_all(tenant, cluster):
                return DOUBT_AGAIN
            uid = namespace_map.metadata.uid
            await self._client.delete(NAMESPACE_MAPS, cluster, tenant, uid=uid)
        return None

    def _desired(self, cluster: str) -> dict[str, str]:
        """All entries of a map that is about to be made: a map without entries that the provider
        already has would end their namespaces there.
        """
        views = [view for _, view in self._views.all().values()]
        desired: dict[str, str] = {}
        offloadings = self._offloadings.store.values(NamespaceOffloading)
        # Those that had a name there keep it from others with the same request.
        for offloading in sorted(
            offloadings, key=lambda each: not offloadplan.mapped_as(each, cluster)
        ):
            name = self._plan(offloading, views).mapping.get(cluster)
            if name and name not in desired.values():
                desired[offloading.namespace] = name
        return desired

    async def _sees_all(self, tenant: str, cluster: str) -> bool:
        """True if the stores lack no virtual node of a provider, nor its Node with its labels.

        Checked before a namespace is taken from a provider that nothing selects any more: a list
        may lie, and with the namespace would go all that runs there.
        """
        known = {each.name: each.spec.cluster_id for each in self._views.borrowed(tenant)}
        nodes = self._views.nodes_of(cluster)
        listed = await self._client.list(VIRTUAL_NODES, Selection(tenant), decode=Partial)
        for name in ({each.metadata.name for each in listed} | nodes) - known.keys():
            if await self._client.find(VIRTUAL_NODES, name, tenant, decode=Partial) is not None:
                return False
        for name in {name for name, of in known.items() if of == cluster} - nodes:
            live = await self._client.find(NODES, name, decode=Partial)
            if live and live.metadata.labels.get(labels.REMOTE_CLUSTER_ID) == cluster:
                return False
        return True

    # NamespaceOffloadings

    def _plan(
        self, offloading: NamespaceOffloading, views: Sequence[ClusterView]
    ) -> OffloadingPlan:
        stays, here = self._unoffloadable.problem(offloading.namespace), self._context.cluster_id
        return offloadplan.plan(offloading, here, views, times.now(), stays=stays)

    async def _keep_offloading(self, offloading: NamespaceOffloading) -> float | None:
        clusters = self._views.all()
        outcome = self._plan(offloading, [view for _, view in clusters.values()])
        self._outdone.discard(offloading.namespace)
        if offloadplan.outdone(outcome):
            self._outdone.add(offloading.namespace)
        counts = offloading.name == labels.NAMESPACE_OFFLOADING_NAME
        if offloading.leaving:
            if counts:
                # First of all: the webhook is to send no new pod there.
                await self._labels.take_off(offloading.namespace)
            moving = await self._move(offloading.namespace, outcome.mapping, clusters)
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters, moving)
            if moving:
                return await self._moves_on(offloading, outcome, moving)
            left = self._ends_in(offloading.namespace, clusters) if counts else 0.0
            if left > 0:
                await self._write_status(offloading, outcome)
                return left
            await self._release(offloading)
            return None
        if self._unoffloadable.problem(offloading.namespace):
            # A namespace that was offloaded before this was refused comes back at once.
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters)
            await self._labels.take_off(offloading.namespace)
            await self._write_status(offloading, outcome)
            return None
        ended = [cluster for cluster, name in outcome.mapping.items() if name is None]
        if ended and not await is_defined(self._client, VIRTUAL_NODES):
            return DOUBT_AGAIN
        for cluster in ended:
            if not await self._sees_all(clusters[cluster][0], cluster):
                return DOUBT_AGAIN
        if counts:
            await self._hold(offloading)
            await self._labels.put_on(offloading)
            moving = await self._move(offloading.namespace, outcome.mapping, clusters)
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters, moving)
            if moving:
                return await self._moves_on(offloading, outcome, moving)
        await self._write_status(offloading, outcome)
        return None

    def _ends_in(self, namespace: str, clusters: Mapping[str, tuple[str, ClusterView]]) -> float:
        """Seconds for which the end of the remote namespaces is still waited for."""
        there = any(
            namespace in view.current and self._views.answers(cluster)
            for cluster, (_, view) in clusters.items()
        )
        if not there:
            return 0.0
        latest = trio.current_time() + self._timings.gone_within
        until = self._ending.setdefault(namespace, latest)
        return until - trio.current_time()

    async def _move(
        self,
        namespace: str,
        mapping: Mapping[str, str | None],
        clusters: dict[str, tuple[str, ClusterView]],
    ) -> dict[str, str]:
        """Move the next pods off the providers that are given up; returns the wait of each."""
        found = self._namespaces.store.decode(("", namespace), Partial)
        ending = found is None or found.metadata.deletion_timestamp is not None
        timeout = self._context.config.consumer.drain_timeout
        moving = {}
        self._holding.discard(namespace)
        for cluster in clusters:
            if ending or mapping.get(cluster, "") is not None:
                self._relocations.forget(namespace, cluster)
                continue
            held = await held_by(self._context, namespace, cluster)
            if held:
                moving[cluster] = held
                self._holding.add(namespace)
                continue
            nodes = self._views.nodes_of(cluster) if self._views.answers(cluster) else ()
            text = await self._relocations.advance(namespace, cluster, nodes, timeout)
            if text:
                moving[cluster] = text
        return moving

    async def _moves_on(
        self, offloading: NamespaceOffloading, outcome: OffloadingPlan, moving: dict[str, str]
    ) -> float:
        """Show the reasons to wait; the seconds until the next check."""
        shown = offloadplan.moving(outcome, offloading, moving, times.now())
        await self._write_status(offloading, shown)
        pause = self._relocations.pause(offloading.namespace)
        return self._timings.held_again if offloading.namespace in self._holding else pause

    async def _end(self, namespace: str) -> float | None:
        """Take out of the maps the entries that no NamespaceOffloading wants.

        Usually there are none: it has a finalizer, and leaves nothing behind. A user who takes that
        off and deletes it can be quicker than we are with putting it back.
        """
        clusters = self._views.all()
        left = {
            cluster: None for cluster, (_, view) in clusters.items() if namespace in view.desired
        }
        if not left:
            return None
        if not await is_defined(self._client, NAMESPACE_OFFLOADINGS):
            return DOUBT_AGAIN
        name = labels.NAMESPACE_OFFLOADING_NAME
        if await self._client.find(NAMESPACE_OFFLOADINGS, name, namespace, decode=Partial) is None:
            await self._write_mapping(namespace, left, clusters)
            await self._labels.take_off(namespace)
        return None

    async def _write_mapping(
        self,
        namespace: str,
        mapping: Mapping[str, str | None],
        clusters: dict[str, tuple[str, ClusterView]],
        spared: Container[str] = (),
    ) -> None:
        """Set or take out the namespace's entry in each map, touching no other entry.

        Raises:
            Conflict: another namespace has got the name since this was planned.
        """
        for cluster, name in mapping.items():
            if cluster in spared:
                continue
            tenant = clusters[cluster][0]
            if (tenant, cluster) not in self._maps.store:
                continue  # it is about to be made, and its arrival causes another turn
            if not self._views.take((tenant, cluster), namespace, name):
                raise Conflict(f"another namespace is mapped to {name} at {cluster}")
            patch = {"spec": {"desiredMapping": {namespace: name}}}
            try:
                await self._client.patch(NAMESPACE_MAPS, cluster, patch, tenant)
            except BaseException as error:
                self._views.forget((tenant, cluster), namespace)
                if not isinstance(error, NotFound):
                    raise

    async def _write_status(self, offloading: NamespaceOffloading, outcome: OffloadingPlan) -> None:
        patch = offloadplan.status_patch(outcome, offloading)
        if patch is None:
            return
        with contextlib.suppress(NotFound):
            await self._client.patch(
                NAMESPACE_OFFLOADINGS,
                offloading.name,
                patch,
                offloading.namespace,
                subresource="status",
            )
        self._context.hub.publish(
            OffloadingChanged(
                namespace=offloading.namespace,
                phase=outcome.status["offloadingPhase"],
                problem=outcome.problem,
            )
        )

    async def _hold(self, offloading: NamespaceOffloading) -> None:
        meta = offloading.metadata
        await set_finalizers(self._client, NAMESPACE_OFFLOADINGS, meta, add=[FINALIZER])

    async def _release(self, offloading: NamespaceOffloading) -> None:
        self._ending.pop(offloading.namespace, None)
        ours, meta = (FINALIZER, finalizers.NAMESPACE_OFFLOADING), offloading.metadata
        if await set_finalizers(self._client, NAMESPACE_OFFLOADINGS, meta, remove=ours):
            self._context.hub.publish(OffloadingChanged(namespace=offloading.namespace, ended=True))
