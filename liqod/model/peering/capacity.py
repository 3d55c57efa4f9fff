"""Compares the capacity of a cluster's own nodes with the grants to its consumers. Pure.

A grant is a promise and reserves nothing: a pod that does not fit waits for a node at the provider.
So this module refuses nothing; grants beyond the capacity are reported, to the consumer as well. An
annotation of the slice names the resources for it, and not their amounts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.partial import Node
from liqod.model.objects.quantities import Amounts
from liqod.model.peering.quota import PODS

Resources = Mapping[str, int | str]


def of_nodes(nodes: Iterable[Node]) -> Amounts:
    """The nodes' allocatable resources, in billionths; virtual nodes have none of their own."""
    return _total(each.status.allocatable for each in nodes if not is_virtual(each))


def is_virtual(node: Node) -> bool:
    """True if the node is a virtual node of a peer."""
    return node.metadata.labels.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE


def of_virtual(nodes: Iterable[Node]) -> dict[str, Resources]:
    """The allocatable resources of each virtual node, by its name."""
    return {each.metadata.name: each.status.allocatable for each in nodes if is_virtual(each)}


MOST_MACHINES: Final = 8
"""Sizes of machines that are told to consumers."""
MOST_RESOURCES: Final = 16
"""Resources of one of them."""


def largest_machines(machines: Iterable[Amounts]) -> tuple[Amounts, ...]:
    """The sizes that no machine exceeds in every resource: a pod that fits none fits nowhere.

    Where they are too many, or have too many resources, some become one that has the most of each:
    then a pod that fits nowhere may seem to fit, and never the other way round.
    """
    found: list[Amounts] = []
    for each in machines:
        if any(_holds(other, each) for other in found):
            continue
        found = [other for other in found if not _holds(each, other)]
        found = fewer([*found, each], MOST_MACHINES)
    if any(len(each) > MOST_RESOURCES for each in found):
        return ()
    return tuple(found)


def fewer(sizes: Sequence[Amounts], most: int) -> list[Amounts]:
    """At most so many sizes that hold as much: some become one that has the most of each.

    Those with the same devices do first. So a size with GPUs has no CPUs of machines without any,
    as long as there are no more kinds of machines than sizes.
    """
    found = list(sizes)
    while len(found) > most:
        kinds = [_devices(each) for each in found]
        last = max((n for n, kind in enumerate(kinds) if kind in kinds[:n]), default=len(found) - 1)
        other = max((n for n in range(last) if kinds[n] == kinds[last]), default=last - 1)
        merged = quantities.largest((found[other], found[last]))
        found = [*found[:other], *found[other + 1 : last], *found[last + 1 :], merged]
    return found


def is_device(resource: str) -> bool:
    """True if a resource is one that not every machine has, such as ``nvidia.com/gpu``."""
    return "/" in resource


def _devices(size: Mapping[str, int]) -> frozenset[str]:
    return frozenset(name for name, amount in size.items() if is_device(name) and amount > 0)


def too_large(asked: Mapping[str, int], machines: Sequence[Mapping[str, int]]) -> str:
    """The reason why a pod has room on no machine, as a clause; empty where it may have.

    Args:
        asked: by the pod.
        machines: the largest ones; none where they are not told.
    """
    needs = {name: each for name, each in sorted(asked.items()) if each > 0 and name != PODS}
    if not machines or any(_holds(each, needs) for each in machines):
        return ""
    over = quantities.over(needs, quantities.largest(machines))
    if not over:
        shown = quantities.render_all(needs)
        return f"no machine has {_list(shown)} together"
    shown = quantities.render_all({name: needs[name] for name in over})
    return f"no machine has {_list(shown)}"


def _holds(machine: Mapping[str, int], needs: Mapping[str, int]) -> bool:
    return all(machine.get(name, 0) >= amount for name, amount in needs.items())


def with_waiting(
    granted: Resources, waiting: Mapping[str, int], most: Mapping[str, int] | None = None
) -> dict[str, str]:
    """The allocatable resources of a virtual node: the grant, and what waits at the peer beside it.

    At most twice the grant: a peer that lets everything wait does not get more and more pods.

    Args:
        granted: to its slice.
        waiting: the requests of its pods that no node of the peer has room for.
        most: bounds for all of its pods together.
    """
    shown = {name: str(amount) for name, amount in granted.items()}
    bounds = _amounts(granted)
    more = {name: min(n, bounds[name]) for name, n in waiting.items() if n > 0 and name in bounds}
    sums = {name: bounds[name] + amount for name, amount in more.items() if amount > 0}
    for name, bound in (most or {}).items():
        if name in bounds and bound < sums.get(name, bounds[name]):
            sums[name] = bound
    return {**shown, **quantities.render_all(sums)}


def beyond(has: Mapping[str, int], granted: Iterable[Resources]) -> str:
    """The resources that are granted beyond the capacity, as a clause; empty for none.

    Args:
        has: as :func:`of_nodes`; empty where it is unknown.
        granted: to each consumer.
    """
    given = _total(granted)
    over = _over(given, has)
    if not over:
        return ""
    promised = quantities.render_all({name: given[name] for name in over})
    there = quantities.render_all({name: has.get(name, 0) for name in over})
    return f"consumers are granted {_list(promised)}, and the nodes here have {_list(there)}"


def word(has: Mapping[str, int], granted: Resources | None) -> str:
    """The annotation of a slice that is granted more than the capacity; empty for none.

    Args:
        has: as of :func:`beyond`.
        granted: to this slice alone: grants to others are not shown; None for nothing.
    """
    return ",".join(sorted(_over(_amounts(granted or {}), has)))


def overcommit_warning(annotations: Mapping[str, str], granted: Resources) -> str:
    """The warning of a slice that is granted more than its provider has; empty for none.

    Args:
        annotations: of the slice, with the provider's among them.
        granted: to it; other resources in the annotation are ignored.
    """
    said = annotations.get(labels.BEYOND_NODES, "").split(",")
    names = sorted(name for name in granted if name and name in said)
    if not names:
        return ""
    return f"more {', '.join(names)} is granted than the nodes there have in all"


def _over(given: Mapping[str, int], has: Mapping[str, int]) -> list[str]:
    """The resources that are granted beyond the capacity; none where it is unknown."""
    return quantities.over(given, has) if has else []


def _total(found: Iterable[Resources]) -> Amounts:
    return quantities.total(map(_amounts, found))


def _amounts(found: Resources) -> Amounts:
    """Billionths; nonsense counts as nothing."""
    try:
        return quantities.parse_all(found)
    except ConfigError:
        return {}


def _list(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
