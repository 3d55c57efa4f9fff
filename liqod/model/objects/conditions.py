"""Lists of conditions, as Kubernetes and Liqo keep them in a status.

A condition is a map with ``type``, ``status``, ``reason``, ``message`` and
``lastTransitionTime``; the time moves only when the status does (:func:`dated`). Lists that are to
be written are plain JSON; those that are only read may be structs (:class:`Condition`, and those of
:mod:`liqod.resources`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

Json = dict[str, Any]
SINCE = "lastTransitionTime"


class Condition(msgspec.Struct, frozen=True):
    """A condition, for reading."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    since: str | None = msgspec.field(name="lastTransitionTime", default=None)


class Typed(Protocol):
    """A condition as a struct of any kind."""

    @property
    def type(self) -> str:
        """The condition's type."""

    @property
    def status(self) -> str:
        """The condition's status: ``True``, ``False`` or ``Unknown``."""


T = TypeVar("T", bound=Typed)


def find(conditions: Iterable[Mapping[str, Any]] | None, type_: str) -> Mapping[str, Any] | None:
    """The condition of that type, or None."""
    return next((each for each in conditions or () if each.get("type") == type_), None)


def is_status(
    conditions: Iterable[Mapping[str, Any]] | None, type_: str, status: str = "True"
) -> bool:
    """True if there is a condition of that type with that status."""
    condition = find(conditions, type_)
    return condition is not None and condition.get("status") == status


def of_type(conditions: Iterable[T], type_: str) -> T | None:
    """The condition of that type, or None; of structs."""
    return next((each for each in conditions if each.type == type_), None)


def holds(conditions: Iterable[Typed], type_: str, status: str = "True") -> bool:
    """True if there is a condition of that type with that status; of structs."""
    return any(each.type == type_ and each.status == status for each in conditions)


def dated(
    condition: Mapping[str, Any], before: Iterable[Mapping[str, Any]] | None, now: str
) -> Json:
    """The condition with the time since when it has had its status.

    Args:
        condition: one that is to be written; a time in it does not count.
        before: the list so far; a condition of the same type and status keeps its time.
        now: the time, RFC 3339, for all others.
    """
    old = find(before, condition["type"])
    unchanged = old is not None and old.get("status") == condition.get("status")
    since = (old or {}).get(SINCE) if unchanged else None
    return {**condition, SINCE: since or now}


def all_dated(
    wanted: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]] | None, now: str
) -> list[Json]:
    """The wanted conditions, each as :func:`dated` has it."""
    known = list(before or ())
    return [dated(each, known, now) for each in wanted]


def set_condition(
    conditions: Iterable[Mapping[str, Any]] | None,
    type_: str,
    status: str,
    *,
    now: str,
    reason: str = "",
    message: str = "",
) -> list[Json]:
    """The list with that condition in it, at its old place or at the end.

    Args:
        conditions: the list so far; it is not changed.
        type_: type of the condition.
        status: its status.
        now: the time, RFC 3339, as for :func:`dated`.
        reason: one word; left out if empty.
        message: a sentence; left out if empty.
    """
    before = [dict(each) for each in conditions or ()]
    said = {"reason": reason, "message": message}
    filled = {key: value for key, value in said.items() if value}
    new = dated({"type": type_, "status": status, **filled}, before, now)
    if find(before, type_) is None:
        return [*before, new]
    return [new if each.get("type") == type_ else each for each in before]


def without(conditions: Iterable[Mapping[str, Any]] | None, *types: str) -> list[Json]:
    """The list without the conditions of these types."""
    return [dict(each) for each in conditions or () if each.get("type") not in types]
