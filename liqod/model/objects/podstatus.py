"""The status of a local pod, from that of its remote pod at a peer: merged, not copied.

The remote pod's kubelet gives the state of the containers; this cluster's scheduler, controllers
and gates give the rest, and the API server refuses changes that no kubelet may make: ``qosClass``
never changes, a container that has terminated for good never runs again, the first of ``podIPs``
and ``hostIPs`` equals its singular. A status is plain JSON; times are RFC 3339 text that the caller
passes in. The result is a merge patch of ``status``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.model.crossing import addresses
from liqod.model.network.remapping import Remapped
from liqod.model.objects import bounded, conditions, debuggers, podends, restarts
from liqod.model.objects.patches import exact_patch
from liqod.model.objects.podready import (
    CONTAINERS_READY,
    READY,
    as_reached,
    is_withdrawn,
    plain,
    ready_of,
)

Json = dict[str, Any]
Cross = Callable[[str], Remapped]
"""The address by which this cluster reaches one of the remote pod's, or the reason against it."""

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
REMOTE_POD: Final = "liqod.io/Twin"
"""Condition: the pod at the peer, and the number of times that it was made again: its reason for
programs (:class:`RemotePodRecord`), its message for people."""
DISRUPTED: Final = "TwinDisrupted"
"""In its reason where the pod's ``DisruptionTarget`` is its remote pod's, and goes with that."""
BACK_OFF: Final = "OffloadingBackOff"
"""Reason of a pod that is not offloaded (yet)."""
ABORTED: Final = "OffloadingAborted"
"""Reason of a pod whose offloading ended under it."""
REMOTE_GONE: Final = "RemotePodTerminated"
"""Reason of a pod whose remote pod ended and is gone, so that its own status cannot be shown."""
RESTARTED: Final = "RemotePodRestarted"
"""Reason of a pod whose finished containers run again at the peer, which no local pod may do."""

_KUBELET: Final = (
    *("Initialized", READY, CONTAINERS_READY, "PodReadyToStartContainers"),
    *("PodResizePending", "PodResizeInProgress"),
)
_GROUPS: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
}
_RECORD = re.compile(rf"(?P<uid>[0-9A-Za-z-]+):(?P<times>[0-9]{{1,9}})(:{DISRUPTED})?")
"""The reason of :data:`REMOTE_POD`."""
_SENTENCE = re.compile(r"pod (?P<uid>[0-9A-Za-z-]+) there, made again (?P<times>\d+) times")
"""The message of :data:`REMOTE_POD`, which alone had these facts in 0.1.0 until November 2026."""


class RemotePodRecord(msgspec.Struct, frozen=True):
    """The facts of the remote pod at the last merge, which :data:`REMOTE_POD` keeps.

    Attributes:
        uid: of the remote pod; empty before the first merge.
        times: number of times that it was made again.
        disrupted: whether the local pod's ``DisruptionTarget`` is its own.
    """

    uid: str = ""
    times: int = 0
    disrupted: bool = False

    @classmethod
    def of(cls, local: Mapping[str, Any]) -> "RemotePodRecord":
        """The record in a local pod's status."""
        found = conditions.find((local.get("status") or {}).get("conditions"), REMOTE_POD) or {}
        reason = str(found.get("reason") or "")
        match = _RECORD.fullmatch(reason) or _SENTENCE.search(str(found.get("message") or ""))
        uid, times = (match["uid"], int(match["times"])) if match else ("", 0)
        return cls(uid, times, reason.endswith(DISRUPTED))

    @property
    def condition(self) -> Json:
        """The condition that keeps it."""
        mark = f":{DISRUPTED}" if self.disrupted else ""
        return {
            "type": REMOTE_POD,
            "status": "True",
            "reason": f"{self.uid}:{self.times}{mark}",
            "message": f"pod {self.uid} there, made again {self.times} times",
        }


class Merged(msgspec.Struct, frozen=True):
    """The result of merging a remote pod's status into the local one.

    Attributes:
        status: merge patch of the local status; None where nothing changes.
        refused: the reason, by address of the remote pod's that is not shown.
        failed: the local pod is over although its remote pod still runs.
    """

    status: Json | None = None
    refused: dict[str, str] = {}
    failed: bool = False


