"""What of a pod or a node counts for those who look: where it is, whether it is ready, why not."""

from typing import Any

import msgspec

from liqod.kube.meta import ObjectMeta
from liqod.model import labels
from liqod.model.objects import podstatus
from liqod.model.view.snapshot import Guest, Pod

ORDINARY = ("ContainerCreating", "PodInitializing")
"""Reasons of waiting containers that pass by themselves."""
REQUIRED = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
"""Conditions that a pod needs before it is ready, in their order."""


class Condition(msgspec.Struct, frozen=True):
    """A condition of a pod or node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """Why a container waits."""

    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container, as far as it waits."""

    waiting: Waiting | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str
    state: ContainerState = ContainerState()
    restart_count: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a pod or node."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[Container, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class LivePod(msgspec.Struct, frozen=True):
    """A pod as the API server has it."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: Status = Status()


class LiveNode(msgspec.Struct, frozen=True):
    """A node as the API server has it."""

    metadata: ObjectMeta
    status: Status = Status()


def pod_of(pod: LivePod) -> Pod:
    """What counts of a pod."""
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    owners = [ref.name for ref in pod.metadata.owner_references if ref.kind == "DaemonSet"]
    return Pod(
        pod.metadata.namespace,
        pod.metadata.name,
        str(pod.spec.get("nodeName", "")),
        pod.status.phase,
        ready,
        "" if ready or _is_meant(pod.status) else why(pod.status),
        owners[0] if owners and not ready else "",
    )


def guest_of(pod: LivePod) -> Guest:
    """What counts of a pod that was made of a shadow pod."""
    consumer = pod.metadata.labels.get(labels.ORIGIN, "")
    return Guest(**msgspec.structs.asdict(pod_of(pod)), consumer=consumer)


def _is_meant(status: Status) -> bool:
    """Whether a pod ended as it was to: by itself, or with the offloading of its namespace."""
    return status.phase == "Succeeded" or status.reason == podstatus.ABORTED


def why(status: Status) -> str:
    """Why a pod is not ready: the pod's own word, a container's, or a condition's."""
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


def unready(status: Status) -> str:
    """Why a Node is not Ready; empty when it is."""
    for condition in status.conditions:
        if condition.type == "Ready":
            return "" if condition.status == "True" else condition.message or condition.reason
    return "it has no condition Ready"
