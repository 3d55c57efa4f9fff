"""Selects the endpoint of several that a tunnel sends to: the first to answer, later a better one.

The one before in the list is the better one. An interface has one endpoint at a time, so that all
are probed beside it (:mod:`.asking`), at once, and the one whose answer is there first is taken. A
better one is probed now and then while another is in use, and taken when it has answered several
times in a row. Of a server that answers no probes (Liqo's) each is tried for a moment that grows
from round to round; a better one under way, for where nobody is, what the other side sends from
where it was reached before leads back there by itself.
"""

import socket
from collections.abc import Collection, Iterable, Sequence
from ipaddress import ip_address, ip_network
from math import inf

import msgspec
import trio

from liqod.model.endpoints import join

FIRST_SLOT, LAST_SLOT = 0.5, 5.0
"""Seconds for which a candidate is tried in the first round, and at most."""
SILENCE = 1.0
"""Seconds of silence from which on another endpoint is tried."""
CONFIRMED = 2.0
"""Seconds for which keys agreed on are taken as an answer before the probes confirm it."""
BETTER_FIRST, BETTER_LAST, BETTER_TRIED = 2.0, 60.0, 300.0
"""Seconds until a better one is probed or tried, at first; between probes and between tries at
most."""
SURE, SURE_PAUSE, SURE_MOST = 3, 1.0, 48
"""Answers in a row that a better one has to give before it is taken, seconds between them, and how
many that grows to for one that is lost again and again."""
HELD = 60.0
"""Seconds within which one that was taken and lost is held to come and go."""
OFTEN, OFTEN_FOR, SELDOM = 5.0, 600.0, 300.0
"""Seconds between look-ups of names in silence, for how long, and between those afterwards."""
LOOKUP_DEADLINE = 5.0
MOST = 16
"""Candidates that are tried at all: a name may have many addresses, and another says which."""


class EndpointStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next action of the selection.

    Attributes:
        endpoint: where to send to from now on; None leaves it.
        afresh: whether to agree on keys anew, at once.
        firm: the endpoint has answered, so what the other side sends to where it was reached before
            is not to lead back there.
        again: seconds until the next step; ``inf`` for not before silence.
        race: these are probed at once, until one answers; :meth:`Race.on_first_answer` gets it.
        probe: each of these is probed; :meth:`Race.on_answers` gets those that answered.
    """

    endpoint: str | None = None
    afresh: bool = False
    firm: bool = False
    again: float
    race: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()


class Race:
    """Remembers the endpoints tried. It has no clock and sends nothing."""

    def __init__(self) -> None:
        self._began = -inf
        self._slot = FIRST_SLOT
        self._left = 0
        self._better_at: float | None = None
        self._better_pause = BETTER_FIRST
        self._better = -1
        self._understood = False
        """True once the other side has answered a question."""
        self._streak: dict[str, int] = {}
        """Answers in a row, of those that are better than the one in use."""
        self._lost: dict[str, int] = {}
        """How often one that was taken for being better was lost soon afterwards."""
        self._taken: tuple[str, float] | None = None

    def step(
        self,
        candidates: Sequence[str],
        current: str,
        *,
        silent: float,
        handshake: float,
        now: float,
    ) -> EndpointStep:
        """The next step.

        Args:
            candidates: ``address:port``, the best first.
            current: where packets go now; empty for nowhere.
            silent: seconds since something came.
            handshake: seconds since keys were agreed on; ``inf`` for never.
            now: the time in seconds.
        """
        if not candidates:
            return EndpointStep(again=inf)
        answered = handshake <= now - self._began and now - self._began < CONFIRMED
        if current and silent < SILENCE and handshake < inf:
            self._slot, self._left = FIRST_SLOT, 0
            return self._improve(candidates, current, now)
        self._better_at, self._better_pause = None, BETTER_FIRST
        self._note_loss(current, now)
        waits = self._began + self._slot - now
        if current and (answered or waits > 0):
            return EndpointStep(again=max(waits, 0.1) if not answered else SILENCE)
        return self._next(candidates, current, now)

    def start(self, now: float) -> float:
        """Another machine's last endpoint is tried first; seconds until the next step."""
        self._began = now
        return self._slot

    def on_first_answer(self, endpoint: str, current: str, now: float) -> EndpointStep:
        """Where the first answer of a race came from, empty for nowhere; the step after it."""
        self._understood = self._understood or bool(endpoint)
        if not endpoint or endpoint == current:
            return EndpointStep(again=max(self._began + self._slot - now, 0.1))
        self._began = now
        return EndpointStep(endpoint=endpoint, afresh=True, again=self._slot)

    def on_answers(
        self, answering: Collection[str], candidates: Sequence[str], current: str, now: float
    ) -> EndpointStep:
        """Take note of the endpoints that answered; the step after it."""
        self._understood = self._understood or bool(answering)
        better = candidates[: _rank(candidates, current)]
        if not self._understood:
            return self._roam(better, now)
        self._streak = {each: self._streak.get(each, 0) + 1 for each in better if each in answering}
        if not self._streak:
            return self._wait(now, BETTER_LAST)
        for each in better:
            if self._streak.get(each, 0) >= min(SURE << self._lost.get(each, 0), SURE_MOST):
                self._taken, self._better_pause = (each, now), BETTER_FIRST
                self._better_at = now + BETTER_FIRST
                return EndpointStep(endpoint=each, firm=True, again=BETTER_FIRST)
        self._better_at = now + SURE_PAUSE
        return EndpointStep(again=SURE_PAUSE)

    def _next(self, candidates: Sequence[str], current: str, now: float) -> EndpointStep:
        at = candidates.index(current) + 1 if current in candidates else 0
        self._left -= 1
        if self._left < 0:
            # A round is through, so give each more time.
            first = self._began == -inf
            self._slot = FIRST_SLOT if first else min(self._slot * 2, LAST_SLOT)
            self._left = len(candidates) - 1
        self._began = now
        race = tuple(candidates) if len(candidates) > 1 else ()
        tried = candidates[at % len(candidates)]
        return EndpointStep(endpoint=tried, afresh=True, again=self._slot, race=race)

    def _improve(self, candidates: Sequence[str], current: str, now: float) -> EndpointStep:
        if self._taken is not None and now - self._taken[1] > HELD:
            self._lost.pop(self._taken[0], None)
            self._taken = None
        rank = _rank(candidates, current)
        if rank == 0:
            self._better_at, self._better_pause = None, BETTER_FIRST
            return EndpointStep(again=inf)
        if self._better_at is None:
            self._better_at = now + self._better_pause
        if now < self._better_at:
            return EndpointStep(again=self._better_at - now)
        # A server that is there reports itself whether it answers probes.
        known = () if self._understood else (current,)
        return EndpointStep(again=self._better_pause, probe=(*candidates[:rank], *known))

    def _roam(self, better: Sequence[str], now: float) -> EndpointStep:
        """Try a better one under way, in turn, for the best may be out of reach for good."""
        self._better = (self._better + 1) % len(better)
        again = self._wait(now, BETTER_TRIED).again
        return EndpointStep(endpoint=better[self._better], again=again)

    def _wait(self, now: float, most: float) -> EndpointStep:
        self._better_pause = min(self._better_pause * 2, most)
        self._better_at = now + self._better_pause
        return EndpointStep(again=self._better_pause)

    def _note_loss(self, current: str, now: float) -> None:
        """Silence: where it follows soon on the taking of a better one, that is trusted less."""
        self._streak = {}
        if self._taken is not None and self._taken[0] == current and now - self._taken[1] <= HELD:
            self._lost[current] = self._lost.get(current, 0) + 1
        self._taken = None


def _rank(candidates: Sequence[str], current: str) -> int:
    """How many are better; none than one that was learned from the other side."""
    return candidates.index(current) if current in candidates else 0


def ranked(candidates: Sequence[str], near: Iterable[str]) -> list[str]:
    """Those that are on a network of this machine's own before all others, else as they were.

    Args:
        candidates: ``address:port``.
        near: prefixes of those networks.
    """
    networks = [ip_network(each, strict=False) for each in near]

    def is_far(endpoint: str) -> bool:
        address = ip_address(parted(endpoint)[0])
        return not any(address in network for network in networks)

    return sorted(candidates, key=is_far)


class EndpointResolver:
    """Addresses of endpoints that are named, looked up again when they may have changed."""

    def __init__(self) -> None:
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._resolved_at = -inf
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
            if now - self._resolved_at >= pause or any(
                each not in self._addresses for each in named
            ):
                self._resolved_at = now
                self._addresses = {each: await self._look_up(each) for each in named}
        found = [
            address
            for each in wanted
            for address in ((each,) if is_address(each) else self._addresses[each])
        ]
        return list(dict.fromkeys(found))[:MOST], pause

    async def _look_up(self, endpoint: str) -> tuple[str, ...]:
        try:
            host, port = parted(endpoint)
            with trio.fail_after(LOOKUP_DEADLINE):
                found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        except (OSError, ValueError, UnicodeError, trio.TooSlowError):
            return self._addresses.get(endpoint, ())
        return tuple(dict.fromkeys(join(str(each[4][0]), port) for each in found))


def is_address(endpoint: str) -> bool:
    """True if it names an address, and not a host that has one."""
    try:
        ip_address(parted(endpoint)[0])
    except ValueError:
        return False
    return True


def parted(endpoint: str) -> tuple[str, int]:
    """Name or address, and port, of an endpoint."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)
