"""Placement of pods of an offloaded namespace: the fields that are added at admission and later.

The strategy of a namespace and its cluster selector become a toleration of the virtual nodes' taint
and a node affinity. Three kinds of pod get neither: those of DaemonSets, which belong to real
nodes; those with the RuntimeClass ``liqo``, which brings its own; and those that no peer can have
(:mod:`liqod.model.objects.eligibility`). Pods are plain JSON.
"""

from collections.abc import Mapping, Sequence

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import eligibility, podsizes, selectors
from liqod.model.objects.eligibility import (
    Eligibility,
    Placement,
    SchedulingVerdict,
    decide,
)
from liqod.model.objects.nodefilters import tolerated
from liqod.model.objects.selectors import Json

TAINT: Mapping[str, str] = eligibility.TAINT
"""The taint of every virtual node."""
TOLERATION: Mapping[str, str] = {
    "effect": "NoExecute",
    "key": labels.VIRTUAL_NODE_TAINT,
    "operator": "Exists",
}
"""The toleration that Liqo's webhook adds (seen in a real cluster's audit log)."""
HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
"""Fields of a pod that it loses at a peer."""
NOTE_POINTER = labels.NOTE.replace("/", "~1")
"""The key of the note as a JSON pointer has it (RFC 6901)."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_VIRTUAL: Json = {"key": labels.TYPE, "operator": "In", "values": [labels.VIRTUAL_NODE_TYPE]}
_REAL: Json = {"key": labels.TYPE, "operator": "NotIn", "values": [labels.VIRTUAL_NODE_TYPE]}
_STORING: Json = {"key": labels.STORAGE_AVAILABLE, "operator": "NotIn", "values": [labels.FALSE]}
"""Real nodes, which lack the label, and the virtual nodes of peers that offer storage."""
_NOWHERE: Json = {"matchExpressions": [_VIRTUAL, _REAL]}
"""Node selector term of a cluster selector whose terms are all empty: it selects no cluster."""


def note(pod: Json, placement: Placement, decided: Eligibility) -> str:
    """The note for a pod's owner about unexpected placement, one sentence; empty for nothing.

    `kubectl describe pod` shows it, as the annotation ``liqod.io/note``.
    """
    if placement.strategy == "Local":
        return ""
    found = decided.stays
    if found is not None:
        return f"it goes to no peer: {found.message}"
    host = [name for name in HOST_NAMESPACES if pod.get("spec", {}).get(name)]
    return f"at a peer it is without {', '.join(host)}: a peer's host is not lent" if host else ""


def tolerates(tolerations: Sequence[Json]) -> bool:
    """True if a toleration covers the virtual nodes' taint for good."""
    return any(_covers(each) for each in tolerations)


def mutate(pod: Json, placement: Placement) -> list[Json]:
    """The JSON patch that admission answers for a new pod; empty where nothing is to be added.

    It is idempotent: applied once, the patched pod needs none.
    """
    return additions(pod, placement, decide(pod, placement))


def additions(pod: Json, placement: Placement, decided: Eligibility) -> list[Json]:
    """The same patch, of what was decided about the pod."""
    if decided.unplaced is not None:
        return []
    patch: list[Json] = []
    text, annotations = note(pod, placement, decided), pod.get("metadata", {}).get("annotations")
    if text and (annotations or {}).get(labels.NOTE) != text:
        patch.append(
            {"op": "add", "path": f"/metadata/annotations/{NOTE_POINTER}", "value": text}
            if annotations
            else {"op": "add", "path": "/metadata/annotations", "value": {labels.NOTE: text}}
        )
    affinity = placed_affinity(pod, placement, decided)
    if affinity is not None:
        patch.append({"op": "add", "path": "/spec/affinity", "value": affinity})
    if needs_toleration(pod, placement, decided):
        toleration = dict(TOLERATION)
        if pod.get("spec", {}).get("tolerations"):
            patch.append({"op": "add", "path": "/spec/tolerations/-", "value": toleration})
        else:
            patch.append({"op": "add", "path": "/spec/tolerations", "value": [toleration]})
    return patch


def needs_toleration(pod: Json, placement: Placement, decided: Eligibility) -> bool:
    """True if a pod may run on virtual nodes and does not tolerate their taint yet."""
    return (
        placement.strategy != "Local"
        and decided.unplaced is None
        and decided.stays is None
        and eligibility.home_first(pod, placement) is None
        and not tolerates(pod.get("spec", {}).get("tolerations") or [])
    )


