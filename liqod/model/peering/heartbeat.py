"""Whether a peer's daemon runs, from what is seen of the Lease that it renews. Pure.

Clocks of two clusters are never compared: what counts is whether the Lease changed between two
looks, measured here. What the other side's clocks say (the time of the renewal against the date of
the answer) only brings the next look forward.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from liqod.model.peering.intervals import SILENT_AFTER

State = Literal["unasked", "untold", "runs", "silent"]
"""``unasked``: not looked long enough yet; ``untold``: the peer does not show it, as Liqo."""


class Verdict(msgspec.Struct, frozen=True):
    """How a peer's daemon is.

    Attributes:
        state: in a word.
        why: the reason in one clause, which stays the same while the state does.
    """

    state: State = "unasked"
    why: str = ""


class Beat(msgspec.Struct, frozen=True):
    """What the Lease says.

    Attributes:
        holder: who leads; empty where nobody does.
        renewed: when it was renewed, as the Lease has it.
    """

    holder: str = ""
    renewed: str = ""


class Sight(msgspec.Struct, frozen=True):
    """The Lease as it was seen last.

    Attributes:
        beat: what it says.
        since: since when it was seen to say so, on this machine's clock.
        moved: whether it was ever seen to change.
    """

    beat: Beat
    since: float
    moved: bool = False


def observe(before: Sight | None, beat: Beat, now: float) -> Sight:
    """What is known after another look."""
    if before is None:
        return Sight(beat, now)
    if before.beat == beat:
        return before
    return Sight(beat, now, moved=True)


def judge(sight: Sight, now: float) -> Verdict:
    """How the daemon is by that."""
    if now - sight.since >= SILENT_AFTER:
        did = "its Lease was last renewed" if sight.beat.holder else "it was stopped"
        return Verdict("silent", f"{did} at {_clock(sight.beat.renewed)} by its clock")
    return Verdict("runs") if sight.moved and sight.beat.holder else Verdict()


def _clock(renewed: str) -> str:
    """A time of the other side's, in our own words."""
    try:
        at = datetime.fromisoformat(renewed).astimezone(UTC)
    except (ValueError, OverflowError):
        return "no time that can be read"
    return at.strftime("%Y-%m-%d %H:%M:%SZ")
