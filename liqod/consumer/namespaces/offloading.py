"""Namespaces that reach into peers: NamespaceOffloadings, NamespaceMaps, and the namespace's label.

One room for the whole cluster, since one NamespaceOffloading concerns many providers. Each
provider with virtual nodes has a NamespaceMap in its tenant namespace; entries are written key by
key, so that many namespaces never overwrite each other. When a NamespaceOffloading goes, or
selects a provider no more, its pods there are moved first
(:mod:`liqod.consumer.namespaces.relocation`); then its entry goes, and the rest is the provider's.
Nothing here waits for a cluster that does not answer.
"""

import contextlib
import logging
from collections.abc import Container, Mapping, Sequence
from typing import Any, NoReturn

import trio

from liqod.consumer.namespaces import clusterviews, offloadplan
from liqod.consumer.namespaces.clusterviews import ClusterViews
from liqod.consumer.namespaces.offloadplan import ClusterView, Outcome
from liqod.consumer.namespaces.relocation import Relocations
from liqod.consumer.namespaces.staying import Staying
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.context import ClusterContext
from liqod.errors import AlreadyExists, Conflict, NotFound
from liqod.inspect.events import OffloadingChanged
from liqod.kube import times
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Change
from liqod.kube.definitions import is_defined
from liqod.kube.kinds import NAMESPACES, NODES
from liqod.kube.meta import Partial
from liqod.kube.queue import KeyedQueue
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    VIRTUAL_NODES,
    NamespaceMap,
    NamespaceOffloading,
)

log = logging.getLogger(__name__)

FINALIZER = labels.HOLD_NAMESPACE_OFFLOADING
CONFLICT_PAUSE = 0.2
DOUBT_AGAIN = 10.0
CONCURRENCY = 4

Task = tuple[str, str, str]
"""``offloading`` or ``map``, then namespace and name."""
OFFLOADING, MAP = "offloading", "map"
EMPTY = NamespaceMap()


