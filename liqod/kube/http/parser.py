"""Parses whole HTTP requests out of a byte stream, with a bound on everything.

Pure of I/O: bytes go in through :meth:`RequestParser.feed`, requests come out in ``ready``, and
a fault of the stream is in ``fault`` as the HTTP status to refuse it with. httptools parses.
"""

from collections import deque
from typing import Any
from urllib.parse import parse_qs, unquote

import httptools
import msgspec

WEIGHT = 1024
"""Bytes that a request costs beside those received: its objects in memory."""


class Limits(msgspec.Struct, frozen=True):
    """Limits on the cost of one client.

    Attributes:
        head: bytes of request line and headers; more is refused with 431.
        headers: most headers; more is refused with 431.
        body: bytes of body; more is refused with 413. The default is that of API servers.
        pipelined: requests read ahead during a response.
        idle: seconds a connection may wait for its next request.
        request: seconds from a request's first byte to its last (and for the TLS handshake).
        write: seconds that the client may take to accept one piece of a response.
        paced: whether each address has a limited share of the daemon's CPU time.
        grace: seconds that requests in progress have when the server stops.
        stall: the same as ``write`` for a piece of a streamed body; None: the same value.
        parameters: most parameters of the query; more is refused with 400.
    """

    head: int = 65536
    headers: int = 100
    body: int = 3 << 20
    pipelined: int = 16
    idle: float = 600.0
    request: float = 20.0
    write: float = 30.0
    grace: float = 5.0
    paced: bool = False
    stall: float | None = None
    parameters: int = 100


class HttpRequest(msgspec.Struct):
    """One request, complete.

    Attributes:
        method: upper case.
        path: percent-decoded, without the query.
        query: each parameter with its values in order; blank values are kept.
        headers: names in lower case; repeated ones joined by ``", "``.
        body: all of it.
        version: ``1.0`` or ``1.1``.
        keep_alive: whether the client may send another request on this connection.
        upgrade: whether it requests another protocol on this connection.
        peer_certificate: the verified client certificate as :meth:`ssl.SSLSocket.getpeercert`
            gives it, or None.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes = b""
    version: str = "1.1"
    keep_alive: bool = True
    upgrade: bool = False
    peer_certificate: dict[str, Any] | None = None

    def one(self, name: str, default: str = "") -> str:
        """The first value of a query parameter, or the default."""
        values = self.query.get(name)
        return values[0] if values else default


_NOBODYS = httptools.HttpRequestParser(object())
"""Replaces a parser that is no longer needed; it is never fed."""


class RequestParser:
    """The parser of one connection."""

    def __init__(self, limits: Limits) -> None:
        self.ready: deque[HttpRequest] = deque()
        self.fault = 0
        self.started = False
        self.early = b""
        """The bytes after a request for another protocol."""
        self.peer_certificate: dict[str, Any] | None = None
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._expects = False
        self._upgraded = False
        self._reset()

    def _reset(self) -> None:
        self._head = self._raw_head = 0
        self._in_head = True
        self._url = b""
        self._headers: dict[str, str] = {}
        self._count = 0
        self._body: list[bytes] = []
        self._body_size = 0

    @property
    def buffered(self) -> int:
        """Bytes held: the incomplete request, and those read ahead."""
        ahead = sum(WEIGHT + len(request.body) for request in self.ready)
        return ahead + max(self._head, self._raw_head) + self._body_size + len(self.early)

    def feed(self, data: bytes | bytearray) -> None:
        """Parse bytes from the client; requests and faults appear as attributes."""
        if self.fault:
            return
        if self._upgraded:
            self.early += data
            if len(self.early) > self._limits.head:
                self.fault = 400
            return
        self.started = True
        try:
            self._parser.feed_data(bytes(data))
        except httptools.HttpParserUpgrade as error:
            # The request is the last one in any case.
            self._upgraded = True
            if self.ready:
                self.ready[-1].keep_alive = False
            self.early = bytes(data[error.args[0] :])
        except httptools.HttpParserError:
            self.fault = self.fault or 400
        if self._in_head and self.started:
            self._raw_head += len(data)
            if self._raw_head > self._limits.head:
                self.fault = self.fault or 431

    def forget(self) -> None:
        """Release all data, and accept no more.

        The parser and this object refer to each other: without this call both, and their data,
        would last until the next garbage collection.
        """
        self._parser = _NOBODYS
        self.peer_certificate = None
        self.fault = self.fault or 503
        self.ready.clear()
        self.early = b""
        self._reset()

    def take_expectation(self) -> bool:
        """True if the client waits for ``100 Continue``; once per request."""
        expects, self._expects = self._expects, False
        return expects

    # What httptools calls:

    def on_message_begin(self) -> None:
        self._reset()
        self.started = True

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head += len(url)
        if self._head > self._limits.head:
            self.fault = self.fault or 431

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        self._head += len(name) + len(value)
        if self._count > self._limits.headers or self._head > self._limits.head:
            self.fault = self.fault or 431
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key in self._headers:
            text = f"{self._headers[key]}, {text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        self._in_head = False
        length = self._headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._limits.body:
            self.fault = self.fault or 413
        self._expects = self._headers.get("expect", "").lower() == "100-continue"

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        self._expects = False
        if self._body_size > self._limits.body:
            self.fault = self.fault or 413
        if not self.fault:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self.started = False
        self._expects = False
        if self.fault:
            return
        try:
            request = self._request()
        except (ValueError, httptools.HttpParserError):
            self.fault = 400
            return
        self.ready.append(request)
        self._reset()

    def _request(self) -> HttpRequest:
        """Build the request that has been collected.

        Raises:
            ValueError: the target or its query cannot be decoded.
            HttpParserInvalidURLError: the target is no URL.
        """
        url = httptools.parse_url(self._url)
        query = (url.query or b"").decode("ascii")
        return HttpRequest(
            method=self._parser.get_method().decode("ascii"),
            path=unquote((url.path or b"/").decode("ascii"), errors="strict"),
            query=parse_qs(query, keep_blank_values=True, max_num_fields=self._limits.parameters)
            if query
            else {},
            headers=self._headers,
            body=b"".join(self._body),
            version=self._parser.get_http_version(),
            keep_alive=self._parser.should_keep_alive(),
            upgrade=self._parser.should_upgrade(),
            peer_certificate=self.peer_certificate,
        )
