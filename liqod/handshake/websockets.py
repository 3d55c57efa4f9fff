"""A websocket between two daemons, over a wire: text for the hand-shake, binary for the channel.

``trio_websocket`` reads and writes frames; what it is given here is bounded and watched: the size
of a message, and how long nothing at all may come. The dialler asks for a word now and then (ping),
so that silence means something.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
    wrap_server_stream,
)

from liqod.errors import LiqodError, ProtocolError, Unconnected, Unreachable
from liqod.handshake.messages import MAX_MESSAGE
from liqod.kube.http.wire import Wire

PATH: Final = "/peering/v1"
PING_EVERY: Final = 20.0
"""Seconds between the dialler's pings."""
SILENCE: Final = 60.0
"""Seconds without a byte after which the other side is gone."""
FAREWELL: Final = 1.0
"""Seconds for saying why, and goodbye."""
READ: Final = 65536
"""Bytes that are asked for at once."""

log = logging.getLogger(__name__)

logging.getLogger("trio-websocket").setLevel(logging.WARNING)  # it tells of each frame


class WireStream(trio.abc.Stream):
    """A wire as a stream of Trio's; owns it.

    Attributes:
        heard: when something came last, by Trio's clock.
        ended: set when nothing more comes.
        refused: the HTTP status with which a websocket was refused; 0 where it was not.
    """

    def __init__(self, wire: Wire) -> None:
        self.heard = trio.current_time()
        self.ended = trio.Event()
        self.refused = 0
        self._wire = wire

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
        self.heard = trio.current_time()
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
        finally:
            self._stream.close()


class Websocket:
    """One that is open; one task receives, any may send.

    Args:
        connection: under it.
        stream: under that.
    """

    def __init__(self, connection: WebSocketConnection, stream: WireStream) -> None:
        self._connection, self._stream = connection, stream

    async def send(self, message: str | bytes) -> None:
        """Send one message. Raises Unreachable."""
        try:
            await self._connection.send_message(message)
        except ConnectionClosed as error:
            raise Unreachable(_why(error)) from None

    async def receive(self) -> str | bytes:
        """The next message. Raises Unreachable."""
        try:
            return await self._connection.get_message()
        except ConnectionClosed as error:
            raise Unreachable(_why(error)) from None

    async def watch(self, *, ping: bool) -> None:
        """Return when nothing has come for too long; ask for a word now and then.

        Args:
            ping: whether this side asks: the dialler, for one is enough.
        """
        while (silent := trio.current_time() - self._stream.heard) < SILENCE:
            await trio.sleep(min(PING_EVERY, SILENCE - silent) if ping else SILENCE - silent)
            if ping:
                with trio.move_on_after(PING_EVERY):
                    try:
                        await self._connection.ping()
                    except ConnectionClosed:
                        return

    async def close(self) -> None:
        """Say goodbye, and close, whatever else ends."""
        with trio.move_on_after(FAREWELL, shield=True):
            await self._connection.aclose()
        self._stream.close()


async def accept(nursery: trio.Nursery, wire: Wire) -> Websocket:
    """A websocket for who has connected; its tasks run in the nursery.

    Raises:
        ProtocolError: it wants something else, or hangs up.
    """
    stream = WireStream(wire)

    async def greet(walled: trio.Nursery) -> WebSocketConnection:
        request = await wrap_server_stream(
            walled, stream, max_message_size=MAX_MESSAGE, receive_buffer_size=READ
        )
        if request.path.partition("?")[0] == PATH:
            return await request.accept()
        await request.reject(404, body=f"daemons meet at {PATH}\n".encode())
        raise ProtocolError("it asks for another path")

    connection = await _unless_ended(nursery, stream, greet)
    if connection is None:
        raise ProtocolError("it asks for no websocket")
    return Websocket(connection, stream)


async def connect(nursery: trio.Nursery, wire: Wire, host: str) -> Websocket:
    """A websocket with the listener at a wire's other end; its tasks run in the nursery.

    Raises:
        Unconnected: what is there is no daemon.
    """
    stream = WireStream(wire)

    async def greet(walled: trio.Nursery) -> WebSocketConnection:
        return await wrap_client_stream(
            walled,
            stream,  # type: ignore[arg-type]  # any stream will do
            host,
            PATH,
            max_message_size=MAX_MESSAGE,
            receive_buffer_size=READ,
        )

    connection = await _unless_ended(nursery, stream, greet)
    if connection is None:
        said = f"it answers {stream.refused}" if stream.refused else "it hangs up"
        raise Unconnected(f"no daemon of liqod answers there: {said}")
    return Websocket(connection, stream)


async def _unless_ended(
    nursery: trio.Nursery,
    stream: WireStream,
    greet: Callable[[trio.Nursery], Awaitable[WebSocketConnection]],
) -> WebSocketConnection | None:
    """What a greeting gives; None where the stream ends before. ``trio_websocket`` would wait."""
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

        racing.start_soon(race)
        await stream.ended.wait()
        racing.cancel_scope.cancel()
    if wrong:
        raise wrong[0]
    return made[0] if made else None


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionClosed) and error.reason is not None:
        return f"connection broken: closed by websocket code {error.reason.code}"
    return f"connection broken: {type(error).__name__}"
