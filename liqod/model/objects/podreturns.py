"""Decides which pods return from a peer that cannot start them, and how far each has come.

Pure. A pod that waits at a peer for longer than the time of its cause is ended there, and then
evicted here, so that its controller makes another. How far that has come is in the pod's condition
:data:`RETURNING`, from which any daemon goes on: ``Unknown`` while the time runs, ``False`` while
it is ended at the peer, ``True`` once nothing of it is left there. From ``False`` it goes back to
none where the pod has started after all; from ``True`` it never does.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.objects import conditions
from liqod.model.objects.podstatus import TERMINAL

Json = dict[str, Any]

RETURNING: Final = labels.RETURNING
UNSCHEDULABLE: Final = "Unschedulable"
"""Cause, and Kubernetes' reason for it: a scheduler has no node for the pod."""
UNPULLED: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
"""Reasons of containers whose image cannot be pulled."""
IMAGE: Final = "ImageUnavailable"
"""Cause: the image of a container cannot be pulled there."""
REFUSED: Final = "Refused"
"""Cause: the peer's API server, a policy or its quota does not let the pod in."""
BEGUN: Final = ("False", "True")
JOB: Final = ("batch", "Job")
"""Group and kind of controllers that count each deleted pod as one that failed."""
_GROUPS: Final = ("initContainerStatuses", "containerStatuses")
_BEGAN: Final = ("running", "terminated")


class ReturnTimes(msgspec.Struct, frozen=True):
    """The seconds that a pod waits for its start at a peer, by cause; 0: it does not return.

    Attributes:
        unschedulable: where no node there has a place for it.
        scaling: the same at a peer that adds nodes for such pods, where that is longer.
        image: where an image cannot be pulled there.
        refused: where the peer does not take it.
    """

    unschedulable: float = 0.0
    scaling: float = 0.0
    image: float = 0.0
    refused: float = 0.0

    def of(self, cause: str, *, scales: bool = False) -> float:
        """The time of a cause, at a peer that may add nodes."""
        if cause == UNSCHEDULABLE and scales and self.unschedulable:
            return max(self.unschedulable, self.scaling)
        known = {UNSCHEDULABLE: self.unschedulable, IMAGE: self.image, REFUSED: self.refused}
        return known.get(cause, 0.0)


class StartFault(msgspec.Struct, frozen=True):
    """The cause that keeps a pod from its start, and the peer's words about it."""

    cause: str
    message: str


def fault(
    spec: Mapping[str, Any], status: Mapping[str, Any], *, refused: bool
) -> StartFault | None:
    """The fault of a pod that waits at a peer; None for one that starts, or waits for another.

    Args:
        spec: of the local pod.
        status: of the local pod, as it is to be.
        refused: whether the peer does not take the pod, which then is the status's reason.
    """
    if status.get("phase") not in (None, "", "Pending") or _has_begun(spec, status):
        return None
    message = str(status.get("message") or "")
    if refused:
        return StartFault(REFUSED, message or str(status.get("reason") or ""))
    if status.get("reason") == UNSCHEDULABLE:
        return StartFault(UNSCHEDULABLE, message)
    for group in _GROUPS:
        for each in status.get(group) or ():
            waits: Mapping[str, Any] = (each.get("state") or {}).get("waiting") or {}
            if waits.get("reason") in UNPULLED:
                text = waits.get("message") or waits["reason"]
                return StartFault(IMAGE, f"{each.get('name')}: {text}")
    return None


def is_refused(shadow: Mapping[str, Any]) -> bool:
    """True if a ShadowPod, read at the peer, says that the daemon there does not take it."""
    there = shadow.get("status") or {}
    return bool(there.get("reason")) and there.get("phase") not in TERMINAL


def _has_begun(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """True if a container or a sidecar runs or has run: its work is not to be lost for another."""
    inits = spec.get("initContainers") or ()
    sidecars = {each.get("name") for each in inits if each.get("restartPolicy") == "Always"}
    shown = [
        *(status.get("containerStatuses") or ()),
        *(
            each
            for each in status.get("initContainerStatuses") or ()
            if each.get("name") in sidecars
        ),
    ]
    return any(
        each.get("restartCount")
        or any(
            (each.get(when) or {}).get(how) is not None
            for when in ("state", "lastState")
            for how in _BEGAN
        )
        for each in shown
    )


def noted(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition :data:`RETURNING` of a pod; empty where it has none."""
    return conditions.find((pod.get("status") or {}).get("conditions"), RETURNING) or {}


def begun(pod: Mapping[str, Any]) -> bool:
    """True if a pod is being ended at its peer to return, or has been."""
    return noted(pod).get("status") in BEGUN


def ended_there(pod: Mapping[str, Any]) -> bool:
    """True if nothing of a pod that returns is left at its peer."""
    return noted(pod).get("status") == "True"


def waited(pod: Mapping[str, Any], found: StartFault, now: str) -> float | None:
    """Seconds for which a pod is known to have waited by this fault; None: it is new."""
    known = noted(pod)
    if known.get("status") != "Unknown" or known.get("reason") != found.cause:
        return None
    try:
        since = datetime.fromisoformat(str(known.get(conditions.SINCE)))
        return max((datetime.fromisoformat(now) - since).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def marked(
    pod: Mapping[str, Any],
    patch: Mapping[str, Any] | None,
    status: str,
    found: StartFault | None,
    now: str,
) -> Json:
    """A patch of a pod's status with the condition :data:`RETURNING` in it.

    Args:
        pod: the local pod.
        patch: what else is patched of its status.
        status: of the condition.
        found: its reason and message; None leaves those that it has.
        now: the time, RFC 3339: the condition's own, whatever it was before.
    """
    known = noted(pod)
    reason = known.get("reason", "") if found is None else found.cause
    message = known.get("message", "") if found is None else found.message
    rest = unmarked(pod, patch)["conditions"]
    said = {"type": RETURNING, "status": status, "reason": reason, "message": message}
    return {**(patch or {}), "conditions": [*rest, {**said, conditions.SINCE: now}]}


def unmarked(pod: Mapping[str, Any], patch: Mapping[str, Any] | None) -> Json:
    """A patch of a pod's status without the condition; arguments as :func:`marked`."""
    before = (patch or {}).get("conditions")
    if before is None:
        before = (pod.get("status") or {}).get("conditions")
    return {**(patch or {}), "conditions": conditions.without(before, RETURNING)}


def stays(notes: Mapping[str, Any] | None) -> bool:
    """True if annotations, of a pod or of its NamespaceOffloading, keep pods from returning."""
    return (notes or {}).get(labels.RETURN) == labels.FALSE


def is_asked(notes: Mapping[str, Any] | None) -> bool:
    """True if annotations, of a pod or of its NamespaceOffloading, have a Job's pods return too."""
    return (notes or {}).get(labels.RETURN) == labels.TRUE


def is_of_job(pod: Mapping[str, Any]) -> bool:
    """True if a Job makes a pod anew, which fails after too many, and ends those that run."""
    found = owner(pod) or {}
    group = str(found.get("apiVersion") or "").rpartition("/")[0]
    return (group, found.get("kind")) == JOB


def owner(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The reference to the controller that makes a pod, or a ReplicaSet, anew; None for none."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)
