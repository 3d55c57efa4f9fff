"""Elects the gateway: one candidate's view of it, as a pure state machine. No clock, no I/O.

The Lease has its name, and only a write that names the version it was read in changes that. So two
candidates never both have it; but one that lost it may not know. The time of that is bounded,
without asking the API server at each turn:

- A standby takes the Lease from a gateway that falls silent only in the very version that this
  gateway named in its last answer. One write of the gateway's, and every standby waits for the
  Lease to expire instead, or to get that version from it.
- The gateway knows by a standby's next question which answer it had last, and so until when that
  one waits. It is a little behind that at most: then it writes, or, where it cannot, is fenced.

So two are never both at work for longer than :data:`GRACE` (and the drift of their clocks in that
time), however packets are lost and whoever is cut off from whom, among candidates that have seen
each other. A standby that the gateway never saw is bounded by the Lease's duration, where the
gateway reaches the API server at all.

A gateway whose Node is cordoned lets the Lease go while a standby is near whose Node is not: it is
fenced first, and stays so until it sees the Lease in another version. It takes nothing back because
its Node is uncordoned.
"""

from collections.abc import Iterator
from math import inf
from typing import Final

import msgspec

from liqod.model.network.liveness import Liveness, ProbeIntervals
from liqod.network.orders.candidacy import Claim

SILENCE: Final = 0.3
"""Seconds without an answer, besides the time that answers take, after which a standby takes
over."""
PACE: Final = ProbeIntervals(rest=0.1, hurry=0.015, deadline=SILENCE, patience=0.02)
"""Of questions to the gateway: while one is missed, so many follow that a tenth of the packets may
be lost without a false alarm."""
DOUBT: Final = 0.05
"""Seconds after which the gateway makes sure by a write, from when the last answer that a standby
has confirmed would not keep it waiting any more; a little before it may take over by the answer
after that."""
GRACE: Final = 0.5
"""Seconds that such a write may take, from when the standby may have taken over."""
RENEW: Final = 4.0
"""Seconds between writes of a gateway that has company."""
RETRY: Final = 0.1
"""Seconds between tries, where one fails."""
HOLD: Final = 10.0
"""Seconds after its last write for which a gateway counts on a Lease that nobody can take."""
DURATION: Final = 15.0
"""Seconds after which a standby takes a Lease that nobody renews, by its own clock."""
KERNEL: Final = 14.0
"""Seconds after which the kernel fences a gateway whose daemon does not say that it holds it:
before a standby takes the Lease by its age, and longer than a daemon needs to be started again."""
STEADY: Final = 2.0
"""Seconds from the first answer after none, in which no silence counts: a network that is just back
loses more, and what is lost is more likely this machine's."""
FORGET: Final = 600.0
"""Seconds of silence after which a standby is no company any more."""
TOGETHER: Final = 0.5
"""Seconds in which Nodes that are cordoned one after another are taken together."""
DEFERENCE: Final = 3.0
"""Seconds for which a candidate whose Node is cordoned leaves the Lease to others that are not."""
YIELDS_AGAIN: Final = 600.0
"""Seconds before a gateway whose Node stays cordoned lets the Lease go once more: where it has it
again, nobody else took it."""


class Companion(msgspec.Struct):
    """A standby that has sent a request.

    Attributes:
        safe: until when it surely does not take over by silence.
        armed: whether it may have got the Lease's present version.
        last_seen: when it asked last.
    """

    safe: float
    armed: bool
    last_seen: float


