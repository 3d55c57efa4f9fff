"""A small HTTP/1.1 server on Trio, used by all HTTP endpoints of liqod.

The webhook, the metrics, the kubelet API and the simulated API servers share it. A handler gets
a whole :class:`HttpRequest` (bounded in size) and returns a :class:`HttpResponse` whose body is
bytes or an async iterator that is sent in chunks. A client that misbehaves (garbage, silence,
floods, half requests, not reading) loses its connection and does not affect other clients.
"""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import trio

from liqod.errors import Unauthorized, Unreachable
from liqod.kube.http.cpubudget import Metered, SourceBudgets
from liqod.kube.http.parser import HttpRequest, Limits, RequestParser
from liqod.kube.http.wire import TlsWire, Wire, wire_of
from liqod.runtime.connectionlimit import ConnectionLimiter, ConnectionSlot, address_of, serve_one
from liqod.runtime.log import Seldom
from liqod.runtime.tlspump import NOTHING

log = logging.getLogger(__name__)

__all__ = [
    "ConnectionTakeover",
    "Drop",
    "HttpRequest",
    "HttpResponse",
    "Limits",
    "Silence",
    "serve",
]

LINGER = 1.0
"""Seconds that a client has to receive the end of the connection."""
PIECE = 16384
"""Bytes that are parsed at once: they bound the small requests held before their responses."""
CHEAP = 0.001
"""Seconds that receiving an ordinary request takes at most; in tiny pieces it takes more."""
ORDINARY = 1 << 17
"""Bytes up to which an answered request is not counted: the review of a large pod has less."""
MOST = 4096
MOST_HELD = 256 << 20
"""Default limits of connections, and of bytes of unanswered requests."""
SWEEP = 1 << 20
"""Bytes that are read from a refused client, so that it can read the reason."""

_REASONS = {each.value: each.phrase for each in HTTPStatus}
_seldom = Seldom()


class HttpResponse(msgspec.Struct):
    """The response of a handler.

    Attributes:
        status: the HTTP status.
        body: all of it, or an async iterator sent piece by piece (``Transfer-Encoding: chunked``)
            that is closed when the client leaves.
        headers: further headers; framing headers are the server's.
        takeover: with status 101, the handler of the connection from then on.
    """

    status: int = 200
    body: bytes | AsyncIterator[bytes] = b""
    headers: dict[str, str] = {}
    takeover: "ConnectionTakeover | None" = None


class ConnectionTakeover(Protocol):
    """A handler of another protocol on a connection."""

    async def run(self, wire: Wire, early: bytes, /) -> None:
        """Run the protocol to its end; ``early`` has come already. The server owns the wire."""

    def close(self) -> None:
        """Close its own resources: the connection is over, or will not begin."""


class Drop(Exception):
    """Raised by a handler or a body: close the connection without another byte."""


class Silence(Exception):
    """Raised by a handler: hold the connection without a response until the client leaves."""


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
Secured = ssl.SSLContext | Callable[[], ssl.SSLContext] | None
"""The TLS context of connections: one for all, or a function called for each; None: plain HTTP."""
Open = Callable[..., Awaitable[Sequence[trio.abc.Listener[Any]]]]