def merge(
    local: Mapping[str, Any],
    remote_pod: Mapping[str, Any] | None,
    *,
    node_address: str,
    now: str,
    cross: Cross | None = None,
    shadow_phase: str = "",
    shadow_message: str = "",
    current: bool = False,
    unreachable: str | None = "",
) -> Merged:
    """The merge of the remote pod's status into the local one.

    Args:
        local: the local pod; a terminal phase of its is final.
        remote_pod: the pod at the peer, or None if there is none.
        node_address: address of the virtual node, for ``hostIP``.
        cross: translates the remote pod's addresses; None where none crosses
            (``pod_network: none``).
        shadow_phase: phase of the ShadowPod, final where terminal though the remote pod is gone.
        shadow_message: the provider's message about it.
        current: whether the remote pod has all that the local pod's spec has by now.
        unreachable: the reason why it cannot be reached; empty where it can, None where that is
            unknown (yet), so that a pod that is not Ready for it stays so.
    """
    status: Json = local.get("status") or {}
    if status.get("phase") in TERMINAL:
        return Merged()
    if remote_pod is None:
        if shadow_phase not in TERMINAL:
            return Merged()
        message = shadow_message or "the pod has ended at the peer, and its own status is gone"
        return Merged(ended(local, shadow_phase, REMOTE_GONE, message, now=now))
    remote_pod = {**remote_pod, "status": bounded.fit(remote_pod.get("status") or {})}
    back = _back_from_terminated(local, remote_pod)
    if back:
        message = f"{back} had ended, and runs again in a pod that was made anew at the peer"
        return Merged(ended(local, "Failed", RESTARTED, message, now=now), failed=True)
    wanted, refused = _wanted(local, remote_pod, node_address, now, cross, unreachable)
    patch = exact_patch(status, wanted)
    observed = local["metadata"].get("generation") if current and _observed(remote_pod) else None
    # An API server that does not know the field drops it: it is not written for its own sake until
    # it has been kept once.
    known = status.get("observedGeneration")
    if observed and observed != known and (patch or known):
        patch["observedGeneration"] = observed
    return Merged(patch or None, refused)


def waiting(local: Mapping[str, Any], reason: str, message: str) -> Json | None:
    """The merge patch of a pod without a remote pod yet, with the reason; None if it has that."""
    status = local.get("status") or {}
    if status.get("phase") in TERMINAL:
        return None
    said = {"reason": reason[: bounded.TEXT], "message": message[: bounded.TEXT]}
    return exact_patch(status, {**status, **said}) or None


