"""Pods run at a peer through ShadowPods, and their status comes back.

A pod bound to a virtual node becomes a ShadowPod; the provider makes the Pod from it, and that
Pod's status is merged into the local one. The ShadowPod carries the UID of its pod. A pod that
ends here is first ended there; one whose namespace is taken off the map is given up only after
the grace time. How specs and statuses are translated is in :mod:`liqod.model.objects.podspec` and
:mod:`liqod.model.objects.podstatus`.

Remote pods are watched once they are no longer Pending: starting is many changes that nobody waits
for. One that stays Pending is read now and then, to say why; and since one that is not seen may be
there all the same, it is read before its pod is let go.
"""

from datetime import datetime
from functools import partial
from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, PODS
from liqod.model.crossing import fields
from liqod.model.crossing.adoption import made_for
from liqod.model.network.remapping import remap_received
from liqod.model.objects import (
    conditions,
    debuggers,
    eligibility,
    homeapi,
    podchanges,
    podends,
    podready,
    podreturns,
    podspec,
    podstatus,
)
from liqod.model.objects.eligibility import Placement
from liqod.plugins import returning
from liqod.plugins.contracts import (
    NOTHING,
    READ,
    Absence,
    Grant,
    Json,
    Plan,
    Policy,
    Reads,
    Reason,
    Reflector,
    RemoteKind,
    RemoteObject,
    Right,
    Scope,
    View,
    Watch,
    Write,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl
from liqod.resources.offloading import NAMESPACE_OFFLOADINGS, SHADOW_PODS

UNSUPPORTED = "OffloadingUnsupported"
REFUSED = "OffloadingRefused"
INVALID = "OffloadingInvalid"
ADDRESS_REFUSED = "AddressRefused"
FIELD_LOST = "FieldLost"
LEFT_OUT = "LeftOut"
TAKEN_AWAY = "TakenAway"
NO_WAY_HOME = "NoHomeApi"
"""Reason: the pod runs at a peer and cannot speak with the API server here, as it is to."""
WAY_WAIT = 20.0
"""Seconds after its scheduling for which a pod waits for the way back of networks being joined."""
OFFLOADED = "liqod.io/Offloaded"
"""Condition, ``False`` on a pod that cannot be offloaded, with the reason."""
CHANGED = "liqod.io/ChangesApplied"
"""Condition, ``False`` on a pod of which a change has no effect at the peer, with the reason."""
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint by which a user says that what runs on a node may be lost (KEP-2268)."""
DEBOUNCE = 1.0
"""Seconds that a status of small matter waits for the next one: starting a pod is many changes."""
LAST_WORD = 2.0
"""Seconds that it waits where only the phase is missing: a kubelet reports that 1.2 s later."""
SEEN = "status.phase!=Pending"
"""Selects the remote pods that are watched."""
SLOW_START = 5.0
"""Seconds after which one that is not seen is looked for, and asked why."""
PACE = 15.0
SLOW_PACE = 60.0
"""Seconds between checks of a remote pod that stays Pending, in its first minute and later."""
SOON = 2.0
"""Seconds between checks where a pod is still shown as Ready, or waits for its remote pod's end."""
SILENCE = 20.0
"""Seconds without a word of the provider's after which one doubts that its daemon works."""
MESSAGE_LIMIT = 1024


def outgoing(pod: Json, view: View) -> Plan:
    """The ShadowPod, or why there is none."""
    if pod["metadata"].get("deletionTimestamp"):
        return _ending(pod, view)
    if _phase(pod) in podstatus.TERMINAL:
        # What is over here must not run (again) there; what has ended there is kept for its logs.
        remote_pods = view.remote(PODS)
        over = bool(remote_pods) and all(
            _phase(remote_pod) in podstatus.TERMINAL for remote_pod in remote_pods
        )
        return Plan(hold=over)
    daemon = eligibility.daemon_verdict(pod)
    if daemon is not None:
        return Plan(status=podstatus.waiting(pod, daemon.reason, daemon.message))
    if view.names.absence is not Absence.MAPPED:
        return _unmapped(pod, view)
    if _is_returning(pod):
        made = partial(_shadow_pod, pod, view)
        return returning.withdrawal(pod, view, made, lambda each: _is_remote_pod(pod, each, view))
    # Where claims follow pods, their volumes were judged before this one was placed.
    obstacle = eligibility.obstacle(pod, None if view.names.storage else Placement())
    if obstacle is not None:
        return Plan(status=_unsupported_status(pod, obstacle.message, view.now))
    withheld = homeapi.withheld(pod, view.names.home_api)
    if withheld and (wait := _wait_for_way(pod, view)):
        return Plan(requeue_after=wait)
    text = f"at {view.names.peer} it cannot speak with this cluster's API server: {withheld}"
    reasons = (Reason(NO_WAY_HOME, text),) if withheld else ()
    return Plan(remote=(_shadow_pod(pod, view),), reasons=reasons)


def _shadow_pod(pod: Json, view: View) -> Json:
    """The ShadowPod by which the pod runs over there."""
    name, spec = pod["metadata"]["name"], {"pod": _spec(pod, view)}
    made = manifest(SHADOW_PODS, name, pod, view, spec=spec)
    made["metadata"]["labels"].pop(labels.SHADOW_POD, None)
    return made


def _wait_for_way(pod: Json, view: View) -> float:
    """Seconds that a new pod waits, since its remote pod is made once: networks are being joined.

    0 where it has one, or has waited.
    """
    made = _has_run(pod) or view.remote(SHADOW_PODS) or view.remote(PODS)
    if made or not view.names.home_api.awaited:
        return 0.0
    before = (pod.get("status") or {}).get("conditions")
    scheduled = conditions.find(before, "PodScheduled") or {}
    since = scheduled.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
    waited = _seconds(since, view.now) if since else WAY_WAIT
    return max(0.0, WAY_WAIT - waited)


def _spec(pod: Json, view: View) -> Json:
    """The spec of the pod over there."""
    node = view.names.nodes.get(pod["spec"].get("nodeName", ""))
    patch = None if node is None else node.patch
    home = view.names.home_api
    return podspec.shadow_spec(pod, consumer=view.names.consumer, patch=patch, home=home)


def _state(remote_pod: Json) -> str:
    """The state of what can be changed of a pod there; empty where that is not noted."""
    notes = remote_pod["metadata"].get("annotations") or {}
    return podchanges.noted(str(notes.get(labels.CHANGES) or ""))[0]


def _is_direct(remote_pod: Json) -> bool:
    """True if a pod there was written by a version of this cluster's daemon that made no ShadowPod
    of each; its provider ends it by the ShadowPod that it is given
    (:mod:`liqod.provider.workloads.directpods` says until when that is needed)."""
    marks = remote_pod["metadata"].get("labels") or {}
    return bool(marks.get(labels.MANAGED_BY) == labels.MANAGED_BY_CONSUMER)


def incoming(pod: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status of the pod, from that of its remote pod or from why there is none."""
    if _is_returning(pod) and not pod["metadata"].get("deletionTimestamp"):
        return NOTHING
    remote_pod = next((each for each in remote if _made_for(pod, each)), None)
    if _comes_home(pod, remote_pod):
        return _end(pod, NOTHING, view)
    if _phase(pod) in podstatus.TERMINAL:
        return NOTHING
    gone = view.gone(PODS)
    if gone is not None and podends.taken_away(gone) and _made_for(pod, gone):
        # It may have gone before anything here showed that it was disrupted, and be made anew.
        ended = _merged(pod, gone, view)
        if _comes_home(_shown(pod, ended), None):
            return _end(pod, ended, view)
    plan = _unseen(pod, view) if remote_pod is None else _merged(pod, remote_pod, view)
    if remote_pod is not None and _comes_home(_shown(pod, plan), remote_pod):
        # That it was disrupted and that it goes may come as one change, and on a node that is lost
        # there is no other.
        return _end(pod, plan, view)
    if not _noted(pod) and not _waits(pod, plan):
        return plan
    refused = remote_pod is None and _is_refused(pod, view)
    return returning.judged(pod, plan, view, refused=refused)


def _waits(pod: Json, plan: Plan) -> bool:
    """True if a pod may wait for its start: it is Pending, and more is known of it."""
    shown = _shown(pod, plan)["status"]
    told = ("reason", "initContainerStatuses", "containerStatuses")
    return shown.get("phase") in (None, "", "Pending") and any(shown.get(each) for each in told)


def _noted(pod: Json) -> Any:
    """The condition of a pod that its peer cannot start; None where there is none."""
    return conditions.find((pod.get("status") or {}).get("conditions"), podreturns.RETURNING)


def _is_returning(pod: Json) -> bool:
    """True if a pod is being ended at its peer to return, or has been."""
    found = _noted(pod)
    return found is not None and found.get("status") in podreturns.BEGUN


def _shown(pod: Json, plan: Plan) -> Json:
    """A pod with the status that it is to have."""
    return {**pod, "status": {**(pod.get("status") or {}), **(plan.status or {})}}


def _end(pod: Json, plan: Plan, view: View) -> Plan:
    """The end of a pod that was taken away at the peer, with its last status."""
    why = podends.taken_away(_shown(pod, plan))
    message = f"{view.names.peer} has taken the pod away, so it ends here, too: {why}"
    reasons = (Reason(TAKEN_AWAY, message[:MESSAGE_LIMIT]),)
    return Plan(status=plan.status, end_local=True, reasons=reasons)


def _comes_home(pod: Json, remote_pod: Json | None) -> bool:
    """True if the peer evicted or preempted the remote pod, and a controller makes another pod.

    As on a node here: the pod goes, with its condition DisruptionTarget, and its controller's next
    one is placed anew, there or elsewhere. A pod that nobody would make again stays, and its remote
    pod is made again there.
    """
    meta = pod["metadata"]
    if meta.get("deletionTimestamp") or _phase(pod) == "Succeeded":
        return False
    if not any(owner.get("controller") for owner in meta.get("ownerReferences") or ()):
        return False
    if not podstatus.is_disrupted_there(pod) or not podends.taken_away(pod):
        return False
    return remote_pod is None or bool(remote_pod["metadata"].get("deletionTimestamp"))


def _merged(pod: Json, remote_pod: Json, view: View) -> Plan:
    """The status of the pod from that of its remote pod."""
    names = view.names
    own = (*names.pod_cidrs, *names.service_cidrs)
    problem, current = _behind(pod, remote_pod, view)
    said = _judgement(pod, remote_pod, problem, view.now)
    merged = podstatus.merge(
        {**pod, "status": {**(pod.get("status") or {}), **said}} if said else pod,
        remote_pod,
        node_address=names.node_address,
        now=view.now,
        current=current,
        unreachable=names.unreachable,
        cross=partial(
            remap_received,
            ranges=names.ranges,
            own=own,
            nodes=names.node_addresses,
            allowed=names.peer_cidrs,
        )
        if names.crosses
        else None,
    )
    reasons = tuple(
        Reason(ADDRESS_REFUSED, f"the pod's address {address} at the peer is not shown: {why}")
        for address, why in merged.refused.items()
    ) + tuple(
        Reason(
            FIELD_LOST,
            f"the remote pod at {names.peer} runs without the pod's {name}: too old there",
        )
        for name in fields.lost(pod["spec"], remote_pod.get("spec") or {})
    )
    left = str((remote_pod["metadata"].get("annotations") or {}).get(labels.LEFT_OUT) or "")
    if left:
        named = ", ".join(left[:MESSAGE_LIMIT].split())
        reasons += (Reason(LEFT_OUT, f"{names.peer} takes no annotations {named}: left out"),)
    if problem and (not said or problem.reason != podchanges.NOT_TAKEN_OVER):
        reasons += (Reason(problem.reason, f"a change is not in force: {problem.message}"),)
    status = merged.status
    if said:
        status = {**said, **(status or {})}
    debounce = 0.0
    if status is not None and not matters(pod, status):
        debounce = LAST_WORD if podstatus.is_over(pod["spec"], status) else DEBOUNCE
        if said and problem and problem.reason == podchanges.NOT_TAKEN_OVER:
            debounce = SLOW_START
    return Plan(status=status, debounce=debounce, reasons=reasons)


def matters(pod: Json, patch: Json) -> bool:
    """True if a change of status is to be seen at once: an end, readiness, or a reason.

    That a pod runs and is not Ready yet is little news: a kubelet reports it just before Ready, or
    before the end of what runs shortly. So it is that all containers have ended for good: what
    serves nobody any more is not Ready, and a kubelet reports the pod's end just after it.
    """
    status = pod.get("status") or {}
    if patch.get("phase") in podstatus.TERMINAL or patch.get("reason"):
        return True
    after = patch.get("conditions")
    if after is None:
        return False
    if podends.taken_away({"status": patch}) and not podends.taken_away(pod):
        return True
    before = conditions.is_status(status.get("conditions"), podready.READY)
    is_ready = conditions.is_status(after, podready.READY)
    return before is not is_ready and (is_ready or not podstatus.is_over(pod["spec"], patch))


def _ending(pod: Json, view: View) -> Plan:
    """A pod that is being deleted: end it there, then here.

    Without a mapping there is no remote pod any more, unless the mapping only cannot be seen; a
    node that is out of service is its user's word that the remote pod may be lost.
    """
    absence = view.names.absence
    if absence is Absence.UNKNOWN or (absence is Absence.AWAITED and _has_run(pod)):
        return Plan(hold=True)
    node = view.get(NODES, pod["spec"].get("nodeName", ""))
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    lost = any(taint.get("key") == OUT_OF_SERVICE for taint in taints)
    if lost or absence is not Absence.MAPPED:
        return Plan(delete_local=True, orphan_remote=True)
    meta = pod["metadata"]
    version = meta["deletionTimestamp"]  # what was read before that is no answer to this
    need = RemoteObject(kind=PODS, name=meta["name"], version=version, lasts=SOON)
    found = view.fulfilled(need)
    read = (found,) if found and _is_remote_pod(pod, found, view) else ()
    remote_pods = view.remote(PODS)
    if any(map(_is_direct, (*remote_pods, *read))):
        return Plan(remote=(_shadow_pod(pod, view),))
    if remote_pods or view.remote(SHADOW_PODS):
        return Plan(delete_local=True)
    return Plan(needs=(need,)) if found is None else Plan(delete_local=not read)


def _unmapped(pod: Json, view: View) -> Plan:
    """A pod of a namespace that is not offloaded there: it waits, or is given up."""
    absence, namespace = view.names.absence, view.names.namespace
    if absence is Absence.UNKNOWN:
        return Plan(hold=True)
    if not _has_run(pod):
        message = f"namespace {namespace} is not offloaded to {view.names.peer}"
        if absence is Absence.AWAITED:
            message = f"namespace {namespace} is not ready at {view.names.peer} yet"
        return Plan(status=podstatus.waiting(pod, podstatus.BACK_OFF, message))
    if absence is not Absence.LASTING:
        return Plan(hold=True)
    message = f"namespace {namespace} is no longer offloaded to {view.names.peer}"
    ended = podstatus.ended(pod, "Failed", podstatus.ABORTED, message, now=view.now)
    return Plan(status=ended)


def _unseen(pod: Json, view: View) -> Plan:
    """No remote pod is seen: it was refused, it is still Pending, or there is none (yet)."""
    if view.refusals:
        refusal = view.refusals[0]
        reason = REFUSED if refusal.status == 403 else INVALID
        message = f"refused by {view.names.peer}: {refusal.message}"[:MESSAGE_LIMIT]
        return Plan(status=podstatus.waiting(pod, reason, message))
    shadow = _shadow_of(pod, view)
    if shadow is None:
        return Plan(requeue_after=SLOW_START)
    if shadow["metadata"].get("deletionTimestamp"):
        return NOTHING
    age = max(0.0, _seconds(shadow["metadata"].get("creationTimestamp"), view.now) + view.ahead)
    if not _has_run(pod) and age < SLOW_START:
        return Plan(requeue_after=SLOW_START - age)
    meta = shadow["metadata"]
    asked = _asked(shadow)
    told = view.fulfilled(asked)
    if told and (told.get("status") or {}).get("reason"):
        return _without(pod, told, age, view)  # its version changes once there is a pod
    pace = PACE if age < SLOW_PACE else SLOW_PACE
    if conditions.is_status((pod.get("status") or {}).get("conditions"), podready.READY):
        pace = SOON  # its remote pod is being made again, or has left the selection
    need = RemoteObject(kind=PODS, name=meta["name"], lasts=pace, patient=pace is not SOON)
    remote_pod = view.fulfilled(need)
    if remote_pod is None:
        return Plan(needs=(need,))
    if _is_remote_pod(pod, remote_pod, view):
        return _merged(pod, remote_pod, view)
    return Plan(needs=(asked,)) if told is None else _without(pod, told, age, view)


def _shadow_of(pod: Json, view: View) -> Json | None:
    """The metadata of the pod's ShadowPod; None where none is seen."""
    return next((each for each in view.remote(SHADOW_PODS) if _made_for(pod, each)), None)


def _asked(shadow: Json) -> RemoteObject:
    """The need by which a whole ShadowPod is read."""
    meta = shadow["metadata"]
    return RemoteObject(kind=SHADOW_PODS, name=meta["name"], version=meta["resourceVersion"])


def _is_refused(pod: Json, view: View) -> bool:
    """True if the peer does not take a pod: its API server, or its daemon by the ShadowPod."""
    if view.refusals:
        return True
    shadow = _shadow_of(pod, view)
    told = (None if shadow is None else view.fulfilled(_asked(shadow))) or {}
    return podreturns.is_refused(told)


def _is_remote_pod(pod: Json, found: Json, view: View) -> bool:
    """True if the object read under a pod's name is its remote pod; ``{}`` is nothing."""
    marks = (found.get("metadata") or {}).get("labels") or {}
    ours = marks.get(labels.ORIGIN) == view.names.consumer
    return ours and labels.DESTINATION in marks and _made_for(pod, found)


def _without(pod: Json, shadow: Json, age: float, view: View) -> Plan:
    """The plan without a remote pod: by the status of its ShadowPod, ``age`` seconds old."""
    there: Json = shadow.get("status") or {}
    if there.get("phase") in podstatus.TERMINAL:
        merged = podstatus.merge(
            pod,
            None,
            node_address=view.names.node_address,
            now=view.now,
            shadow_phase=there["phase"],
            shadow_message=there.get("message") or "",
        )
        return Plan(status=merged.status)
    if there.get("reason"):
        message = f"{view.names.peer}: {there.get('message', '')}"[:MESSAGE_LIMIT]
        return Plan(status=podstatus.waiting(pod, there["reason"], message))
    if there.get("phase") or _has_run(pod):
        return NOTHING  # it is being made again
    if age < SILENCE:
        return Plan(requeue_after=SILENCE - age)
    message = f"{view.names.peer} has made no pod of it yet: does its daemon run?"
    return Plan(status=podstatus.waiting(pod, podstatus.BACK_OFF, message))


def _unsupported_status(pod: Json, why: str, now: str) -> Json | None:
    message = f"this pod cannot be offloaded: {why}"
    status = podstatus.waiting(pod, UNSUPPORTED, message) or {}
    before = (pod.get("status") or {}).get("conditions")
    known = conditions.find(before, OFFLOADED) or {}
    if known.get("message") != message:
        status["conditions"] = conditions.set_condition(
            before, OFFLOADED, "False", now=now, reason=UNSUPPORTED, message=message
        )
    return status or None


def _behind(
    pod: Json, remote_pod: Json, view: View
) -> tuple[podchanges.PodChangeProblem | None, bool]:
    """The problem of a pod's change that has no effect at the peer yet, and True if the remote pod
    is as requested."""
    refusal = next((each for each in view.refusals if each.kind == SHADOW_PODS), None)
    if refusal is not None:
        message = f"refused by {view.names.peer}: {refusal.message}"
        return podchanges.PodChangeProblem(podchanges.REFUSED, message), False
    wanted = view.overridden(_shadow_pod(pod, view))["spec"]["pod"]
    problem = podchanges.behind(remote_pod, wanted, view.names.peer)
    if problem is None or _state(remote_pod):
        return problem, problem is None
    # It was never changed, and the peer made it another: or was, and the peer has not followed.
    found = (each["metadata"] for each in view.remote(SHADOW_PODS) if _made_for(pod, each))
    changed = any((meta.get("generation") or 0) > 1 for meta in found)
    return problem if changed else None, False


def _judgement(
    pod: Json, remote_pod: Json, problem: podchanges.PodChangeProblem | None, now: str
) -> Json:
    """The fields of the pod's status that say how it is offloaded, where they change."""
    status = pod.get("status") or {}
    before = status.get("conditions") or []
    after = conditions.without(before, OFFLOADED, *(() if problem else (CHANGED,)))
    said: Json = {}
    if problem is not None:
        reason, message = problem.reason, problem.message[:MESSAGE_LIMIT]
        after = conditions.set_condition(
            after, CHANGED, "False", now=now, reason=reason, message=message
        )
        if reason != podchanges.NOT_TAKEN_OVER:
            there = remote_pod.get("spec") or {}
            shown = debuggers.refused(pod, there, reason, message)
            if shown != (status.get("ephemeralContainerStatuses") or []):
                said["ephemeralContainerStatuses"] = shown
    if after != before:
        said["conditions"] = after
    return said


def _phase(pod: Json) -> str:
    phase: str = (pod.get("status") or {}).get("phase", "")
    return phase


def _has_run(pod: Json) -> bool:
    """True if the pod ever had a remote pod."""
    status = pod.get("status") or {}
    found: Any = conditions.find(status.get("conditions"), podstatus.REMOTE_POD)
    return found is not None or bool(status.get("containerStatuses"))


def _made_for(pod: Json, there: Json) -> bool:
    """True if an object at the peer was made for this very pod."""
    meta = there["metadata"]
    return made_for(pod, meta.get("annotations") or {}, meta.get("creationTimestamp"))


def _seconds(since: str | None, now: str) -> float:
    """Seconds between two RFC 3339 times; many where the first is not known."""
    if since is None:
        return SLOW_START
    return (datetime.fromisoformat(now) - datetime.fromisoformat(since)).total_seconds()


REFLECTOR = Reflector(
    name="pods",
    kind=PODS,
    outgoing=outgoing,
    incoming=incoming,
    remote=(
        RemoteKind(
            kind=SHADOW_PODS,
            write=Write.ONCE,
            follows=tuple(f"spec.pod.{path}" for path in podchanges.MUTABLE),
            content="spec.pod",
        ),
        RemoteKind(kind=PODS, write=None, watch=Watch.FULL, fields=SEEN),
    ),
    reads=(Reads(NODES), Reads(NAMESPACE_OFFLOADINGS, everywhere=True)),
    scope=Scope.NODE,
    policy=Policy.ALWAYS,
    concurrency=10,
    rights=(
        Right(
            group="",
            resources=("pods",),
            verbs=READ,
            why="pods on virtual nodes are reflected",
        ),
        Right(group="", resources=("pods/status",), verbs=("patch",), why="their state at peers"),
        Right(group="", resources=("nodes",), verbs=READ, why="the virtual nodes that they are on"),
        Right(
            group=NAMESPACE_OFFLOADINGS.group,
            resources=(NAMESPACE_OFFLOADINGS.plural,),
            verbs=("list", "watch"),
            why="whether pods return that a peer cannot start",
        ),
    ),
    grant=Grant(quota={"count/shadowpods.offloading.liqo.io": "5000"}, pods=True),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Pods."""
    return [REFLECTOR]
