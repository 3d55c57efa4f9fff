"""Placement of pods of an offloaded namespace: the fields that are added at admission and later.

The strategy of a namespace and its cluster selector become a toleration of the virtual nodes' taint
and a node affinity. Three kinds of pod get neither: those of DaemonSets, which belong to real
nodes; those with the RuntimeClass ``liqo``, which brings its own; and those whose volumes or
devices cannot follow them to a peer yet. Pods are plain JSON.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing import fields, guestrules
from liqod.model.crossing.guestrules import Rules
from liqod.model.objects import podspec, selectors
from liqod.model.objects.selectors import Json
from liqod.model.objects.volumeclaims import ClaimView

Strategy = Literal["Local", "Remote", "LocalAndRemote"]

TAINT: Mapping[str, str] = {
    "key": labels.VIRTUAL_NODE_TAINT,
    "value": "true",
    "effect": "NoExecute",
}
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
CLAIM_MISSING = "ClaimMissing"
"""Reason of a pod that names a claim which does not exist (yet)."""
NOT_LENT = "NotLent"
"""Reason of a pod that every provider would refuse."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_VIRTUAL: Json = {"key": labels.TYPE, "operator": "In", "values": [labels.VIRTUAL_NODE_TYPE]}
_REAL: Json = {"key": labels.TYPE, "operator": "NotIn", "values": [labels.VIRTUAL_NODE_TYPE]}
_STORING: Json = {"key": labels.STORAGE_AVAILABLE, "operator": "NotIn", "values": [labels.FALSE]}
"""Real nodes, which lack the label, and the virtual nodes of peers that offer storage."""
_NOWHERE: Json = {"matchExpressions": [_VIRTUAL, _REAL]}
"""Node selector term of a cluster selector whose terms are all empty: it selects no cluster."""


class Placement(msgspec.Struct, frozen=True):
    """The placement that a NamespaceOffloading sets for its pods.

    Attributes:
        strategy: where pods may run.
        terms: node selector terms of the cluster selector; none selects every cluster.
        providers: the rules of all providers by their ids, None for one that publishes none.
        storage_class: the virtual StorageClass, whose claims follow pods; empty where none do.
        claims: those that the pod names, as far as they exist.
    """

    strategy: Strategy = "LocalAndRemote"
    terms: tuple[Json, ...] = ()
    providers: Mapping[str, Rules | None] = {}
    storage_class: str = ""
    claims: Mapping[str, ClaimView] = {}


class SchedulingVerdict(msgspec.Struct, frozen=True):
    """The reason why a pod stays, in camel case, and a sentence for people."""

    reason: str
    message: str


def daemon_set(pod: Json) -> str | None:
    """The name of the DaemonSet that a pod belongs to, or None."""
    for owner in pod.get("metadata", {}).get("ownerReferences") or []:
        if owner.get("kind") == "DaemonSet" and str(owner.get("apiVersion", "")).startswith(
            "apps/"
        ):
            return str(owner.get("name", ""))
    return None


def selects_virtual_nodes(pod: Json) -> bool:
    """True if a pod names virtual nodes itself: by its node selector, or in each alternative of its
    node affinity."""
    spec = pod.get("spec", {})
    named = spec.get("nodeSelector") or {}
    if labels.REMOTE_CLUSTER_ID in named or named.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return True
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return bool(terms) and all(
        any(map(_names_virtual, term.get("matchExpressions") or ())) for term in terms
    )


def _names_virtual(expression: Json) -> bool:
    key, operator = expression.get("key"), expression.get("operator")
    if key not in (labels.TYPE, labels.REMOTE_CLUSTER_ID) or operator not in ("In", "Exists"):
        return False
    asked = expression.get("values") or [labels.VIRTUAL_NODE_TYPE]
    return key == labels.REMOTE_CLUSTER_ID or asked == [labels.VIRTUAL_NODE_TYPE]


def daemon_verdict(pod: Json) -> SchedulingVerdict | None:
    """The reason why a DaemonSet's pod on a virtual node waits, and the remedy; or None.

    One that names virtual nodes is wanted at them: it runs once at each.
    """
    owner = daemon_set(pod)
    if owner is None or selects_virtual_nodes(pod):
        return None
    return SchedulingVerdict(
        "DaemonSetPod",
        f"DaemonSet {owner} tolerates every taint, so this pod of its was bound to a virtual node, "
        f"where it does not run; give it a node affinity with {labels.TYPE} NotIn "
        f"[{labels.VIRTUAL_NODE_TYPE}], or In, if it is meant for peers",
    )


