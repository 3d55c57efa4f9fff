"""The resources that are free on a provider's nodes, as it tells them to its consumers. Pure.

A sum says nothing of fragmentation: ten machines with eight free CPUs each have no room for a pod
of twelve. So a provider may write as JSON into an annotation of the slices that it grants, for each
group of its nodes: their number, the free resources in all, the largest pods that fit now, and how
many nodes have at least so much free of a resource. A group has the same shown labels, architecture
and taints; no node is named. A provider that tells nothing (Liqo's) changes nothing. A slice may
ask for each node by itself; then each is a group, with a key that stands for its name.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import capacity

LONGEST: Final = 1 << 14
"""Bytes of an annotation that is written, or read."""
MOST_GROUPS: Final = 8
MOST_MACHINES: Final = 64
"""Nodes that are told each by itself; where there are more, groups are told."""
MOST_LABELS: Final = 8
MOST_TAINTS: Final = 8
MOST_NODES: Final = 1_000_000
MOST_RESOURCES: Final = 8
MOST_STEPS: Final = 3
"""Steps of a histogram."""
LARGEST_SIZES: Final = 3
"""Sizes of the largest pods of a group."""
DIGITS: Final = 2
"""Digits to which what is free is rounded down, so that a small pod changes nothing."""
_MEASURED: Final = ("cpu", "memory")
"""Resources of whose holes is told, beside those of devices."""
CARRIED: Final = frozenset(
    {
        "GuaranteedQoSPodCPUResize",
        "InPlacePodLevelResourcesVerticalScaling",
        "RestartAllContainersOnContainerExits",
    }
)
"""Declared features of nodes (KEP-5328) that pods have at a peer as here: their fields cross, and
what is resized here is resized there (:mod:`liqod.model.objects.podchanges`)."""
_KEY = re.compile(r"[0-9a-f]{8}")
_SHUT: Final = ("NoSchedule", "NoExecute")
_CORDON: Final = "node.kubernetes.io/unschedulable"
"""The taint of a cordoned node. It is not told: the node is of the group that it was of."""


class FreeNode(msgspec.Struct, frozen=True):
    """One node: its labels and taints, what is free on it, in billionths, its key, and the
    features that it declares and a consumer's pods can have."""

    labels: Mapping[str, str]
    taints: tuple[str, ...]
    free: Amounts
    key: str = ""
    features: frozenset[str] = frozenset()


class NodeGroup(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Nodes that have the same shown labels, architecture and taints.

    Attributes:
        nodes: their number.
        labels: those that are shown.
        taints: that keep pods off them, as ``key=value:effect``.
        free: resources in all.
        largest: sizes that no pod may exceed in every resource.
        holes: of CPU, memory and devices: of how many nodes at least so much is free, the most
            first, and then the amounts that tell the most of what is free.
        key: of a node that is told by itself; empty for a group. It needs no sizes and no holes.
        features: that all of them declare, of those that are :data:`CARRIED`.
    """

    nodes: int
    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()
    free: dict[str, str] = {}
    largest: tuple[dict[str, str], ...] = ()
    holes: dict[str, dict[str, int]] = {}
    key: str = ""
    features: tuple[str, ...] = ()


class FreeCapacity(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """All groups of a provider's nodes.

    Attributes:
        groups: the largest first.
        autoscales: whether nodes are added where pods find no place.
        counted: the requests of the pods of one virtual node of the consumer's that all of this is
            free beside.
        parts: the number of such pods on each virtual node of a part of the provider, by its key;
            None of a provider that does not count them.
    """

    groups: tuple[NodeGroup, ...] = ()
    autoscales: bool = False
    counted: dict[str, str] = {}
    parts: dict[str, int] | None = None


def free_node(node: Mapping[str, Any], used: Mapping[str, int]) -> FreeNode | None:
    """The free resources of a Node, as JSON; None for one that is not ready, or is virtual.

    On a cordoned one nothing is free, and it is told all the same: what runs there stays.

    Args:
        node: the Node.
        used: requests of the pods on it.
    """
    marks = (node.get("metadata") or {}).get("labels") or {}
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    if not ready:
        return None
    if marks.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return None
    taints = tuple(
        sorted(
            f"{each.get('key')}={each.get('value', '')}:{each.get('effect')}"
            for each in spec.get("taints") or ()
            if each.get("effect") in _SHUT and each.get("key") != _CORDON
        )
    )
    has = quantities.parse_all(status.get("allocatable") or {})
    shut = bool(spec.get("unschedulable"))
    free = {name: 0 if shut else max(0, n - used.get(name, 0)) for name, n in has.items()}
    key = machine_key((node.get("metadata") or {}).get("uid") or "")
    return FreeNode(marks, taints, free, key, CARRIED & {*(status.get("declaredFeatures") or ())})


def machine_key(uid: str) -> str:
    """The key of a Node: it stays while the Node does, and nobody can guess the Node by it."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]


def tell(nodes: Iterable[FreeNode], shown: Sequence[str], *, autoscales: bool = False) -> str:
    """The annotation of all nodes.

    Args:
        nodes: those that are ready.
        shown: keys of the labels that consumers may see, beside the architecture.
        autoscales: as of :class:`FreeCapacity`.
    """
    found: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], list[FreeNode]] = {}
    for each in nodes:
        marks = tuple(_shown(each, shown).items())
        found.setdefault((marks, each.taints[:MOST_TAINTS]), []).append(each)
    groups = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    rest = [node for _, members in groups[MOST_GROUPS - 1 :] for node in members]
    if len(groups) > MOST_GROUPS:  # the small ones are one, of which no label is told
        groups = [*groups[: MOST_GROUPS - 1], (((), ()), rest)]
    told = tuple(_group(dict(marks), taints, members) for (marks, taints), members in groups)
    text = msgspec.json.encode(FreeCapacity(told, autoscales)).decode()
    return text if len(text) <= LONGEST else ""


