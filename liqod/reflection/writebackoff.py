"""Delays writes that the peer refused, that another contests, or that are too frequent.

A refusal of the peer (:class:`RefusalBackoff`) is shown on the object. The first 403 in a new
namespace is the authorizer's cache at the peer, so it is tried again at once and not shown; further
ones wait longer each time. An object that the peer cannot accept (422) is not sent again until it
is a different object.

A status is contested (:class:`Contest`) where it is written again and again, as another
changes it. Nothing shows which writer is right, only that the same was written several times
within seconds, so that another must have undone it each time; then it is not written for a
while, and for a longer one each time that goes on.

And no status is written too often (:class:`Rate`), whatever the peer reports. A few changes go
at once: pods that start or end have no more. A status that goes on changing, such as a readiness
that flaps, is written at a steady pace, each time as it is by then.

Times are Trio's, in seconds.
"""

from typing import Final

import msgspec

from liqod.plugins.contracts import Refusal
from liqod.reflection.view import Key
from liqod.runtime.backoff import Backoff

FIRST: Final = 0.5
"""Seconds until the second try after a 403."""
AFTER_REFUSALS: Final = Backoff(first=2.0, last=60.0)
"""Between further tries."""
UNCHANGED: Final = 600.0
"""Seconds after which even an unchanged object that was refused is tried once more."""

TIMES: Final = 4
"""Number of equal writes within :data:`WITHIN` that make a contest."""
WITHIN: Final = 30.0
KEPT: Final = 8
"""Writes of an object that are remembered."""

BURST: Final = 10
"""Writes of one object that go at once."""
EVERY: Final = 2.0
"""Seconds after which one more write may go."""


class RefusalBackoff(msgspec.Struct, frozen=True):
    """The peer's refusal of one object's reflections.

    Attributes:
        refusals: those of the last try.
        tries: how often in a row it was refused.
        asked: digest of the refused objects.
        due: time of the next try.
    """

    refusals: tuple[Refusal, ...]
    tries: int
    asked: str
    due: float

    @property
    def shown(self) -> tuple[Refusal, ...]:
        """The refusals to be shown on the object."""
        first = self.tries == 1 and all(refusal.status == 403 for refusal in self.refusals)
        return () if first else self.refusals

    def waits(self, asked: str, now: float) -> float | None:
        """Seconds for which the same is not to be requested again; None where it may be now."""
        if self.asked != asked or self.due <= now:
            return None
        return self.due - now


def refused(
    before: RefusalBackoff | None, refusals: tuple[Refusal, ...], asked: str, now: float
) -> RefusalBackoff:
    """The record after another refusal, with the time of the next try."""
    tries = 1 if before is None or before.asked != asked else before.tries + 1
    if not all(refusal.retried for refusal in refusals):
        pause = UNCHANGED
    elif tries == 1:
        pause = FIRST
    else:
        pause = AFTER_REFUSALS.delay(tries - 1)
    return RefusalBackoff(refusals, tries, asked, now + pause)


class _Writes(msgspec.Struct):
    recent: list[tuple[str, float]] = []
    rounds: int = 0
    until: float = 0.0


class Contest:
    """Detects that another writer undoes the statuses that one reflector writes, for one peer.

    Args:
        pauses: seconds for which a status is not written that is in a contest, doubling.
    """

    def __init__(self, pauses: Backoff) -> None:
        self._pauses = pauses
        self._writes: dict[Key, _Writes] = {}

    def waits(self, key: Key, now: float) -> float | None:
        """Seconds for which the status is not to be written; None where it may be."""
        found = self._writes.get(key)
        return found.until - now if found is not None and found.until > now else None

    def wrote(self, key: Key, what: str, now: float) -> float | None:
        """Record a write (by its digest); the seconds to pause where that is a contest."""
        found = self._writes.setdefault(key, _Writes())
        if found.rounds and now - found.until > self._pauses.last:
            found.rounds = 0
        found.recent = [each for each in found.recent if now - each[1] < WITHIN][-KEPT:]
        found.recent.append((what, now))
        if sum(each == what for each, _ in found.recent) < TIMES:
            return None
        found.rounds += 1
        found.recent = []
        pause = self._pauses.delay(found.rounds)
        found.until = now + pause
        return pause

    def forget(self, key: Key) -> None:
        """Drop the records of an object that is gone."""
        self._writes.pop(key, None)


class Rate:
    """Limits how often one reflector writes the status of an object, for one peer."""

    def __init__(self) -> None:
        self._full_at: dict[Key, float] = {}
        """Times at which an object may be written :data:`BURST` times again."""

    def waits(self, key: Key, now: float) -> float:
        """Seconds until the object's status may be written; 0 where it may be now."""
        return max(0.0, self._full_at.get(key, now) - now - (BURST - 1) * EVERY)

    def wrote(self, key: Key, now: float) -> None:
        """Record a write."""
        self._full_at[key] = max(self._full_at.get(key, now), now) + EVERY

    def forget(self, key: Key) -> None:
        """Drop the records of an object that is gone."""
        self._full_at.pop(key, None)