class Election:
    """One candidate.

    Args:
        me: its name; the same after a restart.
        now: the time in seconds, as that of every call.

    Attributes:
        claim: the Lease as it is known; None before it was read.
    """

    def __init__(self, me: str, now: float) -> None:
        self.me = me
        self.claim: Claim | None = None
        self._seen_at = now
        """Since when the Lease is as it is, or its holder last answered."""
        self._proved = -inf
        """When the last write went out that was confirmed."""
        self._tried = -inf
        self._newest = 0
        """The newest epoch that anybody has reported."""
        self._company: dict[str, Companion] = {}
        self._liveness = Liveness(now, PACE)
        self._heard_version = ""
        self._steady_at = inf
        """When the gateway has answered for long enough that its silence counts."""
        self._refused = False
        self._cordoned: frozenset[str] = frozenset()
        self._cordoned_at = -inf
        """When Nodes were cordoned or uncordoned last."""
        self._letting_go = False
        self._keeps_until = -inf
        """Until when the Lease is kept though the Node is cordoned."""

    @property
    def holds(self) -> bool:
        """True if the Lease, as far as known, is ours."""
        return self.claim is not None and self.claim.holder == self.me

    @property
    def is_sure(self) -> bool:
        """True if the Lease is known; one of an earlier process of ours, only after a write."""
        return self.claim is not None and (not self.holds or self._proved > -inf)

    @property
    def epoch(self) -> int:
        """The newest that is known."""
        return max(self._newest, self.claim.epoch if self.claim is not None else 0)

    # What is read and written.

    def saw(self, claim: Claim, now: float) -> None:
        """The Lease was read, or its watch reported it."""
        before = self.claim
        if before is None or claim.version != before.version:
            self._seen_at = now
            if self._letting_go and claim.holder == self.me:
                self.keep(now)
            self._letting_go = False
        self.claim = claim
        if before is None or claim.holder != before.holder:
            self._liveness = Liveness(now, PACE)
            self._heard_version, self._refused = "", False
            self._steady_at = inf
            self._company.clear()
            if claim.holder == self.me:
                self._start(before or claim, now)

    def _start(self, before: Claim, now: float) -> None:
        """The Lease is ours from now on, or was in a life before this one."""
        self._proved = self._tried
        for name in {before.holder, *before.others} - {"", self.me}:
            # None of them has heard us say so; they may take it by its age.
            self._company[name] = Companion(safe=-inf, armed=False, last_seen=now)

    def wrote(self, claim: Claim, sent: float, now: float) -> None:
        """A write of ours was confirmed.

        Args:
            claim: the Lease after it.
            sent: when it went out.
        """
        self.saw(claim, now)
        self._proved = max(self._proved, sent)
        self._newest = claim.epoch
        for each in self._company.values():
            # None of them has heard this version.
            each.armed = False

    def gone(self, now: float) -> None:
        """The Lease has been deleted."""
        if self.claim is not None:
            self._seen_at, self.claim = now, None

    def trying(self, now: float) -> None:
        """A write goes out."""
        self._tried = now

    def on_cordons(self, names: frozenset[str], now: float) -> None:
        """The Nodes of this cluster that are cordoned."""
        if names != self._cordoned:
            self._cordoned, self._cordoned_at = names, now
        if self.me not in names:
            self._keeps_until = -inf

    def on_epoch(self, epoch: int) -> None:
        """Another candidate has observed this epoch."""
        self._newest = max(self._newest, epoch)

    # The gateway's part.

    def on_question(self, name: str, first: float, acknowledged: float, now: float) -> None:
        """A standby sends a request, and is answered.

        Args:
            name: of the standby.
            first: when the first answer to it went out that named the present version.
            acknowledged: when the last answer went out that it had when it asked; ``-inf`` for
                none.
            now: when it asked last.
        """
        if name == self.me or not self.holds:
            return
        known = self._company.get(name)
        if known is None or not known.armed:
            # It may have had the first of them, and waits from there.
            known = Companion(safe=first + SILENCE, armed=True, last_seen=now)
            self._company[name] = known
        known.safe = max(known.safe, acknowledged + SILENCE)
        known.last_seen = max(known.last_seen, now)

    def at_work(self, now: float) -> bool:
        """True if this candidate's tunnels may carry packets."""
        if self.claim is None or not self.holds or self._newest > self.claim.epoch:
            return False
        if self._letting_go:
            return False
        self._forget(now)
        if not self._company:
            return self._proved > -inf
        return all(self._is_held(each, now) for each in self._company.values())

    def _is_held(self, one: Companion, now: float) -> bool:
        if one.armed:
            return now < one.safe + GRACE
        return now < max(self._proved, one.safe - SILENCE) + HOLD

    def _forget(self, now: float) -> None:
        gone = [name for name, each in self._company.items() if now - each.last_seen >= FORGET]
        for name in gone:
            del self._company[name]

    def lease_left(self, now: float) -> float | None:
        """Seconds for which the kernel may go on without a message; None for no end, 0 fenced."""
        if not self.at_work(now):
            return 0.0
        if not self._company:
            return None
        if all(each.armed for each in self._company.values()):
            return KERNEL
        return max(0.0, self._proved + KERNEL - now)

    def yields(self, now: float) -> bool:
        """True if the Lease is to be let go: this Node is cordoned, and that of a standby near is
        not."""
        return (
            self._may_yield
            # Where the API server does not answer, nobody could take it.
            and self._keeps_until <= now < self._proved + RENEW
            and self.at_work(now)
            and any(each.armed and now < each.safe for each in self._successors())
        )

    def should_let_go(self, now: float) -> bool:
        """True if the Lease is to be let go now, in the version that is known."""
        return now >= self._yields_at and self.yields(now)

    def letting_go(self, now: float) -> None:
        """This candidate is fenced, and a write that lets the Lease go goes out."""
        self._tried, self._keeps_until = now, now + YIELDS_AGAIN
        self._letting_go = True

    def keep(self, now: float) -> None:
        """The Lease was not let go: it is kept for a while."""
        self._letting_go, self._keeps_until = False, now + RENEW

    @property
    def is_letting_go(self) -> bool:
        """True while a write that lets the Lease go may still be accepted."""
        return self._letting_go

    @property
    def _yields_at(self) -> float:
        return max(self._keeps_until, self._cordoned_at + TOGETHER, self._tried + RETRY)

    @property
    def _may_yield(self) -> bool:
        return self.holds and self.me in self._cordoned and any(self._successors())

    def _successors(self) -> Iterator[Companion]:
        """The standbys whose Nodes are not cordoned."""
        return (each for name, each in self._company.items() if name not in self._cordoned)

    @property
    def company(self) -> tuple[str, ...]:
        """The standbys that have sent a request."""
        return tuple(sorted(self._company))

    # The standby's part.

    @property
    def probe(self) -> Liveness | None:
        """The liveness of the gateway by questions; None where there is nobody to ask."""
        others = self.claim is not None and self.claim.holder not in ("", self.me)
        return self._liveness if others else None

    def on_answer(self, key: object, claim: Claim, now: float) -> None:
        """The gateway answered a question of ours.

        Args:
            key: of the question.
            claim: what it says of itself; nothing counts but that of the holder at work.
        """
        self.on_epoch(claim.epoch)
        probe = self.probe
        if probe is None or self.claim is None or claim.holder != self.claim.holder:
            return
        if claim.epoch != self.claim.epoch or not probe.on_answer(key, now):
            return
        self._heard_version, self._refused = claim.version, False
        if not probe.alive:
            self._steady_at = now + STEADY
        self._seen_at = max(self._seen_at, now)

    @property
    def is_behind(self) -> bool:
        """True if others know the Lease in another version: a watch may hang without notice."""
        claim = self.claim
        if claim is None or claim.holder == self.me:
            return False
        return self._newest > claim.epoch or self._heard_version not in ("", claim.version)

    def refused(self) -> None:
        """The gateway's machine reports no listening daemon: its packets may go on without one."""
        self._refused = True

    def should_take(self, now: float) -> bool:
        """True if the Lease is to be taken, in the version that is known."""
        claim = self.claim
        if claim is None or claim.holder == self.me or now < self._tried + RETRY:
            return False
        left_to_others = self._deference(claim)
        if now < self._seen_at + left_to_others:
            return False
        if not claim.holder or now >= self._seen_at + DURATION + left_to_others:
            return True
        if self._refused or self._heard_version != claim.version or now < self._steady_at:
            return False
        self._liveness.judge(now)
        return self._liveness.alive is False

    def _deference(self, claim: Claim) -> float:
        """Seconds for which the Lease is left to others, from when it last changed or its holder
        last answered."""
        others = set(claim.others) - {self.me} - self._cordoned
        return DEFERENCE if others and self.me in self._cordoned else 0.0

    def should_renew(self, now: float) -> bool:
        """True if the Lease is to be renewed, in the version that is known."""
        if not self.holds or now < self._tried + RETRY:
            return False
        if self._proved == -inf or self._letting_go:
            return True
        if self.claim is not None and self._newest > self.claim.epoch:
            return True
        return bool(self._company) and (
            now >= self._proved + RENEW
            or any(each.armed and now >= each.safe + DOUBT for each in self._company.values())
        )

    def due(self, now: float) -> float:
        """When anything may want to be done, or ends; not before a hundredth of a second."""
        at = now + RETRY if self.claim is None else inf
        left_to_others = self._deference(self.claim) if self.claim is not None else 0.0
        if self.probe is not None:
            at = min(self._seen_at + DURATION + left_to_others, self._liveness.due(now))
        elif self.claim is not None and not self.claim.holder:
            at = self._seen_at + left_to_others
        elif self.holds and (self._company or self._proved == -inf):
            at = max(self._proved + RENEW, self._tried + RETRY)
            if self._letting_go:
                at = self._tried + RETRY
            elif self._may_yield:
                at = min(at, self._yields_at if now < self._yields_at else now + RETRY)
            for each in self._company.values():
                if each.armed:
                    doubt = max(each.safe + DOUBT, self._tried + RETRY)
                    at = min(at, doubt, max(each.safe + GRACE, now))
        return max(at, now + 0.01)
