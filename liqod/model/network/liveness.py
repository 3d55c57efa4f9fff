"""Judges by probes and answers whether the other side of a tunnel is alive. Pure: no clock.

At rest a probe goes twice a second. When one is not answered in the time that answers take, many
follow at once, so that of a peer that is there some come through whatever is lost on the way, and
one that is gone is known to be within :data:`DEADLINE`.
"""

from collections import deque
from math import inf
from typing import Final

import msgspec

REST: Final = 0.5
"""Seconds between probes while they are answered, and while the other side is known to be gone."""
HURRY: Final = 0.05
"""Seconds between probes while it is in doubt."""
DEADLINE: Final = 1.4
"""Seconds without an answer, besides the time that answers take, after which it is gone."""
PATIENCE: Final = 0.05
"""Seconds, besides twice the usual time, after which an answer is missed."""
SMOOTH: Final = 0.125
"""The share of a new round trip in the smoothed one."""
TOGETHER: Final = 0.005
"""Seconds within which answers have come out of one queue: probes are 50 ms apart at the least."""
REMEMBERED: Final = 64
"""Probes that the part lost is of."""
ENOUGH: Final = 16
"""With fewer than these the part lost shows nothing."""
STALL: Final = 0.1
"""Seconds by which this program may be late without it being held in the peer's favour."""


class ProbeIntervals(msgspec.Struct, frozen=True):
    """The interval of requests, and the timeout of an answer, in seconds.

    Attributes:
        rest: as :data:`REST`.
        hurry: as :data:`HURRY`.
        deadline: as :data:`DEADLINE`.
        patience: as :data:`PATIENCE`.
    """

    rest: float = REST
    hurry: float = HURRY
    deadline: float = DEADLINE
    patience: float = PATIENCE


TUNNEL: Final = ProbeIntervals()
"""Through a tunnel, across networks of others."""


class Liveness:
    """The liveness of the other side.

    Args:
        now: the time in seconds, as that of every call.
        pace: the rate of probes.

    Attributes:
        alive: whether it answers; None before there is a verdict.
        latency: smoothed seconds of a round trip; None before the first.
        answered_at: when the last answer came; ``-inf`` before the first.
    """

    def __init__(self, now: float, pace: ProbeIntervals = TUNNEL) -> None:
        self._pace = pace
        self.alive: bool | None = None
        self.latency: float | None = None
        self.answered_at = -inf
        self._began = now
        self._sent_at = -inf
        self._waiting: dict[object, float] = {}
        self._outcomes: deque[bool] = deque(maxlen=REMEMBERED)
        self._waited = False

    @property
    def lost(self) -> float:
        """The part of the last probes that was not answered in time; none of a few."""
        every = self._outcomes
        return every.count(False) / len(every) if len(every) >= ENOUGH else 0.0

    def silent(self, now: float) -> float:
        """Seconds since something came; since the beginning, where nothing did."""
        return now - max(self.answered_at, self._began)

    def due(self, now: float) -> float:
        """When the next probe is to go, or a verdict may change."""
        pause = self._pace.hurry if self._in_doubt(now) else self._pace.rest
        at = self._sent_at + pause
        if self.alive is not False:
            at = min(at, max(self._doubted_at(), self._sent_at + self._pace.hurry), self._gone_at())
        return max(at, now)

    def sends(self, now: float) -> bool:
        """True if a probe is to go now."""
        pause = self._pace.hurry if self._in_doubt(now) else self._pace.rest
        return now >= self._sent_at + pause - 1e-6

    def sent(self, key: object, now: float) -> None:
        """Note that a probe went, recognized by a key that its answer has, too."""
        self._sent_at = now
        self._waiting[key] = now
        while len(self._waiting) > REMEMBERED:
            self._miss(next(iter(self._waiting)))

    def on_answer(self, key: object, now: float) -> bool:
        """An answer came; whether the probe was one of ours, and is answered for the first time."""
        began = self._waiting.pop(key, None)
        if began is None:
            return False
        trip = now - began
        known = self.latency
        # Answers that come together have waited together, as for the tunnel's own handshake, which
        # takes seconds where it is lost. The next one that comes alone shows the path's length.
        together = now - self.answered_at < TOGETHER
        if known is None or (trip < known and (together or self._waited)):
            self.latency = trip
        else:
            self.latency = known + SMOOTH * (trip - known)
        self._waited = together
        self.answered_at = now
        # Earlier probes are lost, or late: they show nothing any more about now.
        for other in [each for each, at in self._waiting.items() if at < began]:
            self._miss(other)
        self._outcomes.append(True)
        return True

    def stalled(self, seconds: float) -> None:
        """This program was late by so much: answers may lie there that it has not read."""
        self.answered_at += seconds
        self._began += seconds

    def judge(self, now: float) -> bool:
        """Come to a verdict; whether it is another than before."""
        before = self.alive
        if self.answered_at > -inf and now < self._gone_at():
            self.alive = True
        elif now >= self._gone_at():
            self.alive = False
            kept = self._pace.deadline
            self._waiting = {key: at for key, at in self._waiting.items() if now - at < kept}
        if self.alive and not before:
            # Losses while it was gone show nothing of the present path.
            self._outcomes.clear()
        return self.alive != before

    def _miss(self, key: object) -> None:
        del self._waiting[key]
        self._outcomes.append(False)

    def _usual(self) -> float:
        return self.latency or 0.0

    def _gone_at(self) -> float:
        return max(self.answered_at, self._began) + self._pace.deadline + self._usual()

    def _doubted_at(self) -> float:
        """When the oldest probe after the last answer is missed."""
        first = min(self._waiting.values(), default=inf)
        return first + 2 * self._usual() + self._pace.patience

    def _in_doubt(self, now: float) -> bool:
        return self.alive is not False and now >= self._doubted_at()
