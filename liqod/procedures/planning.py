"""Plans what applying manifests would do: the API server's dry run, and its consequences.

Nothing is changed, here or at a peer.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import NAMESPACES, PODS, SECRETS, Kind
from liqod.errors import ProtocolError
from liqod.kube import times
from liqod.kube.cache.store import Key
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.disruption import EvictablePod
from liqod.model.view.figures import counted
from liqod.procedures import clusterobjects
from liqod.procedures.clusterobjects import APPLIED, ClusterObjects
from liqod.procedures.consequences import Changed, Consequence, consequences
from liqod.procedures.dryrun import DryRun, PlannedObject, Written
from liqod.procedures.offloadingconsequences import offloading_consequences
from liqod.procedures.propertyconsequences import is_property, property_consequences
from liqod.resources import (
    CONFIGURATIONS,
    NAMESPACE_OFFLOADINGS,
    RESOURCE_SLICES,
    VIRTUAL_NODES,
)

Json = dict[str, Any]

BY_NODES: Final = (CONFIGURATIONS, RESOURCE_SLICES, SECRETS, VIRTUAL_NODES)
"""Kinds that are judged by this cluster's own Nodes; a Secret may have the daemon's settings."""


class PlannedChange(msgspec.Struct, frozen=True):
    """One object, and what comes of it.

    Attributes:
        object: before and after; of an object that stays as it is, the same.
        consequences: what comes of it.
    """

    object: PlannedObject
    consequences: tuple[Consequence, ...] = ()

    @property
    def refused(self) -> str:
        """Why the API server, or the daemon, refuses it; empty where neither does."""
        told = (each.message for each in self.consequences if each.action == "refused")
        return self.object.problem or next(told, "")


class Planning:
    """Plans for one cluster.

    Args:
        client: of the cluster.
        here: its id.
        own: liqod's namespace in it.
        manager: the field manager as which objects are applied.

    Attributes:
        objects: all objects of the cluster as they would be; none before something is planned.
    """

    def __init__(self, client: Client, here: str, own: str, manager: str) -> None:
        self._client, self._here, self._own = client, here, own
        self._dry_run = DryRun(client, manager)
        self.objects = ClusterObjects()

    async def plan(
        self, manifests: Iterable[Written], pruned: str = "", *, by_nodes: bool = False
    ) -> list[PlannedChange]:
        """All objects of the manifests, and others for which something changes.

        Args:
            pruned: a label selector: objects with these labels that no manifest has are deleted.
            by_nodes: whether something beside them is judged by this cluster's own Nodes.

        Raises:
            LiqodError: the cluster cannot be read.
        """
        planned = await self._dry_run.run(manifests)
        if pruned:
            planned += await self._pruned(pruned, planned)
        by_nodes |= any(each.kind in BY_NODES and each.change != "same" for each in planned)
        before = await clusterobjects.read(self._client, real_nodes=by_nodes)
        self.objects = after = changed_by(before, planned)
        made = judged(planned, before, after, self._here, self._own)
        return [await self.with_pods(each) for each in made]

    async def _pruned(self, selector: str, kept: list[PlannedObject]) -> list[PlannedObject]:
        names = {(each.kind, each.namespace, each.name) for each in kept}
        found = []
        for kind in APPLIED:
            for each in await self._client.list(kind, Selection(labels=selector)):
                meta = each["metadata"]
                known = (kind, str(meta.get("namespace") or ""), str(meta["name"]))
                if known not in names:
                    found.append(PlannedObject(*known, "", "deleted", each))
        return found

    async def with_pods(self, change: PlannedChange) -> PlannedChange:
        """A change, with what becomes of the pods on the virtual nodes that it concerns."""
        made: list[Consequence] = []
        for each in change.consequences:
            made.append(each)
            if each.nodes:
                made += _leaving(each, await self._pods(each, each.nodes))
            if each.unreached and (cut := await self._pods(each, each.unreached)):
                told = f"{counted(len(cut), 'pod')} there: nothing reaches them, and they run on"
                made.append(Consequence("changes", each.cluster, told))
        return msgspec.structs.replace(change, consequences=tuple(made))

    async def _pods(self, ending: Consequence, nodes: Iterable[str]) -> list[EvictablePod]:
        return [
            pod
            for node in nodes
            for pod in await self._client.list(
                PODS,
                Selection(ending.namespace or None, fields=f"spec.nodeName={node}"),
                decode=EvictablePod,
            )
            if not pod.stays
        ]


def changed_by(before: ClusterObjects, planned: Iterable[PlannedObject]) -> ClusterObjects:
    """All objects as they would be; one that is refused stays as it is."""
    after = before.copy()
    for each in planned:
        if each.kind not in APPLIED or each.change == "refused":
            continue
        if each.after is not None:
            metadata = {**each.after["metadata"], "namespace": each.namespace}
            after.put(each.kind, {**each.after, "metadata": metadata})
        elif each.change == "deleted":
            _remove(after, each)
    return after


def judged(
    planned: Iterable[PlannedObject],
    before: ClusterObjects,
    after: ClusterObjects,
    here: str,
    own: str,
) -> list[PlannedChange]:
    """The consequences of planned objects, and the other objects that they concern.

    Args:
        before, after: all objects of the cluster.
        here: this cluster's id.
        own: liqod's namespace.
    """
    offloadings = offloading_consequences(before, after, here, own, times.now())
    made = []
    for each in planned:
        key = (each.namespace, each.name)
        if each.kind == NAMESPACE_OFFLOADINGS:
            found = offloadings.pop(key, [])
        elif is_property(each.kind):
            found = property_consequences(each, here)
        else:
            found = _of(each.kind, Changed(here, key, before, after), each)
        made.append(PlannedChange(each, tuple(found)))
    others = [PlannedChange(_same(key, after), tuple(each)) for key, each in offloadings.items()]
    return made + others


def _of(kind: Kind, changed: Changed, planned: PlannedObject) -> list[Consequence]:
    if planned.change in ("same", "refused"):
        return []
    try:
        return consequences(kind, changed)
    except ProtocolError as error:
        return [Consequence("refused", changed.here, f"it cannot be read: {error}")]


def _same(key: Key, after: ClusterObjects) -> PlannedObject:
    body = after.store(NAMESPACE_OFFLOADINGS).get(key)
    found: Json | None = msgspec.json.decode(body) if body is not None else None
    change = "same" if found is not None else "deleted"
    return PlannedObject(NAMESPACE_OFFLOADINGS, *key, "", change, found, found)  # type: ignore[arg-type]


def _remove(after: ClusterObjects, gone: PlannedObject) -> None:
    """Take an object out; with a namespace goes what is in it."""
    after.remove(gone.kind, (gone.namespace, gone.name))
    if gone.kind == NAMESPACES:
        for kind in APPLIED:
            for key in [each for each in after.store(kind) if each[0] == gone.name]:
                after.remove(kind, key)


def _leaving(ending: Consequence, pods: list[EvictablePod]) -> Iterable[Consequence]:
    if ending.at_once:
        if pods:
            told = f"{counted(len(pods), 'pod')} there, at once"
            yield Consequence("ends", ending.cluster, told)
        return
    moving = [each for each in pods if each.controller]
    lost = len(pods) - len(moving)
    if moving:
        told = f"{counted(len(moving), 'pod')} from there, within their disruption budgets"
        yield Consequence("moves", ending.cluster, told)
    if lost:
        told = f"{counted(lost, 'pod')} without a controller, which no other one follows"
        yield Consequence("ends", ending.cluster, told)
