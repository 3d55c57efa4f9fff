"""Byte connections to one server: TCP, and TLS over anything that carries bytes.

Plain non-blocking sockets and OpenSSL's memory buffers are driven directly with
``trio.lowlevel.wait_readable``; per request this costs less than ``trio.SSLStream`` does, and
:meth:`Wire.receive` hands over all received bytes, so that a flooded watch is drained in few turns.
"""

import contextlib
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

import msgspec
import trio

from liqod.errors import UNTRUSTED, Unauthorized, Unconnected, Unreachable, Untrusted
from liqod.runtime.tlspump import TlsPump

READ_SIZE = 65536
TURN_BYTES = 262144
"""Bytes handed over at once: one connection may have so many decoded before others get a turn."""
LAST_ACK = slice(56, 60)
"""Bytes of ``tcpi_last_ack_recv``, milliseconds, in Linux's ``struct tcp_info``."""
CONNECT_DEADLINE = 10.0
"""Seconds for the TCP connection and the TLS handshake together."""


class KeepAlive(msgspec.Struct, frozen=True):
    """TCP keep-alive of a connection, in seconds; a dead host is noticed after about their sum.

    Attributes:
        idle: silence before the first probe.
        interval: between probes.
        count: unanswered probes before the connection counts as broken.
    """

    idle: int = 15
    interval: int = 5
    count: int = 3