def tell_each(nodes: Sequence[FreeNode], shown: Sequence[str], *, autoscales: bool = False) -> str:
    """The annotation with each node by itself; that of groups where there are too many.

    Args:
        nodes, shown, autoscales: as of :func:`tell`.
    """
    text = ""
    if len(nodes) <= MOST_MACHINES:
        each = sorted(nodes, key=lambda node: node.key)
        told = tuple(_machine(node, _shown(node, shown)) for node in each)
        text = msgspec.json.encode(FreeCapacity(told, autoscales)).decode()
    return text if 0 < len(text) <= LONGEST else tell(nodes, shown, autoscales=autoscales)


def for_slice(text: str, counted: Mapping[str, int], parts: Mapping[str, int] | None = None) -> str:
    """The annotation of one slice: that of all nodes, and which of its own pods are in it.

    Args:
        text: as of :func:`tell`.
        counted: as of :class:`FreeCapacity`, of the virtual node that has the slice's name.
        parts: the same.
    """
    found = read(text) if counted or parts is not None else None
    if found is None:
        return text
    own = msgspec.structs.replace(
        found,
        counted=quantities.render_all(counted),
        parts=None if parts is None else dict(parts),
    )
    whole = msgspec.json.encode(own).decode()
    return whole if len(whole) <= LONGEST else text


def room(
    found: FreeCapacity | None,
    settled: Mapping[str, int],
    waiting: Mapping[str, int],
) -> Amounts:
    """The most that all pods of one virtual node may ask for together; empty where none is told.

    That is what is free, and the pods that it is free beside. So of what was sent since, each pod
    takes its part until the provider counts it too, or it counts as settled. While pods wait, no
    more comes at once than one node has free: another cluster may have room for what is larger.

    Args:
        found: what the provider tells.
        settled: the requests of the pods that were sent so long ago that they are in it, counted
            or not: what is told may be old.
        waiting: those of the pods that wait there, and use nothing of any node.
    """
    if found is None:
        return {}
    counted = quantities.largest((quantities.parse_all(found.counted), settled))
    beside = quantities.total((counted, waiting))
    free = {} if found.autoscales else quantities.total(_free(found))
    for name, amount in (largest(found) if waiting else {}).items():
        free[name] = min(free.get(name, amount), amount)
    return {name: beside.get(name, 0) + amount for name, amount in free.items()}


def _free(found: FreeCapacity) -> Iterable[Amounts]:
    return (quantities.parse_all(each.free) for each in found.groups)


def read(text: str | None) -> FreeCapacity | None:
    """The groups in a provider's annotation; None for none, or what cannot be believed."""
    if not text or len(text) > LONGEST:
        return None
    try:
        found = msgspec.json.decode(text, type=FreeCapacity)
        quantities.parse_all(found.counted)
        for each in found.groups:
            holes = ({text: text for text in steps} for steps in each.holes.values())
            for amounts in (each.free, *each.largest, *holes):
                if min(quantities.parse_all(amounts).values(), default=0) < 0:
                    return None
    except (msgspec.MsgspecError, ConfigError):
        return None
    counts = [n for each in found.groups for h in each.holes.values() for n in h.values()]
    counts += [each.nodes for each in found.groups] + [*(found.parts or {}).values()]
    keyed = [each.key for each in found.groups if each.key]
    sound = len(found.groups) - len(keyed) <= MOST_GROUPS and len(keyed) <= MOST_MACHINES
    sound = sound and all(map(_KEY.fullmatch, keyed)) and len(set(keyed)) == len(keyed)
    return found if sound and all(0 <= n <= MOST_NODES for n in counts) else None


