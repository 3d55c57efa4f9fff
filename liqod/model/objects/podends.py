"""Distinguishes pods that ended by themselves from those that were deleted or evicted.

A kubelet lets a pod that is being deleted end as Succeeded or Failed before it goes.
"""

from collections.abc import Mapping
from typing import Any, Final

from liqod.model.objects import conditions

DISRUPTION: Final = "DisruptionTarget"
TAKEN: Final = frozenset(
    {
        "EvictionByEvictionAPI",
        "PreemptionByScheduler",
        "DeletionByTaintManager",
        "DeletionByPodGC",
    }
)
"""Reasons of the condition DisruptionTarget with which a pod is deleted: core/v1, `PodReason…`, and
those of the eviction API and the controllers. `TerminationByKubelet` leaves the pod, Failed."""


def by_deletion(pod: Mapping[str, Any]) -> bool:
    """True if a pod that is restarted where it ends has ended only because it was deleted.

    Any other cause (its deadline, a node's pressure or shutdown) is named in ``status.reason``.
    """
    deleted = (pod.get("metadata") or {}).get("deletionTimestamp")
    return bool(deleted) and not (pod.get("status") or {}).get("reason")


def taken_away(pod: Mapping[str, Any]) -> str:
    """The reason why a pod was evicted, preempted or removed from a lost node; empty for none."""
    found = conditions.find((pod.get("status") or {}).get("conditions"), DISRUPTION) or {}
    if found.get("status") != "True" or found.get("reason") not in TAKEN:
        return ""
    return str(found.get("message") or found["reason"])
