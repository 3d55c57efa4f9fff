"""Decides the next writes from a ShadowPod and the Pod of its name. Pure.

A ShadowPod requests one pod. The pod is made again while it is not terminal, for as long as the
ShadowPod exists; once it has ended, its phase is frozen in the ShadowPod's status and nothing is
made any more. Labels and annotations follow the ShadowPod, and of its spec the fields that
can change in a running pod (:mod:`liqod.provider.workloads.podupdates`); all else is copied once. A
pod of that name that this ShadowPod does not own is never touched. On the ShadowPod itself nothing
but ``status`` is ever written: it is the consumer's.
"""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.crossing.graces import noted
from liqod.model.objects.patches import BOOKKEEPING
from liqod.provider.policies.podrestrictions import remedy

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
NAME_TAKEN: Final = "NameTaken"
WRONG_ORIGIN: Final = "WrongOrigin"
REFUSED: Final = "Refused"
TOO_LARGE: Final = "TooLarge"
TOO_MUCH: Final = "TooMuch"
LOST: Final = "PodLost"
MADE: Final = "made"
"""Note on a Pod that has not followed its ShadowPod yet; no state is called so."""
POLICIES_MISSING: Final = "PoliciesMissing"
"""Reason of a ShadowPod for which no pod is made, or changed, while nothing would hold its
consumer."""
FOLLOWED: Final = "liqod.io/followed"
"""Annotation of the Pod: keys of the labels and, after a semicolon, of the annotations that came
from the ShadowPod, so that one taken away there is taken away here."""


class ShadowSpec(msgspec.Struct, frozen=True):
    """``spec`` of a ShadowPod; the pod stays JSON until one is made."""

    pod: msgspec.Raw = msgspec.Raw(b"{}")


class ShadowStatus(msgspec.Struct, frozen=True):
    """``status`` of a ShadowPod: Liqo's phase, and ours: the reason that no pod was made."""

    phase: str = ""
    reason: str = ""
    message: str = ""


class Shadow(msgspec.Struct, frozen=True, rename="camel"):
    """A ShadowPod as it is read here; one ``too_large``, or of ``too_much``, is but a stub."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ShadowSpec = ShadowSpec()
    status: ShadowStatus = ShadowStatus()
    too_large: int = 0
    too_much: bool = False


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct, frozen=True):
    running: dict[str, Any] | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str = ""
    state: _State = _State()
    resources: dict[str, Any] | None = None


class _PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class GuestPodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a Pod's status that decides."""

    phase: str = ""
    reason: str = ""
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


