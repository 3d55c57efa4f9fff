"""The size of a pod, compared with the largest place that a virtual node says is free. Pure.

A virtual node that stands for several machines has labels of it
(:func:`liqod.model.peering.freecapacity.size_labels`).
"""

from typing import Final

from liqod.errors import ConfigError
from liqod.model.objects import eligibility
from liqod.model.objects.eligibility import Placement
from liqod.model.objects.selectors import Json
from liqod.model.peering import freecapacity
from liqod.model.peering.quota import pod_cost

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def sizes(pod: Json, placement: Placement) -> dict[str, int]:
    """The amounts of a pod that are compared with the labels of virtual nodes, by the label.

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
    asked = {
        label: min(cost.get(name, 0) for cost in costs) // unit
        for label, (name, unit) in freecapacity.SIZES.items()
    }
    return {label: amount for label, amount in asked.items() if amount > 0}


def goes_by_size(pod: Json) -> bool:
    """True if a pod was made with the comparison of :func:`sizes` in it."""
    affinity = (pod.get("spec", {}).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    keys = {one.get("key") for each in terms for one in each.get("matchExpressions") or ()}
    return not keys.isdisjoint(freecapacity.SIZES)
