"""Grace period of a pod's deletion, passed on across clusters. Pure.

Custom resources have no grace: an API server takes ``gracePeriodSeconds`` when a ShadowPod is
deleted and drops it. A pod's own grace crosses in its spec; where the pod is deleted with another
grace, that is noted on the ShadowPod just before it is deleted, and read at the provider.
"""

from collections.abc import Mapping
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.model.objects.podstatus import TERMINAL

DEFAULT: Final = 30
"""The grace of a pod whose spec names none, in seconds."""
_DIGITS: Final = 10
"""Digits of a grace; more are no plausible number of seconds."""


def requested_grace(pod: Mapping[str, Any]) -> int | None:
    """The grace with which a pod is being deleted, in seconds, where it is not its own."""
    meta = pod["metadata"]
    grace = meta.get("deletionGracePeriodSeconds")
    if not meta.get("deletionTimestamp") or not isinstance(grace, int):
        return None
    if (pod.get("status") or {}).get("phase") in TERMINAL:
        return None  # 0 by rule, for any requested grace
    own = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    if own is None or own < 0:
        own = DEFAULT if own is None else 1
    return None if grace == own else grace


def note(grace: int) -> dict[str, str]:
    """The annotation with the grace period."""
    return {labels.DELETION_GRACE: str(grace)}


def noted(annotations: Mapping[str, str]) -> int | None:
    """The grace period in a ShadowPod's annotations; None where there is none."""
    text = annotations.get(labels.DELETION_GRACE, "")
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        return None
    return int(text)