def placed_affinity(pod: Json, placement: Placement, decided: Eligibility) -> Json | None:
    """The pod's affinity with the placement's node selector in it, or None if it holds already.

    The pod's own alternatives are each narrowed, never widened. A selector of the pod's that
    matches nothing stays as it is.
    """
    ours = _terms(pod, placement, decided)
    if not ours:
        return None
    affinity: Json = pod.get("spec", {}).get("affinity") or {}
    node: Json = affinity.get("nodeAffinity") or {}
    required = _chosen(pod)
    if required is None:
        terms = ours
    else:
        theirs = required.get("nodeSelectorTerms") or []
        terms = selectors.product(theirs, ours)
        if not terms or all(selectors.implies(each, ours) for each in theirs):
            return None
    narrowed = {**node, _REQUIRED: {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": narrowed}


def _chosen(pod: Json) -> Json | None:
    """The node selector of the pod's required node affinity, or None."""
    node = (pod.get("spec", {}).get("affinity") or {}).get("nodeAffinity") or {}
    found: Json | None = node.get(_REQUIRED)
    return found


def _terms(pod: Json, placement: Placement, decided: Eligibility) -> list[Json]:
    """The node selector terms of the placement for a pod; none selects every node."""
    stays = decided.stays is not None
    terms = _placed_terms(pod, placement, stays=stays)
    also: list[Json] = [_STORING] if decided.needs_storage else []
    refused = sorted(decided.excluded) if placement.strategy != "Local" else []
    # Of several providers those that would never take it; where all would not, it stays, unless it
    # tolerates virtual nodes by itself and may be on no others.
    bound = placement.strategy == "Remote" and tolerated(pod.get("spec", {}), dict(TAINT))
    if refused and (bound or not stays):
        also.append({"key": labels.REMOTE_CLUSTER_ID, "operator": "NotIn", "values": refused})
    narrower: list[list[Json]] = [[{"matchExpressions": also}]] if also else []
    if placement.strategy != "Local" and not stays:
        narrower.append(podsizes.terms(podsizes.sizes(pod, placement)))
    for each in filter(None, narrower):
        terms = selectors.product(terms, each) if terms else each
    return terms


def _placed_terms(pod: Json, placement: Placement, *, stays: bool) -> list[Json]:
    virtual: list[Json] = [{"matchExpressions": [_VIRTUAL]}]
    real: list[Json] = [{"matchExpressions": [_REAL]}]
    chosen = virtual
    if placement.terms:
        chosen = selectors.product(placement.terms, virtual) or [_NOWHERE]
    if placement.strategy == "Remote":
        return chosen
    if placement.strategy == "Local" or stays:
        # Only a pod that tolerates everything would go to a virtual node, if only for a time.
        return real if tolerated(pod.get("spec", {}), dict(TAINT)) else []
    return [*chosen, *real] if placement.terms else []


def _covers(toleration: Json) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if toleration.get("tolerationSeconds") is not None:
        return False
    if effect not in ("", TAINT["effect"]) or key not in ("", TAINT["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return key != "" and toleration.get("value") == TAINT["value"]


def late_verdict(pod: Json, placement: Placement) -> SchedulingVerdict | None:
    """The reason why an unscheduled pod of an offloaded namespace avoids virtual nodes, or None.

    A toleration may be added to a pod at any time, an affinity only while the pod is gated; so
    one that slipped past admission in a namespace with a selector could land on a cluster that
    was not selected, and is left for its owner to make again.
    """
    return _late_verdict(pod, placement, decide(pod, placement))


def _late_verdict(
    pod: Json, placement: Placement, decided: Eligibility
) -> SchedulingVerdict | None:
    if placement.strategy == "Local" or decided.unplaced is not None:
        return None
    stays = decided.stays
    if stays is not None:
        where = (
            "; the strategy Remote of its namespace keeps it off this cluster's own nodes too"
            if placement.strategy == "Remote"
            else ", so it runs on this cluster's own nodes only"
        )
        return SchedulingVerdict(stays.reason, stays.message + where)
    # Rules of providers change, and bind a pod only as they are when it is made.
    ruleless = msgspec.structs.replace(decided, refused={}, avoided={}, everywhere=False)
    placement = msgspec.structs.replace(placement, room_told=False)
    missed = placed_affinity(pod, placement, ruleless) is not None
    if missed and not pod["spec"].get("schedulingGates"):
        return SchedulingVerdict(
            "AdmissionMissed",
            "the pod was made while the webhook of liqod could not be reached, so it lacks the "
            "node affinity that its namespace asks for; delete it to have it made again",
        )
    ready = tolerates(pod["spec"].get("tolerations") or []) or pod["spec"].get("schedulingGates")
    return None if ready else eligibility.home_first(pod, placement)


def stayed(namespace: str, count: int) -> tuple[str, str]:
    """The problem of pods on own nodes in a namespace that is for peers only; the remedy.

    They were made before the namespace was offloaded, or while the webhook could not be reached.
    """
    whose = f"1 pod of {namespace} runs" if count == 1 else f"{count} pods of {namespace} run"
    return (
        f"{whose} on this cluster's own nodes, though its strategy is Remote",
        "delete what was made before it was offloaded, or past the webhook: it is made again",
    )


def late_patch(pod: Json, placement: Placement) -> Json | None:
    """The merge patch with the changes that the API still allows to an unscheduled pod, or None.

    Gated pods get their affinity as well. The resource version in it makes the server refuse the
    patch if another client has changed the pod meanwhile, since it replaces a whole list.
    """
    decided = decide(pod, placement)
    if decided.unplaced is not None or pod["spec"].get("nodeName"):
        return None
    if _late_verdict(pod, placement, decided) is not None:
        return None
    spec: Json = {}
    if needs_toleration(pod, placement, decided):
        spec["tolerations"] = [*(pod["spec"].get("tolerations") or []), dict(TOLERATION)]
    if pod["spec"].get("schedulingGates"):
        # The API lets each alternative of a gated pod be narrowed, and none be added; a place of
        # its size, and a node that tells none, are two.
        told = placement.room_told and not _chosen(pod)
        placement = msgspec.structs.replace(placement, room_told=told)
        affinity = placed_affinity(pod, placement, decided)
        if affinity is not None:
            spec["affinity"] = affinity
    if not spec:
        return None
    return {"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]}, "spec": spec}
