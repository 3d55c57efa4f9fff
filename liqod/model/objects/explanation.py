"""The explanation of a pod's placement: for each node whether it would go there, or why not. Pure.

The decision is the webhook's (:mod:`liqod.model.objects.eligibility`,
:mod:`liqod.model.objects.scheduling`), the reflection's, and the scheduler's
(:mod:`liqod.model.objects.nodefilters`, :mod:`liqod.model.objects.companions`). Nothing is decided
here.
"""

import copy
from collections.abc import Mapping
from typing import Final

import jsonpatch
import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import eligibility, podsizes, quantities, scheduling, selectors
from liqod.model.objects.companions import Companions
from liqod.model.objects.eligibility import Eligibility, Placement
from liqod.model.objects.nodefilters import NodeFacts, NodeRefusal, filtered
from liqod.model.objects.selectors import Json
from liqod.model.text import printable

ALONE: Final = Companions()
"""The companions of a pod in an empty cluster."""
SELECTED: Final = "change the cluster selector of its NamespaceOffloading"
"""The remedy where a namespace does not select a peer."""


class ExplainedPod(msgspec.Struct, frozen=True):
    """A pod and all that is decided about it for the whole cluster.

    Attributes:
        pod: as it is made.
        admitted: as the scheduler sees it, with what the webhook adds.
        namespace: its namespace.
        placement: that of the namespace; None where it is not offloaded.
        decided: about the peers.
        mapped: the peers that have the namespace, by their ids, and its name there.
    """

    pod: Json
    admitted: Json
    namespace: str
    placement: Placement | None
    decided: Eligibility
    mapped: Mapping[str, str] = {}


def explained(
    pod: Json, namespace: str, placement: Placement | None, mapped: Mapping[str, str]
) -> ExplainedPod:
    """The explained pod.

    Args:
        pod: one that is to be made, or that is there already: such a one is admitted no more.
        namespace: its namespace.
        placement: that of the namespace; None where it is not offloaded.
        mapped: the peers that have the namespace, and its name there.
    """
    decided = eligibility.decide(pod, placement or Placement())
    admitted = pod
    if placement is not None and not is_made(pod):
        admitted = jsonpatch.apply_patch(
            copy.deepcopy(pod), scheduling.additions(pod, placement, decided)
        )
    return ExplainedPod(pod, admitted, namespace, placement, decided, mapped)


def is_made(pod: Json) -> bool:
    """True if a pod is in the cluster already."""
    return bool((pod.get("metadata") or {}).get("uid"))


def refusals(found: ExplainedPod, node: NodeFacts, beside: Companions = ALONE) -> list[NodeRefusal]:
    """All reasons against a node; none where the pod would go there, or may.

    Args:
        found: the pod.
        node: one of the cluster's.
        beside: the pods and volumes that it is compared with.

    Raises:
        ConfigError: a request of the pod is no quantity.
    """
    peer = node.labels.get(labels.REMOTE_CLUSTER_ID, "")
    is_virtual = node.labels.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE
    rules = _against_peer(found, node, peer) if is_virtual else _against_home(found)
    if not rules:
        return [*filtered(found.admitted, node), *beside.against(node)]
    # What the webhook did for these rules is no reason of its own.
    spec = found.pod.get("spec") or {}
    toleration = dict(scheduling.TOLERATION)
    asked = {**spec, "tolerations": [*(spec.get("tolerations") or ()), toleration]}
    return [*rules, *filtered({**found.pod, "spec": asked}, node), *beside.against(node)]


def _against_home(found: ExplainedPod) -> list[NodeRefusal]:
    placement = found.placement
    if placement is None or placement.strategy != "Remote" or found.decided.unplaced is not None:
        return []
    text = f"the strategy of {found.namespace} is Remote: its pods run at peers only"
    remedy = "give its NamespaceOffloading the strategy LocalAndRemote"
    return [NodeRefusal("StrategyRemote", text, remedy)]


def _against_peer(found: ExplainedPod, node: NodeFacts, peer: str) -> list[NodeRefusal]:
    """The reasons of liqod's against a virtual node: the namespace's, the pod's, the peer's."""
    made = [_by_namespace(found, node, peer), _by_daemon(found), _by_pod(found, peer)]
    made.append(_by_storage(found, node, peer))
    made += _by_size(found, node, peer)
    made.append(_by_home_first(found))
    return [each for each in made if each is not None]


