"""How often the status of one object is written here, whatever the peer says of it and how often.

A few changes go at once: pods that start or end have no more. What goes on changing, such as a
readiness that flaps, is written at a steady pace, each time as it is by then.
"""

from typing import Final

from liqod.reflection.view import Key

BURST: Final = 10
"""Writes of one object that go at once."""
EVERY: Final = 2.0
"""Seconds after which one more may."""


class Measure:
    """The writes of one reflector's statuses, for one peer."""

    def __init__(self) -> None:
        self._full_at: dict[Key, float] = {}
        """When an object may be written :data:`BURST` times again."""

    def waits(self, key: Key, now: float) -> float:
        """Seconds until the object's status may be written; 0 where it may be now."""
        return max(0.0, self._full_at.get(key, now) - now - (BURST - 1) * EVERY)

    def wrote(self, key: Key, now: float) -> None:
        """Take note of a write."""
        self._full_at[key] = max(self._full_at.get(key, now), now) + EVERY

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._full_at.pop(key, None)
