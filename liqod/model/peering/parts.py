"""Divides a slice among virtual nodes, one for each node or group of its provider's. Pure.

One virtual node for a whole provider shows a sum: of several, each shows what one part of the
provider has (:mod:`liqod.model.peering.freecapacity`). All parts use one grant. So what is left
of it is divided: nobody has more of it than its part has free, and together they never have more
than was granted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.model.peering.quota import PODS

WHOLE: Final = "whole"
GROUPS: Final = "groups"
NODES: Final = "nodes"
MOST_PARTS: Final = {
    WHOLE: 0,
    GROUPS: 2 * freecapacity.MOST_GROUPS,
    NODES: 2 * freecapacity.MOST_MACHINES,
}
"""Virtual nodes of one slice, with those that are about to go."""
_DIGITS: Final = 8
_MEASURES: Final = ("cpu", "memory")
_CPU_UNIT: Final = quantities.NANO // 1000
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints by which Kubernetes marks what does not last."""

Grant = Mapping[str, int]


class Part(msgspec.Struct, frozen=True):
    """One part of a provider, as its virtual node shows it.

    Attributes:
        key: of a node, or of a group for as long as it has the same labels and taints.
        machine: whether it is one node.
        labels: that the group's nodes have.
        lacks: keys of labels that other groups' nodes have, and those of this one do not.
        taints: key, value and effect of each.
        share: of the grant, in billionths.
        told: what the provider tells of this part alone.
        not_told_since: since when it tells nothing of it any more; empty while it does.
    """

    key: str
    machine: bool = False
    labels: Mapping[str, str] = {}
    lacks: tuple[str, ...] = ()
    taints: tuple[tuple[str, str, str], ...] = ()
    share: Mapping[str, int] = {}
    told: str = ""
    not_told_since: str = ""


def mode(annotations: Mapping[str, str]) -> str:
    """The virtual nodes that a slice asks for; one as a whole where it says nothing known."""
    found = annotations.get(labels.VIRTUAL_NODES, WHOLE)
    return found if found in MOST_PARTS else WHOLE


def lasting(told: FreeCapacity | None, asked: str) -> dict[str, NodeGroup]:
    """The groups that may have a virtual node, by their keys.

    Args:
        told: by the provider.
        asked: the virtual nodes that the slice asks for; nodes that are told each by itself are
            for those that ask for them.
    """
    groups = () if told is None else told.groups
    return {
        key_of(each): each
        for each in groups
        if not _passes(each) and (asked == NODES or not each.key)
    }


def name_of(slice_name: str, key: str) -> str:
    """The name of the virtual node that shows one part of a slice's provider."""
    return f"{slice_name}-{key}"


def key_in(node: str, slice_name: str) -> str:
    """The key in the name of a virtual node; empty where it is of no part of that slice."""
    key = node.removeprefix(name_of(slice_name, ""))
    return key if name_of(slice_name, key) == node and len(key) == _DIGITS else ""


def key_of(group: NodeGroup) -> str:
    """The key of a node as it is told; that of a group is of its labels and taints, and of nothing
    that changes with its pods."""
    return group.key or _kind(group)


def _kind(group: NodeGroup) -> str:
    text = msgspec.json.encode((sorted(group.labels.items()), group.taints))
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def parts(
    groups: Mapping[str, NodeGroup],
    granted: Grant,
    placed: Mapping[str, Grant],
    not_told: Mapping[str, tuple[NodeGroup, str]],
    *,
    grows: bool = False,
    counted: Mapping[str, int] | None = None,
) -> tuple[Part, ...]:
    """The parts of a slice.

    Args:
        groups: as of :func:`lasting`.
        granted: to the slice.
        placed: by key, the requests of its pods that run on a part; those that run on other
            virtual nodes of the slice have keys of their own.
        not_told: groups of which the provider tells nothing any more, and since when: what runs
            there stays, and nothing comes.
        grows: whether the provider adds nodes where pods wait: then what is free bounds nothing.
        counted: the number of its pods that what is free is beside, by key; None: not told.
    """
    free = {key: quantities.parse_all(group.free) for key, group in groups.items()}
    if grows:
        free = {key: {name: granted.get(name, 0) for name in each} for key, each in free.items()}
    shares = divide(granted, free, placed, {key: _kind(each) for key, each in groups.items()})
    every = {**{key: (group, "") for key, group in groups.items()}, **not_told}
    keys = {name for group, _ in every.values() for name in group.labels}
    return tuple(
        Part(
            key,
            bool(group.key),
            group.labels,
            tuple(sorted(keys - set(group.labels))) if group.labels else (),
            tuple(map(_taint, group.taints)),
            shares[key] if key in shares else dict.fromkeys(granted, 0),
            msgspec.json.encode(FreeCapacity((group,), grows, _pods(counted, key))).decode(),
            since,
        )
        for key, (group, since) in every.items()
    )


