"""What a ShadowPod and the Pod of its name say together, and what follows from it. Pure.

A ShadowPod asks for one pod. The pod is made again while it is not terminal, for as long as the
ShadowPod is there; once it has ended, its phase is frozen in the ShadowPod's status and nothing is
made any more. Labels and annotations follow the ShadowPod, everything else is copied once. A pod
of that name that this ShadowPod does not own is never touched. On the ShadowPod itself nothing but
``status`` is ever written: it is the consumer's (``liqo-v1.md`` §2.8a, §3.1).
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from liqod.kube.meta import ObjectMeta
from liqod.model import labels

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
NAME_TAKEN: Final = "NameTaken"
WRONG_ORIGIN: Final = "WrongOrigin"
REFUSED: Final = "Refused"
FOLLOWED: Final = "liqod.io/followed"
"""Annotation of the Pod: keys of the labels and, after a semicolon, of the annotations that came
from the ShadowPod, so that one taken away there is taken away here."""


class ShadowSpec(msgspec.Struct, frozen=True):
    """``spec`` of a ShadowPod; the pod stays JSON until one is made."""

    pod: msgspec.Raw = msgspec.Raw(b"{}")


class ShadowStatus(msgspec.Struct, frozen=True):
    """``status`` of a ShadowPod: Liqo's phase, and ours: why no pod was made."""

    phase: str = ""
    reason: str = ""
    message: str = ""


class Shadow(msgspec.Struct, frozen=True):
    """A ShadowPod as it is read here."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ShadowSpec = ShadowSpec()
    status: ShadowStatus = ShadowStatus()


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct, frozen=True):
    running: dict[str, Any] | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True):
    state: _State = _State()


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a Pod's status that decides."""

    phase: str = ""
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()