def is_over(spec: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """True if all containers have ended for good, regardless of the phase."""
    found = status.get("containerStatuses") or ()
    return len(found) == len(spec["containers"]) and all(
        restarts.final(spec, "containers", each) for each in found
    )


def ended(local: Mapping[str, Any], phase: str, reason: str, message: str, *, now: str) -> Json:
    """The merge patch that ends a local pod: all its containers have terminated.

    Args:
        local: the local pod.
        phase: ``Failed`` or ``Succeeded``.
        reason: one word.
        message: a sentence.
    """
    status: Json = local.get("status") or {}
    code = 0 if phase == "Succeeded" else 1
    wanted: Json = {**status, "phase": phase, "reason": reason, "message": message}
    for group in (*_GROUPS, "ephemeralContainerStatuses"):
        if status.get(group):
            wanted[group] = [_terminated(each, code, reason, now) for each in status[group]]
    wanted["conditions"] = [
        conditions.dated({**each, "status": "False", "reason": reason}, [each], now)
        if each.get("type") in (READY, CONTAINERS_READY) and each.get("status") == "True"
        else each
        for each in status.get("conditions") or ()
    ]
    return exact_patch(status, wanted)


def _observed(remote_pod: Mapping[str, Any]) -> bool:
    """True if the remote pod's kubelet has observed its latest generation."""
    seen = (remote_pod.get("status") or {}).get("observedGeneration")
    latest = (remote_pod.get("metadata") or {}).get("generation")
    return isinstance(seen, int) and isinstance(latest, int) and seen >= latest > 0


# --- The whole ------------------------------------------------------------------------------------


def _wanted(
    local: Mapping[str, Any],
    remote_pod: Mapping[str, Any],
    node_address: str,
    now: str,
    cross: Cross | None,
    unreachable: str | None,
) -> tuple[Json, dict[str, str]]:
    """The whole local status as it should be, and the addresses that are not shown in it."""
    status: Json = local.get("status") or {}
    there: Json = remote_pod.get("status") or {}
    times = _times(local, remote_pod)
    shown, refused = _addresses(there, cross)
    wanted = {**status, **_explained(there)}
    for field in ("phase", "startTime"):
        if there.get(field) and not (field == "phase" and _is_made_again(local, remote_pod)):
            wanted[field] = there[field]
    for group, names in _GROUPS.items():
        found = _statuses(local["spec"].get(names) or (), there.get(group) or (), times)
        if found or group in status:
            wanted[group] = found
    debugging = debuggers.statuses(local, there)
    if debugging or "ephemeralContainerStatuses" in status:
        wanted["ephemeralContainerStatuses"] = debugging
    wanted["hostIP"] = node_address
    wanted["hostIPs"] = [{"ip": node_address}]
    wanted["podIP"] = shown[0] if shown else None
    wanted["podIPs"] = [{"ip": address} for address in shown] or None
    wanted["conditions"] = _conditions(local, remote_pod, times, now, unreachable)
    return wanted, refused


def _is_made_again(local: Mapping[str, Any], remote_pod: Mapping[str, Any]) -> bool:
    """True if a remote pod ended only by its deletion at the peer, and its containers run again."""
    phase = (remote_pod.get("status") or {}).get("phase")
    again = local["spec"].get("restartPolicy") in (None, "Always")
    going = bool(local["metadata"].get("deletionTimestamp"))
    return phase in TERMINAL and again and not going and podends.by_deletion(remote_pod)


def _explained(there: Mapping[str, Any]) -> Json:
    """Reason and message: the remote pod's own, or those of the peer's scheduler for no node."""
    if there.get("reason") or there.get("message"):
        return {"reason": there.get("reason"), "message": there.get("message")}
    scheduled = conditions.find(there.get("conditions"), "PodScheduled") or {}
    if there.get("phase") == "Pending" and scheduled.get("status") == "False":
        return {"reason": scheduled.get("reason"), "message": scheduled.get("message")}
    return {"reason": None, "message": None}


def _addresses(there: Mapping[str, Any], cross: Cross | None) -> tuple[list[str], dict[str, str]]:
    """The remote pod's shown addresses, at most one of each family; the reasons against others."""
    if cross is None:
        return [], {}
    named = [there.get("podIP"), *(each.get("ip") for each in there.get("podIPs") or ())]
    shown: dict[str, str] = {}
    refused: dict[str, str] = {}
    for address in dict.fromkeys(each for each in named if each):
        here, problem = cross(address)
        if problem:
            refused[address] = problem
        else:
            shown.setdefault(addresses.family(here), here)
    return list(shown.values()), refused


# --- Containers -----------------------------------------------------------------------------------


def _statuses(declared: Iterable[Json], found: Iterable[Json], times: int) -> list[Json]:
    """Statuses of the containers that the local pod has; those that the peer put in are not."""
    names = {container["name"] for container in declared}
    return [
        {**each, "restartCount": int(each.get("restartCount") or 0) + times}
        for each in found
        if each.get("name") in names
    ]


def _back_from_terminated(local: Mapping[str, Any], remote_pod: Mapping[str, Any]) -> str:
    """The container that had terminated for good and runs again; empty if there is none."""
    status, there = local.get("status") or {}, remote_pod.get("status") or {}
    fresh = RemotePodRecord.of(local).uid not in ("", (remote_pod.get("metadata") or {}).get("uid"))
    for group, names in _GROUPS.items():
        now_there = {each.get("name"): each for each in there.get(group) or ()}
        for each in status.get(group) or ():
            current = now_there.get(each.get("name"))
            back = fresh if current is None else not restarts.has_ended(current)
            if back and restarts.final(local["spec"], names, each):
                return f"container {each.get('name')}"
    return ""


def _terminated(container: Json, code: int, reason: str, now: str) -> Json:
    if restarts.has_ended(container):
        return {**container, "ready": False}
    running = (container.get("state") or {}).get("running") or {}
    end = {"exitCode": code, "reason": reason, "finishedAt": now}
    if running.get("startedAt"):
        end["startedAt"] = running["startedAt"]
    started = {"started": False} if "started" in container else {}
    return {**container, **started, "ready": False, "state": {"terminated": end}}


# --- Which remote pod -----------------------------------------------------------------------------


def _times(local: Mapping[str, Any], remote_pod: Mapping[str, Any]) -> int:
    before = RemotePodRecord.of(local)
    uid = (remote_pod.get("metadata") or {}).get("uid", "")
    return before.times + 1 if before.uid and uid and before.uid != uid else before.times


# --- Conditions -----------------------------------------------------------------------------------


def _conditions(
    local: Mapping[str, Any],
    remote_pod: Mapping[str, Any],
    times: int,
    now: str,
    unreachable: str | None,
) -> list[Json]:
    """The conditions of others as they are, those of a kubelet as the remote pod's has them."""
    before: Sequence[Json] = (local.get("status") or {}).get("conditions") or ()
    there: Sequence[Json] = (remote_pod.get("status") or {}).get("conditions") or ()
    theirs = is_disrupted_there(local)
    gone = (*_KUBELET, REMOTE_POD, *((podends.DISRUPTION,) if theirs else ()))
    merged = [dict(each) for each in before if each.get("type") not in gone]
    disrupted = False
    for each in there:
        kind = each.get("type")
        # The remote pod's disruption is this pod's too; a local condition of that type stays.
        if kind == podends.DISRUPTION:
            disrupted = conditions.find(merged, kind) is None
        if (kind in _KUBELET and kind != READY) or (kind == podends.DISRUPTION and disrupted):
            merged.append(_since(plain(each), before, each.get("lastTransitionTime") or now))
    ready = as_reached(local, ready_of(local, remote_pod), unreachable)
    their_ready = conditions.find(there, READY) or {}
    same = their_ready.get("status") == ready["status"] and not is_withdrawn(local)
    since = their_ready.get("lastTransitionTime") if same else None
    merged.append(_since(ready, before, since or now))
    uid = (remote_pod.get("metadata") or {}).get("uid", "")
    if uid:
        merged.append(_since(RemotePodRecord(uid, times, disrupted).condition, before, now))
    return merged


def is_disrupted_there(local: Mapping[str, Any]) -> bool:
    """True if the DisruptionTarget of a pod is that of its remote pod."""
    return RemotePodRecord.of(local).disrupted


def withdrawn(local: Mapping[str, Any], unreachable: str | None, *, now: str) -> Json | None:
    """The merge patch by which a pod is no longer Ready, or Ready again, by local knowledge alone.

    Nothing at the peer is read for it. None where nothing changes: for a pod that was not Ready
    for another reason, or has ended.

    Args:
        local: the local pod.
        unreachable: as in :func:`merge`.
    """
    status: Json = local.get("status") or {}
    before: Sequence[Json] = status.get("conditions") or ()
    known = conditions.find(before, READY)
    if known is None or status.get("phase") in TERMINAL:
        return None
    # As last reported: of the containers, and of the gates of this pod.
    told = [each for each in before if each.get("type") == CONTAINERS_READY]
    shown = dict(known)
    if is_withdrawn(local):
        shown = ready_of(local, {"status": {"conditions": told}})
    ready = as_reached(local, shown, unreachable)
    if ready.get("status") == known.get("status"):
        return None
    changed = conditions.dated(plain(ready), before, now)
    found = [changed if each.get("type") == READY else each for each in before]
    return {"conditions": found}


def _since(condition: Json, before: Iterable[Mapping[str, Any]], since: str) -> Json:
    """The condition with the time that it has had its status since."""
    old = conditions.find(before, condition["type"])
    probed = {} if old is None or "lastProbeTime" not in old else {"lastProbeTime": None}
    return conditions.dated({**condition, **probed}, before, since)