class GuestPod(msgspec.Struct, frozen=True):
    """A Pod as it is read here; its spec stays JSON unless it is to be counted."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: GuestPodStatus = GuestPodStatus()


# No PodSpec: the spec is a consumer's, and a field of another type must not hide this one.
class _Policy(msgspec.Struct, frozen=True, rename="camel"):
    restart_policy: str | None = None


class ShadowPlan(msgspec.Struct, frozen=True):
    """The writes that follow from a ShadowPod and its Pod.

    Attributes:
        make: a pod is to be made, if the quota has room for it.
        metadata: merge patch of the Pod's metadata, or None.
        status: merge patch of the ShadowPod's status, or None.
        holds: whether a pod of this ShadowPod uses resources now.
        changed: what can be changed of a pod that runs may have been changed since it was made.
        remove: the pod is that of a ShadowPod that is gone or going: it is to be deleted.
        doubtful: the status contradicts what was reported before; the API server is to be read for
            the pod itself before it is written.
    """

    make: bool = False
    metadata: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    holds: bool = False
    changed: bool = False
    remove: bool = False
    doubtful: bool = False


_shadow = msgspec.json.Decoder(Shadow)
_made = msgspec.json.Decoder(GuestPod)


def only_status(old: bytes | None, new: bytes | None, told: ShadowStatus) -> bool:
    """True if a change of a ShadowPod is no more than that it has the status that was written."""
    if old is None or new is None:
        return False
    before, after = _shadow.decode(old), _shadow.decode(new)
    if after.metadata.generation != before.metadata.generation or after.status != told:
        return False
    return _unversioned(after.metadata) == _unversioned(before.metadata)


def alike(old: bytes | None, new: bytes | None) -> bool:
    """True if nothing follows from a change of a Pod, which has not ended."""
    if old is None or new is None:
        return False
    before, after = _made.decode(old), _made.decode(new)
    if after.status.phase in TERMINAL or _deciding(after) != _deciding(before):
        return False
    return _unversioned(after.metadata) == _unversioned(before.metadata)


def _deciding(pod: GuestPod) -> tuple[GuestPodStatus, bool]:
    return msgspec.structs.replace(pod.status, conditions=()), is_unplaced(pod)


def is_unplaced(pod: GuestPod) -> bool:
    """True if the scheduler has found no node for a pod."""
    return pod.status.phase == "Pending" and any(
        (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable")
        for each in pod.status.conditions
    )


def _unversioned(meta: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(meta, resource_version="", generation=0)


def decide(shadow: Shadow, pod: GuestPod | None, consumer: str) -> ShadowPlan:
    """The writes that follow from an existing ShadowPod and the Pod of its name.

    Args:
        shadow: the ShadowPod.
        pod: the Pod of the same name, if there is one that liqod marked.
        consumer: the cluster to which the namespace belongs.
    """
    holds = pod is not None and pod.status.phase not in TERMINAL
    going = pod is not None and pod.metadata.deletion_timestamp is not None
    if is_going(shadow.metadata):
        mine = pod is not None and made_for(pod, shadow.metadata.name)
        return ShadowPlan(holds=holds, remove=mine and not going)
    if shadow.too_large:
        return ShadowPlan(holds=holds, status=_refused_stub(shadow) if pod is None else None)
    if pod is None:
        return _without_pod(shadow, consumer)
    ours = owned(pod, shadow)
    if shadow.status.phase in TERMINAL:
        lives = ours and holds and not going
        back = _phase(shadow.status, pod.status.phase) if lives else None
        return ShadowPlan(holds=holds, status=back, doubtful=back is not None)
    if not ours:
        return _beside(shadow, pod, holds=holds, going=going)
    end = outcome(pod)
    if end is not None:
        return ShadowPlan(status=_phase(shadow.status, end))
    if going:
        return ShadowPlan(holds=True)
    return ShadowPlan(
        metadata=follow(shadow.metadata, pod.metadata),
        status=_progress(shadow, pod.status.phase),
        holds=True,
        changed=may_differ(shadow, pod),
    )


def may_differ(shadow: Shadow, pod: GuestPod) -> bool:
    """True if a ShadowPod may have been changed since its pod was made."""
    noted = pod.metadata.annotations.get(labels.CHANGES)
    return shadow.metadata.generation > 1 or noted == MADE


def is_going(shadow: ObjectMeta) -> bool:
    """True if a ShadowPod is being deleted, or is about to be: a grace is noted for that alone."""
    return shadow.deletion_timestamp is not None or noted(shadow.annotations) is not None


def _refused_stub(shadow: Shadow) -> dict[str, Any] | None:
    reason, message = TOO_LARGE, f"the ShadowPod has {shadow.too_large} bytes"
    if shadow.too_much:
        reason, message = TOO_MUCH, "the consumer has too much here already"
    setting = "max_bytes" if shadow.too_much else "max_pod_bytes"
    return refusal(shadow.status, reason, f"{message}: {remedy(setting)}")


def _without_pod(shadow: Shadow, consumer: str) -> ShadowPlan:
    """A pod is made, unless it has ended or must not run a second time."""
    if shadow.status.phase in TERMINAL:
        return ShadowPlan()
    if shadow.status.phase == "Running" and runs_once(shadow):
        message = "the pod ran and is gone, and nobody saw how it ended"
        lost = {"phase": "Failed", "reason": LOST, "message": message}
        return ShadowPlan(status=lost, doubtful=True)
    origin = shadow.metadata.labels.get(labels.ORIGIN, "")
    if origin != consumer:
        message = f"label {labels.ORIGIN} says {origin!r}, the namespace belongs to {consumer}"
        return ShadowPlan(status=refusal(shadow.status, WRONG_ORIGIN, message))
    return ShadowPlan(make=True)


def _beside(shadow: Shadow, pod: GuestPod, *, holds: bool, going: bool) -> ShadowPlan:
    """A pod of that name that another ShadowPod owns, or none, or that was never one of ours."""
    name = shadow.metadata.name
    if is_orphan(pod):
        if pod.metadata.annotations.get(labels.LOCAL_UID) != shadow.metadata.annotations.get(
            labels.LOCAL_UID
        ):
            return ShadowPlan(holds=holds, remove=not going)
        adopted = None if going else adopt(shadow.metadata, pod.metadata)
        return ShadowPlan(holds=holds, metadata=adopted)
    if made_for(pod, name):
        return ShadowPlan(holds=holds, remove=not going)
    message = f"a pod named {name} exists here and is not this ShadowPod's"
    return ShadowPlan(status=refusal(shadow.status, NAME_TAKEN, message))


def runs_once(shadow: Shadow) -> bool:
    """True if a pod whose containers have ended must not be started again."""
    return _policy(shadow.spec.pod) in ("Never", "OnFailure")


def _policy(spec: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(spec, type=_Policy).restart_policy
    except msgspec.MsgspecError:
        return None


def is_orphan(pod: GuestPod) -> bool:
    """True if a pod was made here from a ShadowPod and then taken from it, so that none owns it.

    A copy that a user made of such a pod has another name than its record.
    """
    meta = pod.metadata
    record = meta.annotations.get(labels.SOURCE, f"/{meta.name}")
    owned_by = any(each.controller for each in meta.owner_references)
    return FOLLOWED in meta.annotations and not owned_by and record.endswith(f"/{meta.name}")


def owned(pod: GuestPod, shadow: Shadow) -> bool:
    """True if the pod was made from this very ShadowPod."""
    return any(owner.uid == shadow.metadata.uid for owner in pod.metadata.owner_references)


def made_for(pod: GuestPod, name: str) -> bool:
    """True if the pod was made from a ShadowPod of this name, be it an earlier one."""
    return is_orphan(pod) or any(
        owner.kind == "ShadowPod" and owner.name == name for owner in pod.metadata.owner_references
    )


def uses_resources(pod: GuestPod) -> bool:
    """True if a marked Pod was made from a ShadowPod, perhaps an earlier one, and has not ended."""
    return made_for(pod, pod.metadata.name) and pod.status.phase not in TERMINAL


def running(pod: GuestPod) -> dict[str, dict[str, Any]]:
    """The resources that the containers of a pod have now, by their names, where reported."""
    found = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return {each.name: each.resources for each in found if each.resources}


def orphaned(pod: GuestPod) -> ShadowPlan:
    """The plan for a marked Pod whose ShadowPod is gone: it goes, and counts until it has.

    The cluster's garbage collector would delete it too, but with its client's limits, and not at
    all in the first half minute of a new kind.
    """
    holds = pod.status.phase not in TERMINAL
    leaving = pod.metadata.deletion_timestamp is not None
    return ShadowPlan(holds=holds, remove=not leaving and made_for(pod, pod.metadata.name))


def outcome(pod: GuestPod) -> str | None:
    """The phase in which the pod has ended by itself, or None.

    A kubelet lets a pod that is being deleted end as Succeeded or Failed before it goes; that is no
    end of its own, unless all its containers had finished before the deletion was requested
    (``deletionTimestamp`` minus the grace period). A pod that is restarted where it ends has an end
    of its own only where ``reason`` names it: a deadline, a node's pressure or shutdown.
    """
    if pod.status.phase not in TERMINAL:
        return None
    if pod.metadata.deletion_timestamp is None:
        return pod.status.phase
    if not pod.status.reason and _policy(pod.spec) in (None, "Always"):
        # A kubelet's last word before it goes has another deletionTimestamp and no grace.
        return None
    asked = _deletion_requested(pod.metadata)
    if asked is None:
        return None
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = [one.state.terminated for one in containers if one.state.terminated is not None]
    if not ends or any(one.state.running is not None for one in containers):
        return None
    finished = [end.finished_at for end in ends]
    if all(at is not None and datetime.fromisoformat(at) <= asked for at in finished):
        return pod.status.phase
    return None


def _deletion_requested(meta: ObjectMeta) -> datetime | None:
    """The time of a request for deletion; None where a grace beyond all calendars hides it."""
    try:
        grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
        return datetime.fromisoformat(meta.deletion_timestamp or "") - grace
    except (OverflowError, ValueError):
        return None


def refusal(status: ShadowStatus, reason: str, message: str) -> dict[str, Any] | None:
    """The status patch that gives the reason why there is no pod; None if it has been written.

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
    """Labels and annotations that the Pod is to have: the ShadowPod's, but for its writer's own."""
    wanted = {**shadow.labels, labels.MANAGED_BY: labels.MANAGED_BY_SHADOW_POD}
    notes = {key: value for key, value in shadow.annotations.items() if key not in BOOKKEEPING}
    record = f"{' '.join(sorted(shadow.labels))};{' '.join(sorted(notes))}"
    return wanted, {**notes, FOLLOWED: record}