def _by_namespace(found: ExplainedPod, node: NodeFacts, peer: str) -> NodeRefusal | None:
    place, placement = found.namespace, found.placement
    if placement is None:
        text = f"the namespace {place} is not offloaded"
        return NodeRefusal("NotOffloaded", text, f"liqod offload namespace {place}")
    if found.decided.unplaced is None:
        if placement.strategy == "Local":
            text = f"the strategy of {place} is Local: its pods stay in this cluster"
            remedy = "give its NamespaceOffloading the strategy LocalAndRemote"
            return NodeRefusal("StrategyLocal", text, remedy)
        if not selectors.selects(placement.terms, node.name, node.labels):
            text = f"the cluster selector of {place} does not select {printable(node.name)}"
            return NodeRefusal("ClusterSelector", text, SELECTED)
    if peer not in found.mapped:
        text = f"{printable(peer)} does not have the namespace {place}"
        return NodeRefusal(
            "NotMapped", text, f"see `kubectl describe namespaceoffloading -n {place}`"
        )
    return None


def _by_daemon(found: ExplainedPod) -> NodeRefusal | None:
    told = eligibility.daemon_verdict(found.pod)
    return None if told is None else NodeRefusal(told.reason, told.message)


def _by_pod(found: ExplainedPod, peer: str) -> NodeRefusal | None:
    told = found.decided.against(peer)
    if told is None:
        return None
    if told.reason == eligibility.RETURNED:
        if is_made(found.pod) or found.decided.unplaced is not None:
            return None  # marks count when the webhook places a pod, and never later
        return NodeRefusal(told.reason, printable(told.message), "mend the cause, or wait")
    if told is found.decided.obstacle:
        return NodeRefusal(told.reason, told.message, "leave that out of the pod")
    text = f"{printable(peer)} takes no such pod: {printable(told.message)}"
    remedy = "change the pod, or what it is there by an OverridePolicy, or ask that provider"
    return NodeRefusal(told.reason, text, remedy)


def _by_storage(found: ExplainedPod, node: NodeFacts, peer: str) -> NodeRefusal | None:
    lacks = node.labels.get(labels.STORAGE_AVAILABLE) == labels.FALSE
    if not found.decided.needs_storage or not lacks or found.decided.unplaced is not None:
        return None
    text = f"{printable(peer)} offers no storage, and a volume of the pod is made where it lands"
    return NodeRefusal("NoStorage", text, "have the provider offer storage")


def _by_size(found: ExplainedPod, node: NodeFacts, peer: str) -> list[NodeRefusal]:
    """The reasons of a pod that is larger than what any of a peer's nodes has free now."""
    placement, decided = found.placement, found.decided
    apart = placement is None or placement.strategy == "Local" or decided.unplaced is not None
    if placement is None or apart or decided.stays is not None:
        return []
    sizes = podsizes.sizes(found.pod, placement)
    if is_made(found.pod):  # with the labels that providers told of then
        known = podsizes.compared(found.pod)
        sizes = {each: asked for each, asked in sizes.items() if each.label in known}
    if selectors.selects(podsizes.terms(sizes), node.name, node.labels):
        return []
    made = []
    for each, asked in sizes.items():
        least = node.labels.get(each.label)
        if least is None or not least.isdecimal() or asked < int(least):
            continue
        name = each.resource
        size = quantities.render_all({name: asked * each.unit})[name]
        beside = f" beside {each.device}" if each.device not in ("", name) else ""
        text = f"{name}: {size} asked, and no machine of {printable(peer)} has as much free now"
        remedy = f"ask for less {name}, or wait: it goes there once there is a place"
        made.append(NodeRefusal("NoPlaceNow", f"{text}{beside}", remedy))
    return made


def _by_home_first(found: ExplainedPod) -> NodeRefusal | None:
    """The reason of a pod that waits for a place in this cluster before it may go to a peer."""
    told = None
    if found.placement is not None:
        told = eligibility.home_first(found.pod, found.placement)
    own = (found.pod.get("spec") or {}).get("tolerations") or ()
    apart = found.decided.unplaced is not None or found.decided.stays is not None
    if told is None or apart or scheduling.tolerates(own):
        return None
    remedy = f"wait, or take the annotation {labels.HOME_FIRST} off its NamespaceOffloading"
    return NodeRefusal(told.reason, told.message, remedy)
