"""Requests to one API server as one identity: deadline, retries where they are safe, and streams.

A request is tried again when the server says that it did not do it (429), when it may be done twice
without harm (reads, and writes that say the same thing twice) and the server failed, or when a kept
connection turns out to be dead. All tries together end at the request's deadline.
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
"""Bytes of a refusal that are read."""
MAX_STREAMS = 1024
"""Watches and logs open at once: far more than are used, and a bound all the same."""
REPEATABLE = frozenset({"GET", "HEAD", "PUT", "PATCH", "DELETE"})
"""Methods whose second execution does no harm, as this project uses them."""


class ApiRequest(msgspec.Struct, frozen=True):
    """One request.

    Attributes:
        method: in upper case.
        target: path and query, relative to the server's URL.
        label: what statistics call it: verb and kind.
        headers: more headers, beside those that every request has.
        body: its body.
        limit: bytes of an answer that are read.
        urgent: whether it must not wait behind others for a connection.
        upgrade: whether it asks for another protocol on its connection.
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
    """A complete answer."""

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
        headers: of the answer that said so; names in lower case.
        wire: carries it.
        early: what came behind that head.
    """

    headers: dict[str, str]
    wire: Wire
    early: bytes


class ClientStats:
    """Counters of one client; read them, do not write them.

    Attributes:
        requests: number of requests by (verb, kind), each try counted.
        answers: number of answers by (verb, kind, HTTP status); 0 for those that never came.
        took: how long they took to begin, by verb.
        retries: tries after the first.
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
    """An answer whose body comes bit by bit; iterate, or call :meth:`receive`.

    Attributes:
        status: HTTP status, always a success.
        headers: names in lower case.
        connection: carries it; for its keep-alive.
    """

    def __init__(self, head: Head, connection: HttpConnection, stats: ClientStats) -> None:
        self.status = head.status
        self.headers = head.headers
        self.connection = connection
        self._stats = stats
        self._counted = 0

    async def receive(self) -> bytes:
        """The bytes that have come, ``b""`` at the end. Raises Unreachable when it breaks off."""
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
    """Sends requests. Owns the connections.

    Args:
        credentials: who we are, and where.
        connections: bound of requests under way at once; streams have connections of their own.
        user_agent: how we name ourselves.
        dial: makes connections.
        budget: of the peer whose server it is, if it is one's.
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
        # Requests may be made by tasks that were begun before any channel was kept.
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
        """How many requests are under way, how many wait for a connection, and open streams."""
        return self._pool.lent, self._pool.waiting, self._streams

    def tidy(self) -> None:
        """Close the connections that were idle for too long."""
        self._pool.tidy()

    def reconnect(self) -> None:
        """Close the idle connections now, and the others as they come back."""
        self._pool.renew()

    def close(self) -> None:
        """Close the connections that are not in use, and the others as they come back."""
        self._pool.close()

    async def send(self, request: ApiRequest, deadline: float) -> ApiResponse:
        """The answer, when it is a success.

        Raises:
            LiqodError: the one that stands for the server's refusal, or Unreachable.
        """
        try:
            with trio.move_on_after(deadline) as scope:
                return await self._persist(request, scope)
            raise Unreachable(_late(request, deadline))
        except Unreachable as error:
            raise self._named(error) from error

    @asynccontextmanager
    async def open(self, request: ApiRequest, deadline: float) -> AsyncIterator[ApiStream]:
        """An answer to be read as it comes, on a connection of its own.

        Args:
            request: what to ask for.
            deadline: seconds until its head must be there.

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
        """A connection of its own that the server has switched to what the request asks for.

        Args:
            request: what to ask for; its ``upgrade`` is set.
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
        """A stream whose head is in; a refused credential is renewed once."""
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
        return ApiStream(head, connection, self.stats)

    async def _persist(self, request: ApiRequest, scope: trio.CancelScope) -> ApiResponse:
        """Try until it works, trying again is unsafe or useless, or the deadline is near."""
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
        """Keep what resumes the TLS session; once per connection, for asking costs 0.4 ms."""
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
        """The credentials to use; when they ask for other connections, old ones drain."""
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
            # Renewed while this one connected: kept, it would be everybody's from here on.
            return tls.client_context(credentials), None
        if self._context is None:
            self._context = tls.client_context(credentials)
        return self._context, self._session

    def _encode(self, request: ApiRequest, credentials: Credentials) -> bytes:
        if credentials is not self._prefixed:  # what is the same in all requests
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
        """The error that says which server cannot be reached."""
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
    """Seconds to wait: what the server asks for, or 0.1, 0.2, 0.4 …, and some jitter on top."""
    asked = 0.1 * 2.0 ** (attempt - 1) if error.retry_after is None else error.retry_after
    return asked * (1.0 + random.random() / 2)
