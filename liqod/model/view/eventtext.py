"""Renders an event's facts as text, for every program that shows events. Pure."""

from typing import Any

import msgspec

from liqod.model.view.rows import Event

BAD = ("failed", "reason", "problem", "refused")
"""Facts that say why something is not as it should be."""


def facts(event: Event) -> str:
    """``name=value`` of each fact, in the order in which the event has them.

    The text may have words of others: callers make it fit for a terminal (:mod:`liqod.model.text`).
    """
    found = event.facts.items()
    return " ".join(f"{name}={_value(value)}" for name, value in found if value not in _NOTHING)


def is_bad(event: Event) -> bool:
    """True if an event reports a failure."""
    return any(event.facts.get(name) for name in BAD) and event.facts.get("up") is not True


_NOTHING: tuple[Any, ...] = (None, "", [], {})


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
