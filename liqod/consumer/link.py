"""Probes if a peer's API server answers.

One connection carries both probes. Between HTTP probes it is idle, and TCP keep-alive breaks it
soon after the host has vanished; a probe finds a server that accepts and does not answer. A first
failure is confirmed by a second try over a new connection before it counts. The times are in
:mod:`liqod.model.peering.intervals`, with their sums.

This is no controller: it follows a connection, not objects. All others read its result.
"""

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NoReturn, Protocol
from urllib.parse import urlsplit

import trio

from liqod.consumer.degradations import Degradations
from liqod.consumer.happyeyeballs import Path
from liqod.consumer.peerdaemon import PATH, PeerDaemon
from liqod.consumer.remote import Remote
from liqod.consumer.serverdialer import ServerDialer
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import LiqodError, Overloaded, Unauthorized, Unreachable, Untrusted
from liqod.kube import times
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.failures import ApiStatus, retry_after
from liqod.kube.http import proxies, tls
from liqod.kube.http.connection import HttpConnection
from liqod.kube.http.proxies import Dial as TcpDial
from liqod.kube.http.wire import KeepAlive, TlsWire, Wire, acknowledged, connect
from liqod.kube.times import date_of
from liqod.model.peering import roundtrips
from liqod.model.peering.foreigncluster import ANSWERS, REACHED
from liqod.model.peering.intervals import (
    ACKNOWLEDGED_AGAIN,
    ACKNOWLEDGED_EVERY,
    CONNECT_DEADLINE,
    UNACKNOWLEDGED,
)
from liqod.model.view.facts import LinkFacts, LinkProblem, LinkState
from liqod.peers.peer import Peer
from liqod.runtime.observable import Notifier
from liqod.telemetry.events import LinkChanged, TopicEvent

KEEP_ALIVE = KeepAlive(idle=ACKNOWLEDGED_EVERY, interval=ACKNOWLEDGED_AGAIN, count=UNACKNOWLEDGED)
LOST_AGAIN = 30.0
"""Seconds within which single answers that fail to come count as one loss of the connection."""
KEPT_ROUNDS = 100
OVERLOADED = 1.0
"""Seconds before a refusal for overload is confirmed, where the server names no time."""
IDLE = "nothing is borrowed"
BODY_LIMIT = 65536

log = logging.getLogger(__name__)


class Parted(Unreachable):
    """The server has ended a connection as servers do: nothing is wrong with the path to it."""


class ProbeConnection:
    """A kept connection to an API server, to read ``/livez``: the shortest answer there is.

    Now and then it reads the Lease of the peer's daemon instead.
    """

    def __init__(self, wire: Wire, credentials: Credentials) -> None:
        self._wire = wire
        self._connection = HttpConnection(wire)
        parts = urlsplit(credentials.server)
        lines = [f"Host: {parts.netloc}", "User-Agent: liqod"]
        if credentials.token:
            lines.append(credentials.authorization)
        self._root = parts.path.rstrip("/")
        self._head = "\r\n".join(lines) + "\r\n\r\n"
        self._server = parts.netloc

    async def probe(self, deadline: float) -> float | None:
        """One exchange within ``deadline`` seconds; 401, 429 and 5xx are no good answers."""
        date, _, _ = await self._get("/livez", deadline)
        return date

    async def read_lease(self, deadline: float) -> tuple[float | None, int, bytes]:
        """One exchange in the same bounds that reads the Lease of the peer's daemon."""
        return await self._get(PATH, deadline)

    async def _get(self, path: str, deadline: float) -> tuple[float | None, int, bytes]:
        request = f"GET {self._root}{path} HTTP/1.1\r\n{self._head}".encode("ascii")
        with trio.move_on_after(deadline):
            head = await self._connection.exchange(request)
            body = await self._connection.body(BODY_LIMIT)
            if head.status == 401:
                raise Unauthorized(f"{self._server} refuses our certificate")
            if head.status == 429 or head.status >= 500:
                raise Overloaded(
                    f"{self._server} answers {head.status}",
                    retry_after=retry_after(ApiStatus(), head.headers),
                )
            return date_of(head.headers.get("date", "")), head.status, body
        raise Unreachable(f"{self._server} accepts connections but answers nothing")

    async def idle(self, seconds: float) -> None:
        """Wait; nothing is expected, so any data means that the connection is over."""
        if not self._connection.reusable:
            await trio.sleep(seconds)
            raise Parted(f"{self._server} does not keep connections open")
        with trio.move_on_after(seconds):
            await self._wire.receive()
            raise Parted(f"{self._server} closed the connection")

    def acknowledged(self) -> float | None:
        """As :func:`acknowledged` reports of the connection."""
        return acknowledged(self._wire)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