class Wire(Protocol):
    """A byte connection; at most one task sends, and one receives, at a time."""

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises Unreachable when the connection is broken."""

    async def receive(self) -> bytes:
        """Receive at least one byte; ``b""`` at the end. Raises Unreachable."""

    def stale(self) -> bool:
        """True if the other side closed an idle connection, or sent unrequested bytes."""

    def keep_alive(self, setting: KeepAlive) -> None:
        """Set TCP keep-alive, where there is TCP."""

    async def finish(self) -> None:
        """Signal the end of the stream to the other side. Raises Unreachable if it is broken."""

    def close(self) -> None:
        """Close at once, without a closing message."""


class SocketWire:
    """A connected, non-blocking stream socket; owns it, and hands over ``most`` bytes at once.

    It never blocks by the flag of each call, since the socket's own flag may be undone: another
    process that has handed the connection over may have kept a copy.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.most = TURN_BYTES

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                await self._until(trio.lowlevel.wait_writable)
            except OSError as error:
                raise Unreachable(f"connection broken: {error}") from error

    async def receive(self) -> bytes:
        # Nearly always nothing has come yet. And this is the checkpoint: a fast sender must not
        # block other tasks. There is none after it, for no byte read may be lost.
        await self._until(trio.lowlevel.wait_readable)
        chunks: list[bytes] = []
        size = 0
        while size < self.most:
            wanted = min(READ_SIZE, self.most - size)
            try:
                data = self._sock.recv(wanted, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if chunks:
                    break
                await self._until(trio.lowlevel.wait_readable)
                continue
            except OSError as error:
                raise Unreachable(f"connection broken: {error}") from error
            chunks.append(data)
            size += len(data)
            if len(data) < wanted:  # the end, or (nearly always) all that had come
                break
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _until(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Wait for the socket. Raises Unreachable where another task closes it."""
        try:
            await ready(self._sock)
        except trio.ClosedResourceError as error:
            raise Unreachable("connection broken: closed on this side") from error

    def stale(self) -> bool:
        try:
            self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def keep_alive(self, setting: KeepAlive) -> None:
        if self._sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, setting.interval)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, setting.count)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, setting.idle)

    def acknowledged(self) -> float | None:
        """Seconds since the other host last acknowledged anything, keep-alive included."""
        if self._sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        try:
            facts = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_ACK.stop)
        except OSError:
            return None
        return int.from_bytes(facts[LAST_ACK], sys.byteorder) / 1000

    async def finish(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise Unreachable(f"connection broken: {error}") from error

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


class StreamWire:
    """A wire on a Trio stream that is no socket; owns it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._closed = False

    async def send(self, data: bytes) -> None:
        with _broken():
            await self._stream.send_all(data)

    async def receive(self) -> bytes:
        with _broken():
            return bytes(await self._stream.receive_some(READ_SIZE))

    def stale(self) -> bool:
        return self._closed

    def keep_alive(self, setting: KeepAlive) -> None:
        """Do nothing: there is no TCP."""

    async def finish(self) -> None:
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            with _broken():
                await self._stream.send_eof()

    def close(self) -> None:
        self._closed = True


class TlsWire:
    """TLS over another wire; owns that wire.

    Args:
        wire: the wire below.
        context: the trusted authorities, and this side's identity.
        server_name: expected name of the server; None if this side is the server.
        session: an earlier session with that server, to be resumed.
    """

    def __init__(
        self,
        wire: Wire,
        context: ssl.SSLContext,
        server_name: str | None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self.context = context
        self.wire = wire
        self._flushing = False
        self._pump = TlsPump(context, server_name, session)
        self._tls = self._pump.tls

    @property
    def session(self) -> ssl.SSLSession | None:
        """The TLS session to resume later; complete once the first answer has come."""
        return self._tls.session

    @property
    def resumed(self) -> bool:
        """True if an earlier session was resumed: no certificate was sent or verified again."""
        return bool(self._tls.session_reused)

    @property
    def peer_certificate(self) -> dict[str, Any] | None:
        """The other side's verified certificate, as :meth:`ssl.SSLSocket.getpeercert` has it."""
        return self._tls.getpeercert() or None

    @property
    def shown_certificate(self) -> bytes:
        """The other side's certificate, DER, verified or not; empty without one."""
        return self._tls.getpeercert(binary_form=True) or b""

    async def handshake(self) -> None:
        """Do the TLS handshake and verify the other side. Raises Unreachable or Unauthorized."""
        done = False
        while not done:
            try:
                done = self._pump.greet()
            except ssl.SSLError as error:
                with contextlib.suppress(Unreachable):
                    await self._flush()  # the alert, so that the server gets the reason
                raise _tls_error(error) from error
            await self._flush()
            if not done:
                self._pump.feed(await self.wire.receive())

    async def send(self, data: bytes) -> None:
        try:
            self._pump.write(data)
        except ssl.SSLError as error:
            raise _tls_error(error) from error
        await self._flush()

    async def receive(self) -> bytes:
        while True:
            data = self._decrypt()
            if self._pump.pending:  # a key update needs its response
                await self._flush()
            if data is not None:
                return data
            self._pump.feed(await self.wire.receive())

    def stale(self) -> bool:
        return self.wire.stale()

    def keep_alive(self, setting: KeepAlive) -> None:
        self.wire.keep_alive(setting)

    async def finish(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()  # writes the closing message; does not wait for the other's
        await self._flush()

    def acknowledged(self) -> float | None:
        """As that of the wire below; None if it cannot measure it."""
        return acknowledged(self.wire)

    def close(self) -> None:
        self.wire.close()

    def _decrypt(self) -> bytes | None:
        """All available plain text; ``b""`` at the end of the stream, None if more must come."""
        chunks: list[bytes] = []
        try:
            chunks.extend(self._pump.pieces())
        except ssl.SSLError as error:
            if not chunks:  # valid data before the error is handed over first
                raise _tls_error(error) from error
        return b"".join(chunks) if chunks else None

    async def _flush(self) -> None:
        """Send the pending bytes; one task at a time does it for all."""
        if self._flushing:
            return
        self._flushing = True
        try:
            while data := self._pump.outgoing():
                await self.wire.send(data)
        except BaseException:
            self.wire.close()  # a cut record may be another task's: nothing can follow it
            raise
        finally:
            self._flushing = False


def acknowledged(wire: Wire) -> float | None:
    """Seconds since the other host last acknowledged anything; None if not measurable."""
    return wire.acknowledged() if isinstance(wire, SocketWire | TlsWire) else None


@contextlib.contextmanager
def _broken() -> Iterator[None]:
    """Raise Unreachable for Trio's errors of a broken stream."""
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise Unreachable(f"connection broken: {error}") from error


def _tls_error(error: ssl.SSLError) -> Unreachable | Unauthorized:
    """The project's error for a TLS failure."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(f"{UNTRUSTED}: {error.verify_message}")
    if isinstance(error, ssl.SSLEOFError):
        return Unreachable("the connection ended during the TLS handshake")
    if "ALERT" in (error.reason or "") and "CERTIFICATE" in (error.reason or ""):
        return Unauthorized(f"the server refuses the client certificate: {error.reason}")
    return Unreachable(f"TLS failed: {error.reason or error}")


def wire_of(stream: trio.abc.Stream) -> Wire:
    """The wire of an accepted connection; it owns the stream's socket."""
    if isinstance(stream, trio.SocketStream):
        return _taken_from(stream)
    return StreamWire(stream)


async def connect(host: str, port: int) -> SocketWire:
    """Open a TCP connection to the first address that answers. Raises Unconnected."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except OSError as error:
        raise Unconnected(f"cannot connect: {_reason(error)}") from error
    wire = _taken_from(stream)
    wire.keep_alive(KeepAlive())
    return wire


def _taken_from(stream: trio.SocketStream) -> SocketWire:
    """A wire on the stream's socket, which it owns from now on."""
    return SocketWire(socket.socket(fileno=stream.socket.detach()))


def _reason(error: BaseException) -> str:
    """The operating system's reason that no address answered."""
    cause = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, OSError) and cause.errno and not isinstance(cause, socket.gaierror):
        return os.strerror(cause.errno)
    return getattr(cause, "strerror", None) or str(cause)
