"""Calls of webhooks over HTTPS, on connections that are kept as a real API server keeps them.

As Go's transport does it for kube-apiserver: HTTP/1.1, as many connections as there are calls at
once, and those that are idle serve the next calls, the one used last first.
"""

import base64
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

import trio

from liqod.errors import ProtocolError
from liqod.kube.http.connection import ConnectionClosed, HttpConnection
from liqod.kube.http.proxies import Dial
from liqod.kube.http.wire import TlsWire, connect

MAX_IDLE = 25
"""Idle connections that are kept to one server; kube-apiserver keeps as many."""
IDLE = 90.0
"""Seconds for which one is kept."""
LONGEST_ANSWER = 3 << 20


class Server(NamedTuple):
    """The server that a webhook's configuration names.

    Attributes:
        place: host, and port where it is not 443.
        bundle: authorities to verify it by, PEM in base64; empty for those of this machine.
    """

    place: str
    bundle: str


class Calls:
    """The connections of one API server to webhooks.

    Args:
        max_idle: idle ones that are kept to one server.
        idle: seconds for which one is kept.

    Attributes:
        dial: makes the TCP connections; tests have networks without sockets.
    """

    def __init__(self, max_idle: int = MAX_IDLE, idle: float = IDLE) -> None:
        self._max_idle, self._idle_for = max_idle, idle
        self.dial: Dial = connect
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._idle: dict[Server, list[tuple[HttpConnection, float]]] = {}

    async def post(self, url: str, bundle: str, body: bytes) -> bytes:
        """The body of the answer.

        Raises:
            OSError: the bundle holds no certificates.
            LiqodError: the server cannot be reached or trusted, or does not answer with 200.
        """
        parts = urlsplit(url)
        server = Server(parts.netloc, bundle)
        head = (
            f"POST {parts.path or '/'}?timeout=10s HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        request = head.encode() + body
        kept = self._take(server)
        if kept is not None:
            try:
                return await self._exchange(server, kept, request)
            except ConnectionClosed:
                pass  # Go's transport would have seen it close before
        return await self._exchange(server, await self._connect(server), request)

    def forget(self) -> None:
        """Keep no connection, and no context."""
        for connections in self._idle.values():
            for connection, _ in connections:
                connection.close()
        self._idle.clear()
        self._contexts.clear()

    async def _exchange(self, server: Server, connection: HttpConnection, request: bytes) -> bytes:
        try:
            head = await connection.exchange(request)
            answer = await connection.body(LONGEST_ANSWER)
            if head.status != 200:
                raise ProtocolError(f"the webhook answered {head.status}")
            return answer
        finally:
            self._give_back(server, connection)

    async def _connect(self, server: Server) -> HttpConnection:
        parts = urlsplit(f"//{server.place}")
        host, context = parts.hostname or "", self._context(server.bundle)
        secured = TlsWire(await self.dial(host, parts.port or 443), context, host)
        try:
            await secured.handshake()
        except BaseException:
            secured.close()
            raise
        return HttpConnection(secured)

    def _take(self, server: Server) -> HttpConnection | None:
        """The idle connection used last."""
        connections = self._idle.get(server, [])
        self._drop(connections, len(connections))
        return connections.pop()[0] if connections else None

    def _give_back(self, server: Server, connection: HttpConnection) -> None:
        """Keep a connection whose exchange is over, if it can have another."""
        if not connection.reusable:
            connection.close()
            return
        connections = self._idle.setdefault(server, [])
        connections.append((connection, trio.current_time()))
        self._drop(connections, self._max_idle)

    def _drop(self, connections: list[tuple[HttpConnection, float]], most: int) -> None:
        """Close the oldest: those idle for too long, and those that are too many."""
        oldest = trio.current_time() - self._idle_for
        while connections and (connections[0][1] < oldest or len(connections) > most):
            connections.pop(0)[0].close()

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            roots = base64.b64decode(bundle).decode() if bundle else None
            context = ssl.create_default_context(cadata=roots)
            self._contexts[bundle] = context
        return context
