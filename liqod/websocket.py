"""A websocket over a wire, for both of its ends: bounded and watched.

``trio_websocket`` reads and writes frames. Input is a stranger's: a message has a largest size,
reading may have a pace, a fault ends this connection and nothing else, and nobody waits for an end
that has gone.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    WebSocketRequest,
    wrap_client_stream,
    wrap_server_stream,
)

from liqod.errors import LiqodError, ProtocolError, Unconnected, Unreachable
from liqod.kube.http.wire import Wire
from liqod.runtime.tokenbucket import TokenBucket

FAREWELL: Final = 1.0
"""Seconds for saying why, and goodbye."""
READ: Final = 65536
"""Bytes that are asked for at once."""
NORMAL: Final = 1000
"""The code of an end that nobody complains of (RFC 6455, 7.4.1)."""

log = logging.getLogger(__name__)

logging.getLogger("trio-websocket").setLevel(logging.WARNING)  # it tells of each frame


class WebsocketClosed(Unreachable):
    """A websocket is closed.

    Attributes:
        reason: the reason that came with that; empty where none did.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.reason = said


class UpgradeRequest(NamedTuple):
    """A request for a websocket.

    Attributes:
        path: its path, without a query.
        headers: its headers.
    """

    path: str
    headers: tuple[tuple[bytes, bytes], ...]


class UpgradeRefusal(NamedTuple):
    """An answer that opens no websocket.

    Attributes:
        status: of HTTP.
        body: text.
        headers: further ones.
    """

    status: int
    body: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


Admit = Callable[[UpgradeRequest], Awaitable[UpgradeRefusal | None]]
"""Decides about a request; None lets it in."""


