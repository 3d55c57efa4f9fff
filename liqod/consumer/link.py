"""Whether a peer's API server answers.

One connection carries both questions. Between HTTP probes it is idle, and TCP keep-alive breaks it
within 3 s of the host's vanishing; a probe every 10 s finds the server that accepts and says
nothing. A first failure is confirmed by a second try over a new connection before it counts, so a
vanished host is noticed within 5 s and a frozen server within 25 s.
"""

import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, Protocol
from urllib.parse import urlsplit

import trio

from liqod.consumer.remotes import Remote
from liqod.errors import LiqodError, Unauthorized, Unreachable
from liqod.kube import tls
from liqod.kube.connection import Connection
from liqod.kube.credentials import Credentials
from liqod.kube.wire import KeepAlive, TlsWire, Wire, connect

PROBE_EVERY = 10.0
"""Seconds between HTTP probes while the server answers."""
FIRST_DEADLINE = 2.5
"""Seconds for a probe; with the second try's connection it stays below the 5 s of a lost host."""
SECOND_DEADLINE = 5.0
"""Seconds for the probe that confirms a failure: a server that is only slow gets another chance."""
CONNECT_DEADLINE = 1.5
"""Seconds for a TCP connection: one lost packet is made up for within it."""
KEEP_ALIVE = KeepAlive(idle=1, interval=1, count=2)
RETRY_FIRST, RETRY_LAST = 0.5, 5.0
"""Seconds between tries while the server does not answer, doubling."""
IDLE = "nothing is borrowed"
ANSWERS = "its API server answers"
BODY_LIMIT = 65536


class Line(Protocol):
    """A connection to an API server, held open."""

    async def ask(self, deadline: float) -> None:
        """Ask for something small. Raises a LiqodError where no good answer comes in time."""

    async def idle(self, seconds: float) -> None:
        """Wait that long. Raises Unreachable as soon as the connection breaks."""

    def close(self) -> None:
        """Close it."""


Dial = Callable[[Credentials], Awaitable[Line]]


class Ways(Protocol):
    """The identities at a peer, as far as the link looks (:class:`remotes.Remotes`)."""

    def control(self) -> Remote | None:
        """The control plane's."""

    def any_slice(self) -> Remote | None:
        """Some slice's."""

    async def changed(self) -> None:
        """Wait until one comes, goes or changes."""


class Link:
    """The state of the way to one peer; :meth:`run` finds it out.

    Attributes:
        up: whether the API server answers; true where nothing is borrowed.
        reason: why, in one clause.
        since: epoch second of the last change of ``up``.
        looked: whether the API server was asked at all.
    """

    def __init__(self) -> None:
        self.up = True
        self.reason = IDLE
        self.since = time.time()
        self.looked = False
        self._changed = trio.Event()

    async def wait_changed(self) -> None:
        """Wait until ``up`` or ``reason`` is another than now."""
        await self._changed.wait()

    async def run(
        self,
        remotes: Ways,
        report: Callable[..., None] = lambda *_, **__: None,
        *,
        dial: Dial | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Watch the peer's API server for as long as there is an identity for it.

        Args:
            remotes: the identities.
            report: told of changes (:meth:`liqod.home.Peer.report`).
            dial: makes connections; tests pass their own.
            task_status: started at once.
        """
        task_status.started()
        while True:
            remote = remotes.control() or remotes.any_slice()
            async with trio.open_nursery() as nursery:
                if remote is None:
                    self._set(True, IDLE, report)
                else:
                    nursery.start_soon(self._watch, remote.credentials, dial or dial_server, report)
                await remotes.changed()
                nursery.cancel_scope.cancel()

    async def _watch(
        self, credentials: Credentials, dial: Dial, report: Callable[..., None]
    ) -> NoReturn:
        line: Line | None = None
        failures = 0
        try:
            while True:
                try:
                    line = line or await dial(credentials)
                    await line.ask(SECOND_DEADLINE if failures else FIRST_DEADLINE)
                    failures = 0
                    self._set(True, ANSWERS, report)
                    await line.idle(PROBE_EVERY)
                except LiqodError as error:
                    if line is not None:
                        line.close()
                    line = None
                    failures += 1
                    if failures > 1:
                        self._set(False, str(error), report)
                        await trio.sleep(min(RETRY_FIRST * 2.0 ** (failures - 2), RETRY_LAST))
        finally:
            if line is not None:
                line.close()

    def _set(self, up: bool, reason: str, report: Callable[..., None]) -> None:
        looked = reason != IDLE
        if (up, reason, looked) == (self.up, self.reason, self.looked):
            return
        self.looked = looked
        if up != self.up:
            self.since = time.time()
        self.up, self.reason = up, reason
        report("link", up=up, reason=reason)
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class HttpLine:
    """A kept connection to an API server, asked for ``/version``."""

    def __init__(self, wire: Wire, credentials: Credentials) -> None:
        self._wire = wire
        self._connection = Connection(wire)
        parts = urlsplit(credentials.server)
        lines = [
            f"GET {parts.path.rstrip('/')}/version HTTP/1.1",
            f"Host: {parts.netloc}",
            "User-Agent: liqod",
            "Accept: application/json",
        ]
        if credentials.token:
            lines.append(f"Authorization: Bearer {credentials.token}")
        self._request = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
        self._server = parts.netloc

    async def ask(self, deadline: float) -> None:
        """One exchange within ``deadline`` seconds; 401 and 5xx are no good answers."""
        with trio.move_on_after(deadline):
            head = await self._connection.exchange(self._request)
            await self._connection.body(BODY_LIMIT)
            if head.status == 401:
                raise Unauthorized(f"{self._server} refuses our certificate")
            if head.status >= 500:
                raise Unreachable(f"{self._server} answers {head.status}")
            return
        raise Unreachable(f"{self._server} accepts connections but answers nothing")

    async def idle(self, seconds: float) -> None:
        """Wait; nothing is to come, so whatever comes means that the connection is over."""
        if not self._connection.reusable:
            await trio.sleep(seconds)
            raise Unreachable(f"{self._server} does not keep connections open")
        with trio.move_on_after(seconds):
            await self._wire.receive()
            raise Unreachable(f"{self._server} closed the connection")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


async def dial_server(credentials: Credentials) -> Line:
    """A connection to the API server of these credentials, TLS included.

    Raises:
        Unreachable: nobody accepts, or not within the deadline.
    """
    parts = urlsplit(credentials.server)
    secure = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    wire: Wire | None = None
    with trio.move_on_after(CONNECT_DEADLINE):
        wire = await connect(host, port)
    if wire is None:
        raise Unreachable(f"{parts.netloc} does not answer")
    wire.keep_alive(KEEP_ALIVE)
    if not secure:
        return HttpLine(wire, credentials)
    secured = TlsWire(wire, tls.client_context(credentials), credentials.server_name or host)
    greeted = False
    try:
        with trio.move_on_after(FIRST_DEADLINE):
            await secured.handshake()
            greeted = True
        if not greeted:
            raise Unreachable(f"{parts.netloc} accepts connections but answers nothing")
    except BaseException:
        secured.close()
        raise
    return HttpLine(secured, credentials)
