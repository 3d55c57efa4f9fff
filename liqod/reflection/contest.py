"""Notices that a status is fought over: written again and again, as somebody else changes it.

Nothing here can know who is right. What can be known is that the same was written several times
within seconds, so that somebody must have undone it each time; then it is not written for a while,
and for a longer one each time that goes on.
"""

import msgspec

from liqod.kube.backoff import Backoff
from liqod.reflection.view import Key

TIMES = 4
"""The same, written so often within :data:`WITHIN`, is a contest."""
WITHIN = 30.0
PAUSES = Backoff(first=60.0, last=960.0)
"""Seconds for which it is then not written, doubling."""
KEPT = 8
"""Writes of an object that are remembered."""


class _Writes(msgspec.Struct):
    recent: list[tuple[str, float]] = []
    rounds: int = 0
    until: float = 0.0


class Contest:
    """What one reflector wrote lately of the statuses of objects, for one peer."""

    def __init__(self) -> None:
        self._writes: dict[Key, _Writes] = {}

    def waits(self, key: Key, now: float) -> float | None:
        """Seconds for which the status is not to be written; None where it may be."""
        found = self._writes.get(key)
        return found.until - now if found is not None and found.until > now else None

    def wrote(self, key: Key, what: str, now: float) -> float | None:
        """Take note of a write (by its digest): the seconds to pause where that is a contest."""
        found = self._writes.setdefault(key, _Writes())
        if found.rounds and now - found.until > PAUSES.last:
            found.rounds = 0
        found.recent = [each for each in found.recent if now - each[1] < WITHIN][-KEPT:]
        found.recent.append((what, now))
        if sum(each == what for each, _ in found.recent) < TIMES:
            return None
        found.rounds += 1
        found.recent = []
        pause = PAUSES.delay(found.rounds)
        found.until = now + pause
        return pause

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._writes.pop(key, None)
