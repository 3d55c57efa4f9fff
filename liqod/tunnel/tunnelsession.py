"""One connection to the other end: a websocket in TLS 1.3, in which both have proved themselves.

Nothing is believed before that, and no HTTP is read. The proof is TLS's own, with the certificates
of :mod:`liqod.identity.tunnelcertificates`, pinned on both sides: there is no authority, no older
version, no ticket to resume by. A middlebox that ends TLS has neither's key, and gets no further.
"""

import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, ProtocolError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from liqod.model.endpoints import join
from liqod.runtime.tlspump import TlsPump
from liqod.tunnel.dialsockets import disconnect
from liqod.tunnel.packets import LARGEST
from liqod.tunnel.tunneltls import HUNG_UP, Side, explained

SPEAKS: Final = Subprotocol("liqod-tunnel-1")
"""The websocket's sub-protocol: one IP packet a message, with its header before it."""
READ: Final = 1 << 18
"""Bytes read at once."""
UNSENT: Final = 1 << 17
"""Bytes that the kernel keeps besides those on their way, so that little waits where nobody can
overtake it."""
MOST_WAITING: Final = 1 << 20
"""Bytes that wait for an end that asks (pings) and does not read the answers, before it is left.
Of packets no more than a batch waits here."""
TCP_NOTSENT_LOWAT: Final = 25


class ConnectionFailed(Exception):
    """There is no connection; why, as a clause."""


def written(name: tuple[Any, ...]) -> str:
    """The name of a socket as ``address:port``."""
    return join(str(name[0]).removeprefix("::ffff:"), name[1])


