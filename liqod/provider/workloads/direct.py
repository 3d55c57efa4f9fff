"""Pods that a consumer writes here itself, without a ShadowPod each: what is lent of them. Pure.

A *direct pod* carries the label ``liqo.io/managed-by: consumer``. It runs as it was written, so it
may be only what the Pod of a ShadowPod would be in any case: whatever the daemon would change, or
would have to remember longer than the pod lasts, is refused, and its consumer writes a ShadowPod
instead. A finalizer holds it until its consumer says that it is to end. Where somebody else ends
it, it is held until a ShadowPod has been made of it here, by which it is made again as any other.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.config import Guests
from liqod.errors import Invalid
from liqod.model import labels
from liqod.model.crossing import keys
from liqod.model.crossing.graces import noted
from liqod.model.objects import quantities
from liqod.model.objects.patches import BOOKKEEPING
from liqod.model.objects.realnodes import on_real_nodes
from liqod.provider.policies.guests import NotAllowed, check_pod, remedy, tolerations
from liqod.provider.workloads.shadow import Made, Shadow, ShadowSpec
from liqod.resources import SHADOW_PODS

Json = dict[str, Any]

SCHEDULER: Final = "default-scheduler"
SERVERS_OWN: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Keys of the tolerations that the API server gives every pod."""
_SERVERS: Final = ("nodeName", "schedulerName", "priority", "preemptionPolicy", "serviceAccount")
"""Fields of a live pod that are this cluster's own, and no wish of its consumer's."""


def most_pods(object_quota: Mapping[str, str]) -> int | None:
    """How many pods one namespace of a consumer may have: as many as ShadowPods; None for any.

    By a bound that is no quantity none is let in.
    """
    bound = object_quota.get(f"count/{SHADOW_PODS.plural}.{SHADOW_PODS.group}")
    if bound is None:
        return None
    return quantities.parse(bound) // quantities.NANO if quantities.is_quantity(bound) else 0


def as_shadow(pod: Made) -> Shadow:
    """A direct pod as the ledger counts ShadowPods."""
    return Shadow(metadata=pod.metadata, spec=ShadowSpec(pod.spec))


def check(pod: Made, spec: Json, guests: Guests, consumer: str, user: str, size: int) -> None:
    """See that a pod may run here as it was written.

    Args:
        pod: the pod, as the API server is about to store it.
        spec: its spec.
        guests: what guests may have.
        consumer: the cluster to which the namespace belongs.
        user: who creates it: by that user's slice it is booked.
        size: bytes of the pod.

    Raises:
        NotAllowed: it may not, though a ShadowPod of it perhaps may; the message says why.
        Invalid: the spec is not what the API server would take.
    """
    meta = pod.metadata
    if meta.labels.get(labels.ORIGIN) != consumer:
        raise NotAllowed(f"label {labels.ORIGIN} does not name {consumer}")
    if meta.labels.get(labels.CREATOR_USER) != user:
        raise NotAllowed(f"label {labels.CREATOR_USER} must be the requesting user")
    if size > guests.max_pod_bytes:
        raise NotAllowed(f"the pod has {size} bytes: {remedy('max_pod_bytes')}")
    strange = [k for k in meta.labels if not keys.brings(k, guests.labels)]
    strange += [k for k in meta.annotations if not keys.brings(k, guests.annotations)]
    if strange:
        raise NotAllowed(f"its keys {', '.join(sorted(strange))[:256]} are not for guests")
    if meta.owner_references or meta.finalizers != (labels.FINALIZER_DIRECT_POD,):
        raise NotAllowed(f"it has owners, or finalizers other than {labels.FINALIZER_DIRECT_POD}")
    check_pod(spec, guests)
    for field, allowed in (
        ("nodeName", (None, "")),
        ("schedulerName", (None, "", SCHEDULER)),
        ("priorityClassName", (None, "")),
        ("priority", (None, 0)),
        ("restartPolicy", (None, "Always")),
        ("hostUsers", (None, True, False)),
    ):
        if spec.get(field) not in allowed:
            raise NotAllowed(f"its {field} needs a ShadowPod")
    asked = spec.get("tolerations") or []
    if any(each not in tolerations(spec, guests) and not _servers_own(each) for each in asked):
        raise NotAllowed(f"it tolerates what guests may not: {remedy('tolerations')}")
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace > guests.max_grace_seconds:
        raise NotAllowed(f"it takes too long to end: {remedy('max_grace_seconds')}")
    if on_real_nodes(spec).get("affinity") != spec.get("affinity"):
        raise NotAllowed("its affinity does not keep it off virtual nodes")


def _servers_own(toleration: Any) -> bool:
    return (
        isinstance(toleration, dict)
        and toleration.get("key") in SERVERS_OWN
        and toleration.get("effect") == "NoExecute"
    )


def parted(pod: Made) -> bool:
    """Whether its consumer has said that this pod is to end."""
    return noted(pod.metadata.annotations) is not None


def is_held(pod: Made) -> bool:
    """Whether a pod is going, or gone but for the finalizer that holds direct pods."""
    meta = pod.metadata
    return meta.deletion_timestamp is not None and labels.FINALIZER_DIRECT_POD in meta.finalizers


def as_written(pod: Json) -> bytes:
    """A pod that is there as it was created: without its node and its status."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return msgspec.json.encode({"metadata": pod["metadata"], "spec": spec})


def shadow_of(pod: Json) -> Json:
    """The ShadowPod by which a direct pod is made again: what its consumer would have written.

    Args:
        pod: the whole pod, as it was last seen.
    """
    meta, live = pod["metadata"], pod["spec"]
    spec = {key: value for key, value in live.items() if key not in _SERVERS}
    marks = dict(meta.get("labels") or {})
    marks.pop(labels.MANAGED_BY, None)
    notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in BOOKKEEPING}
    return {
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": marks,
            "annotations": notes,
        },
        "spec": {"pod": spec},
    }


def read_spec(pod: Made) -> Json:
    """The spec of a pod. Raises Invalid where it is none."""
    try:
        return msgspec.json.decode(pod.spec, type=Json)
    except msgspec.DecodeError as error:
        raise Invalid(f"the pod's spec is no object: {error}") from error