async def serve(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    open_listeners: Open = trio.open_tcp_listeners,
    ssl_context: Secured = None,
    limits: Limits | None = None,
    places: ConnectionLimiter | None = None,
    answered: ConnectionLimiter | None = None,
    budgets: SourceBudgets | None = None,
    stop: trio.Event | None = None,
    gate: Callable[[], Awaitable[None]] | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled, or until ``stop`` is set; starts with the port in use.

    After ``stop`` no connection is accepted, idle ones and endless bodies are ended, and
    requests in progress have ``limits.grace`` seconds to finish. ``gate`` is awaited before each
    new connection is served: a server that simulates an outage keeps it shut. ``open_listeners``
    opens the listeners; tests have some without sockets. ``places`` are those of connections,
    ``answered`` of those that had a response which was no refusal; None: the same ones.
    ``budgets`` is the CPU time that clients may take if ``limits`` are paced.

    Raises:
        OSError: the address cannot be bound.
    """
    bounds = limits or Limits()
    at_first = ConnectionLimiter(MOST, max_buffered=MOST_HELD) if places is None else places
    shared = _SharedLimits(
        at_first, at_first if answered is None else answered, budgets or SourceBudgets()
    )
    listeners = await open_listeners(port, host=host, backlog=512)

    async def welcome(stream: trio.abc.Stream) -> None:
        if gate is not None:
            await gate()
        source = address_of(stream)
        wire = wire_of(stream)
        try:
            if bounds.paced and shared.budgets.of(source).spent:
                shared.places.refuse(source, "time")
                return
            await _Connection(wire, source, handler, bounds, ssl_context, shared).run()
        finally:
            wire.close()

    async with trio.open_nursery() as connections, trio.open_nursery() as acceptors:
        for listener in listeners:
            acceptors.start_soon(serve_one, welcome, listener, connections)
        first = listeners[0]
        bound = first.socket.getsockname()[1] if isinstance(first, trio.SocketListener) else port
        task_status.started(bound)
        if stop is not None:
            await stop.wait()
            acceptors.cancel_scope.cancel()
            shared.stop()
            connections.cancel_scope.deadline = trio.current_time() + bounds.grace
    for listener in listeners:
        await listener.aclose()


class _SharedLimits:
    """The connections of one server.

    Attributes:
        budgets: the CPU budget of each source.
        stopping: set when no more requests are served.
    """

    def __init__(
        self, places: ConnectionLimiter, answered: ConnectionLimiter, budgets: SourceBudgets
    ) -> None:
        self.places, self.answered, self.budgets = places, answered, budgets
        self.stopping = trio.Event()
        self.members: set[_Connection] = set()

    def stop(self) -> None:
        """End idle connections; the others end after their current response."""
        self.stopping.set()
        for each in list(self.members):
            each.stop()


class _Connection:
    """The connection of one client: reads and answers requests, each step within its limit."""

    def __init__(
        self,
        wire: Wire,
        source: str,
        handler: Handler,
        limits: Limits,
        ssl_context: Secured,
        shared: _SharedLimits,
    ) -> None:
        self._wire = wire
        self._source = source
        self._scope = trio.CancelScope()
        self._place: ConnectionSlot | None = None
        self._streaming = False
        self._handler = handler
        self._limits = limits
        self._ssl_context = ssl_context
        self._shared = shared
        self._arrived = NOTHING
        self._served = False
        self._taken: tuple[ConnectionTakeover, bytes] | None = None
        self._receiving = 0.0
        self._inbox = RequestParser(limits)

    async def run(self) -> None:
        """Serve this client until it leaves, breaks the rules, or must go."""
        self._place = self._shared.places.enter(self._source, self._scope, forget=self._forget)
        if self._place is None:
            return
        self._shared.members.add(self)
        try:
            with self._scope:
                shaking = Metered(self._handshake())
                await shaking
                if self._inbox.peer_certificate is None:  # not authenticated by TLS
                    await self._spend(shaking.used)
                while await self._turn():
                    pass
                if self._taken is not None:
                    await self._hand_over(*self._taken)
                with trio.move_on_after(LINGER):
                    await self._wire.finish()
        except (Unreachable, Unauthorized, Drop, trio.TooSlowError) as reason:
            log.debug("connection ended: %r", reason)  # ended by the client: log only
        finally:
            self._forget()
            self._shared.members.discard(self)
            self._place.release()

    def stop(self) -> None:
        """End it, unless a request is in progress whose response has an end."""
        if self._streaming or (self._place is not None and self._place.idle):
            self._scope.cancel()

    def _forget(self) -> None:
        """Release all that the client has sent."""
        self._arrived = NOTHING
        self._inbox.forget()
        self._weigh(0)

    def _weigh(self, buffered: int) -> bool:
        assert self._place is not None
        return self._place.weigh(buffered)

    def _promote(self) -> bool:
        """Move to the places of answered clients; False if none is free."""
        assert self._place is not None
        known = self._shared.answered
        if self._place.places is known:
            return True
        place = known.enter(self._source, self._scope, idle=False, forget=self._forget)
        if place is None:
            return False
        held = self._place.buffered
        self._place.weigh(0)
        self._place.release()
        self._place = place
        return place.weigh(held)

    async def _handshake(self) -> None:
        context = self._ssl_context
        if context is None:
            return
        if not isinstance(context, ssl.SSLContext):
            context = context()
        secured = TlsWire(self._wire, context, None)
        with trio.fail_after(self._limits.request):
            await secured.handshake()
        self._wire = secured
        self._inbox.peer_certificate = secured.peer_certificate

    async def _spend(self, used: float) -> None:
        """Count CPU time, and pause if the client's address has used its share."""
        if self._limits.paced:
            await self._shared.budgets.of(self._source).spend(used)

    async def _turn(self) -> bool:
        """Handle one request and its response; False when the connection is over."""
        request = await self._next()
        if request is None:
            return False
        self._be_idle(False)
        answering = Metered(self._answer(request))
        again = await answering
        ordinary = self._served and len(request.body) <= ORDINARY
        if not ordinary and self._taken is None:  # a takeover would not be closed if this ends
            await self._spend(answering.used)
        elif self._limits.paced:
            # Answered ordinary requests are the purpose of the server: a burst of new pods comes
            # from one address, the API server's. The time of receiving them is given back.
            used = -min(self._receiving, CHEAP) if ordinary else answering.used
            self._shared.budgets.of(self._source).charge(used)
        self._receiving = 0.0
        if self._taken is not None:
            return False
        self._be_idle(True)
        self._weigh(self._inbox.buffered)
        return again and request.keep_alive and not self._shared.stopping.is_set()

    def _be_idle(self, idle: bool) -> None:
        assert self._place is not None
        self._place.idle = idle

    async def _next(self) -> HttpRequest | None:
        inbox, started, used = self._inbox, False, 0.0
        deadline = trio.current_time() + self._limits.idle
        while not inbox.ready:
            if inbox.fault:
                await self._refuse(inbox.fault)
                return None
            if inbox.started and not started:
                started = True
                deadline = trio.current_time() + self._limits.request
            if inbox.take_expectation():
                await self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
            if not self._arrived:
                receiving = Metered(self._wire.receive())
                with trio.move_on_at(deadline) as waiting:
                    self._arrived = memoryview(await receiving)
                if waiting.cancelled_caught:
                    if started:
                        await self._refuse(408)
                    return None
                if not self._arrived:
                    return None
                used = receiving.used
            fits = self._feed()  # the pause comes when the received bytes are counted
            self._receiving += used
            await self._spend(used)
            if not fits:
                await self._refuse(503)
                return None
            used = 0.0
        return inbox.ready.popleft()

    def _feed(self) -> bool:
        """Parse a piece of the received bytes; False if this server holds too much already."""
        piece, rest = self._arrived[:PIECE], self._arrived[PIECE:]
        self._arrived = rest or NOTHING
        self._inbox.feed(bytes(piece))
        return self._weigh(self._inbox.buffered + len(self._arrived))

    async def _refuse(self, status: int) -> None:
        """Send an error status, and let the client read it before closing."""
        self._forget()
        await self._send(_head(status, {"content-length": "0"}, keep=False))
        swept, sweep = 0, PIECE if self._limits.paced else SWEEP
        with trio.move_on_after(LINGER):
            await self._wire.finish()
            while swept < sweep and (data := await self._wire.receive()):
                swept += len(data)

    async def _answer(self, request: HttpRequest) -> bool:
        try:
            response = await self._handler(request)
        except Silence:
            await self._until_gone()
            return False
        except Drop:
            raise
        except Exception as error:  # the wall: a broken handler affects this request only
            # The client chooses the failing request: the same fault is logged now and then only.
            level = logging.ERROR if _seldom.allows(type(error).__qualname__) else logging.DEBUG
            log.log(level, "handler failed: %s %s", request.method, request.path, exc_info=True)
            response = HttpResponse(500)
        self._served = response.status < 400
        if self._served and not self._promote():
            await _let_go(response)
            response, self._served = HttpResponse(503), False
        if response.takeover is not None:
            head = _head(response.status, response.headers, keep=True)
            self._taken = response.takeover, head
            return False
        if not isinstance(response.body, bytes):
            return await self._stream_body(request, response, response.body)
        headers = {**response.headers, "content-length": str(len(response.body))}
        if response.status == 204:
            del headers["content-length"]
        keep = request.keep_alive and not self._shared.stopping.is_set()
        head = _head(response.status, headers, keep)
        await self._send(head if request.method == "HEAD" else head + response.body)
        return True

    async def _hand_over(self, takeover: ConnectionTakeover, head: bytes) -> None:
        """Leave the connection to another protocol until that ends.

        The request and its response are not held meanwhile: thousands may do so for hours.
        """
        self._taken = None
        early = self._inbox.early + bytes(self._arrived)
        self._streaming = True
        self._forget()
        try:
            if len(early) > self._limits.head:
                raise Drop  # a client that requests another protocol waits for the response
            await self._send(head)
            running = takeover.run(self._wire, early)
            del early
            await running
        finally:
            takeover.close()

    async def _stream_body(
        self, request: HttpRequest, response: HttpResponse, body: AsyncIterator[bytes]
    ) -> bool:
        """Send chunks until the body ends or the client leaves; HTTP/1.0 gets a bare stream."""
        chunked = request.version != "1.0"
        headers = {**response.headers, **({"transfer-encoding": "chunked"} if chunked else {})}
        complete = False
        self._streaming = True
        try:
            await self._send(_head(response.status, headers, keep=chunked))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_gone, nursery.cancel_scope)
                async for piece in body:
                    if piece:
                        framed = b"%x\r\n%b\r\n" % (len(piece), piece)
                        await self._send(framed if chunked else piece, self._limits.stall)
                complete = True
                nursery.cancel_scope.cancel()
        except* (Unreachable, trio.TooSlowError, Drop):
            complete = False
        except* Exception:  # the wall again: the client sees a cut body
            log.exception("body failed: %s %s", request.method, request.path)
            complete = False
        finally:
            self._streaming = False
            close = getattr(body, "aclose", None)
            if close is not None:
                with trio.move_on_after(LINGER, shield=True):
                    await close()
        if complete and chunked:
            await self._send(b"0\r\n\r\n")
        return complete and chunked

    async def _cancel_when_gone(self, scope: trio.CancelScope) -> None:
        await self._until_gone()
        scope.cancel()

    async def _until_gone(self) -> None:
        """Return when the client has closed; requests pipelined meanwhile are kept, bounded."""
        try:
            while data := await self._wire.receive():
                self._inbox.feed(data)
                if self._inbox.fault or len(self._inbox.ready) > self._limits.pipelined:
                    return
        except Unreachable:
            return

    async def _send(self, data: bytes, deadline: float | None = None) -> None:
        with trio.fail_after(self._limits.write if deadline is None else deadline):
            await self._wire.send(data)


async def _let_go(response: HttpResponse) -> None:
    """Close the body and the takeover of a response that is not sent."""
    if response.takeover is not None:
        response.takeover.close()
    if not isinstance(response.body, bytes):
        closing = getattr(response.body, "aclose", None)
        if closing is not None:
            await closing()


def _head(status: int, headers: dict[str, str], keep: bool) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if not keep:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