def pod_metadata(shadow: ObjectMeta) -> dict[str, Any]:
    """Metadata of the Pod to be made; the ShadowPod owns it, so that it goes with it."""
    wanted_labels, wanted_annotations = followed(shadow)
    return {
        "name": shadow.name,
        "namespace": shadow.namespace,
        "labels": wanted_labels,
        "annotations": wanted_annotations,
        "ownerReferences": [_owner(shadow)],
    }


def adopt(shadow: ObjectMeta, pod: ObjectMeta) -> dict[str, Any]:
    """The merge patch that gives an orphaned Pod back to its ShadowPod."""
    others = [msgspec.to_builtins(each) for each in pod.owner_references]
    return {**(follow(shadow, pod) or {}), "ownerReferences": [*others, _owner(shadow)]}


def _owner(shadow: ObjectMeta) -> dict[str, Any]:
    return {
        "apiVersion": "offloading.liqo.io/v1beta1",
        "kind": "ShadowPod",
        "name": shadow.name,
        "uid": shadow.uid,
        "controller": True,
    }


def _phase(status: ShadowStatus, phase: str) -> dict[str, Any] | None:
    patch: dict[str, Any] = {}
    if status.phase != phase:
        patch["phase"] = phase
    if status.reason:
        patch |= {"reason": None, "message": None}
    return patch or None


def _progress(shadow: Shadow, phase: str) -> dict[str, Any] | None:
    """The patch of a phase, if to be reported: Running only of a pod that runs once, and to Liqo.

    A controller restarts the containers of any other pod, so nothing depends on its phase, and one
    write for each pod is saved. Otherwise a phase is reported where it takes back a reason.
    """
    status = shadow.status
    if status.reason or (phase == "Running" and (runs_once(shadow) or _from_liqo(shadow))):
        return _phase(status, phase)
    return None


def _from_liqo(shadow: Shadow) -> bool:
    """True if Liqo wrote a ShadowPod: liqod notes the UID of its pod."""
    return labels.LOCAL_UID not in shadow.metadata.annotations
