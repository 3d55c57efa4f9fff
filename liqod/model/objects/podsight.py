"""Summarises pods and nodes for views: place, readiness, and the reason for a missing one."""

from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.objects import conditions, podstatus
from liqod.model.objects.partial import NodeStatus, PodStatus
from liqod.model.objects.podreturns import UNPULLED, UNSCHEDULABLE
from liqod.model.peering.quotadecision import OVER_QUOTA
from liqod.model.view.snapshot import GuestSummary, PodSummary

ORDINARY = ("ContainerCreating", "PodInitializing")
"""Reasons of waiting containers that pass by themselves."""
WAITS = (UNSCHEDULABLE, OVER_QUOTA)
"""Reasons of a pod that uses nothing of its peer's grant: that of the scheduler there, and that of
the quota there, where the pod gave way to a smaller one."""
REQUIRED = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
"""Conditions that a pod needs before it is ready, in their order."""


class LivePod(msgspec.Struct, frozen=True):
    """A pod as the API server has it; its spec stays JSON, of which the costs are counted."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: PodStatus = PodStatus()


def pod_of(pod: LivePod) -> PodSummary:
    """The summary of a pod."""
    ready = conditions.holds(pod.status.conditions, "Ready")
    owners = [ref.name for ref in pod.metadata.owner_references if ref.kind == "DaemonSet"]
    return PodSummary(
        pod.metadata.namespace,
        pod.metadata.name,
        str(pod.spec.get("nodeName", "")),
        pod.status.phase,
        ready,
        "" if ready or _is_meant(pod.status) else why(pod.status),
        owners[0] if owners and not ready else "",
        pod.status.phase == "Pending" and _is_unplaced(pod.status),
        waits_there(pod.status.phase, pod.status.reason),
    )


def waits_there(phase: str, reason: str) -> bool:
    """True if a pod on a virtual node waits at the peer, and uses nothing of the grant."""
    return phase == "Pending" and reason in WAITS


def _is_unplaced(status: PodStatus) -> bool:
    """True if a scheduler has no node for a pod: the local one, or, by its reason, the peer's."""
    scheduled = conditions.of_type(status.conditions, "PodScheduled")
    here = (
        scheduled is not None and scheduled.status == "False" and scheduled.reason == UNSCHEDULABLE
    )
    return here or status.reason == UNSCHEDULABLE


def guest_of(pod: LivePod) -> GuestSummary:
    """The summary of a pod that was made from a shadow pod."""
    consumer = pod.metadata.labels.get(labels.ORIGIN, "")
    return GuestSummary(**msgspec.structs.asdict(pod_of(pod)), consumer=consumer)


def _is_meant(status: PodStatus) -> bool:
    """True if a pod ended as it was to: by itself, or with the offloading of its namespace."""
    return status.phase == "Succeeded" or status.reason == podstatus.ABORTED


def why(status: PodStatus) -> str:
    """The reason why a pod is not ready: of the pod, a container, or a condition."""
    if status.message or status.reason:
        return status.message or status.reason
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in ("", *ORDINARY):
            return f"{container.name}: {waiting.message or waiting.reason}"
    for condition in status.conditions:
        if condition.type in REQUIRED and condition.status != "True" and condition.message:
            return condition.message
    return ""


def unpulled(status: PodStatus) -> str:
    """The kubelet's message about an image that cannot be pulled; empty while none is missing."""
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in UNPULLED:
            return waiting.message or waiting.reason
    return ""


def unready(status: NodeStatus) -> str:
    """The reason why a Node is not Ready; empty when it is."""
    ready = conditions.of_type(status.conditions, "Ready")
    if ready is None:
        return "it has no condition Ready"
    return "" if ready.status == "True" else ready.message or ready.reason