def tuned(sock: trio.socket.SocketType) -> None:
    """Have a TCP connection carry packets: at once, with little waiting in it."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT)


class TunnelSession:
    """A connection that is to be opened, and then carries packets.

    Args:
        side: of this end.
        how: TLS.
        name: of the server, for a client.
        transport: its carrier: the TCP connection, or TLS with a proxy in it.
        sock: the TCP connection under it.
        where: ``address:port`` of the other end, or the proxy's.

    Attributes:
        way: of a client, the dialled path.
        opened: when both ends had proved themselves, by Trio's clock.
        last_received: when something came last.
        closed: set when it is over.
        why: why it is over.
        drained: called when all that was given has gone to the kernel.
        released: called when its connection is closed.
    """

    def __init__(
        self,
        side: Side,
        how: ssl.SSLContext,
        name: str,
        transport: trio.abc.Stream,
        sock: trio.socket.SocketType,
        where: str,
    ) -> None:
        self.where = where
        self.way: object = None
        self.opened = self.last_received = 0.0
        self.closed = trio.Event()
        self.why = ""
        self.drained: Callable[[], None] = lambda: None
        self.released: Callable[[], None] = lambda: None
        self._transport, self._sock = transport, sock
        self._direct = isinstance(transport, trio.SocketStream)
        self._pump = TlsPump(how, None if side == "server" else name)
        self._socket: ClientProtocol | ServerProtocol
        if side == "server":
            # A browser names an origin always, and is none of the peer's.
            self._socket = ServerProtocol(origins=[None], subprotocols=[SPEAKS], max_size=LARGEST)
        else:
            uri = WebSocketURI(True, name, 443, "/", "")
            self._socket = ClientProtocol(uri, subprotocols=[SPEAKS], max_size=LARGEST)
        self._unsent: deque[bytes] = deque()
        self._waiting = 0
        self._wake, self._empty = trio.Event(), trio.Event()
        self._ended = trio.CancelScope()

    @property
    def is_open(self) -> bool:
        """True if packets may be sent on it."""
        return self._socket.state is State.OPEN and not self.closed.is_set()

    @property
    def is_clear(self) -> bool:
        """True if nothing waits here to be sent."""
        return not self._unsent

    async def open(self) -> None:
        """Let both ends prove themselves, and agree on the protocol.

        Raises:
            Failed: why not.
        """
        try:
            await self._shake_hands()
        except ssl.SSLError as error:
            raise ConnectionFailed(explained(error)) from None
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionFailed(HUNG_UP) from None
        try:
            await self._upgrade()
        except ssl.SSLError as error:
            raise ConnectionFailed(explained(error)) from None
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionFailed(
                f"the connection broke: {error or type(error).__name__}"
            ) from None
        self.opened = self.last_received = trio.current_time()

    async def _shake_hands(self) -> None:
        done = False
        while not done:
            try:
                done = self._pump.greet()
            finally:
                await self._push()  # also the alert, which says why
            if not done:
                await self._pull()

    async def _upgrade(self) -> None:
        if isinstance(self._socket, ClientProtocol):
            self._socket.send_request(self._socket.connect())
        while self._socket.state is State.CONNECTING and self._socket.handshake_exc is None:
            self._encrypt()
            await self._push()
            # The server's refusal comes after the handshake, as an alert.
            for piece in await self._plain():
                self._socket.receive_data(piece)
            for event in self._socket.events_received():
                if isinstance(event, Request) and isinstance(self._socket, ServerProtocol):
                    self._socket.send_response(self._socket.accept(event))
        self._encrypt()
        await self._push()
        wrong = self._socket.handshake_exc
        if wrong is None and self._socket.subprotocol != SPEAKS:
            wrong = InvalidHandshake("its version is another one")
        if wrong is not None:
            raise ConnectionFailed(f"the other end is proved, but speaks otherwise: {wrong}")

    async def _plain(self) -> list[bytes]:
        while not (found := [piece for piece in self._pump.pieces() if piece]):
            await self._pull()
        return found

    async def _pull(self) -> None:
        data = await self._transport.receive_some(READ)
        if not data:
            raise ConnectionFailed(HUNG_UP)
        self._pump.feed(data)

    async def _push(self) -> None:
        data = self._pump.outgoing()
        if data:
            await self._transport.send_all(data)

    async def run(self, packet: Callable[[bytes], None], pause: float, patience: float) -> None:
        """Carry packets until it is over; ``why`` has the reason.

        Args:
            packet: called with each that comes.
            pause: seconds without anything after which the other end is probed.
            patience: seconds without anything after which it is gone.
        """
        try:
            with self._ended:
                await self._run(packet, pause, patience)
        except* (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as errors:
            self.why = self.why or f"the connection broke: {_first(errors)}"
        except* ConnectionFailed as errors:
            self.why = self.why or str(_first(errors))
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._transport)
            self.released()
            self.closed.set()

    async def _run(self, packet: Callable[[bytes], None], pause: float, patience: float) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._flush)
            nursery.start_soon(self._keep, pause, patience)
            await self._receive(packet)
            with trio.move_on_after(1.0):
                await self._emptied()
            nursery.cancel_scope.cancel()

    def discard(self) -> None:
        """Close one that nobody runs."""
        self._sock.close()
        self.released()

    @property
    def file(self) -> int:
        """The descriptor of its connection; -1 once it is closed."""
        return self._sock.fileno()

    def break_off(self, why: str) -> None:
        """End it at once; packets on their way are lost."""
        self.why = self.why or why
        # One packet, a reset, and no more: it may have to be quiet from now on.
        disconnect(self._sock.fileno())
        self._ended.cancel()

    def end(self) -> None:
        """Say goodbye: packets on their way still come until the other end has answered."""
        if self._socket.state is State.OPEN:
            self._socket.send_close(1000, "replaced")
            self._give()

    def send(self, pieces: list[bytes]) -> None:
        """Give packets, each with its header; as many as the connection takes go at once."""
        if self._socket.state is not State.OPEN:
            return
        for piece in pieces:
            self._socket.send_binary(piece)
        self._give()

    def _give(self) -> None:
        try:
            self._encrypt()
        except ssl.SSLError as error:
            # It has received nonsense, which the reader is about to see.
            self.break_off(explained(error))
            return
        data = self._pump.outgoing()
        if data:
            self._unsent.append(data)
            self._waiting += len(data)
        self._try()
        if self._unsent:
            self._wake.set()

    def _encrypt(self) -> None:
        self._pump.write(b"".join(self._socket.data_to_send()))

    def _try(self) -> None:
        """Hand to the kernel as much as it takes now."""
        while self._unsent and self._direct:
            data = self._unsent[0]
            try:
                size = os.write(self._sock.fileno(), data)
            except BlockingIOError:
                return
            except OSError:
                return  # the reader gets the error
            self._waiting -= size
            if size < len(data):
                self._unsent[0] = data[size:]
            else:
                self._unsent.popleft()

    async def _flush(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._unsent:
                if self._direct:
                    await trio.lowlevel.wait_writable(self._sock)
                    self._try()
                else:
                    data = self._unsent[0]
                    await self._transport.send_all(data)
                    self._unsent.popleft()
                    self._waiting -= len(data)
            self._empty.set()
            self.drained()

    async def _emptied(self) -> None:
        while self._unsent:
            self._empty = trio.Event()
            await self._empty.wait()

    async def _receive(self, packet: Callable[[bytes], None]) -> None:
        space = bytearray(READ)
        while True:
            try:
                self._take(packet)
                if self._socket.close_rcvd is not None or self._socket.parser_exc is not None:
                    return
                if self._direct:
                    size = await self._sock.recv_into(space)
                    self._pump.feed(memoryview(space)[:size])
                else:
                    data = await self._transport.receive_some(READ)
                    size = len(data)
                    self._pump.feed(data)
            except ssl.SSLError as error:
                self.why = explained(error)
                return
            if not size:
                self.why = self.why or "the other end hung up"
                return
            self.last_received = trio.current_time()

    def _take(self, packet: Callable[[bytes], None]) -> None:
        """Read all that is there."""
        for piece in self._pump.pieces():
            if piece:
                self._socket.receive_data(piece)
        for event in self._socket.events_received():
            assert isinstance(event, Frame)
            if event.opcode is Opcode.BINARY and event.fin:
                packet(bytes(event.data))
            elif event.opcode is Opcode.CLOSE:
                self.why = self.why or "the other end has replaced it, or ends"
            elif event.opcode not in (Opcode.PING, Opcode.PONG):
                self.why = "the other end sends what is no packet"
                self._socket.fail(1003, "packets only")
                self._socket.parser_exc = ProtocolError(self.why)
        if self._socket.parser_exc is not None:
            self.why = self.why or f"the other end breaks the rules: {self._socket.parser_exc}"
        self._give()
        if self._waiting > MOST_WAITING:
            raise ConnectionFailed("the other end asks without reading the answers")

    async def _keep(self, pause: float, patience: float) -> None:
        while True:
            await trio.sleep(pause)
            silent = trio.current_time() - self.last_received
            if silent >= patience:
                raise ConnectionFailed(f"nothing came for {silent:.0f} s")
            if silent >= pause and self._socket.state is State.OPEN:
                self._socket.send_ping(b"")
                self._give()


def _first(errors: BaseExceptionGroup[Any]) -> BaseException:
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
