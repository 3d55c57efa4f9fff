"""Pods that wait, and peers that are avoided since pods returned from them, as viewers' rows. Pure.

The cause of a pod that waits is the one that has been written on it by who decided: a scheduler,
the webhook of this cluster, or the peer.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from liqod.apimachinery import labels
from liqod.model.objects import conditions, podreturns, podsight
from liqod.model.objects.conditions import Condition
from liqod.model.objects.partial import PodStatus
from liqod.model.objects.podsight import LivePod
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.view.requests import unix
from liqod.model.view.roomrows import (
    MESSAGE,
    MOST_MARKS,
    MOST_WAITS,
    WORD,
    MarkRow,
    RoomSums,
    WaitGroup,
    clipped,
    read_amounts,
    shown_amounts,
    written_time,
)

GATED: Final = "SchedulingGated"
UNTAKEN: Final = "NotStarted"
"""Cause: no kubelet of the peer has begun with the pod."""
UNSEEN: Final = "NotSeen"
"""Cause: no scheduler has looked at the pod."""


class PodWait(NamedTuple):
    """One pod that waits; fields as of :class:`WaitGroup`."""

    namespace: str
    name: str
    owner: str
    node: str
    cause: str
    message: str
    step: str
    since: float


def waiting(pod: LivePod) -> PodWait | None:
    """The wait of a pod without a node, or on a virtual one; None for one that starts or has."""
    status = pod.status
    if status.phase not in ("", "Pending") or pod.metadata.deletion_timestamp:
        return None
    node = str(pod.spec.get("nodeName") or "")
    found = _returning(status) or (_there(status) if node else _here(pod))
    if found is None:
        return None
    cause, message, step, since = found
    owners = [each for each in pod.metadata.owner_references if each.controller]
    return PodWait(
        pod.metadata.namespace,
        pod.metadata.name,
        _owner(owners[0].kind, owners[0].name) if owners else "",
        node,
        clipped(cause, WORD),
        clipped(message, MESSAGE),
        step,
        unix(since or pod.metadata.creation_timestamp),
    )


def _returning(status: PodStatus) -> tuple[str, str, str, str | None] | None:
    found = conditions.of_type(status.conditions, podreturns.RETURNING)
    if found is None or found.status not in ("Unknown", *podreturns.BEGUN):
        return None
    return found.reason, found.message, found.status, found.since


def _there(status: PodStatus) -> tuple[str, str, str, str | None] | None:
    """The words of the peer, or of the reflector where the peer does not get the pod."""
    if status.reason:
        return status.reason, status.message, "", None
    if missing := podsight.unpulled(status):
        return podreturns.IMAGE, missing, "", None
    if status.container_statuses or status.init_container_statuses:
        return None  # a kubelet has it, and starts it
    return UNTAKEN, podsight.why(status) or "the peer has not said anything of it yet", "", None


def _here(pod: LivePod) -> tuple[str, str, str, str | None]:
    """The words of the webhook and of the scheduler."""
    gates = [str(each.get("name")) for each in pod.spec.get("schedulingGates") or ()]
    if gates:
        return GATED, f"it has the scheduling gates {', '.join(gates)}", "", None
    stays, placed = _refusal(pod, labels.OFFLOADED), _refusal(pod, "PodScheduled")
    known = [each for each in (stays, placed) if each is not None]
    if not known:
        return UNSEEN, "no scheduler has looked at it yet", "", None
    message = "; ".join(each.message for each in known if each.message)
    return known[0].reason, message, "", None if placed is None else placed.since


def _refusal(pod: LivePod, type_: str) -> Condition | None:
    found = conditions.of_type(pod.status.conditions, type_)
    return found if found is not None and found.status == "False" else None


def wait_groups(
    found: Iterable[PodWait], peers: Mapping[str, str]
) -> tuple[dict[str, WaitGroup], RoomSums]:
    """The groups of pods that wait, by one pod's ``namespace/name``; and their numbers.

    Args:
        found: the pods.
        peers: the peer of each virtual node.
    """
    alike: dict[tuple[str, ...], list[PodWait]] = {}
    for each in found:
        whose = each.owner or each.name
        key = (each.namespace, whose, each.node, each.cause, each.step)
        alike.setdefault(key, []).append(each)
    groups = [_waits(members, peers) for members in alike.values()]
    groups.sort(key=lambda each: (-each.pods, each.since, each.namespace, each.name))
    here = sum(each.pods for each in groups if not each.node)
    there = sum(each.pods for each in groups if each.node)
    shown = {f"{each.namespace}/{each.name}": each for each in groups[:MOST_WAITS]}
    return shown, RoomSums(here=here, there=there, waits=len(groups))


def _waits(members: list[PodWait], peers: Mapping[str, str]) -> WaitGroup:
    first = min(members, key=lambda each: each.name)
    return WaitGroup(
        first.namespace,
        first.name,
        first.owner,
        len(members),
        first.node,
        peers.get(first.node, ""),
        first.cause,
        first.message,
        first.step,
        min(each.since for each in members),
    )


def mark_rows(found: Iterable[tuple[str, ReturnMark]]) -> tuple[dict[str, MarkRow], int]:
    """The peers that controllers avoid, those that are avoided the longest first, by a key; and
    the number of all.

    Args:
        found: the marks that are in force, each with its namespace.
    """
    every = sorted(found, key=lambda each: each[1].until, reverse=True)
    rows = {
        f"{namespace}/{clipped(mark.owner, WORD)}/{clipped(mark.cluster, WORD)}": MarkRow(
            namespace,
            _owner(mark.kind, mark.name),
            clipped(mark.cluster, WORD),
            clipped(mark.cause, WORD),
            clipped(mark.message, MESSAGE),
            written_time(mark.since),
            written_time(mark.until),
            mark.times,
            shown_amounts(read_amounts(mark.asked)),
        )
        for namespace, mark in every[:MOST_MARKS]
    }
    return rows, len(every)


def _owner(kind: str, name: str) -> str:
    return clipped(f"{kind} {name}", WORD)
