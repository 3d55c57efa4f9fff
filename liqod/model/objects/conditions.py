"""Lists of conditions, as Kubernetes and Liqo keep them in a status.

A condition is a map with ``type``, ``status``, ``reason``, ``message`` and
``lastTransitionTime``; the time moves only when the status does.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Condition = dict[str, Any]


def find(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> Mapping[str, Any] | None:
    """The condition of that type, or None."""
    return next((each for each in conditions or () if each.get("type") == type_), None)


def is_status(
    conditions: Iterable[Mapping[str, Any]] | None, type_: str, status: str = "True"
) -> bool:
    """Whether there is a condition of that type with that status."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == status


def set_condition(
    conditions: Iterable[Mapping[str, Any]] | None,
    type_: str,
    status: str,
    *,
    now: str,
    reason: str = "",
    message: str = "",
) -> list[Condition]:
    """The list with that condition in it, at its old place or at the end.

    Args:
        conditions: the list so far; it is not changed.
        type_: type of the condition.
        status: its status.
        now: the time, RFC 3339; taken for ``lastTransitionTime`` if the status is another.
        reason: one word; left out if empty.
        message: a sentence; left out if empty.
    """
    before = [dict(each) for each in conditions or ()]
    old = find(before, type_)
    since = now
    if old is not None and old.get("status") == status:
        since = old.get("lastTransitionTime") or now
    new: Condition = {"type": type_, "status": status, "lastTransitionTime": since}
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        return [*before, new]
    return [new if each.get("type") == type_ else each for each in before]


def without(conditions: Iterable[Mapping[str, Any]] | None, *types: str) -> list[Condition]:
    """The list without the conditions of these types."""
    return [dict(each) for each in conditions or () if each.get("type") not in types]


def since_when(
    wanted: Iterable[Mapping[str, Any]], live: Iterable[Mapping[str, Any]] | None, now: str
) -> list[Condition]:
    """Wanted conditions, made without times, with the times of the live ones of equal status."""
    result = []
    for each in wanted:
        old = find(live, each["type"])
        unchanged = old is not None and old.get("status") == each.get("status")
        since = (old or {}).get("lastTransitionTime") if unchanged else None
        result.append({**each, "lastTransitionTime": since or now})
    return result
