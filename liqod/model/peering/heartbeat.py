"""Judges whether a peer's daemon runs, by the Lease that it renews. Pure.

Clocks of two clusters are never compared: what counts is whether the Lease changed between two
looks, by the local clock. The age of a renewal when it is seen is reported by its API server, by
that server's clock alone (:class:`liqod.kube.leases.Look`); no daemon counts as silent for that.
"""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from liqod.model.peering.intervals import LEADER_TOLD_WITHIN, SILENT_AFTER

State = Literal["unasked", "untold", "runs", "silent"]
"""``unasked``: not looked long enough yet; ``untold``: the peer does not show it, as Liqo."""


class HeartbeatVerdict(msgspec.Struct, frozen=True):
    """The state of a peer's daemon.

    Attributes:
        state: in a word.
        why: the reason in one clause, which stays the same while the state does.
    """

    state: State = "unasked"
    why: str = ""


class Heartbeat(msgspec.Struct, frozen=True):
    """The content of the Lease.

    Attributes:
        holder: the leader; empty where there is none.
        renewed: time of the renewal, as in the Lease.
    """

    holder: str = ""
    renewed: str = ""


class HeartbeatView(msgspec.Struct, frozen=True):
    """The Lease as it was seen last.

    Attributes:
        beat: its content.
        since: time of the first look with this content, on this machine's clock.
        looked: time of the last look, by the same clock.
        renewed: time of the last renewal, or later than that, by the same clock; None while that
            is unknown.
        quiet: seconds for which it was certainly not renewed, at the last look.
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
        before: the view before.
        beat: the Lease's content.
        now: on this machine's clock.
        ago: its age by its API server's clock; None where that is unknown.
    """
    if before is not None and before.beat == beat:
        quiet = before.quiet + now - before.looked
        return msgspec.structs.replace(before, looked=now, quiet=quiet)
    renewed = None if ago is None else now - ago
    if before is None:
        return HeartbeatView(beat, now, now, renewed, ago or 0.0)
    if ago is None or renewed is None or renewed < before.looked:
        # It has changed since the last look, by any clock: servers may differ in theirs.
        return HeartbeatView(beat, now, now, before.looked, moved=True)
    return HeartbeatView(beat, now, now, renewed, ago, moved=True)


def judge(sight: HeartbeatView, now: float, silent_after: float = SILENT_AFTER) -> HeartbeatVerdict:
    """The state of the daemon, from the last look at its Lease.

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
