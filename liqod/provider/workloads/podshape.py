"""The Pod that is made from a ShadowPod, and follows it. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.config import GuestSettings
from liqod.errors import Invalid
from liqod.kube.times import age
from liqod.model.network.apiaddress import translated
from liqod.model.network.ranges import PeerRanges
from liqod.model.objects import podchanges
from liqod.model.objects.homeapi import HOST
from liqod.provider.policies.podrestrictions import NotAllowed, check_pod, tolerations
from liqod.provider.workloads.shadow import MADE, Shadow, pod_metadata

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_REAL_NODES: Final = {
    "key": labels.TYPE,
    "operator": "NotIn",
    "values": [labels.VIRTUAL_NODE_TYPE],
}


def on_real_nodes(spec: dict[str, Any]) -> dict[str, Any]:
    """The pod spec with a required affinity to nodes that are not virtual.

    Terms of a node selector are alternatives, so every one gets the requirement, once. Tolerations
    and node selectors of the consumer's cannot undo it.

    Raises:
        Invalid: the affinity is not made of objects and lists.
    """
    affinity = _object(spec, "affinity")
    node = _object(affinity, "nodeAffinity")
    required = _object(node, REQUIRED)
    terms = required.get("nodeSelectorTerms") or [{}]
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise Invalid("nodeSelectorTerms is no list of objects")
    required["nodeSelectorTerms"] = [_on_real_node(term) for term in terms]
    node[REQUIRED] = required
    return {**spec, "affinity": {**affinity, "nodeAffinity": node}}


def _on_real_node(term: dict[str, Any]) -> dict[str, Any]:
    expressions = term.get("matchExpressions") or []
    if not isinstance(expressions, list):
        raise Invalid("matchExpressions is no list")
    if _REAL_NODES in expressions:
        return term
    return {**term, "matchExpressions": [*expressions, _REAL_NODES]}


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    """A copy of an object inside another, empty where there is none."""
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{name} is no object")
    return dict(value)


WAY_WAIT: Final = 20.0
"""Seconds for which a new pod waits for networks that are being joined."""
DROPPED: Final = (
    *("nodeName", "schedulerName"),
    *("priority", "priorityClassName", "preemptionPolicy"),
    "tolerations",
)
"""Fields that a consumer may not choose: its pod goes through this cluster's own scheduler, and
evicts none of this cluster's own. Of its tolerations those stay that guests may have."""


def pod_manifest(
    shadow: Shadow,
    guests: GuestSettings,
    ranges: PeerRanges | None = None,
    machines: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The Pod for a ShadowPod: its spec, kept off this cluster's own virtual nodes.

    Its annotation notes the state of the fields that can be changed. No pod is made with ephemeral
    containers; where there are any it notes that it has to follow.

    Args:
        shadow: the ShadowPod.
        guests: the restrictions of guests.
        ranges: of the two clusters, by which its path to its own cluster is translated; None where
            no networks are joined.
        machines: names of this cluster's nodes by the keys that consumers know.

    Raises: as :func:`pod_spec`.
    """
    asked = requested_spec(shadow)
    spec, metadata = pod_spec(asked, guests), pod_metadata(shadow.metadata)
    spec = _on_machine(spec, machines or {})
    if ranges is not None:
        spec = translated(spec, ranges)
    debugged = spec.pop("ephemeralContainers", None)
    metadata["annotations"][labels.CHANGES] = MADE if debugged else podchanges.state(asked)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _on_machine(spec: dict[str, Any], machines: Mapping[str, str]) -> dict[str, Any]:
    """The spec of a pod that is for one node, with that node's name in place of its key.

    Raises:
        NotAllowed: no node has the key, or it is told to nobody.
        Invalid: the selector or the affinity is not made of objects and lists.
    """
    selector = _object(spec, "nodeSelector")
    if labels.MACHINE not in selector:
        return spec
    name = machines.get(str(selector.pop(labels.MACHINE)))
    if name is None:
        raise NotAllowed("it is for a node that this cluster does not have, or does not tell of")
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    node = spec["affinity"]["nodeAffinity"]
    terms = [_with_field(term, field) for term in node[REQUIRED]["nodeSelectorTerms"]]
    pinned = {**node, REQUIRED: {**node[REQUIRED], "nodeSelectorTerms": terms}}
    return {
        **spec,
        "nodeSelector": selector,
        "affinity": {**spec["affinity"], "nodeAffinity": pinned},
    }


def _with_field(term: dict[str, Any], field: dict[str, Any]) -> dict[str, Any]:
    fields = term.get("matchFields") or []
    if not isinstance(fields, list):
        raise Invalid("matchFields is no list")
    return {**term, "matchFields": [*fields, field]}


def requested_spec(shadow: Shadow) -> dict[str, Any]:
    """The spec of a ShadowPod's pod. Raises Invalid where it is no object."""
    try:
        return msgspec.json.decode(shadow.spec.pod, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(f"the pod's spec is no object: {error}") from error


def pod_spec(spec: dict[str, Any], guests: GuestSettings) -> dict[str, Any]:
    """The spec of a ShadowPod's Pod, made from the requested spec.

    Raises:
        NotAllowed: it requests a feature that guests may not have.
        Invalid: the API server would refuse the spec.
    """
    check_pod(spec, guests)
    kept = {key: spec[key] for key in spec if key not in DROPPED}
    if tolerated := tolerations(spec, guests):
        kept["tolerations"] = tolerated
    grace = kept.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace > guests.max_grace_seconds:
        kept["terminationGracePeriodSeconds"] = guests.max_grace_seconds
    if guests.always_pull:
        kept |= _pulled(kept)
    if guests.priority_class:
        kept["priorityClassName"] = guests.priority_class
    return on_real_nodes(kept)


def awaits_way(shadow: Shadow) -> bool:
    """True if a new pod names its own API server: where networks are just being joined, that can be
    translated in a moment, and as the pod is made only."""
    made = shadow.metadata.creation_timestamp
    return HOST.encode() in bytes(shadow.spec.pod) and made is not None and age(made) < WAY_WAIT


def _pulled(spec: dict[str, Any]) -> dict[str, Any]:
    """Containers and volumes whose images are requested from the registry at each start."""
    volumes = spec.get("volumes")
    asked = {"volumes": [_fetched(each) for each in volumes]} if isinstance(volumes, list) else {}
    return asked | {
        group: [
            {**each, "imagePullPolicy": "Always"} if isinstance(each, dict) else each
            for each in spec[group]
        ]
        for group in ("containers", "initContainers", "ephemeralContainers")
        if isinstance(spec.get(group), list)
    }


def _fetched(volume: Any) -> Any:
    image = volume.get("image") if isinstance(volume, dict) else None
    if not isinstance(image, dict):
        return volume
    return {**volume, "image": {**image, "pullPolicy": "Always"}}