class WireStream(trio.abc.Stream):
    """A wire as a stream of Trio's; owns it.

    Args:
        wire: carries the bytes.
        pace: bytes that may be read; None: as they come. Unread bytes stay with the sender.

    Attributes:
        last_received: when something came last, by Trio's clock.
        ended: set when nothing more comes.
        refused: the HTTP status with which a websocket was refused; 0 where it was not.
    """

    def __init__(self, wire: Wire, pace: TokenBucket | None = None) -> None:
        self.last_received = trio.current_time()
        self.ended = trio.Event()
        self.refused = 0
        self._wire, self._pace = wire, pace

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it."""
        try:
            await self._wire.send(bytes(data))
        except Unreachable as error:
            raise trio.BrokenResourceError(str(error)) from error

    async def wait_send_all_might_not_block(self) -> None:
        """There is no telling."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """All that has come, which may be more than is asked for."""
        try:
            data = await self._wire.receive()
        except Unreachable as error:
            self.ended.set()
            raise trio.BrokenResourceError(str(error)) from error
        if not data:
            self.ended.set()
        self.last_received = trio.current_time()
        if self._pace is not None and (pause := self._pace.take(self.last_received, len(data))) > 0:
            await trio.sleep(pause)
        return data

    def close(self) -> None:
        """Close at once."""
        self.ended.set()
        self._wire.close()

    async def aclose(self) -> None:
        """The same, as Trio calls it."""
        self.close()
        await trio.lowlevel.checkpoint()


class _Walled:
    """Starts the task that reads frames, and lets nothing out of it: what comes is a stranger's."""

    def __init__(self, nursery: trio.Nursery, stream: WireStream) -> None:
        self._nursery, self._stream = nursery, stream

    def start_soon(self, read: Callable[[], Awaitable[None]]) -> None:
        """As ``trio_websocket`` calls it."""
        self._nursery.start_soon(self._run, read)

    async def _run(self, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
        except ConnectionRejected as error:
            self._stream.refused = error.status_code
        except Exception as error:
            log.debug("a websocket was lost", extra={"reason": repr(error)})
        # Not where this is cancelled: then the websocket's owner says goodbye, and closes it.
        self._stream.close()


class Websocket:
    """One that is open; one task receives, any may send, and its owner closes it.

    Args:
        connection: under it.
        stream: under that.
    """

    def __init__(self, connection: WebSocketConnection, stream: WireStream) -> None:
        self._connection, self._stream = connection, stream

    async def send(self, message: str | bytes) -> None:
        """Send one message. Raises Closed."""
        try:
            await self._connection.send_message(message)
        except ConnectionClosed as error:
            raise _closed(error) from None

    async def receive(self) -> str | bytes:
        """The next message. Raises Closed."""
        try:
            return await self._connection.get_message()
        except ConnectionClosed as error:
            raise _closed(error) from None

    @property
    def last_received(self) -> float:
        """When something came last, by Trio's clock."""
        return self._stream.last_received

    async def ping(self) -> None:
        """Ask for a word, and wait for it. Raises Closed."""
        try:
            await self._connection.ping()
        except ConnectionClosed as error:
            raise _closed(error) from None

    async def wait_ended(self) -> None:
        """Wait until nothing more comes."""
        await self._stream.ended.wait()

    async def close(self, code: int = NORMAL, reason: str | None = None) -> None:
        """Say goodbye, and close, whatever else ends.

        Args:
            code: of RFC 6455.
            reason: in words.
        """
        with trio.move_on_after(FAREWELL, shield=True):
            with suppress(ConnectionClosed):  # the other side was faster
                await self._connection.aclose(code, reason)
        self._stream.close()


async def accept(
    nursery: trio.Nursery,
    wire: Wire,
    admit: Admit,
    *,
    largest: int,
    pace: TokenBucket | None = None,
) -> Websocket:
    """A websocket for one that has connected; its tasks run in the nursery.

    Args:
        nursery: for the task that reads frames.
        wire: the connection; closed with the websocket, or where there comes none.
        admit: decides about the request.
        largest: bytes of a message that may come.
        pace: bytes that may be read.

    Raises:
        ProtocolError: it wants something else, is refused, or hangs up.
    """
    stream = WireStream(wire, pace)

    async def greet(walled: trio.Nursery) -> WebSocketConnection:
        request: WebSocketRequest = await wrap_server_stream(
            walled, stream, max_message_size=largest, receive_buffer_size=READ
        )
        asked = UpgradeRequest(request.path.partition("?")[0], tuple(request.headers))
        refusal = await admit(asked)
        if refusal is None:
            return await request.accept()
        await request.reject(
            refusal.status, extra_headers=list(refusal.headers), body=refusal.body or None
        )
        raise ProtocolError(f"its request for {asked.path} is refused: {refusal.status}")

    connection = await _unless_ended(nursery, stream, greet)
    if connection is None:
        raise ProtocolError("it asks for no websocket")
    return Websocket(connection, stream)


async def connect(
    nursery: trio.Nursery, wire: Wire, host: str, path: str, *, largest: int
) -> Websocket:
    """A websocket with the listener at a wire's other end; its tasks run in the nursery.

    Args:
        nursery: for the task that reads frames.
        wire: the connection; closed with the websocket, or where there comes none.
        host: as the request names it.
        path: as the request names it.
        largest: bytes of a message that may come.

    Raises:
        Unconnected: there is no websocket of that path.
    """
    stream = WireStream(wire)

    async def greet(walled: trio.Nursery) -> WebSocketConnection:
        return await wrap_client_stream(
            walled,
            stream,  # type: ignore[arg-type]  # any stream will do
            host,
            path,
            max_message_size=largest,
            receive_buffer_size=READ,
        )

    connection = await _unless_ended(nursery, stream, greet)
    if connection is None:
        raise Unconnected(f"it answers {stream.refused}" if stream.refused else "it hangs up")
    return Websocket(connection, stream)


async def _unless_ended(
    nursery: trio.Nursery,
    stream: WireStream,
    greet: Callable[[trio.Nursery], Awaitable[WebSocketConnection]],
) -> WebSocketConnection | None:
    """The result of a greeting; None if the stream ends before. ``trio_websocket`` would wait."""
    made: list[WebSocketConnection] = []
    wrong: list[LiqodError] = []
    async with trio.open_nursery() as racing:

        async def race() -> None:
            try:
                made.append(await greet(cast("trio.Nursery", _Walled(nursery, stream))))
            except (ConnectionClosed, HandshakeError):
                pass
            except LiqodError as error:
                wrong.append(error)
            racing.cancel_scope.cancel()

        try:
            racing.start_soon(race)
            await stream.ended.wait()
            racing.cancel_scope.cancel()
        finally:
            if not made:
                stream.close()
    if wrong:
        raise wrong[0]
    return made[0] if made else None


def _closed(error: ConnectionClosed) -> WebsocketClosed:
    if error.reason is None:
        return WebsocketClosed(f"connection broken: {type(error).__name__}")
    message = f"connection broken: closed by websocket code {error.reason.code}"
    return WebsocketClosed(message, error.reason.reason or "")
