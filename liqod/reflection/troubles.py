"""What the peer refused, per local object: how often, when to ask again, and what was asked.

A refusal is shown on the object. The first 403 in a new namespace is the authorizer's cache over
there, so it is tried again at once and not shown; further ones wait longer each time. An object
that the peer cannot accept (422) is not sent again until it is another object.
"""

import msgspec

from liqod.kube.backoff import Backoff
from liqod.plugins.contracts import Refusal

FIRST = 0.5
"""Seconds until the second try after a 403."""
PAUSES = Backoff(first=2.0, last=60.0)
"""Between further tries."""
UNCHANGED = 600.0
"""Seconds after which even an unchanged object that was refused is tried once more."""


class Trouble(msgspec.Struct, frozen=True):
    """The trouble of one object.

    Attributes:
        refusals: those of the last try.
        tries: how often in a row it was refused.
        asked: digest of what was refused.
        due: Trio time of the next try.
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


def after(before: Trouble | None, refusals: tuple[Refusal, ...], asked: str, now: float) -> Trouble:
    """The trouble after another refusal."""
    tries = 1 if before is None or before.asked != asked else before.tries + 1
    if not all(refusal.retried for refusal in refusals):
        pause = UNCHANGED
    elif tries == 1:
        pause = FIRST
    else:
        pause = PAUSES.delay(tries - 1)
    return Trouble(refusals, tries, asked, now + pause)


def waits(trouble: Trouble, asked: str, now: float) -> float | None:
    """Seconds for which the same is not to be asked again; None where it may be asked now."""
    if trouble.asked != asked or trouble.due <= now:
        return None
    return trouble.due - now