def obstacle(pod: Json, placement: Placement | None = None) -> SchedulingVerdict | None:
    """The first thing that a pod uses and that cannot follow it to a peer, as a verdict; or None.

    Args:
        placement: which claims follow it; None: its volumes have been judged before.
    """
    spec = pod.get("spec", {})
    volumes = spec.get("volumes") or []
    if placement is not None:
        judged = (_volume_obstacle(each, placement) for each in volumes)
        found = next((each for each in judged if each is not None), None)
        if found is not None:
            return found
    blocked = fields.pod_obstacle(spec)
    if blocked is not None:
        name, why = blocked
        reason = "ResourceClaim" if name == "resourceClaims" else "UnsupportedField"
        return SchedulingVerdict(reason, f"the pod has the field {name}: {why}")
    return None


def _volume_obstacle(volume: Json, placement: Placement) -> SchedulingVerdict | None:
    """The reason why a volume keeps its pod: it is in this cluster already, or has no provider."""
    name, only = volume.get("name"), placement.storage_class
    follow = f"only those of the class {only} follow pods" if only else "claims follow no pod here"
    if "ephemeral" in volume:
        template = ((volume["ephemeral"] or {}).get("volumeClaimTemplate") or {}).get("spec") or {}
        of = template.get("storageClassName") or ""
        if only and of == only:
            return None
        return SchedulingVerdict(
            "EphemeralVolume",
            f"volume {name} is an ephemeral volume of the class {of or 'default'}, and {follow}",
        )
    if "persistentVolumeClaim" not in volume:
        return None
    claim = (volume["persistentVolumeClaim"] or {}).get("claimName", "")
    known = placement.claims.get(claim)
    text = f"volume {name} is the PersistentVolumeClaim {claim}"
    if not only:
        return SchedulingVerdict("PersistentVolumeClaim", f"{text}, and {follow}")
    if known is None:
        return SchedulingVerdict(CLAIM_MISSING, f"{text}, which is not there yet")
    if known.storage_class == only:
        return None
    of = known.storage_class or "none"
    return SchedulingVerdict("PersistentVolumeClaim", f"{text} of the class {of}, and {follow}")


def _needs_storage(pod: Json, placement: Placement) -> bool:
    """True if a volume may be provisioned where a pod lands, which not every peer can do."""
    if not placement.storage_class or placement.strategy == "Local":
        return False
    for volume in pod.get("spec", {}).get("volumes") or []:
        if "persistentVolumeClaim" in volume:
            claim = (volume["persistentVolumeClaim"] or {}).get("claimName", "")
            known = placement.claims.get(claim)
            if known is None or (
                known.storage_class == placement.storage_class and not known.bound
            ):
                return True
        elif "ephemeral" in volume and _volume_obstacle(volume, placement) is None:
            return True
    return False


def blocked(pod: Json, placement: Placement) -> SchedulingVerdict | None:
    """The reason against every peer: a part of a pod cannot follow, or none accepts it; or None."""
    found = obstacle(pod, placement)
    if found is not None or not placement.providers:
        return found
    refused = refusing(pod, placement)
    if len(refused) < len(placement.providers):
        return None
    why = next(iter(refused.values()))
    return SchedulingVerdict(NOT_LENT, f"{why}, which no provider takes")


def refusing(pod: Json, placement: Placement) -> dict[str, str]:
    """The providers that would never take a pod, by their ids, and why."""
    there = {
        **pod.get("spec", {}),
        "serviceAccountName": podspec.remote_account(pod),
        "runtimeClassName": podspec.remote_runtime_class(pod, {}),
    }
    return guestrules.problems(there, placement.providers)


def note(pod: Json, placement: Placement) -> str:
    """The note for a pod's owner about unexpected placement, one sentence; empty for nothing.

    `kubectl describe pod` shows it, as the annotation ``liqod.io/note``.
    """
    if placement.strategy == "Local":
        return ""
    found = blocked(pod, placement)
    if found is not None:
        return f"it goes to no peer: {found.message}"
    host = [name for name in HOST_NAMESPACES if pod.get("spec", {}).get(name)]
    return f"at a peer it is without {', '.join(host)}: a peer's host is not lent" if host else ""


def left_alone(pod: Json) -> bool:
    """True if liqod does not place a pod: those of DaemonSets, of the node itself, of ``liqo``."""
    annotations = pod.get("metadata", {}).get("annotations") or {}
    return (
        daemon_set(pod) is not None
        or pod.get("spec", {}).get("runtimeClassName") == labels.RUNTIME_CLASS
        or "kubernetes.io/config.mirror" in annotations
    )


def tolerates(tolerations: Sequence[Json]) -> bool:
    """True if a toleration covers the virtual nodes' taint for good."""
    return any(_covers(each) for each in tolerations)


