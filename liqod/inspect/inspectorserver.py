"""The inspector's websocket server: on a Unix socket, and if configured over TCP with TLS.

Every connection runs behind a wall: a fault of one client (bad data, silence, not reading) costs
that client its connection and does not affect others.
"""

import errno
import logging
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio

from liqod import websocket
from liqod.config import InspectorSettings as Settings
from liqod.errors import ConfigError
from liqod.inspect import access, protocol
from liqod.inspect.access import Guest, Reviewer
from liqod.inspect.timings import ORDINARY, InspectorTimings
from liqod.kube.http.listener import taken
from liqod.kube.http.wire import TlsWire, Wire, wire_of
from liqod.model.view import whereabouts
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import address_of, serve_listeners
from liqod.runtime.supervise import leaves
from liqod.runtime.tokenbucket import TokenBucket
from liqod.warystream import WaryListener, WaryStream
from liqod.websocket import UpgradeRefusal, UpgradeRequest, Websocket, WebsocketClosed

REVIEWS = 4
"""Most concurrent token reviews."""
FAULT = (1011, "the daemon has met a fault of its own")
READ_RATE, READ_BURST = 16 * 1024, 512 * 1024
"""Bytes read from a client, per second and at once: all data costs a little work, pings and empty
frames included, and those never reach a limit on messages."""
BACKLOG = 64
MOST_LOCAL = 128
"""Connections at the Unix socket, with those that are still being closed; the places of those who
shake hands there, and of viewers, are fewer."""
MODE = 0o660

Handler = Callable[[Websocket, Guest], Awaitable[None]]
WhoIs = Callable[[UpgradeRequest], Awaitable[Guest | None]]

log = logging.getLogger(__name__)


class Taken(ConfigError):
    """Another daemon serves at the path of the socket."""


