"""Judges whether a peer's daemon runs, by the Lease that it renews. Pure.

Clocks of two clusters are never compared: what counts is whether the Lease changed between two
looks, measured here. How old a renewal is already when it is seen, its API server reports by its
own clock alone (:class:`liqod.kube.leases.Look`); no daemon is called silent for that.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from liqod.model.peering.intervals import LEADER_TOLD_WITHIN, SILENT_AFTER

State = Literal["unasked", "untold", "runs", "silent"]
"""``unasked``: not looked long enough yet; ``untold``: the peer does not show it, as Liqo."""


class HeartbeatVerdict(msgspec.Struct, frozen=True):
    """How a peer's daemon is.

    Attributes:
        state: in a word.
        why: the reason in one clause, which stays the same while the state does.
    """

    state: State = "unasked"
    why: str = ""


class Heartbeat(msgspec.Struct, frozen=True):
    """The content of the Lease.

    Attributes:
        holder: who leads; empty where nobody does.
        renewed: when it was renewed, as the Lease has it.
    """

    holder: str = ""
    renewed: str = ""


class HeartbeatView(msgspec.Struct, frozen=True):
    """The Lease as it was seen last.

    Attributes:
        beat: what it says.
        since: since when it was seen to say so, on this machine's clock.
        looked: when that was looked at last, by the same clock.
        renewed: when it was renewed last, or later than that, by the same clock; None while that
            is not known.
        quiet: seconds for which it is known not to have been renewed, at the last look.
        moved: whether it was ever seen to change.
    """

    beat: Heartbeat
    since: float
    looked: float
    renewed: float | None = None
    quiet: float = 0.0
    moved: bool = False

    @property
    def doubtful(self) -> bool:
        """True if, at the last look, the Lease was older than a leader's renewals allow."""
        return self.quiet > LEADER_TOLD_WITHIN


def observe(
    before: HeartbeatView | None, beat: Heartbeat, now: float, ago: float | None = None
) -> HeartbeatView:
    """The Lease as it is seen after another look.

    Args:
        before: what was known.
        beat: what the Lease says.
        now: on this machine's clock.
        ago: how old it is by its API server's clock; None where that is not known.
    """
    if before is not None and before.beat == beat:
        quiet = before.quiet + now - before.looked
        return msgspec.structs.replace(before, looked=now, quiet=quiet)
    renewed = None if ago is None else now - ago
    if before is None:
        return HeartbeatView(beat, now, now, renewed, ago or 0.0)
    if ago is None or renewed is None or renewed < before.looked:
        # It has changed since the last look, whatever clocks say: servers may differ among them.
        return HeartbeatView(beat, now, now, before.looked, moved=True)
    return HeartbeatView(beat, now, now, renewed, ago, moved=True)


def judge(sight: HeartbeatView, now: float, silent_after: float = SILENT_AFTER) -> HeartbeatVerdict:
    """How the daemon is by that.

    Args:
        sight: the Lease as it was seen last.
        now: on this machine's clock.
        silent_after: seconds without a renewal until the daemon is silent.
    """
    if now - sight.since >= silent_after:
        did = "its Lease was last renewed" if sight.beat.holder else "it was stopped"
        return HeartbeatVerdict("silent", f"{did} at {_clock(sight.beat.renewed)} by its clock")
    return HeartbeatVerdict("runs") if sight.moved and sight.beat.holder else HeartbeatVerdict()


def _clock(renewed: str) -> str:
    """A time of the other side's, in our own words."""
    try:
        at = datetime.fromisoformat(renewed).astimezone(UTC)
    except (ValueError, OverflowError):
        return "no time that can be read"
    return at.strftime("%Y-%m-%d %H:%M:%SZ")
