"""Follows the parts of one peer that its slices show, each as a virtual node of its own.

The grant is divided among the parts when the provider tells anew what is free there, and not at
each pod: a share is what ran on the part then, and what was free then beside it. So what has been
sent since is deducted until the provider's next word includes it. While its daemon is not known to
run, there is none, and the division stays.

No word of a provider's ends a pod that runs: a part of which it says nothing any more takes no new
pods, and goes once none runs on it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import NamedTuple

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.meta import ObjectMeta
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.pendingpods import PendingPods
from liqod.consumer.slices.sliceobjects import amounts
from liqod.consumer.timings import ConsumerTimings
from liqod.kube import times
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity
from liqod.model.peering import parts as dividing
from liqod.model.peering.freecapacity import NodeGroup
from liqod.model.peering.parts import Part
from liqod.resources import ResourceSlice


class Division(msgspec.Struct, frozen=True):
    """The virtual nodes of one slice.

    Attributes:
        parts: those that it has; none where it has one node as a whole.
        again: seconds until it is to be divided anew in any case.
    """

    parts: tuple[Part, ...] = ()
    again: float | None = None


class _Made(NamedTuple):
    """The last division of a slice, what it was made of, and when."""

    of: tuple[object, ...]
    at: float
    parts: tuple[Part, ...]


class NodeParts:
    """Divides the slices of one peer.

    Args:
        context: this cluster.
        timings: how often a slice is divided.
        heard: Trio times from which and until which the peer's words surely came.
    """

    def __init__(
        self,
        context: ClusterContext,
        timings: ConsumerTimings,
        heard: Callable[[], tuple[float, float]],
    ) -> None:
        self._context, self._timings, self._heard = context, timings, heard
        self._made: dict[str, _Made] = {}
        self._pods: dict[str, dict[str, PendingPods]] = {}
        """By slice and by virtual node."""

    def forget(self, name: str) -> None:
        """End what follows the pods of a slice."""
        self._made.pop(name, None)
        for pods in self._pods.pop(name, {}).values():
            pods.follow(None)

    def divide(self, found: ResourceSlice, nodes: Mapping[str, ObjectMeta]) -> Division:
        """The virtual nodes that a slice is to have now.

        Args:
            found: the slice.
            nodes: its VirtualNodes, by name.
        """
        notes = found.metadata.annotations
        told = freecapacity.read(notes.get(labels.FREE_CAPACITY))
        mode = dividing.mode(notes)
        groups = dividing.lasting(told, mode)
        parts = {key: each for each in nodes.values() if (key := _key(each))}
        if mode == dividing.WHOLE or not (groups or parts):
            self.forget(found.name)
            return Division()
        # Of a provider that has no node now, or says nothing, nothing goes: nothing is known.
        pods = self._follow(found.name, nodes)
        known = told is not None and told.groups and pods is not None
        kept = self._timings.part_kept if known else inf
        busy = {name for name, each in (pods or {}).items() if each.stay}
        gone = _not_told(groups, parts.values(), kept, busy)
        new = [key for key in groups if key not in parts]
        # Machines on which pods still run take no place from the groups that are asked for now.
        same = [each for each in parts.values() if mode == dividing.NODES or not _is_machine(each)]
        new = new[: max(0, dividing.MOST_PARTS[mode] - len(same))]
        groups = {key: each for key, each in groups.items() if key in parts or key in new}
        if not (groups or gone):
            self.forget(found.name)
            return Division()
        grows = told is not None and told.autoscales and mode == dividing.GROUPS
        placed = None
        if pods is not None:
            placed = {_key(each) or name: pods[name].running for name, each in nodes.items()}
        counted = None if told is None else told.parts
        return self._divided(found, placed, groups, gone, grows=grows, counted=counted)

    def _divided(
        self,
        found: ResourceSlice,
        placed: Mapping[str, Amounts] | None,
        groups: Mapping[str, NodeGroup],
        gone: Mapping[str, tuple[NodeGroup, str]],
        *,
        grows: bool,
        counted: Mapping[str, int] | None,
    ) -> Division:
        name, now = found.name, trio.current_time()
        of = (groups, gone, grows, counted, found.status.resources, (placed or {}).keys())
        last = self._made.get(name)
        if last is not None:
            pause, every = self._timings.parts_pause, self._timings.parts_every
            (since, until), age = self._heard(), now - last.at
            wait = pause - age
            if last.of == of and until - max(last.at, since) < every:
                wait = max(pause, every - age)
            if wait > 0:
                return Division(last.parts, wait)
        granted = quantities.parse_all(amounts(found.status.resources))
        parts = dividing.parts(groups, granted, placed or {}, gone, grows=grows, counted=counted)
        if placed is None:  # before the pods were read, and so to be made again soon
            return Division(parts, self._timings.parts_pause)
        self._made[name] = _Made(of, now, parts)
        return Division(parts, self._timings.parts_every)

    def _follow(self, name: str, nodes: Mapping[str, ObjectMeta]) -> dict[str, PendingPods] | None:
        """The sums of the pods on each virtual node of a slice, by its name; None where the pods
        are not known."""
        informer = self._context.informers.find(PODS, self._context.own_pods.selection)
        if informer is None or not informer.store.synced:
            return None
        known = self._pods.setdefault(name, {})
        for node in known.keys() - nodes.keys():
            known.pop(node).follow(None)
        for node in nodes:
            pods = known.setdefault(node, PendingPods(node))
            pods.follow(informer)
            pods.refresh()
        return known


def _not_told(
    groups: Mapping[str, NodeGroup],
    parts: Iterable[ObjectMeta],
    kept: float,
    busy: Collection[str],
) -> dict[str, tuple[NodeGroup, str]]:
    """The groups that were told before and may still come back, or whose virtual node is busy, and
    since when they are not told."""
    gone: dict[str, tuple[NodeGroup, str]] = {}
    for each in parts:
        notes = each.annotations
        since = notes.get(labels.NOT_TOLD_SINCE) or times.now()
        known = _told_of(each)
        if _key(each) in groups or each.deletion_timestamp or known is None:
            continue
        if _age(since) < kept or each.name in busy:
            gone[_key(each)] = known, since
    return gone


def _told_of(part: ObjectMeta) -> NodeGroup | None:
    """The last word on the group of a part."""
    known = freecapacity.read(part.annotations.get(labels.FREE_CAPACITY))
    return next(iter(known.groups), None) if known is not None else None


def _is_machine(part: ObjectMeta) -> bool:
    known = _told_of(part)
    return known is not None and bool(known.key)


def _key(node: ObjectMeta) -> str:
    return node.labels.get(labels.PART, "")


def _age(stamp: str) -> float:
    try:
        return times.age(stamp)
    except (ValueError, TypeError):
        return inf