def largest(found: FreeCapacity | None) -> Amounts:
    """The most that is free of each resource on one node; empty where it is not told."""
    if found is None:
        return {}
    return quantities.largest(sizes(found))


def features(found: FreeCapacity | None) -> tuple[str, ...]:
    """The features that all nodes declare, of those that pods have at a peer as here, sorted."""
    groups = () if found is None else found.groups
    declared = (CARRIED.intersection(each.features) for each in groups)
    return tuple(sorted(frozenset.intersection(*declared))) if groups else ()


def measured(names: Iterable[str]) -> list[str]:
    """The resources of whose holes is told."""
    return [name for name in names if name in _MEASURED or capacity.is_device(name)]


def has_room(found: FreeCapacity, asked: Mapping[str, int]) -> bool:
    """True if a node has as much free as a pod asks for."""
    return any(all(size.get(n, 0) >= most for n, most in asked.items()) for size in sizes(found))


def sizes(found: FreeCapacity) -> Iterator[Amounts]:
    """The sizes of what fits on one node; a machine has all that is free on it."""
    for each in found.groups:
        yield from map(quantities.parse_all, (each.free,) if each.key else each.largest)


def _group(marks: dict[str, str], taints: tuple[str, ...], nodes: list[FreeNode]) -> NodeGroup:
    free = [{name: _rounded(amount) for name, amount in each.free.items()} for each in nodes]
    kept = _kept(quantities.total(free))
    free = [{name: amount for name, amount in each.items() if name in kept} for each in free]
    found = capacity.largest_machines(free)
    return NodeGroup(
        len(nodes),
        marks,
        taints,
        _texts({name: _rounded(amount, DIGITS + 1) for name, amount in kept.items()}),
        tuple(_texts(each) for each in capacity.fewer(found, LARGEST_SIZES)),
        {name: _histogram([each.get(name, 0) for each in free]) for name in measured(kept)},
        features=_features(nodes),
    )


def _machine(node: FreeNode, marks: dict[str, str]) -> NodeGroup:
    free = _kept({name: _rounded(amount) for name, amount in node.free.items()})
    taints = node.taints[:MOST_TAINTS]
    declared = _features((node,))
    return NodeGroup(1, marks, taints, _texts(free), key=node.key, features=declared)


def _features(nodes: Sequence[FreeNode]) -> tuple[str, ...]:
    return tuple(sorted(frozenset.intersection(*(each.features for each in nodes))))


def _shown(node: FreeNode, shown: Sequence[str]) -> dict[str, str]:
    """The labels of a node that consumers may see."""
    keys = (labels.ARCH, *shown[:MOST_LABELS])
    return {key: node.labels[key] for key in keys if key in node.labels}


def _kept(amounts: Amounts) -> Amounts:
    """The resources that are told."""
    names = sorted(amounts, key=lambda name: (name.startswith("hugepages-"), "." in name, name))
    return {name: amounts[name] for name in names[:MOST_RESOURCES]}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """The shortest texts of amounts: of what is rounded in tens, binary suffixes rarely give it."""
    return {
        name: min(quantities.render(amount), quantities.render(amount, binary=True), key=len)
        for name, amount in amounts.items()
    }


def _histogram(amounts: list[int]) -> dict[str, int]:
    """How many nodes have at least so much: the most, and then each time the step that says the
    most of what these nodes have."""
    ordered = sorted(amounts, reverse=True)
    # The number of nodes that have at least as much: of equal ones the last.
    reach = {amount: number for number, amount in enumerate(ordered, 1)}
    steps = [next(iter(reach))]
    while steps[-1] > 0 and len(steps) < MOST_STEPS:
        gains = {amount: _gain(amount, steps, reach) for amount in reach}
        best = max(gains, key=lambda amount: (gains[amount], amount))
        if not gains[best]:
            break
        steps = sorted((*steps, best), reverse=True)
    return {quantities.render(step): reach[step] for step in steps if step}


def _gain(amount: int, steps: Sequence[int], reach: Mapping[int, int]) -> int:
    """How much more a step at an amount tells, in all, of what nodes have."""
    above = max((reach[step] for step in steps if step >= amount), default=0)
    below = max((step for step in steps if step <= amount), default=0)
    return (reach[amount] - above) * (amount - below)


def _rounded(amount: int, digits: int = DIGITS) -> int:
    """An amount, rounded down to a few digits."""
    return amount - amount % scale(amount, digits)


def scale(amount: int, digits: int = DIGITS) -> int:
    """The unit of the last of an amount's first digits."""
    return int("1" + "0" * max(0, len(str(amount)) - digits))