class Server:
    """Serves the clients of the inspector.

    Args:
        handler: serves one client until it returns or the client leaves.
        reviewer: reviews tokens of clients over TCP.
        account: limits of connections.
    """

    def __init__(
        self,
        handler: Handler,
        reviewer: Reviewer,
        account: Account,
        timings: InspectorTimings = ORDINARY,
    ) -> None:
        self._account, self._timings = account, timings
        self._handler = handler
        self._reviewer = reviewer
        self._reviews = trio.CapacityLimiter(REVIEWS)

    async def run(
        self,
        listeners: list[trio.SocketListener],
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Serve until cancelled.

        Args:
            listeners: all on Unix sockets, or all over TCP.
            context: gives the TLS context for a new connection; None for Unix sockets.
        """
        if context is None:
            wary = [WaryListener(each, MOST_LOCAL) for each in listeners]
            await serve_listeners(self._serve_local, wary)
        else:
            await serve_listeners(partial(self._serve_remote, context), listeners)

    async def _serve_local(self, stream: WaryStream) -> None:
        guest = access.local(stream.socket)  # type: ignore[arg-type]  # as the standard one's

        async def who(request: UpgradeRequest) -> Guest | None:
            return guest

        await self._behind_wall(stream, None, who)

    async def _serve_remote(
        self, context: Callable[[], ssl.SSLContext], stream: trio.SocketStream
    ) -> None:
        async def who(request: UpgradeRequest) -> Guest | None:
            async with self._reviews:
                return await access.remote(self._reviewer, request.headers)

        await self._behind_wall(stream, context, who)

    async def _behind_wall(
        self,
        stream: trio.abc.Stream,
        context: Callable[[], ssl.SSLContext] | None,
        who: WhoIs,
    ) -> None:
        source, wire = address_of(stream), wire_of(stream)
        try:
            await self._serve(wire, source, context, who)
        except* Exception as group:  # the wall: a client's fault affects that client only
            log.debug("a client of the inspector was lost", extra={"reason": repr(group)})
        finally:
            wire.close()

    async def _serve(
        self,
        wire: Wire,
        source: str,
        context: Callable[[], ssl.SSLContext] | None,
        who: WhoIs,
    ) -> None:
        async with trio.open_nursery() as nursery:
            found: tuple[Websocket, Guest] | None = None
            # Clients over the network do not use the places of those on this machine.
            places = self._account[account.LOCAL if context is None else account.REMOTE]
            with places.within(source, self._timings.greeting):
                if context is not None:
                    wire = secured = TlsWire(wire, context(), None)
                    await secured.handshake()
                found = await _greet(nursery, wire, who)
            if found is not None:
                nursery.start_soon(_end_with, found[0], nursery.cancel_scope)
                await self._talk(*found)
            nursery.cancel_scope.cancel()

    async def _talk(self, connection: Websocket, guest: Guest) -> None:
        place = self._account[account.CLIENTS].enter("")
        if place is None:
            await connection.close(protocol.FULL, "too many clients")
            return
        try:
            with suppress(WebsocketClosed):
                await self._handler(connection, guest)
        except BaseException as error:
            fault = any(isinstance(leaf, Exception) for leaf in leaves(error))
            code, reason = FAULT if fault else (protocol.STOPPING, "the daemon stops")
            await connection.close(code, reason)
            raise
        finally:
            place.release()


async def _end_with(connection: Websocket, scope: trio.CancelScope) -> None:
    """Cancel the scope when the client has gone."""
    await connection.wait_ended()
    scope.cancel()


async def _greet(nursery: trio.Nursery, wire: Wire, who: WhoIs) -> tuple[Websocket, Guest]:
    """Open a websocket with a client that may look; others are refused with an HTTP status.

    Raises:
        ProtocolError: it is refused, does not request a websocket, or has gone.
    """
    guests: list[Guest] = []

    async def admit(request: UpgradeRequest) -> UpgradeRefusal | None:
        if request.path != protocol.PATH:
            return UpgradeRefusal(404, f"the inspector is at {protocol.PATH}\n".encode())
        guest = await who(request)
        if guest is None:
            return UpgradeRefusal(401, headers=((b"www-authenticate", b'Bearer realm="liqod"'),))
        guests.append(guest)
        return None

    pace = TokenBucket(READ_RATE, READ_BURST)
    made = await websocket.accept(nursery, wire, admit, largest=protocol.CLIENT_LIMIT, pace=pace)
    return made, guests[0]


def place(settings: Settings, environ: Mapping[str, str], cluster_id: str) -> Path | None:
    """Path of the socket: as configured, else in the first usual folder that is writable."""
    if settings.socket:
        return Path(settings.socket)
    for folder in whereabouts.folders(environ):
        path = Path(folder)
        with suppress(OSError):
            path.mkdir(mode=0o750, exist_ok=True)
            if os.access(path, os.W_OK | os.X_OK):
                return path / whereabouts.file_name(cluster_id)
    return None


@asynccontextmanager
async def unix_listener(path: Path, group: int | None = None) -> AsyncIterator[trio.SocketListener]:
    """Open a listening Unix socket; the socket of a dead daemon at that path is replaced.

    Args:
        path: the socket.
        group: numeric group that may look.

    Raises:
        Taken: another process serves there.
        ConfigError: the path cannot be used.
    """
    try:
        _clear(path)
        sock = _bind(path, group)
    except OSError as error:
        sort = Taken if error.errno == errno.EADDRINUSE else ConfigError
        raise sort(f"inspector.socket: {path}: {error.strerror or error}") from error
    own = _inode(path)
    try:
        yield trio.SocketListener(trio.socket.from_stdlib_socket(sock))
    finally:
        sock.close()
        if own and _inode(path) == own:
            _remove(path)


def _inode(path: Path) -> int:
    try:
        return path.lstat().st_ino
    except OSError:
        return 0


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _clear(path: Path) -> None:
    """Remove a socket without a server. Raises OSError if a process serves it."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is something else of that name")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
    raise OSError(errno.EADDRINUSE, "another daemon serves there")


def _bind(path: Path, group: int | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # The socket's own mode, less the process's mask, is the mode of its path: no other user
        # connects before the mode is final, and the mask of other files does not change.
        os.fchmod(sock.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        sock.bind(str(path))
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(MODE)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class Certificate:
    """The server certificate in files, read again when they change.

    Args:
        cert: path of the PEM chain.
        key: path of the PEM key.
    """

    def __init__(self, cert: str, key: str) -> None:
        self._paths = (cert, key)
        self._read: tuple[float, ...] = ()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context for a new connection. Raises ConfigError if the files are invalid."""
        try:
            changed = tuple(os.stat(path).st_mtime for path in self._paths)
            if self._context is None or changed != self._read:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.load_cert_chain(*self._paths)
                self._context, self._read = context, changed
        except (OSError, ssl.SSLError) as error:
            if self._context is None:
                raise ConfigError(f"inspector.cert_file, key_file: {error}") from error
        return self._context


async def tcp_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """Open listening TCP sockets. Raises ConfigError if the address cannot be bound."""
    try:
        found: list[Any] = await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        raise taken(error, "inspector", host, port, ", or inspector.host") from error
    return found
