"""Requests to one API server as one identity: deadline, retries where they are safe, and streams.

A request is retried when the server reports that it did not execute it (429), when it is idempotent
(reads, and writes with the same content) and the server failed, or when a kept connection turns
out to be dead. All attempts together end at the request's deadline.
"""

import itertools
import random
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.errors import (
    LiqodError,
    Overloaded,
    ProtocolError,
    Unauthorized,
    Unconnected,
    Unreachable,
)
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.credentials.source import CredentialSource
from liqod.kube.failures import EvictionBlocked, TooLarge, error_of, read_status
from liqod.kube.http import proxies, tls
from liqod.kube.http.connection import SWITCHING, ConnectionClosed, Head, HttpConnection
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.http.pool import Pool
from liqod.kube.http.wire import CONNECT_DEADLINE, TlsWire, Wire, connect
from liqod.telemetry.histogram import Histogram

MAX_TRIES = 4
MAX_ERROR = 65536
"""Bytes of an error response that are read."""
MAX_STREAMS = 1024
"""Most watches and logs open at once: far more than are used."""
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
"""Methods that are idempotent as this project uses them."""


class ApiRequest(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        method: in upper case.
        target: path and query, relative to the server's URL.
        label: its name in statistics: verb and kind.
        headers: more headers, beside those of every request.
        body: its body.
        limit: bytes of the response that are read.
        urgent: whether it must not wait behind others for a connection.
        upgrade: whether it requests another protocol on its connection.
    """

    method: str
    target: str
    label: tuple[str, str]
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    limit: int = 2 << 20
    urgent: bool = False
    upgrade: bool = False


class ApiResponse(NamedTuple):
    """A complete response."""

    head: Head
    body: bytes

    @property
    def status(self) -> int:
        """HTTP status, always a success."""
        return self.head.status

    @property
    def headers(self) -> dict[str, str]:
        """Names are in lower case."""
        return self.head.headers


class Upgraded(NamedTuple):
    """A connection that speaks another protocol from now on; its owner closes it.

    Attributes:
        headers: headers of the response that switched; names in lower case.
        wire: the connection.
        early: bytes received after the response head.
    """

    headers: dict[str, str]
    wire: Wire
    early: bytes


class ClientStats:
    """Counters of one client; read them, do not write them.

    Attributes:
        requests: number of requests by (verb, kind), each try counted.
        answers: number of responses by (verb, kind, HTTP status); status 0 for none received.
        took: seconds until their head, by verb.
        retries: attempts after the first.
        connections: connections made.
        bytes_in: bytes received, without TLS's own.
        bytes_out: bytes sent, without TLS's own.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.answers: Counter[tuple[str, str, int]] = Counter()
        self.took: dict[str, Histogram] = {}
        self.retries = 0
        self.connections = 0
        self.bytes_in = 0
        self.bytes_out = 0


class ApiStream:
    """A response with a streamed body; iterate, or call :meth:`receive`.

    Attributes:
        status: HTTP status, always a success.
        headers: names in lower case.
        connection: its connection; for its keep-alive.
    """

    def __init__(self, head: Head, connection: HttpConnection, stats: ClientStats) -> None:
        self.status = head.status
        self.headers = head.headers
        self.connection = connection
        self._stats = stats
        self._counted = 0

    async def receive(self) -> bytes:
        """Receive the next bytes, ``b""`` at the end. Raises Unreachable when it breaks off."""
        try:
            return await self.connection.chunk()
        finally:
            self._stats.bytes_in += self.connection.bytes_in - self._counted
            self._counted = self.connection.bytes_in

    def __aiter__(self) -> "ApiStream":
        return self

    async def __anext__(self) -> bytes:
        data = await self.receive()
        if not data:
            raise StopAsyncIteration
        return data


class Transport:
    """Sends requests to one API server. Owns the connections.

    Args:
        credentials: the identity and the server.
        connections: most concurrent requests; streams have connections of their own.
        user_agent: value of the ``User-Agent`` header.
        dial: makes connections.
        budget: CPU budget of the peer, if the server is a peer's.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        connections: int,
        user_agent: str,
        dial: proxies.Dial = connect,
        budget: CpuBudget | None = None,
    ) -> None:
        self._budget = budget
        # Requests may come from tasks that began before any channel was set.
        self._channels = proxies.CHANNELS.get()
        self.stats = ClientStats()
        self.source = CredentialSource(credentials)
        self._agent = user_agent
        self._dial = dial
        self._pool = Pool(self._open, connections)
        self._streams = 0
        self._latest: Credentials | None = None
        self._identity: tuple[object, ...] | None = None
        self._context: ssl.SSLContext | None = None
        self._session: ssl.SSLSession | None = None
        self._prefixed: Credentials | None = None
        self._path = self._common = ""

    def busy(self) -> tuple[int, int, int]:
        """Counts of requests in progress, requests waiting for a connection, and open streams."""
        return self._pool.lent, self._pool.waiting, self._streams

    def tidy(self) -> None:
        """Close the connections that were idle for too long."""
        self._pool.tidy()

    def reconnect(self) -> None:
        """Close idle connections now, and lent ones when they come back."""
        self._pool.renew()

    def close(self) -> None:
        """Close idle connections, and lent ones when they come back."""
        self._pool.close()

    async def send(self, request: ApiRequest, deadline: float) -> ApiResponse:
        """Send a request; returns the response if it is a success.

        Raises:
            LiqodError: the error for the server's error response, or Unreachable.
        """
        try:
            with trio.move_on_after(deadline) as scope:
                return await self._persist(request, scope)
            raise Unreachable(_late(request, deadline))
        except Unreachable as error:
            raise self._named(error) from error

    @asynccontextmanager
    async def open(self, request: ApiRequest, deadline: float) -> AsyncIterator[ApiStream]:
        """Open a response to be read as it comes, on a connection of its own.

        Args:
            request: the request.
            deadline: seconds until the response head must have come.

        Raises the same as :meth:`send`.
        """
        if self._streams >= MAX_STREAMS:
            raise Overloaded(f"more than {MAX_STREAMS} streams at once")
        self._streams += 1
        try:
            try:
                stream = await self._start(request, deadline)
            except Unreachable as error:
                raise self._named(error) from error
            try:
                yield stream
            finally:
                stream.connection.close()
        finally:
            self._streams -= 1

    async def upgrade(self, request: ApiRequest, deadline: float) -> Upgraded:
        """Open a connection that the server has switched to the requested protocol.

        Args:
            request: the request; its ``upgrade`` is set.
            deadline: seconds until the server must have switched.

        Raises the same as :meth:`send`, and ProtocolError where it answers without switching.
        """
        try:
            stream = await self._start(request, deadline)
        except Unreachable as error:
            raise self._named(error) from error
        connection = stream.connection
        return Upgraded(stream.headers, connection.wire, connection.early)

    async def _start(self, request: ApiRequest, deadline: float) -> ApiStream:
        """Open a stream and read its head; a refused credential is renewed once."""
        with trio.move_on_after(deadline):
            credentials = await self._credentials()
            try:
                return await self._send_request(request, credentials)
            except Unauthorized:
                if not await self.source.refused(credentials):
                    raise
            return await self._send_request(request, await self._credentials())
        raise Unreachable(_late(request, deadline))

    async def _send_request(self, request: ApiRequest, credentials: Credentials) -> ApiStream:
        connection = await self._open()
        try:
            head = await self._exchange(connection, request, credentials)
            if head.status >= 300:
                raise await self._refusal(connection, head)
            if request.upgrade and head.status != SWITCHING:
                raise ProtocolError(f"the server answers {head.status} and does not switch")
        except BaseException:
            connection.close()
            raise
        if self._session is None:  # watches may be all that has been opened
            self._remember_session(connection.wire)
        return ApiStream(head, connection, self.stats)

    async def _persist(self, request: ApiRequest, scope: trio.CancelScope) -> ApiResponse:
        """Retry until success, until a retry is unsafe or useless, or the deadline is near."""
        fresh = renewed = False
        for attempt in itertools.count(1):
            self.stats.retries += attempt > 1
            credentials = await self._credentials()
            try:
                return await self._attempt(request, credentials, fresh=fresh)
            except ConnectionClosed as error:
                if fresh or (error.sent and request.method not in REPEATABLE):
                    raise
                fresh = True
            except Unauthorized:
                if renewed or not await self.source.refused(credentials):
                    raise
                renewed = True
            except Overloaded as error:
                pause = _pause(error, attempt)
                late = trio.current_time() + pause >= scope.deadline
                if attempt >= MAX_TRIES or late or not _may_repeat(request, error):
                    raise
                await trio.sleep(pause)
        raise AssertionError("unreachable")

    async def _attempt(
        self, request: ApiRequest, credentials: Credentials, *, fresh: bool
    ) -> ApiResponse:
        loan = await self._pool.borrow(fresh=fresh, urgent=request.urgent)
        connection = loan.connection
        before = connection.bytes_in
        first = not connection.used
        try:
            head = await self._exchange(connection, request, credentials)
            if head.status >= 300:
                raise await self._refusal(connection, head)
            body = await connection.body(request.limit)
        finally:
            self.stats.bytes_in += connection.bytes_in - before
            self._pool.give_back(loan)
        if first:
            self._remember_session(connection.wire)
        return ApiResponse(head, body)

    def _remember_session(self, wire: Wire) -> None:
        """Keep the TLS session for resumption; once per connection, as reading it costs 0.4 ms."""
        if isinstance(wire, TlsWire) and wire.context is self._context:
            self._session = wire.session

    async def _exchange(
        self, connection: HttpConnection, request: ApiRequest, credentials: Credentials
    ) -> Head:
        self.stats.requests[request.label] += 1
        data = self._encode(request, credentials)
        before, began, status = connection.bytes_out, trio.current_time(), 0
        try:
            head = await connection.exchange(data, upgrade=request.upgrade)
            status = head.status
            return head
        finally:
            verb, kind = request.label
            self.stats.bytes_out += connection.bytes_out - before
            self.stats.answers[verb, kind, status] += 1
            self.stats.took.setdefault(verb, Histogram()).add(trio.current_time() - began)

    async def _refusal(self, connection: HttpConnection, head: Head) -> LiqodError:
        try:
            body = await connection.body(MAX_ERROR)
        except TooLarge:
            body = b""
        return error_of(read_status(body, head.status), head.headers)

    async def _credentials(self) -> Credentials:
        """The credentials to use; if they need other connections, the old ones drain."""
        credentials = await self.source.current()
        if credentials is not self._latest:
            self._latest = credentials
            if (identity := tls.identity(credentials)) != self._identity:
                self._identity = identity
                self._context = self._session = None
                self._pool.renew()
        return credentials

    async def _open(self) -> HttpConnection:
        """A new connection. Raises Unreachable, Unauthorized or ConfigError."""
        credentials = self.source.peek()
        parts = urlsplit(credentials.server)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with trio.move_on_after(CONNECT_DEADLINE):
            wire = await proxies.through(self._dial, credentials.proxy, self._channels)(host, port)
            if parts.scheme == "https":
                wire = await self._secure(wire, credentials, host)
            self.stats.connections += 1
            return HttpConnection(wire, self._budget)
        raise Unreachable(f"no connection within {CONNECT_DEADLINE:g} s")

    async def _secure(self, wire: Wire, credentials: Credentials, host: str) -> Wire:
        try:
            context, session = self._tls(credentials)
            name = credentials.server_name or host
            secured = TlsWire(wire, context, name, session)
            await secured.handshake()
        except BaseException:
            wire.close()
            raise
        return secured

    def _tls(self, credentials: Credentials) -> tuple[ssl.SSLContext, ssl.SSLSession | None]:
        """The TLS context and session of a connection; kept while the identity is this one."""
        if tls.identity(credentials) != self._identity:
            # Renewed while this one connected: if kept, all connections would use the old one.
            return tls.client_context(credentials), None
        if self._context is None:
            self._context = tls.client_context(credentials)
        return self._context, self._session

    def _encode(self, request: ApiRequest, credentials: Credentials) -> bytes:
        if credentials is not self._prefixed:  # the part common to all requests
            parts = urlsplit(credentials.server)
            lines = [f"Host: {parts.netloc}", f"User-Agent: {self._agent}"]
            if credentials.token:
                lines.append(credentials.authorization)
            self._path, self._common = parts.path, "\r\n".join(lines)
            self._prefixed = credentials
        more = "".join([f"\r\n{name}: {value}" for name, value in request.headers])
        start = f"{request.method} {self._path}{request.target} HTTP/1.1\r\n{self._common}{more}"
        if request.body is None:
            return f"{start}\r\n\r\n".encode("latin-1")
        head = f"{start}\r\nContent-Length: {len(request.body)}\r\n\r\n"
        return head.encode("latin-1") + request.body

    def _named(self, error: Unreachable) -> Unreachable:
        """The error with the name of the server that cannot be reached."""
        kind = Unconnected if isinstance(error, Unconnected) else Unreachable
        return kind(f"{self.source.peek().server}: {error}")


def _late(request: ApiRequest, deadline: float) -> str:
    path = request.target.partition("?")[0]
    return f"no answer to {request.method} {path} within {deadline:g} s"


def _may_repeat(request: ApiRequest, error: Overloaded) -> bool:
    if isinstance(error, EvictionBlocked):
        return False
    return error.status == 429 or request.method in REPEATABLE


def _pause(error: Overloaded, attempt: int) -> float:
    """Seconds to wait: those that the server requests, or 0.1, 0.2, 0.4 …, plus some jitter."""
    asked = 0.1 * 2.0 ** (attempt - 1) if error.retry_after is None else error.retry_after
    return asked * (1.0 + random.random() / 2)