class Made(msgspec.Struct, frozen=True):
    """A Pod as it is read here; its spec stays JSON unless it is to be counted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: PodStatus = PodStatus()


class Plan(msgspec.Struct, frozen=True):
    """What is to be done.

    Attributes:
        make: a pod is to be made, if the quota has room for it.
        metadata: merge patch of the Pod's metadata, or None.
        status: merge patch of the ShadowPod's status, or None.
        holds: whether a pod of this ShadowPod uses resources now.
        remove: the pod is that of a ShadowPod that is gone: it is to be deleted.
    """

    make: bool = False
    metadata: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    holds: bool = False
    remove: bool = False


def decide(shadow: Shadow, pod: Made | None, consumer: str) -> Plan:
    """What follows from a ShadowPod that is there and the Pod of its name.

    Args:
        shadow: the ShadowPod.
        pod: the Pod of the same name, if there is one that liqod marked.
        consumer: the cluster to which the namespace belongs.
    """
    ours = pod is not None and owned(pod, shadow)
    holds = pod is not None and pod.status.phase not in TERMINAL
    if shadow.metadata.deletion_timestamp is not None or shadow.status.phase in TERMINAL:
        return Plan(holds=holds)
    if pod is None:
        origin = shadow.metadata.labels.get(labels.ORIGIN, "")
        if origin != consumer:
            message = f"label {labels.ORIGIN} says {origin!r}, the namespace belongs to {consumer}"
            return Plan(status=refusal(shadow.status, WRONG_ORIGIN, message))
        return Plan(make=True)
    if not ours:
        if made_for(pod, shadow.metadata.name):
            return Plan(holds=holds, remove=pod.metadata.deletion_timestamp is None)
        message = f"a pod named {shadow.metadata.name} exists here and is not this ShadowPod's"
        return Plan(status=refusal(shadow.status, NAME_TAKEN, message))
    end = outcome(pod)
    if end is not None:
        return Plan(status=_phase(shadow.status, end))
    if pod.metadata.deletion_timestamp is not None:
        return Plan(holds=True)
    return Plan(
        metadata=follow(shadow.metadata, pod.metadata),
        status=_progress(shadow.status, pod.status.phase),
        holds=True,
    )


def owned(pod: Made, shadow: Shadow) -> bool:
    """Whether the pod was made from this very ShadowPod."""
    return any(owner.uid == shadow.metadata.uid for owner in pod.metadata.owner_references)


def made_for(pod: Made, name: str) -> bool:
    """Whether the pod was made from a ShadowPod of this name, be it an earlier one."""
    return any(
        owner.kind == "ShadowPod" and owner.name == name for owner in pod.metadata.owner_references
    )


def uses_resources(pod: Made) -> bool:
    """Whether a marked Pod was made from a ShadowPod, perhaps an earlier one, and has not ended."""
    return pod.status.phase not in TERMINAL and made_for(pod, pod.metadata.name)


def orphaned(pod: Made) -> Plan:
    """What follows for a marked Pod whose ShadowPod is gone: it goes, and counts until it has.

    The cluster's garbage collector would delete it too, but with its client's limits, and not at
    all in the first half minute of a new kind.
    """
    holds = pod.status.phase not in TERMINAL
    leaving = pod.metadata.deletion_timestamp is not None
    return Plan(holds=holds, remove=not leaving and made_for(pod, pod.metadata.name))


def outcome(pod: Made) -> str | None:
    """The phase in which the pod has ended by itself, or None.

    A kubelet lets a pod that is being deleted end as Succeeded or Failed before it goes; that is no
    end of its own, unless all its containers had finished before somebody asked for the deletion
    (``deletionTimestamp`` minus the grace period).
    """
    if pod.status.phase not in TERMINAL:
        return None
    deleted = pod.metadata.deletion_timestamp
    if deleted is None:
        return pod.status.phase
    grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    asked = datetime.fromisoformat(deleted) - grace
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [one.state.terminated for one in containers if one.state.terminated is not None]
    if not ends or any(one.state.running is not None for one in containers):
        return None
    finished = [end.finished_at for end in ends]
    if all(at is not None and datetime.fromisoformat(at) <= asked for at in finished):
        return pod.status.phase
    return None


def refusal(status: ShadowStatus, reason: str, message: str) -> dict[str, Any] | None:
    """The patch that tells the consumer why there is no pod; None if it has been told.

    The message is not followed while the reason stays: numbers in it change all the time.
    """
    if status.reason == reason and status.phase == "Pending":
        return None
    return {"phase": "Pending", "reason": reason, "message": message[:1024]}


def follow(shadow: ObjectMeta, pod: ObjectMeta) -> dict[str, Any] | None:
    """The merge patch that lets the Pod's labels and annotations follow, or None."""
    wanted_labels, wanted_annotations = followed(shadow)
    old_labels, _, old_annotations = pod.annotations.get(FOLLOWED, "").partition(";")
    patch: dict[str, Any] = {}
    for field, wanted, live, recorded in (
        ("labels", wanted_labels, pod.labels, old_labels),
        ("annotations", wanted_annotations, pod.annotations, old_annotations),
    ):
        changes: dict[str, str | None] = {
            key: value
            for key, value in wanted.items()
            if key != FOLLOWED and live.get(key) != value
        }
        changes |= {key: None for key in recorded.split() if key not in wanted and key in live}
        if changes:
            patch[field] = changes
    if patch:
        record = wanted_annotations[FOLLOWED]
        patch["annotations"] = {**patch.get("annotations", {}), FOLLOWED: record}
    return patch or None


def followed(shadow: ObjectMeta) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations that the Pod is to have."""
    wanted = {**shadow.labels, labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_POD}
    record = f"{' '.join(sorted(shadow.labels))};{' '.join(sorted(shadow.annotations))}"
    return wanted, {**shadow.annotations, FOLLOWED: record}


def pod_metadata(shadow: ObjectMeta) -> dict[str, Any]:
    """Metadata of the Pod to be made; the ShadowPod owns it, so that it goes with it."""
    wanted_labels, wanted_annotations = followed(shadow)
    return {
        "name": shadow.name,
        "namespace": shadow.namespace,
        "labels": wanted_labels,
        "annotations": wanted_annotations,
        "ownerReferences": [
            {
                "apiVersion": "offloading.liqo.io/v1beta1",
                "kind": "ShadowPod",
                "name": shadow.name,
                "uid": shadow.uid,
                "controller": True,
            }
        ],
    }


def _phase(status: ShadowStatus, phase: str) -> dict[str, Any] | None:
    patch: dict[str, Any] = {}
    if status.phase != phase:
        patch["phase"] = phase
    if status.reason:
        patch |= {"reason": None, "message": None}
    return patch or None


def _progress(status: ShadowStatus, phase: str) -> dict[str, Any] | None:
    """Running is told; Pending only takes back a reason that no longer holds."""
    if phase == "Running" or (phase == "Pending" and status.reason):
        return _phase(status, phase)
    return None