class Offloading:
    """Keeps maps, labels and status as the NamespaceOffloadings of this cluster say."""

    def __init__(self, home: ClusterContext) -> None:
        self._home = home
        self._client = home.client
        self._queue: KeyedQueue[Task] = KeyedQueue(name="offloading")
        self._relocations = Relocations(home.client)
        self._outdone: set[str] = set()
        """The namespaces whose name at a provider another namespace has."""

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled."""
        share = self._home.informers.share
        async with (
            share(NAMESPACES) as namespaces,
            share(VIRTUAL_NODES) as virtual_nodes,
            share(NODES, Selection(labels=SELECTOR)) as nodes,
            share(NAMESPACE_MAPS) as maps,
            share(NAMESPACE_OFFLOADINGS) as offloadings,
        ):
            self._namespaces, self._maps = namespaces.store, maps.store
            self._staying = Staying(self._home.namespace, namespaces.store)
            self._virtual_nodes: Informer = virtual_nodes
            self._views = ClusterViews(virtual_nodes.store, nodes.store, maps.store)
            self._offloadings = offloadings.store
            with contextlib.ExitStack() as stack:
                for informer, handler in (
                    (offloadings, self._on_offloading),
                    (namespaces, self._on_namespace),
                    (virtual_nodes, self._on_virtual_node),
                    (maps, self._on_map),
                    (nodes, self._on_node),
                ):
                    stack.callback(informer.subscribe(handler))
                await self._queue.run(
                    self._turn,
                    concurrency=CONCURRENCY,
                    on_error=self._failed,
                    task_status=task_status,
                )
        raise AssertionError("the queue ends by cancellation only")

    # What happened, and whom it concerns

    def _on_offloading(self, change: Change) -> None:
        self._queue.add((OFFLOADING, *change.key))

    def _on_namespace(self, change: Change) -> None:
        key = (change.key[1], labels.NAMESPACE_OFFLOADING_NAME)
        if key in self._offloadings:
            self._queue.add((OFFLOADING, *key))

    def _on_virtual_node(self, change: Change) -> None:
        before, after = clusterviews.selectable(change.old), clusterviews.selectable(change.new)
        if before == after:
            return
        for seen in (before, after):
            if seen is not None:
                self._queue.add((MAP, change.key[0], seen[0]))
        self._all_again()

    def _on_map(self, change: Change) -> None:
        before, after = clusterviews.entries(change.old), clusterviews.entries(change.new)
        if before is after is None:
            return  # a consumer's wish, which concerns nothing that is offloaded from here
        self._views.seen(change.key, after)
        if before is None or after is None:
            self._queue.add((MAP, *change.key))
            self._all_again()
        concerned = clusterviews.changed(before or EMPTY, after or EMPTY)
        if clusterviews.gives_up(before or EMPTY, after or EMPTY):
            concerned |= self._outdone
        for namespace in concerned:
            self._queue.add((OFFLOADING, namespace, labels.NAMESPACE_OFFLOADING_NAME))

    def _on_node(self, change: Change) -> None:
        if clusterviews.labels_of(change.old) != clusterviews.labels_of(change.new):
            self._all_again()

    def _all_again(self) -> None:
        for key in list(self._offloadings.keys()):
            self._queue.add((OFFLOADING, *key))

    def _failed(self, task: Task, error: Exception) -> None:
        self._home.hub.publish(OffloadingChanged(failed="/".join(task), reason=str(error)))
        log.warning("offloading", extra={"task": "/".join(task), "reason": str(error)})

    async def _turn(self, task: Task) -> float | None:
        what, namespace, name = task
        try:
            if what == MAP:
                return await self._keep_map(namespace, name)
            offloading = self._offloadings.decode((namespace, name), NamespaceOffloading)
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
        namespace_map = self._maps.decode((tenant, cluster), NamespaceMap)
        if namespace_map is None:
            if any(not node.leaving for node in nodes):
                wanted = clusterviews.new_map(tenant, cluster, self._desired(cluster))
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(NAMESPACE_MAPS, wanted)
        elif not nodes and clusterviews.is_source(namespace_map) and not namespace_map.leaving:
            if self._virtual_nodes.suspect is not None:
                return DOUBT_AGAIN
            if not await is_defined(self._client, VIRTUAL_NODES):
                return DOUBT_AGAIN
            if not await self._sees_all(tenant, cluster):
                return DOUBT_AGAIN
            uid = namespace_map.metadata.uid
            await self._client.delete(NAMESPACE_MAPS, cluster, tenant, uid=uid)
        return None

    def _desired(self, cluster: str) -> dict[str, str]:
        """All entries of a map that is about to be made: one that came without those which the
        provider knows already would end their namespaces there.
        """
        views = [view for _, view in self._views.all().values()]
        desired: dict[str, str] = {}
        offloadings = self._offloadings.values(NamespaceOffloading)
        # Those that had a name there keep it from those that ask for the same.
        for offloading in sorted(
            offloadings, key=lambda each: not offloadplan.mapped_as(each, cluster)
        ):
            name = self._plan(offloading, views).mapping.get(cluster)
            if name and name not in desired.values():
                desired[offloading.namespace] = name
        return desired

    async def _sees_all(self, tenant: str, cluster: str) -> bool:
        """Whether the stores lack no virtual node of a provider, nor its Node with its labels.

        Asked before a namespace is taken from a provider that nothing selects any more: a list may
        lie, and with the namespace would go all that runs there.
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

    def _plan(self, offloading: NamespaceOffloading, views: Sequence[ClusterView]) -> Outcome:
        stays, here = self._staying.problem(offloading.namespace), self._home.cluster_id
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
                await self._unlabel(offloading.namespace)
            moving = await self._move(offloading.namespace, outcome.mapping, clusters)
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters, moving)
            if moving:
                return await self._moves_on(offloading, outcome, moving)
            await self._release(offloading)
            return None
        if self._staying.problem(offloading.namespace):
            # What was offloaded all the same, before this was refused, comes back at once.
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters)
            await self._unlabel(offloading.namespace)
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
            await self._label(offloading.namespace)
            moving = await self._move(offloading.namespace, outcome.mapping, clusters)
            await self._write_mapping(offloading.namespace, outcome.mapping, clusters, moving)
            if moving:
                return await self._moves_on(offloading, outcome, moving)
        await self._write_status(offloading, outcome)
        return None

    async def _move(
        self,
        namespace: str,
        mapping: Mapping[str, str | None],
        clusters: dict[str, tuple[str, ClusterView]],
    ) -> dict[str, str]:
        """Have the next pods leave the providers that are given up; what each waits for."""
        found = self._namespaces.decode(("", namespace), Partial)
        ending = found is None or found.metadata.deletion_timestamp is not None
        timeout = self._home.config.consumer.drain_timeout
        moving = {}
        for cluster in clusters:
            if ending or mapping.get(cluster, "") is not None:
                self._relocations.forget(namespace, cluster)
                continue
            nodes = self._views.nodes_of(cluster) if self._views.answers(cluster) else ()
            text = await self._relocations.advance(namespace, cluster, nodes, timeout)
            if text:
                moving[cluster] = text
        return moving

    async def _moves_on(
        self, offloading: NamespaceOffloading, outcome: Outcome, moving: dict[str, str]
    ) -> float:
        """Show what is waited for; the seconds until the next look."""
        shown = offloadplan.moving(outcome, offloading, moving, times.now())
        await self._write_status(offloading, shown)
        return self._relocations.pause(offloading.namespace)

    async def _end(self, namespace: str) -> float | None:
        """Take out of the maps what no NamespaceOffloading wants.

        Usually there is nothing: it has a finalizer, and leaves nothing behind. Somebody who takes
        that off and deletes it can be quicker than we are with putting it back.
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
            await self._unlabel(namespace)
        return None

    async def _write_mapping(
        self,
        namespace: str,
        mapping: Mapping[str, str | None],
        clusters: dict[str, tuple[str, ClusterView]],
        spared: Container[str] = (),
    ) -> None:
        """Set or take out the namespace's entry in each map, touching no other entry."""
        for cluster, name in mapping.items():
            if cluster in spared:
                continue
            tenant = clusters[cluster][0]
            if (tenant, cluster) not in self._maps:
                continue  # it is about to be made, and its arrival brings us here again
            patch = {"spec": {"desiredMapping": {namespace: name}}}
            with contextlib.suppress(NotFound):
                await self._client.patch(NAMESPACE_MAPS, cluster, patch, tenant)
                self._views.remember((tenant, cluster), namespace, name)

    async def _write_status(self, offloading: NamespaceOffloading, outcome: Outcome) -> None:
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
        self._home.hub.publish(
            OffloadingChanged(
                namespace=offloading.namespace,
                phase=outcome.status["offloadingPhase"],
                problem=outcome.problem,
            )
        )

    async def _hold(self, offloading: NamespaceOffloading) -> None:
        if FINALIZER not in offloading.metadata.finalizers:
            await self._finalizers(offloading, (*offloading.metadata.finalizers, FINALIZER))

    async def _release(self, offloading: NamespaceOffloading) -> None:
        ours = (FINALIZER, labels.FINALIZER_NAMESPACE_OFFLOADING)
        kept = tuple(each for each in offloading.metadata.finalizers if each not in ours)
        if kept != offloading.metadata.finalizers:
            await self._finalizers(offloading, kept)
            self._home.hub.publish(OffloadingChanged(namespace=offloading.namespace, ended=True))

    async def _finalizers(
        self, offloading: NamespaceOffloading, finalizers: tuple[str, ...]
    ) -> None:
        metadata = {
            "finalizers": finalizers,
            "resourceVersion": offloading.metadata.resource_version,
        }
        with contextlib.suppress(NotFound):
            await self._client.patch(
                NAMESPACE_OFFLOADINGS,
                offloading.name,
                {"metadata": metadata},
                offloading.namespace,
            )

    async def _label(self, namespace: str) -> None:
        """The label by which the webhook is asked about the namespace's pods."""
        found = self._namespaces.decode(("", namespace), Partial)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        if found.metadata.labels.get(labels.SCHEDULING_ENABLED) == labels.TRUE:
            return
        # The UID keeps an apply from creating the namespace anew where it was deleted meanwhile.
        metadata = {
            "name": namespace,
            "uid": found.metadata.uid,
            "labels": {labels.SCHEDULING_ENABLED: labels.TRUE},
        }
        await self._client.apply(NAMESPACES, {"metadata": metadata}, manager=labels.FIELD_MANAGER)

    async def _unlabel(self, namespace: str) -> None:
        found = self._namespaces.decode(("", namespace), Partial)
        if found is not None and labels.SCHEDULING_ENABLED in found.metadata.labels:
            patch: dict[str, Any] = {"metadata": {"labels": {labels.SCHEDULING_ENABLED: None}}}
            with contextlib.suppress(NotFound):
                await self._client.patch(NAMESPACES, namespace, patch)
