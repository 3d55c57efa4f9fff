"""The size of a pod, compared with the largest place that a virtual node says is free. Pure.

A virtual node that stands for several machines has labels of it
(:mod:`liqod.model.peering.sizelabels`).
"""

from collections.abc import Mapping
from itertools import chain, combinations
from typing import Final

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects import eligibility
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.selectors import Json
from liqod.model.peering import capacity, sizelabels
from liqod.model.peering.quota import pod_cost
from liqod.model.peering.sizelabels import SizeLabel

MOST_DEVICES: Final = 4
"""Devices of a pod that are compared, by their names."""
_MOST_UNTOLD: Final = 2
"""Of so many devices that a node says nothing of none is compared: else each device more would
double the alternatives."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

Sizes = dict[SizeLabel, int]


def sizes(pod: Json, placement: Placement) -> Sizes:
    """The amounts of a pod that are compared with the labels of virtual nodes.

    Of a pod that policies change on its way, the least that it asks for at a peer. None where no
    provider tells what is free.
    """
    if not placement.room_told:
        return {}
    there = [pod]
    if placement.overrides:
        there += [
            eligibility.changed_there(pod, placement.overrides, peer)
            for peer in placement.providers
        ]
    try:
        costs = [pod_cost(each.get("spec", {})) for each in there]
    except ConfigError:
        return {}
    least = {name: min(cost.get(name, 0) for cost in costs) for name in costs[0]}
    devices = sorted(name for name, n in least.items() if n > 0 and capacity.is_device(name))
    beside = chain.from_iterable(map(sizelabels.beside, devices[:MOST_DEVICES]))
    known = (*sizelabels.ANY, *beside)
    asked = {each: least.get(each.resource, 0) // each.unit for each in known}
    return {each: amount for each, amount in asked.items() if amount > 0}


def terms(asked: Mapping[SizeLabel, int]) -> list[Json]:
    """The node selector terms of nodes that may have a place for a pod; none for all.

    A scheduler compares them with what a node says when it looks for one, and not with what was so
    when the pod was made. Nodes that say nothing are real ones, machines, and of peers that tell
    nothing; a device that a node says nothing of is not compared.
    """
    if not asked:
        return []
    devices = dict.fromkeys(each.device for each in asked if each.device)
    made: list[Json] = []
    for count in range(min(len(devices), _MOST_UNTOLD) + 1):
        for untold in combinations(devices, count):
            told = () if count == _MOST_UNTOLD else devices.keys() - untold
            larger = [
                {"key": each.label, "operator": "Gt", "values": [str(amount)]}
                for each, amount in asked.items()
                if not each.device or each.device in told
            ]
            lacking = [_lacks(sizelabels.beside(each)[0].label) for each in untold]
            made.append({"matchExpressions": [*larger, *lacking]})
    return [*made, {"matchExpressions": [_lacks(labels.LARGEST_CPU)]}]


def _lacks(label: str) -> Json:
    return {"key": label, "operator": "DoesNotExist"}


def compared(pod: Json) -> frozenset[str]:
    """The labels of sizes with which a pod was made that is compared with them."""
    affinity = (pod.get("spec", {}).get("affinity") or {}).get("nodeAffinity") or {}
    chosen = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    keys = (str(one.get("key")) for each in chosen for one in each.get("matchExpressions") or ())
    return frozenset(filter(sizelabels.is_size, keys))