Dial = Callable[[Credentials], Awaitable[ProbeConnection]]


class RemoteIdentities(Protocol):
    """The identities at a peer, as far as its link reads them.

    Not :class:`liqod.consumer.remotes.Remotes` itself, which has the peer, which has its link.
    """

    def control(self) -> Remote | None:
        """The control plane's."""

    def any_slice(self) -> Remote | None:
        """Some slice's."""

    async def changed(self) -> None:
        """Wait until one comes, goes or changes."""


class PeerLink:
    """The state of the connection to one peer; :meth:`run` determines it.

    Args:
        tries: bounds the tries of all peers that do not answer.

    Attributes:
        up: whether the API server answers; true where nothing is borrowed.
        reason: the reason, in one clause.
        problem: the kind of that reason, where it is not the path there.
        since: epoch second of the last change of ``up``.
        probed: whether the API server was probed at all.
        version: the server's ``gitVersion``, as the doctor last read it.
        rounds: seconds of the newest round trips, oldest first; None for one that was lost.
        skew: seconds by which its clock is ahead of ours; None before it has answered.
        reconnections: how often the path was lost and found again: all connections from before
            lead nowhere, though nothing shows it where something in between (a load balancer, a
            proxy, a translator of addresses) keeps this side's end alive.
        degradations: faults although it is up.
        daemon: whether the peer's daemon runs.
        path: the latest path to its API server, ``direct``, ``in-band`` or ``channel``.
    """

    def __init__(
        self, tries: trio.CapacityLimiter | None = None, timings: ConsumerTimings = ORDINARY
    ) -> None:
        self._timings = timings
        self.up = True
        self.reason = IDLE
        self.problem: LinkProblem = ""
        self.since = time.time()
        self.probed = False
        self.version = ""
        self.rounds: deque[float | None] = deque(maxlen=KEPT_ROUNDS)
        self.skew: float | None = None
        self.reconnections = 0
        self._lost_at = float("-inf")
        self._answered_at = float("-inf")
        self._tries = tries or trio.CapacityLimiter(1)
        self._line: ProbeConnection | None = None
        self._rest = trio.CancelScope()
        self._news = Notifier()
        self.degradations = Degradations(self._publish)
        self.daemon = PeerDaemon(timings)
        self.path: Path = "direct"
        self._answer_text = ANSWERS
        self._way: ServerDialer | None = None
        self._figured: tuple[list[float | None], roundtrips.Rounds] = ([], roundtrips.rounds(()))

    @property
    def state(self) -> LinkState:
        """``up``, ``down``, or ``idle`` where nothing is probed."""
        if not self.probed:
            return "idle"
        return "up" if self.up else "down"

    @property
    def since_last_answer(self) -> float | None:
        """Seconds since anything last came back, an answer or an acknowledgement; None: never."""
        answer = trio.current_time() - self._answered_at
        ack = self._line.acknowledged() if self._line is not None else None
        least = answer if ack is None else min(answer, ack)
        return None if least == float("inf") else least

    @property
    def since_last_word(self) -> float | None:
        """Seconds since the server itself last answered; None: never."""
        since = trio.current_time() - self._answered_at
        return None if since == float("inf") else since

    def probe_now(self) -> None:
        """Probe now instead of at the next due time."""
        self._rest.cancel()

    def facts(self) -> LinkFacts:
        """The present state of the link, from memory."""
        silence, taken = self.since_last_answer, list(self.rounds)
        if self._figured[0] != taken:
            self._figured = (taken, roundtrips.rounds(taken))
        rtt, p50, p95, jitter, lost = self._figured[1]
        daemon = self.daemon.verdict
        return LinkFacts(
            state=self.state,
            reason=self.reason,
            path=self.path,
            problem=self.problem,
            since=self.since,
            silence=silence,
            heard=None if silence is None else round(time.time() - silence, 1),
            answered=self.since_last_word,
            rtt=rtt,
            p50=p50,
            p95=p95,
            jitter=jitter,
            loss=roundtrips.lossiness(taken),
            lost=lost,
            skew=self.skew,
            version=self.version,
            degraded=str(self.degradations),
            grave=self.degradations.grave,
            daemon=daemon.state,
            daemon_why=daemon.why,
            daemon_renewed=self.daemon.renewed,
            daemon_quiet=self.daemon.quiet,
            daemon_looked=self.daemon.looked,
        )

    @property
    def healthy(self) -> bool:
        """True if the API server answers, and no grave degradation is known."""
        return self.up and not self.degradations.grave

    @property
    def why(self) -> str:
        """The reason for its health, with the degradations."""
        return f"{self.reason}, but {self.degradations}" if self.degraded else self.reason

    @property
    def degraded(self) -> bool:
        """True if something does not work although it is up."""
        return self.up and bool(self.degradations)

    async def wait_changed(self) -> None:
        """Wait until the state changes."""
        await self._news.wait()

    async def run(
        self,
        remotes: RemoteIdentities,
        report: Callable[[TopicEvent], None] = lambda told: None,
        *,
        dial: Dial | None = None,
        way: ServerDialer | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Watch the peer's API server for as long as there is an identity for it.

        Args:
            remotes: the identities.
            report: called with changes (:meth:`liqod.peers.peer.Peer.report`).
            dial: makes connections; tests pass their own.
            way: gives their path, and the time to try another.
            task_status: started at once.
        """
        task_status.started()
        self._way = way
        while True:
            remote = remotes.control() or remotes.any_slice()
            self.daemon.lose()
            async with trio.open_nursery() as nursery:
                if remote is None:
                    self._set(True, IDLE, report)
                else:
                    nursery.start_soon(self._watch, remote.credentials, dial or self._dial, report)
                await remotes.changed()
                nursery.cancel_scope.cancel()

    async def _dial(self, credentials: Credentials) -> ProbeConnection:
        return await dial_server(credentials, deadline=self._timings.first_deadline)

    async def _watch(
        self, credentials: Credentials, dial: Dial, report: Callable[[TopicEvent], None]
    ) -> NoReturn:
        failures, lost, timings = 0, False, self._timings
        try:
            while True:
                try:
                    if self._way is not None and self._way.path_of(credentials) != self.path:
                        self._hang_up()
                    async with self._tries if failures > 1 else nullcontext():
                        line = self._line = self._line or await dial(credentials)
                        deadline = timings.second_deadline if failures else timings.first_deadline
                        await self._probe(line, deadline, report)
                    if lost:
                        self._found(single=failures == 1)
                    failures, lost = 0, False
                    self._goes(self._way.path_of(credentials) if self._way else "direct")
                    self._set(True, self._answer_text, report)
                    if self._way is not None and self._way.due(credentials):
                        self._hang_up()
                        continue
                    with trio.CancelScope() as self._rest:
                        await line.idle(timings.probe_every)
                except LiqodError as error:
                    self._hang_up()
                    failures += 1
                    lost = lost or (
                        isinstance(error, Unreachable) and not isinstance(error, Parted)
                    )
                    self.rounds.append(None)
                    if failures == 1 and isinstance(error, Overloaded):
                        await trio.sleep(min(error.retry_after or OVERLOADED, timings.retries.last))
                    if failures > 1:
                        self.daemon.lose()
                        self._set(False, str(error), report, _problem(error))
                        with trio.CancelScope() as self._rest:
                            await trio.sleep(timings.retries.delay(failures - 1))
        finally:
            self._hang_up()

    async def _probe(
        self, line: ProbeConnection, deadline: float, report: Callable[[TopicEvent], None]
    ) -> None:
        """One round trip, with its result recorded."""
        began, clock = trio.current_time(), time.time()
        if self.daemon.due():
            date, status, body = await line.read_lease(deadline)
            if self.daemon.saw(status, body, report, date):
                self._publish()
        else:
            date = await line.probe(deadline)
        self._answered_at = trio.current_time()
        took = self._answered_at - began
        self.rounds.append(took)
        if date is not None:
            self.skew = skew(date, clock, took)

    def _found(self, *, single: bool) -> None:
        """Note that the path is back; one missing answer counts only once in a while."""
        now = trio.current_time()
        if single and now - self._lost_at < LOST_AGAIN:
            return
        self._lost_at = now
        self.reconnections += 1
        self._publish()

    def _goes(self, path: Path) -> None:
        """Note the path by which the peer was reached."""
        if path != self.path:
            self.path = path
            self._answer_text = f"{ANSWERS}, {REACHED[path]} since {times.now()}"

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _set(
        self, up: bool, reason: str, report: Callable[[TopicEvent], None], problem: LinkProblem = ""
    ) -> None:
        asked = reason != IDLE
        if (up, reason, asked) == (self.up, self.reason, self.probed):
            return
        self.probed = asked
        if up != self.up:
            self.since = time.time()
            if up and asked:
                log.info("the peer's API server answers again")
            elif not up:
                log.warning("the peer's API server does not answer: %s", reason)
        self.up, self.reason, self.problem = up, reason, problem
        report(LinkChanged(up=up, reason=reason))
        self._publish()

    def _publish(self) -> None:
        self._news.notify()


def _problem(error: LiqodError) -> LinkProblem:
    if isinstance(error, Untrusted):
        return "untrusted"
    return "refused" if isinstance(error, Unauthorized) else ""


def skew(date: float, asked: float, took: float) -> float:
    """Seconds by which a clock is ahead that showed ``date``, cut to the second, in an answer.

    Args:
        date: the time that it showed.
        asked: local Unix time when the request was sent.
        took: seconds until the answer came.

    Returns: 0 as long as both clocks may show the same.
    """
    if date > asked + took:
        return date - asked - took
    return min(date + 1.0 - asked, 0.0)


async def dial_server(
    credentials: Credentials,
    connect: TcpDial = connect,
    *,
    deadline: float = ORDINARY.first_deadline,
) -> ProbeConnection:
    """A connection to the API server of these credentials, TLS included.

    Args:
        credentials: our identity, and the address.
        connect: makes the TCP connection.
        deadline: seconds for the handshake of TLS.

    Raises:
        Unreachable: nothing accepts, or not within the deadline.
        Unauthorized: the server refuses our certificate.
        ConfigError: the credentials cannot be used.
    """
    parts = urlsplit(credentials.server)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    wire: Wire | None = None
    with trio.move_on_after(CONNECT_DEADLINE):
        wire = await proxies.through(connect, credentials.proxy)(host, port)
    if wire is None:
        raise Unreachable(f"{parts.netloc} does not answer")
    try:
        wire.keep_alive(KEEP_ALIVE)
        if secure:
            wire = await _secured(wire, credentials, deadline)
        return ProbeConnection(wire, credentials)
    except BaseException:
        wire.close()
        raise


async def _secured(wire: Wire, credentials: Credentials, deadline: float) -> Wire:
    parts = urlsplit(credentials.server)
    name = credentials.server_name or parts.hostname or ""
    secured = TlsWire(wire, tls.client_context(credentials), name)
    with trio.move_on_after(deadline):
        await secured.handshake()
        return secured
    raise Unreachable(f"{parts.netloc} accepts connections but answers nothing")


@dataclass(eq=False)
class ProviderPeer(Peer):
    """One peer, as this cluster borrows from it.

    Attributes:
        link: whether the peer's API server answers; up where nothing is borrowed.
    """

    link: PeerLink = field(kw_only=True)
