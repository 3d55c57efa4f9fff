"""The headline of a viewer: the condition of each peer, the counts, and the worst problem.

Pure functions of the state and of the time, which is the daemon's clock in Unix seconds.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from liqod.model.peering.intervals import FRESH
from liqod.model.view.figures import counted, span
from liqod.model.view.problems import Problem, merged, since_text
from liqod.model.view.rows import CheckRow, Ladder, Pulse, WidePeerRow
from liqod.model.view.state import LiveState

Condition = Literal["up", "degraded", "silent", "down", "idle", "leaving", "failed"]
"""State of a peer: ``silent`` is a link that counts as up without a round trip lately, ``idle`` a
peer that only borrows from this cluster, ``failed`` one whose task does not run."""
Level = Literal["well", "notice", "warning", "critical"]

NO_PEERS = "no peers yet"

BAD: tuple[Condition, ...] = ("failed", "down", "silent", "degraded")
"""Conditions that are problems, the worst first."""


class Worst(msgspec.Struct, frozen=True):
    """One problem, its level, its peer, and its remedy.

    Attributes:
        level: its level.
        what: the problem, without the peer's id.
        peer: its id; empty for this cluster's own.
        remedy: the step that ends it; empty for none.
    """

    level: Level
    what: str
    peer: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The complete sentence: with the peer's id."""
        return f"{self.peer}: {self.what}" if self.peer else self.what


class Counts(msgspec.Struct, frozen=True):
    """Counts of peers by state, seen clusters, waiting requests, and offloaded pods out and in."""

    up: int = 0
    degraded: int = 0
    down: int = 0
    inbox: int = 0
    asking: int = 0
    out: int = 0
    inward: int = 0


def condition(peer: WidePeerRow, pulse: Pulse | None, now: float) -> Condition:
    """The state of a peer."""
    if peer.state == "leaving":
        return "leaving"
    if peer.failure:
        return "failed"
    if peer.link == "down":
        return "down"
    if peer.link == "up":
        # It is up since an answer; the first figures of a new peer follow within a second.
        heard = pulse.heard if pulse is not None and pulse.heard is not None else peer.since
        if now - heard > FRESH:
            return "silent"
    if peer.layer:
        return "degraded"
    return "idle" if peer.link == "idle" else "up"


def conditions(state: LiveState, now: float) -> dict[str, Condition]:
    """The state of each peer."""
    pulses = state.pulses
    return {name: condition(peer, pulses.get(name), now) for name, peer in state.peers.items()}


def counts(state: LiveState, now: float) -> Counts:
    """The figures of the header."""
    by = Counter(conditions(state, now).values())
    return Counts(
        up=by["up"] + by["idle"],
        degraded=by["degraded"] + by["silent"] + by["leaving"],
        down=by["down"] + by["failed"],
        inbox=sum(not seen.peered for seen in state.sightings.values()),
        asking=sum(row.state == "Waiting" for row in state.incoming.values()),
        out=sum(peer.pods_out for peer in state.peers.values()),
        inward=sum(peer.pods_in for peer in state.peers.values()),
    )


def first_failing(ladder: Ladder | None) -> CheckRow | None:
    """The lowest layer that fails; None where none does."""
    checks = ladder.checks if ladder is not None else ()
    return next((check for check in checks if check.verdict == "failing"), None)


def began(peer: WidePeerRow, pulse: Pulse | None, how: Condition) -> float:
    """The time since when a peer has its state; 0 where that is unknown."""
    if how == "degraded":
        return peer.layer_since
    if how == "silent" and pulse is not None and pulse.heard is not None:
        return pulse.heard
    return 0.0 if how == "failed" else peer.since


