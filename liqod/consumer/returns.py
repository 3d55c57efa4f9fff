"""Evicts the pods that have returned from a peer, and marks their controllers first.

A pod comes here once nothing of it is left at the peer that could not start it
(:mod:`liqod.plugins.returning`). The mark is written before the eviction and read back from the
watch that the webhook has: the next pod of the controller then finds it. Marks that count no more
are removed, and one ends early where the peer says by now that it has room.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes import nodedrain
from liqod.errors import ConfigError
from liqod.kube import times
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched
from liqod.model.objects import podreturns, quantities, returnmarks
from liqod.model.objects.disruption import EvictablePod
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering import freecapacity
from liqod.model.peering.freecapacity import FreeCapacity
from liqod.model.peering.quota import pod_cost
from liqod.resources import (
    NAMESPACE_OFFLOADINGS,
    VIRTUAL_NODES,
    NamespaceOffloading,
    VirtualNode,
)
from liqod.resources.offloading import REMOTE

AGAIN: Final = 0.2
"""Seconds until the mark is looked for that was just written."""
LOOKS: Final = 10
"""Looks for it at the most: a namespace with too many marks may not have kept it."""
BLOCKED: Final = 10.0
"""Seconds until the next try at an eviction that a budget does not allow."""
PACE: Final = 60.0
"""Seconds between two looks at the marks of a namespace, and at what its peers have free. A
controller without a pod that long after its last return is gone, or wants none."""
MOST_ASKED: Final = 8
"""Resources that a mark keeps."""
_MARK: Final = labels.RETURNED.encode()
_CONDITION: Final = labels.RETURNING.encode()


async def run(
    context: ClusterContext, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> NoReturn:
    """Evict what has returned, until cancelled; started when everything has been read."""
    status = task_status
    while True:
        async with trio.open_nursery() as nursery:
            await nursery.start(ReturnedPods(context).run)
            status.started()
            status = trio.TASK_STATUS_IGNORED
            await context.own_pods.changed()
            nursery.cancel_scope.cancel()


class ReturnedPods(Controller[Key]):
    """Evicts pods, and keeps the marks of each namespace, whose key has no name."""

    def __init__(self, context: ClusterContext) -> None:
        self._context, self._client = context, context.client
        self._looks: dict[Key, int] = {}
        self._pods = Watched(PODS, _returning, context.own_pods.selection)
        self._offloadings = Watched(NAMESPACE_OFFLOADINGS, _with_marks)
        self._nodes: Watched[Key] = Watched(VIRTUAL_NODES)
        watches = self._pods, self._offloadings, self._nodes
        super().__init__(context, "returned", *watches, name="returned pods")

    async def reconcile(self, key: Key) -> float | None:
        """Evict a pod that has returned, or drop the marks of a namespace that do not count."""
        return await (self._send(key) if key[1] else self._tidy(key[0]))

    async def _send(self, key: Key) -> float | None:
        """Mark the controller of a pod, then evict the pod."""
        pod = self._pods.store.decode(key, dict[str, Any])
        owner = None if pod is None else podreturns.owner(pod)
        if pod is None or owner is None or pod["metadata"].get("deletionTimestamp"):
            self._looks.pop(key, None)
            return None
        if not podreturns.ended_there(pod):
            return None
        cluster = await self._cluster(pod)
        offloading = self._offloading(key[0])
        if cluster and offloading is not None:
            marks = returnmarks.read(offloading.metadata.annotations)
            now = times.now()
            known = returnmarks.find(marks, str(owner["uid"]), cluster)
            looks = self._looks.get(key, 0)
            if looks < LOOKS and (known is None or not known.holds(now)):
                if not looks:
                    new = _mark(pod, owner, cluster, now, self._lacking(pod, cluster))
                    first = self._context.config.consumer.return_back_off
                    await self._write(offloading, returnmarks.added(marks, new, first))
                self._looks[key] = looks + 1
                return AGAIN
        blocked = await nodedrain.evict(self._client, msgspec.convert(pod, EvictablePod))
        self._looks.pop(key, None)
        return BLOCKED if blocked else None

    async def _cluster(self, pod: dict[str, Any]) -> str:
        """The id of the peer whose virtual node a pod is on; empty where that is gone."""
        node = await self._client.find(NODES, pod["spec"].get("nodeName", ""), decode=Partial)
        return "" if node is None else node.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")

    def _lacking(self, pod: dict[str, Any], cluster: str) -> dict[str, str]:
        """The requests of a pod, where its peer says that no node has as much free now."""
        told = self._told(cluster)
        if podreturns.noted(pod).get("reason") != podreturns.UNSCHEDULABLE or not told:
            return {}
        try:
            asked = {name: n for name, n in pod_cost(pod["spec"]).items() if n}
        except ConfigError:
            return {}
        has_room = any(freecapacity.has_room(each, asked) for each in told)
        return {} if has_room or len(asked) > MOST_ASKED else quantities.render_all(asked)

    def _has_room(self, mark: ReturnMark) -> bool:
        """True if a peer says that a node has room for a pod as that of a mark."""
        asked = quantities.parse_all(mark.asked)
        return any(freecapacity.has_room(each, asked) for each in self._told(mark.cluster))

    def _told(self, cluster: str) -> list[FreeCapacity]:
        """The words of a peer's on what is free there, of each of its virtual nodes."""
        nodes = self._nodes.store.values(VirtualNode)
        notes = (each.metadata.annotations for each in nodes if each.spec.cluster_id == cluster)
        found = (freecapacity.read(each.get(labels.FREE_CAPACITY)) for each in notes)
        return [each for each in found if each is not None]

    def _offloading(self, namespace: str) -> NamespaceOffloading | None:
        key = (namespace, labels.NAMESPACE_OFFLOADING_NAME)
        found = self._offloadings.store.decode(key, NamespaceOffloading)
        return None if found is None or found.leaving else found

    async def _write(self, offloading: NamespaceOffloading, marks: Iterable[ReturnMark]) -> None:
        meta = offloading.metadata
        notes = {labels.RETURNED: returnmarks.render(marks)}
        patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": notes}}
        await self._client.patch(NAMESPACE_OFFLOADINGS, meta.name, patch, meta.namespace)

    async def _tidy(self, namespace: str) -> float | None:
        """Drop the marks that count no more; the seconds until the next look."""
        offloading = self._offloading(namespace)
        if offloading is None:
            return None
        notes, now = offloading.metadata.annotations, times.now()
        marks = returnmarks.read(notes)
        if labels.RETURNED not in notes:
            return None
        young = {each.owner for each in marks if times.age(each.since) < PACE}
        owners = young | (await self._owners(namespace) if len(young) < len(marks) else set())
        clusters = offloading.status.remote_namespaces_conditions
        kept = returnmarks.kept(marks, now, owners, clusters)
        kept = returnmarks.lifted(kept, now, self._has_room)
        if clusters and offloading.spec.pod_offloading_strategy == REMOTE:
            first = self._context.config.consumer.return_back_off
            kept = returnmarks.shortened(kept, now, clusters, first)
        if kept != marks or not marks:
            await self._write(offloading, kept)
        return PACE if kept else None

    async def _owners(self, namespace: str) -> set[str]:
        """The UIDs of the controllers that have pods in a namespace."""
        found = await self._client.list(PODS, Selection(namespace), decode=EvictablePod)
        return {each.controller for each in found if each.controller}


def _returning(change: StoreChange) -> Iterator[Key]:
    if change.new is not None and _CONDITION in change.new:
        yield change.key


def _with_marks(change: StoreChange) -> Iterator[Key]:
    if change.new is not None and _MARK in change.new:
        yield (change.key[0], "")


def _mark(
    pod: dict[str, Any], owner: Any, cluster: str, now: str, asked: dict[str, str]
) -> ReturnMark:
    """The mark of a pod's controller; its end and number are not counted yet."""
    known = podreturns.noted(pod)
    return ReturnMark(
        owner=str(owner["uid"]),
        kind=str(owner.get("kind", "")),
        name=str(owner.get("name", "")),
        cluster=cluster,
        cause=str(known.get("reason", "")),
        message=str(known.get("message", "")),
        since=now,
        until=now,
        asked=asked,
    )
