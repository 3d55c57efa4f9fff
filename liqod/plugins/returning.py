"""Plans how a pod returns that its peer cannot start: waited for, ended there, proven ended.

The reflector of pods asks :func:`judged` with each plan for a pod's status, and :func:`withdrawal`
once a pod is on its way. Nothing runs twice: the decision is in the pod before its ShadowPod goes,
no ShadowPod is wanted from then on, and what is left is read at the peer itself, ShadowPod first.
Only then the pod is evicted here (:mod:`liqod.consumer.returns`).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.model.crossing.adoption import made_for
from liqod.model.objects import conditions, eligibility, podends, podreturns, podstatus, returnmarks
from liqod.model.objects.podreturns import StartFault
from liqod.model.view.figures import span
from liqod.plugins.contracts import Json, Plan, Reason, RemoteObject, View
from liqod.resources.offloading import NAMESPACE_OFFLOADINGS, SHADOW_PODS

RETURNS: Final = "Returning"
CANNOT_RETURN: Final = "CannotReturn"
"""Reasons: a pod leaves a peer that cannot start it; one stays that nobody would make again."""
SOON: Final = 2.0
"""Seconds between two looks for what is left there of a pod that returns."""
MESSAGE_LIMIT: Final = 1024


def judged(pod: Json, plan: Plan, view: View, *, refused: bool) -> Plan:
    """The plan for the status of a pod, with how long it has waited for its start.

    Args:
        pod: the local pod, which is not on its way back.
        plan: the plan so far.
        view: what is known.
        refused: whether the peer does not take the pod.
    """
    if plan.needs or plan.end_local or pod["metadata"].get("deletionTimestamp"):
        return plan
    status = {**(pod.get("status") or {}), **(plan.status or {})}
    found = podreturns.fault(pod["spec"], status, refused=refused)
    node = view.names.nodes.get(pod["spec"].get("nodeName", ""))
    scales = node is not None and node.scales
    limit = 0.0 if found is None else view.names.returns.of(found.cause, scales=scales)
    if found is None or not limit or podreturns.stays(pod["metadata"].get("annotations")):
        known = podreturns.noted(pod)
        if not known:
            return plan
        return msgspec.structs.replace(plan, status=podreturns.unmarked(pod, plan.status))
    waited = podreturns.waited(pod, found, view.now)
    if waited is None:
        new = podreturns.marked(pod, plan.status, "Unknown", found, view.now)
        return _again(msgspec.structs.replace(plan, status=new), limit)
    if waited < limit:
        return _again(plan, limit - waited)
    return _due(pod, plan, found, limit, view)


def _due(pod: Json, plan: Plan, found: StartFault, limit: float, view: View) -> Plan:
    """The plan for a pod whose time is over: it returns, where a controller makes another."""
    peer, owner = view.names.peer, podreturns.owner(pod)
    text = f"{peer} has not started it in {span(limit)}: {found.cause}: {found.message}"
    if owner is None:
        told = f"{text}; no controller would make it again, so it stays"
        return _told(plan, CANNOT_RETURN, told)
    offloading = view.get(NAMESPACE_OFFLOADINGS, labels.NAMESPACE_OFFLOADING_NAME) or {}
    notes = (offloading.get("metadata") or {}).get("annotations")
    if podreturns.stays(notes):
        return plan
    if podreturns.is_of_job(pod) and not any(
        map(podreturns.is_asked, (notes, pod["metadata"].get("annotations")))
    ):
        told = f"{text}; its Job would count it as failed, so it stays without {labels.RETURN}=true"
        return _told(plan, CANNOT_RETURN, told)
    selector = (offloading.get("spec") or {}).get("clusterSelector") or {}
    claims = any("persistentVolumeClaim" in each for each in pod["spec"].get("volumes") or ())
    if claims or eligibility.is_fixed(pod, selector.get("nodeSelectorTerms") or ()):
        why = "a volume of its own is there" if claims else "it chooses its nodes itself"
        return _told(plan, CANNOT_RETURN, f"{text}; {why}, so it stays")
    mark = returnmarks.find(returnmarks.read(notes), str(owner.get("uid")), peer)
    made = str(pod["metadata"].get("creationTimestamp") or "")
    if mark is not None and mark.holds(view.now) and made >= mark.since:
        # It was bound to this peer all the same: to send it back at once would be a loop.
        told = (
            f"{text}; others of {mark.kind} {mark.name} returned at {mark.since}, so it waits on "
            f"there, and may return after {returnmarks.end(mark)}"
        )
        return _again(_told(plan, CANNOT_RETURN, told), _seconds(view.now, mark.until))
    # What is known may be from before an outage of the peer: it is asked once more.
    meta, since = pod["metadata"], str(podreturns.noted(pod).get(conditions.SINCE))
    need = RemoteObject(kind=SHADOW_PODS, name=meta["name"], version=since, lasts=SOON)
    read = view.fulfilled(need)
    if read is None:
        return msgspec.structs.replace(plan, needs=(need,))
    if found.cause == podreturns.REFUSED and not view.refusals and not podreturns.is_refused(read):
        return _again(plan, SOON)
    status = podreturns.marked(pod, plan.status, "False", found, view.now)
    return msgspec.structs.replace(plan, status=status, debounce=0.0)


def withdrawal(
    pod: Json, view: View, shadow: Callable[[], Json], is_remote_pod: Callable[[Json], bool]
) -> Plan:
    """The plan for a pod that is on its way back.

    Args:
        pod: the local pod.
        view: what is known.
        shadow: makes its ShadowPod, for one that has started after all.
        is_remote_pod: whether what was read there under its name is its remote pod.
    """
    known = podreturns.noted(pod)
    text = (
        f"{view.names.peer} could not start it, so it is ended there, and its controller makes "
        f"another: {known.get('reason')}: {known.get('message')}"
    )
    told = Plan(reasons=(Reason(RETURNS, text[:MESSAGE_LIMIT]),))
    alone = podreturns.owner(pod) is None
    if podreturns.ended_there(pod):
        # Nobody would make another any more: without the condition it is made there again.
        return Plan(status=podreturns.unmarked(pod, None)) if alone else told
    pods = [each for each in view.remote(PODS) if _made_for(pod, each)]
    shadows = view.remote(SHADOW_PODS)
    last = view.gone(PODS)
    ends = [*pods, *([last] if last is not None and _made_for(pod, last) else [])]
    if any(map(_is_done, ends)):
        message = "it ran to its end at the peer while it was to return"
        status = podstatus.ended(pod, "Succeeded", podstatus.REMOTE_GONE, message, now=view.now)
        return Plan(status=podreturns.unmarked(pod, status))
    if alone or (pods and shadows and not any(map(_goes, (*pods, *shadows)))):
        # What is watched is not Pending: it has started after all.
        return Plan(remote=(shadow(),), status=podreturns.unmarked(pod, None))
    if view.remote(PODS) or shadows:
        return told
    name, version = pod["metadata"]["name"], str(known.get(conditions.SINCE))
    needs = tuple(
        RemoteObject(kind=kind, name=name, version=version, lasts=SOON)
        for kind in (SHADOW_PODS, PODS)
    )
    read = [view.fulfilled(need) for need in needs]
    if any(each is None for each in read):
        return msgspec.structs.replace(told, needs=needs)
    if (read[0] and _made_for(pod, read[0])) or (read[1] and is_remote_pod(read[1])):
        return told
    status = podreturns.marked(pod, None, "True", None, view.now)
    return msgspec.structs.replace(told, status=status)


def _made_for(pod: Json, there: Json) -> bool:
    meta = there["metadata"]
    return made_for(pod, meta.get("annotations") or {}, meta.get("creationTimestamp"))


def _goes(there: Json) -> bool:
    return bool(there["metadata"].get("deletionTimestamp"))


def _is_done(remote_pod: Json) -> bool:
    """True if a remote pod succeeded, and not by its deletion."""
    phase = (remote_pod.get("status") or {}).get("phase")
    return phase == "Succeeded" and not podends.by_deletion(remote_pod)


def _again(plan: Plan, after: float) -> Plan:
    """The plan, looked at again after so many seconds at the latest."""
    sooner = after if plan.requeue_after is None else min(after, plan.requeue_after)
    return msgspec.structs.replace(plan, requeue_after=sooner)


def _told(plan: Plan, code: str, message: str) -> Plan:
    reason = Reason(code, message[:MESSAGE_LIMIT])
    return msgspec.structs.replace(plan, reasons=(*plan.reasons, reason))


def _seconds(now: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(now)).total_seconds()