def worst(state: LiveState, now: float) -> Worst:
    """The one sentence: this cluster's own trouble, then the worst peer's, then the rest."""
    own = _own(state, now)
    if own is not None:
        return own
    bad = _bad_peers(state, now)
    if bad:
        others = len(bad) - 1
        more = f" (and {counted(others, 'other peer')})" if others else ""
        return msgspec.structs.replace(bad[0], what=bad[0].what + more)
    found = merged(state.problems, state.ladders.values())
    if found:
        return _problem(found[0], ())
    if not state.daemon.leading:
        return Worst("notice", f"the daemon is {state.daemon.state}")
    sums = counts(state, now)
    if not state.peers:
        waiting = f"; {sums.inbox} in the inbox" if sums.inbox else ""
        return Worst("notice", f"{NO_PEERS}{waiting}")
    pods = f"{counted(sums.out, 'pod')} out, {sums.inward} in"
    return Worst("well", f"all is well: {counted(sums.up, 'peer')}, {pods}")


def every(state: LiveState, now: float) -> tuple[Worst, ...]:
    """All problems, as in ``liqod status`` and ``liqod doctor``, the worst first.

    Before it are peers that no problem reports yet, such as one that has just gone silent.
    """
    found = merged(state.problems, state.ladders.values())
    told = {each.peer for each in found if not each.hint}
    gone = [name for name, how in conditions(state, now).items() if how in ("failed", "down")]
    untold = (each for each in _bad_peers(state, now) if each.peer not in told)
    return (*untold, *(_problem(each, gone, now) for each in found))


def _own(state: LiveState, now: float) -> Worst | None:
    check = first_failing(state.ladders.get(""))
    if check is None:
        return None
    lasting = f" for {span(now - check.since)}" if check.since else ""
    what = f"this cluster: {check.title} fails{lasting}: {check.evidence}"
    return Worst("critical", what, "", check.remedy)


def _problem(found: Problem, gone: Iterable[str], now: float = 0.0) -> Worst:
    """One problem; ``gone`` are the unreachable peers, ``now`` is for ages."""
    bad: Level = (
        "critical" if found.peer in gone or (not found.peer and found.rank < 3) else "warning"
    )
    lasting = since_text(found, now) if now else ""
    level: Level = "notice" if found.hint else bad
    return Worst(level, f"{found.what}{lasting}", found.peer, found.remedy)


def _bad_peers(state: LiveState, now: float) -> list[Worst]:
    """Each peer that is not well, the worst first."""
    by = conditions(state, now)

    def order(name: str) -> tuple[int, int, float, str]:
        peer = state.peers[name]
        return BAD.index(by[name]), -peer.pods_out - peer.pods_in, _since(state, name), name

    found = []
    for name in sorted((name for name, how in by.items() if how in BAD), key=order):
        what = ", ".join(_clauses(state, name, by[name], now))
        check = first_failing(state.ladders.get(name))
        level: Level = "critical" if by[name] in ("failed", "down") else "warning"
        found.append(Worst(level, what, name, check.remedy if check is not None else ""))
    return found


def _since(state: LiveState, name: str) -> float:
    peer = state.peers[name]
    return peer.layer_since or peer.since


def _clauses(state: LiveState, name: str, how: Condition, now: float) -> Iterable[str]:
    """The clauses that describe a peer that is not well."""
    peer, pulse = state.peers[name], state.pulses.get(name)
    if how == "failed":
        yield f"its task fails: {peer.failure}"
        if peer.retry_at > now:
            yield f"next try in {span(peer.retry_at - now)}"
    elif how == "down":
        yield f"API unreachable for {span(now - peer.since)} ({peer.reason})"
    elif how == "silent":
        heard = pulse.heard if pulse is not None else None
        yield "not heard of yet" if heard is None else f"not heard of for {span(now - heard)}"
    elif how == "degraded":
        lasting = f" for {span(now - peer.layer_since)}" if peer.layer_since else ""
        yield f"{peer.layer} fails{lasting}: {peer.verdict}"
    if how in ("down", "silent") and peer.pods_out:
        yield f"{counted(peer.pods_out, 'pod')} there out of reach"
    if pulse is not None and pulse.backlog:
        yield f"{counted(pulse.backlog, 'change')} waiting"
