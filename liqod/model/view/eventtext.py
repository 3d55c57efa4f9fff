"""What is made of an event's facts for people, by every program that shows events. Pure."""

from typing import Any

import msgspec

from liqod.model.view.rows import Event

BAD = ("failed", "reason", "problem", "refused")
"""Facts that say why something is not as it should be."""


def facts(event: Event) -> str:
    """``name=value`` of each fact, in the order in which the room gave them.

    What it says may be somebody else's words: it goes through what makes text fit for a terminal.
    """
    found = event.facts.items()
    return " ".join(f"{name}={_value(value)}" for name, value in found if value not in _NOTHING)


def is_bad(event: Event) -> bool:
    """Whether it says why something is not as it should be."""
    return any(event.facts.get(name) for name in BAD) and event.facts.get("up") is not True


_NOTHING: tuple[Any, ...] = (None, "", [], {})


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
