"""The places that nodes of a provider have for pods, and what is left of them. Pure.

A provider tells of how many nodes at least so much is free (the ``holes`` of
:mod:`liqod.model.peering.freecapacity`). Pods that were sent since it said so are put into these
places here as a scheduler would that spreads them: each on the node with the most free. So until
the provider's next word a node that stands for several machines shows no place that is taken, and
no more room than so large pods can have.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.model.peering import freecapacity
from liqod.model.peering.freecapacity import FreeCapacity, NodeGroup
from liqod.model.peering.quota import PODS

Places = Mapping[int, int]
"""The number of nodes by what each has free of one resource, in billionths."""
Sent = Sequence[tuple[Mapping[str, int], int]]
"""The requests of pods, the last one sent first, and how many in a row are equal."""
MOST_MOVES: Final = 2000
"""Steps in which pods are put into places; after them no place is taken to be left."""


class Left(msgspec.Struct, frozen=True):
    """The room that pods leave that the provider does not count yet, by resource.

    Attributes:
        largest: on one node.
        fitting: for pods as large as the largest of them, at least what one node has.
    """

    largest: Mapping[str, int]
    fitting: Mapping[str, int]


def left(found: FreeCapacity | None, sent: Sent, placed: int) -> Left | None:
    """The room that is left; None where all pods are counted, or no places are told.

    Args:
        found: what the provider tells.
        sent: pods that may not be counted, and do not wait there.
        placed: the number of all pods that do not wait.
    """
    if found is None or not sent or not are_told(found):
        return None
    counted = quantities.parse_all(found.counted).get(PODS, 0) // quantities.NANO
    new = _last(sent, placed - counted)
    largest: Amounts = {}
    fitting: Amounts = {}
    for name, places in _told(found).items():
        pods = [(cost.get(name, 0), number) for cost, number in new]
        most = max((amount for amount, _ in pods), default=0)
        if most:
            rest = without(places, pods)
            whole = sum(number * (size // most) for size, number in rest.items())
            largest[name] = max(rest, default=0)
            fitting[name] = max(largest[name], whole * most)
    return Left(largest, fitting) if largest else None


def are_told(found: FreeCapacity | None) -> bool:
    """True if a provider tells of places, and adds no nodes by itself."""
    return (
        found is not None
        and not found.autoscales
        and any(each.key or each.holes for each in found.groups)
    )


def _last(sent: Sent, number: int) -> list[tuple[Mapping[str, int], int]]:
    """The last pods that were sent, so many, in the order in which they were."""
    found = []
    for cost, count in sent:
        if number <= 0:
            break
        found.append((cost, min(count, number)))
        number -= count
    return found[::-1]


def _told(found: FreeCapacity) -> dict[str, dict[int, int]]:
    """The places of all groups, by resource; a machine that is told by itself is one."""
    told: dict[str, dict[int, int]] = {}
    for each in found.groups:
        for name, steps in _holes(each).items():
            places, known = told.setdefault(name, {}), 0
            sizes = sorted(((quantities.parse(text), n) for text, n in steps.items()), reverse=True)
            for size, number in sizes:
                if size > 0 and number > known:
                    places[size] = places.get(size, 0) + number - known
                    known = number
    return told


def _holes(group: NodeGroup) -> Mapping[str, Mapping[str, int]]:
    if not group.key:
        return group.holes
    return {name: {group.free[name]: 1} for name in freecapacity.measured(group.free)}


def without(places: Places, pods: Iterable[tuple[int, int]]) -> dict[int, int]:
    """The places that are left, each pod on the node that has the most free.

    Args:
        places: before.
        pods: the amount that each asks for, and how many do.
    """
    rest, sizes, moves = dict(places), [-size for size in places], 0
    heapq.heapify(sizes)
    for amount, number in pods:
        more = number if amount > 0 else 0
        while more > 0 and sizes:
            size, moves = -heapq.heappop(sizes), moves + 1
            if moves > MOST_MOVES:
                return {}
            taken, smaller = min(more, rest[size]), size - amount
            more -= taken
            rest[size] -= taken
            if smaller > 0:
                if smaller not in rest:
                    heapq.heappush(sizes, -smaller)
                rest[smaller] = rest.get(smaller, 0) + taken
            if rest[size]:
                heapq.heappush(sizes, -size)
            else:
                del rest[size]
    return rest