def _pods(counted: Mapping[str, int] | None, key: str) -> dict[str, str]:
    return {} if counted is None else {PODS: str(counted.get(key, 0))}


def divide(
    granted: Grant,
    free: Mapping[str, Grant],
    placed: Mapping[str, Grant],
    kinds: Mapping[str, str] | None = None,
) -> dict[str, Amounts]:
    """The share of each part: what runs on it, and as much of the rest as it has free.

    The rest goes in equal amounts to all kinds that have something free. So a small group with a
    GPU has CPUs for it, however large the others are. Among nodes of one kind it goes to so many
    as it can fill, those with the most free: a large pod that fits one of them is not kept away
    because each has a little. A resource that no part tells of may be on each.

    Args:
        granted: to all together.
        free: by part.
        placed: by part, the requests of what runs there; of others it is only taken off.
        kinds: by part, the same for those that differ in their room only; each by itself where it
            is not given.
    """
    groups: dict[str, list[str]] = {}
    for key in sorted(free, key=lambda key: (_order(free[key]), key)):
        groups.setdefault((kinds or {}).get(key, key), []).append(key)
    told = {name for each in free.values() for name in each}
    room: dict[str, Amounts] = {
        key: {name: each.get(name, 0) if name in told else n for name, n in granted.items()}
        for key, each in free.items()
    }
    left = {
        name: amount - sum(each.get(name, 0) for each in placed.values())
        for name, amount in granted.items()
    }
    of_kind = _dealt(
        left, {kind: quantities.total(room[key] for key in keys) for kind, keys in groups.items()}
    )
    shares = _kept(granted, {key: placed.get(key, {}) for key in free})
    for kind, keys in groups.items():
        filled = keys[: _filled(of_kind[kind], [room[key] for key in keys])]
        for key, more in _dealt(of_kind[kind], {key: room[key] for key in filled}).items():
            shares[key] = quantities.total((shares[key], more))
    return shares


def _order(free: Grant) -> tuple[int, ...]:
    return tuple(-free.get(name, 0) for name in _MEASURES)


def _filled(amounts: Grant, rooms: Sequence[Grant]) -> int:
    """The number of parts, from the first, that are full of CPU or memory with these amounts."""
    numbers = [len(rooms)]
    for name in _MEASURES:
        left = amounts.get(name)
        if left is not None:
            sums = accumulate(each[name] for each in rooms)
            numbers += [number for number, most in enumerate(sums, 1) if most >= left][:1]
    return min(numbers)


def _kept(granted: Grant, placed: Mapping[str, Grant]) -> dict[str, Amounts]:
    """The amounts of what runs; less where less is granted in all."""
    shares: dict[str, Amounts] = {key: {} for key in placed}
    for name, amount in granted.items():
        has = {key: each.get(name, 0) for key, each in placed.items()}
        for key, kept in _equally(amount, has, 1).items():
            shares[key][name] = kept
    return shares


def _dealt(amounts: Grant, rooms: Mapping[str, Grant]) -> dict[str, Amounts]:
    """Amounts in parts as equal as what each has room for allows."""
    shares: dict[str, Amounts] = {key: {} for key in rooms}
    for name, amount in amounts.items():
        unit = _CPU_UNIT if name == "cpu" else quantities.NANO
        most = {key: each[name] for key, each in rooms.items()}
        for key, share in _equally(amount, most, unit).items():
            shares[key][name] = share
    return shares


def _equally(amount: int, most: Mapping[str, int], unit: int) -> dict[str, int]:
    """An amount in whole units, in parts as equal as their bounds allow; the largest gets the
    remainder."""
    left, result = max(0, amount), {}
    order = sorted(most, key=lambda key: (most[key], key))
    for index, key in enumerate(order):
        fair = left // (len(order) - index)
        result[key] = min(most[key], fair) // unit * unit
        left -= result[key]
    return result


def _taint(text: str) -> tuple[str, str, str]:
    """Key, value and effect of ``key=value:effect``."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return key, value, effect


def _passes(group: NodeGroup) -> bool:
    """True if a group is one for a while only, as of nodes that are short of memory."""
    return any(each.startswith(_PASSING) for each in group.taints)