def mutate(pod: Json, placement: Placement) -> list[Json]:
    """The JSON patch that admission answers for a new pod; empty where nothing is to be added.

    It is idempotent: applied once, the patched pod needs none.
    """
    if left_alone(pod):
        return []
    patch: list[Json] = []
    text, annotations = note(pod, placement), pod.get("metadata", {}).get("annotations")
    if text and (annotations or {}).get(labels.NOTE) != text:
        patch.append(
            {"op": "add", "path": f"/metadata/annotations/{NOTE_POINTER}", "value": text}
            if annotations
            else {"op": "add", "path": "/metadata/annotations", "value": {labels.NOTE: text}}
        )
    affinity = placed_affinity(pod, placement)
    if affinity is not None:
        patch.append({"op": "add", "path": "/spec/affinity", "value": affinity})
    if needs_toleration(pod, placement):
        toleration = dict(TOLERATION)
        if pod.get("spec", {}).get("tolerations"):
            patch.append({"op": "add", "path": "/spec/tolerations/-", "value": toleration})
        else:
            patch.append({"op": "add", "path": "/spec/tolerations", "value": [toleration]})
    return patch


def needs_toleration(pod: Json, placement: Placement) -> bool:
    """True if a pod may run on virtual nodes and does not tolerate their taint yet."""
    return (
        placement.strategy != "Local"
        and not left_alone(pod)
        and blocked(pod, placement) is None
        and not tolerates(pod.get("spec", {}).get("tolerations") or [])
    )


def placed_affinity(pod: Json, placement: Placement) -> Json | None:
    """The pod's affinity with the placement's node selector in it, or None if it holds already.

    The pod's own alternatives are each narrowed, never widened. A selector of the pod's that
    matches nothing stays as it is.
    """
    ours = _terms(pod, placement)
    if not ours:
        return None
    affinity: Json = pod.get("spec", {}).get("affinity") or {}
    node: Json = affinity.get("nodeAffinity") or {}
    required: Json | None = node.get(_REQUIRED)
    if required is None:
        terms = ours
    else:
        theirs = required.get("nodeSelectorTerms") or []
        terms = selectors.product(theirs, ours)
        if not terms or all(selectors.implies(each, ours) for each in theirs):
            return None
    narrowed = {**node, _REQUIRED: {"nodeSelectorTerms": terms}}
    return {**affinity, "nodeAffinity": narrowed}


def _terms(pod: Json, placement: Placement) -> list[Json]:
    """The node selector terms of the placement for a pod; none selects every node."""
    terms = _placed_terms(pod, placement)
    also: list[Json] = [_STORING] if _needs_storage(pod, placement) else []
    refused = sorted(refusing(pod, placement)) if placement.strategy != "Local" else []
    # Of several providers those that would never take it; where all would not, it stays.
    if refused and blocked(pod, placement) is None:
        also.append({"key": labels.REMOTE_CLUSTER_ID, "operator": "NotIn", "values": refused})
    if not also:
        return terms
    narrower: list[Json] = [{"matchExpressions": also}]
    return selectors.product(terms, narrower) if terms else narrower


def _placed_terms(pod: Json, placement: Placement) -> list[Json]:
    stays = blocked(pod, placement) is not None
    virtual: list[Json] = [{"matchExpressions": [_VIRTUAL]}]
    real: list[Json] = [{"matchExpressions": [_REAL]}]
    chosen = virtual
    if placement.terms:
        chosen = selectors.product(placement.terms, virtual) or [_NOWHERE]
    if placement.strategy == "Remote":
        return chosen
    if placement.strategy == "Local" or stays:
        # Only a pod that tolerates everything would go to a virtual node.
        return real if tolerates(pod.get("spec", {}).get("tolerations") or []) else []
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
    if placement.strategy == "Local" or left_alone(pod):
        return None
    stays = blocked(pod, placement)
    if stays is not None:
        where = (
            "; the strategy Remote of its namespace keeps it off this cluster's own nodes too"
            if placement.strategy == "Remote"
            else ", so it runs on this cluster's own nodes only"
        )
        return SchedulingVerdict(stays.reason, stays.message + where)
    # Rules of providers change, and bind a pod only as they are when it is made.
    ruleless = msgspec.structs.replace(placement, providers={})
    if not pod["spec"].get("schedulingGates") and placed_affinity(pod, ruleless) is not None:
        return SchedulingVerdict(
            "AdmissionMissed",
            "the pod was made while the webhook of liqod could not be reached, so it lacks the "
            "node affinity that its namespace asks for; delete it to have it made again",
        )
    return None


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
    if left_alone(pod) or pod["spec"].get("nodeName") or late_verdict(pod, placement) is not None:
        return None
    spec: Json = {}
    if needs_toleration(pod, placement):
        spec["tolerations"] = [*(pod["spec"].get("tolerations") or []), dict(TOLERATION)]
    if pod["spec"].get("schedulingGates"):
        affinity = placed_affinity(pod, placement)
        if affinity is not None:
            spec["affinity"] = affinity
    if not spec:
        return None
    return {"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]}, "spec": spec}
