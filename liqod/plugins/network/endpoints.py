"""Which of several endpoints a tunnel sends to: the first that answers, a better one later.

The one before in the list is the better one. An interface has one endpoint at a time, so that
candidates are tried one after the other, each for a moment that grows from round to round. A better
one is tried under way without risk: where nobody is, what the other side sends from where it was
reached before leads back there by itself.
"""

import socket
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from math import inf

import msgspec
import trio

FIRST_SLOT, LAST_SLOT = 0.5, 5.0
"""Seconds for which a candidate is tried in the first round, and at most."""
SILENCE = 1.0
"""Seconds of silence from which on another endpoint is tried."""
CONFIRMED = 2.0
"""Seconds for which keys agreed on are taken as an answer before the probes say so too."""
BETTER_FIRST, BETTER_LAST = 10.0, 300.0
"""Seconds between tries of a better one, at first and at most."""
OFTEN, OFTEN_FOR, SELDOM = 5.0, 600.0, 300.0
"""Seconds between look-ups of names in silence, for how long, and between those afterwards."""
LOOKUP_DEADLINE = 5.0
MOST = 16
"""Candidates that are tried at all: a name may have many addresses, and another says which."""


class Step(msgspec.Struct, frozen=True):
    """What to do now.

    Attributes:
        endpoint: where to send to from now on; None leaves it.
        afresh: whether to agree on keys anew, at once.
        again: seconds until the next step; ``inf`` for not before silence.
    """

    endpoint: str | None
    afresh: bool
    again: float


class Race:
    """Remembers what was tried. It has no clock and sends nothing."""

    def __init__(self) -> None:
        self._began = -inf
        self._slot = FIRST_SLOT
        self._left = 0
        self._better_at: float | None = None
        self._better_pause = BETTER_FIRST
        self._better = -1

    def step(
        self,
        candidates: Sequence[str],
        current: str,
        *,
        silent: float,
        handshake: float,
        now: float,
    ) -> Step:
        """The next step.

        Args:
            candidates: ``address:port``, the best first.
            current: where packets go now; empty for nowhere.
            silent: seconds since something came.
            handshake: seconds since keys were agreed on; ``inf`` for never.
            now: the time in seconds.
        """
        if not candidates:
            return Step(None, False, inf)
        answered = handshake <= now - self._began and now - self._began < CONFIRMED
        if current and silent < SILENCE and handshake < inf:
            self._slot, self._left = FIRST_SLOT, 0
            return self._improve(candidates, current, now)
        self._better_at, self._better_pause = None, BETTER_FIRST
        waits = self._began + self._slot - now
        if current and (answered or waits > 0):
            return Step(None, False, max(waits, 0.1) if not answered else SILENCE)
        return self._next(candidates, current, now)

    def _next(self, candidates: Sequence[str], current: str, now: float) -> Step:
        at = candidates.index(current) + 1 if current in candidates else 0
        self._left -= 1
        if self._left < 0:
            # A round is through, so give each more time.
            first = self._began == -inf
            self._slot = FIRST_SLOT if first else min(self._slot * 2, LAST_SLOT)
            self._left = len(candidates) - 1
        self._began = now
        return Step(candidates[at % len(candidates)], True, self._slot)

    def _improve(self, candidates: Sequence[str], current: str, now: float) -> Step:
        rank = candidates.index(current) if current in candidates else 0
        if rank == 0:
            self._better_at, self._better_pause = None, BETTER_FIRST
            return Step(None, False, inf)
        if self._better_at is None:
            self._better_at = now + self._better_pause
        if now < self._better_at:
            return Step(None, False, self._better_at - now)
        # In turn, for the best may be out of reach for good.
        self._better = (self._better + 1) % rank
        self._better_pause = min(self._better_pause * 2, BETTER_LAST)
        self._better_at = now + self._better_pause
        return Step(candidates[self._better], False, self._better_pause)


class Names:
    """Addresses of endpoints that are named, looked up again when they may have changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self._asked = -inf
        self._silent_since = inf

    async def candidates(
        self, endpoints: Iterable[str], *, silent: float, now: float
    ) -> tuple[list[str], float]:
        """The addresses, and after how many seconds to look again.

        A name that cannot be looked up keeps the addresses that it had.
        """
        wanted = list(dict.fromkeys(endpoints))
        named = [each for each in wanted if not is_address(each)]
        pause = inf
        if named:
            self._silent_since = min(self._silent_since, now) if silent >= SILENCE else inf
            often = now - self._silent_since < OFTEN_FOR if silent >= SILENCE else False
            pause = OFTEN if often else SELDOM
            if now - self._asked >= pause or any(each not in self._known for each in named):
                self._asked = now
                self._known = {each: await self._look_up(each) for each in named}
        found = [
            address
            for each in wanted
            for address in ((each,) if is_address(each) else self._known[each])
        ]
        return list(dict.fromkeys(found))[:MOST], pause

    async def _look_up(self, endpoint: str) -> tuple[str, ...]:
        host, _, port = endpoint.rpartition(":")
        try:
            with trio.fail_after(LOOKUP_DEADLINE):
                found = await trio.socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
        except (OSError, ValueError, UnicodeError, trio.TooSlowError):
            return self._known.get(endpoint, ())
        return tuple(dict.fromkeys(joined(str(each[4][0]), int(port)) for each in found))


def is_address(endpoint: str) -> bool:
    """Whether it names an address, and not a host that has one."""
    try:
        ip_address(endpoint.rpartition(":")[0].strip("[]"))
    except ValueError:
        return False
    return True


def joined(address: str, port: int) -> str:
    """Address and port as an endpoint."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
