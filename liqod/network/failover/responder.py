"""Answers standbys from a thread of its own: a daemon that is busy is not one that is gone.

The daemon's loop publishes the state that the thread reports, and that ages: when the loop hangs
for good nothing is reported any more, and a standby takes over.
"""

import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Final

import msgspec

from liqod.network.failover import candidatemessages
from liqod.network.failover.candidatemessages import Answer, Question
from liqod.network.failover.election import HOLD
from liqod.network.orders.candidacy import Claim

REMEMBERED: Final = 4096
"""Answers that can be confirmed."""
STANDBYS: Final = 64
"""Standbys that are known at a time."""
BATCH, FLOOD = 64, 0.02
"""Datagrams after which it is seen whether they came within so many seconds, and then rested for as
long: a flood costs a bounded share of the daemon's time."""
PATIENCE: Final = 0.5
"""Seconds after which the thread looks whether it is to end."""


def now() -> float:
    """Seconds, on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Standby(msgspec.Struct):
    """The state of a standby, from its questions.

    Attributes:
        first: when the first answer to it went out that named the version that is published.
        acknowledged: when the last answer went out that it had.
        last_seen: when it asked last.
        address: where peers reach it, as it says.
    """

    first: float
    acknowledged: float
    last_seen: float
    address: str = ""


class ResponderTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Times of the answers, all in seconds.

    Attributes:
        fresh: after which an answer that a question confirms is too old to count.
        hold: for which it is said what was published last: less than a loop may hang.
    """

    fresh: float = 2.0
    hold: float = HOLD


ORDINARY = ResponderTimings()
"""Those of a daemon."""


class Responder:
    """Answers at one socket, which it owns.

    Args:
        sock: of datagrams, bound.
        key: of the cluster's candidates.
        me: this candidate's name.
        wake: has the loop look, from this thread: somebody new asks, or what it said is old.
        timings: how long what was said counts.
    """

    def __init__(
        self,
        sock: socket.socket,
        key: bytes,
        me: str,
        wake: Callable[[], None] = lambda: None,
        timings: ResponderTimings = ORDINARY,
    ) -> None:
        self._timings = timings
        self._sock, self._key, self._me, self._wake = sock, key, me, wake
        self._lock = threading.Lock()
        self._claim: Claim | None = None
        self._until = -inf
        self._newest = 0
        self._standbys: dict[str, Standby] = {}
        self._number = secrets.randbits(62)
        self._sent: OrderedDict[int, float] = OrderedDict()
        self._ends = False
        sock.settimeout(PATIENCE)
        self._thread = threading.Thread(target=self._run, name="liqod-gateway", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more: nobody listens at the port from here on."""
        self._ends = True
        self._sock.close()

    def publish(self, claim: Claim | None, *, at_work: bool, epoch: int) -> None:
        """Report the current state; it is reported for some seconds at most.

        Args:
            claim: the Lease.
            at_work: whether it is ours, and counts.
            epoch: the newest that is known.
        """
        with self._lock:
            before, self._claim = self._claim, claim if at_work else None
            if before is None or claim is None or before.version != claim.version:
                self._standbys.clear()
            self._until = now() + self._timings.hold
            self._newest = max(self._newest, epoch)

    def standbys(self) -> dict[str, Standby]:
        """The states of standbys under the version that is published, by name."""
        with self._lock:
            return {
                name: Standby(each.first, each.acknowledged, each.last_seen, each.address)
                for name, each in self._standbys.items()
            }

    @property
    def newest(self) -> int:
        """The newest epoch that anybody has reported."""
        return self._newest

    def _run(self) -> None:
        while not self._ends:
            began = now()
            for _ in range(BATCH):
                try:
                    data, origin = self._sock.recvfrom(candidatemessages.LARGEST + 1)
                except TimeoutError:
                    break
                except OSError:
                    if self._ends:
                        return
                    continue
                self._take(data, origin)
            else:
                if now() - began < FLOOD:
                    time.sleep(FLOOD)

    def _take(self, data: bytes, origin: tuple[str, int]) -> None:
        question = candidatemessages.read(data, self._key)
        if not isinstance(question, Question) or question.name == self._me:
            return
        with self._lock:
            answer = self._answer(question, now())
        if answer is not None:
            try:
                self._sock.sendto(candidatemessages.encoded(answer, self._key), origin)
            except OSError:
                return  # it asks again

    def _answer(self, question: Question, at: float) -> Answer | None:
        self._newest = max(self._newest, question.epoch)
        if at >= self._until:
            self._wake()
            return None
        self._number += 1
        self._sent[self._number] = at
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        claim, version = self._claim, ""
        name = self._me if claim is not None else ""
        acknowledged = self._sent.get(question.had, -inf)
        fresh = at - acknowledged < self._timings.fresh
        if claim is not None and fresh and self._has_capacity(question.name):
            version = claim.version
            if question.name not in self._standbys:
                self._wake()
            said = self._standbys.setdefault(question.name, Standby(at, acknowledged, at))
            said.acknowledged = max(said.acknowledged, acknowledged)
            said.last_seen, said.address = at, question.address
        return Answer(name, self._number, question.number, self._newest, version)

    def _has_capacity(self, name: str) -> bool:
        return name in self._standbys or len(self._standbys) < STANDBYS
