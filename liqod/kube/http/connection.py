"""One HTTP/1.1 connection: sends a request, reads the response head, then the body in chunks.

httptools parses; this module feeds it and counts the bytes that may be read. A connection does one
exchange at a time and shows afterwards if it can do another.
"""

from collections.abc import Sequence
from time import thread_time as clock

import httptools

from liqod.errors import ProtocolError, Unreachable
from liqod.kube.failures import TooLarge
from liqod.kube.http.cpubudget import CpuBudget, Metered
from liqod.kube.http.wire import Wire

FULL = 65536
"""Bytes received at once from which on more bytes are assumed to wait."""
MAX_HEAD = 65536
"""Bytes of a response's status line and headers."""
SWITCHING = 101
"""Status of a response after which the connection speaks another protocol."""


class Head:
    """Status and headers of a response.

    Attributes:
        status: HTTP status.
        fields: names and values as received; rarely read.
    """

    __slots__ = ("fields", "status")

    def __init__(self, status: int, fields: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.fields = fields

    @property
    def headers(self) -> dict[str, str]:
        """The headers, their names in lower case."""
        found: dict[str, str] = {}
        for name, value in self.fields:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        return found


class ConnectionClosed(Unreachable):
    """The server closed the connection before it sent any byte in response to this request.

    Attributes:
        sent: whether any byte of the request may have reached the server.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class _Answer:
    """The callbacks of httptools while it parses one response."""

    def __init__(self, *, upgrade: bool = False) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.upgrade = upgrade
        self.early = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.status = 0
        self.head_complete = False
        self.complete = False
        self.keep_alive = False
        self.excess = False
        self.chunks: list[bytes] = []

    def on_message_begin(self) -> None:
        if self.complete:  # a response without a request
            self.excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_complete:  # trailers are not read
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self.excess:
            return
        self.status = self.parser.get_status_code()
        if self.status >= 200 or (self.upgrade and self.status == SWITCHING):
            self.keep_alive = self.parser.should_keep_alive()
            self.head_complete = True

    def on_body(self, body: bytes) -> None:
        if not self.excess:
            self.chunks.append(body)

    def on_message_complete(self) -> None:
        if self.head_complete:
            self.complete = True
        else:  # an interim response (100 Continue, 103): the final one follows
            self.fields = []


class HttpConnection:
    """One connection and its current exchange.

    Args:
        wire: the wire below; owned.
        budget: CPU budget of the peer at its other end, charged for reading from it.
    """

    def __init__(self, wire: Wire, budget: CpuBudget | None = None) -> None:
        self.wire = wire
        self._budget = budget
        self.bytes_in = 0
        self.bytes_out = 0
        self.used = False
        self._answer: _Answer | None = None

    @property
    def reusable(self) -> bool:
        """True if the last exchange is finished and the server keeps the connection open."""
        answer = self._answer
        return answer is not None and answer.complete and answer.keep_alive and not answer.excess

    @property
    def early(self) -> bytes:
        """The bytes after the head of a response that switches to another protocol."""
        return self._answer.early if self._answer is not None else b""

    async def exchange(self, request: bytes, *, upgrade: bool = False) -> Head:
        """Send a whole request; returns the response head.

        Args:
            request: its bytes.
            upgrade: whether it requests another protocol, which the response may switch to: the
                bytes after that are not read as HTTP.

        Raises:
            Closed: no response came; the request may be sent again where that is safe.
            Unreachable, ProtocolError: the connection broke, or the response is not HTTP.
        """
        answer = self._answer = _Answer(upgrade=upgrade)
        before = self.bytes_in
        reused, self.used = self.used, True
        sent = False
        try:
            if reused and self.wire.stale():
                raise Unreachable("connection closed by the server")
            sent = True
            await self.wire.send(request)
            self.bytes_out += len(request)
            while not answer.head_complete:
                await self._feed(answer)
                if self.bytes_in - before > MAX_HEAD and not answer.head_complete:
                    raise ProtocolError("the head of the answer is too large")
        except Unreachable as error:
            if self.bytes_in == before:
                raise ConnectionClosed(str(error), sent=sent) from error
            raise
        return Head(answer.status, answer.fields)

    async def chunk(self) -> bytes:
        """Receive the next part of the body, ``b""`` when it is complete.

        Raises Unreachable if the connection broke before the end, ProtocolError on invalid data.
        """
        answer = self._answer
        if answer is None:
            return b""
        while not answer.chunks and not answer.complete:
            await self._feed(answer)
        chunks, answer.chunks = answer.chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def body(self, limit: int) -> bytes:
        """Read the whole body. Raises TooLarge, and stops reading, beyond ``limit`` bytes."""
        answer = self._answer
        length = _field(answer, b"content-length") if answer else b""
        if length.isdigit() and int(length) > limit:
            raise TooLarge(f"the answer has {int(length)} bytes, more than {limit}")
        chunks: list[bytes] = []
        size = 0
        while data := await self.chunk():
            chunks.append(data)
            size += len(data)
            if size > limit:
                raise TooLarge(f"the answer has more than {limit} bytes")
        return b"".join(chunks)

    def close(self) -> None:
        """Close the connection; its current exchange ends in an error."""
        self.wire.close()

    async def _feed(self, answer: _Answer) -> None:
        if self._budget is None:
            self._take(answer, await self.wire.receive())
            return
        # Records and chunks of one byte cost no bytes, but time. Parsed data is kept even if the
        # caller is cancelled in the pause.
        receiving = Metered(self.wire.receive())
        data = await receiving
        began = clock()
        self._take(answer, data)
        used = receiving.used + clock() - began
        await self._budget.spend(used, backlog=len(data) >= FULL)

    def _take(self, answer: _Answer, data: bytes) -> None:
        """Parse received bytes."""
        self.bytes_in += len(data)
        if not data:
            if answer.head_complete and not _framed(answer):
                answer.complete, answer.keep_alive = True, False  # the end is the framing
                return
            raise Unreachable("the connection was closed in the middle of an answer")
        try:
            answer.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            if not answer.upgrade:
                message = "the server switches to a protocol nobody asked for"
                raise ProtocolError(message) from error
            answer.keep_alive = False
            answer.early = data[error.args[0] :]
        except httptools.HttpParserError as error:
            raise ProtocolError(f"the answer is not HTTP: {error}") from error


def _field(answer: _Answer, name: bytes) -> bytes:
    """The first header of that name, in lower case; empty without one."""
    return next((value for key, value in answer.fields if key.lower() == name), b"")


def _framed(answer: _Answer) -> bool:
    """True if the headers give the end of the body."""
    return any(
        name.lower() in (b"content-length", b"transfer-encoding") for name, _ in answer.fields
    )
