"""Shares one TCP port between the daemon and this machine's tunnels, by the names that are called.

The tunnels' process has the port where it serves tunnels: the name that a ClientHello calls says
whose a connection is, and one that is the daemon's is handed to it. Where no tunnel is served, the
daemon listens itself, until the parent of that process asks it for the socket: so there is no
moment in which nobody listens. No other program is ever given a part of what comes there, nor gives
one. A connection that calls nobody's name is closed: nothing was said to it, and nothing was kept
but its connection.
"""

import errno
import json
import logging
import os
import re
import socket
from array import array
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec
import trio

from liqod.model.network.clienthello import MOST, NotTls, server_name
from liqod.runtime.connectionlimit import (
    ConnectionLimiter,
    PlacesReport,
    accepted,
    address_of,
)
from liqod.runtime.unixpeer import unix_peer
from liqod.runtime.unixstream import connected

log = logging.getLogger(__name__)

SHARED: Final = 443
"""The port that tunnels in websockets take, where nobody says another."""
BACKLOG: Final = 512
NAMED_WITHIN: Final = 5.0
"""Seconds until they must have."""
LOOK: Final = 0.05
"""Seconds until a beginning that has no end yet is looked at again."""
TRIES: Final = 10
"""Looks at who has the port until it is another program."""
AGAIN: Final = 1.0
"""Seconds until a port is tried again that another program has."""
TAKEN: Final = "another program has that TCP port on this machine"
CALLS: Final = "calls"
"""The request of a daemon to the tunnels' process for what calls it at a port."""
PROCESSES: Final = "tunnels*.socket"
"""The names of the sockets of such processes."""
MOST_REPORTED: Final = 8192
"""Bytes of a report of the process that listens, in one line; 64 reasons have some 3,000."""
HANDED: Final = b"!"
"""The byte beside a connection that is handed over; alone it says that there will be some."""
_NETWORK: Final = (socket.AF_INET, socket.AF_INET6)
_STREAM: Final = socket.SOCK_STREAM | socket.SOCK_CLOEXEC
_INT: Final = array("i").itemsize
_CLOSE_ON_EXEC: Final = 0x40000000
"""``MSG_CMSG_CLOEXEC``."""
DAEMON: Final = "liqod-peering"
"""The name that daemons call when they dial each other; tunnels call 32 hexadecimal digits."""
_NAME: Final = re.compile(rf"([0-9a-f]{{32}}|{DAEMON})\..{{1,220}}")

Turn = trio.socket.SocketType | trio.SocketStream
"""The socket that listens at the port, or a connection to the process that has it."""


def program_of(called: str) -> str | None:
    """The program that a name is for, by its first label; None where it is for none of ours.

    Args:
        called: the name in a TLS ``ClientHello``.
    """
    found = _NAME.fullmatch(called)
    return None if found is None else found[1]


class SharedPort:
    """Takes the connections to a port that call the daemon.

    Args:
        port: where to listen, or whose listener to be handed connections by.
        folder: with the sockets of this machine's programs; this user's own.
        take: given each connection, which is its own from then on.
        places: of connections that have called nobody yet.
    """

    def __init__(
        self,
        port: int,
        folder: Path,
        take: Callable[[trio.socket.SocketType], Awaitable[None]],
        places: ConnectionLimiter,
    ) -> None:
        self._port, self._folder = port, folder
        self._take, self._places = take, places

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Take them until cancelled.

        Raises:
            OSError: the port is taken, before it is ready.
        """
        turn = await self._turn()
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                if isinstance(turn, trio.SocketStream):
                    await self._be_handed(turn, nursery)
                else:
                    await self._listen(turn, nursery)
                turn = await self._next()
        raise AssertionError("listening ends by cancellation only")

    async def _next(self) -> Turn:
        """The port, or its listener, as soon as there is one of both."""
        while True:
            try:
                return await self._turn()
            except OSError as error:
                why = error.strerror or str(error)
                log.warning("TCP port %s: %s", self._port, why)
                await trio.sleep(AGAIN)

    async def _turn(self) -> Turn:
        """The port, or a connection to the process of the tunnels, which has it.

        Raises:
            OSError: another program has it, or it cannot be had.
        """
        for _ in range(TRIES):
            found = bound(self._port, 0)
            if found is not None:
                return trio.socket.from_stdlib_socket(found)
            stream = await self._listener()
            if stream is not None:
                return stream
            # Between the port and the process that is to have it there is a moment.
            await trio.sleep(LOOK)
        raise OSError(errno.EADDRINUSE, TAKEN)

    async def _listener(self) -> trio.SocketStream | None:
        """A connection to the process that listens, which hands over connections by it."""
        request = json.dumps({"do": CALLS, "tunnel": "", "port": self._port}).encode() + b"\n"
        for path in self._folder.glob(PROCESSES):
            with suppress(OSError, trio.BrokenResourceError, trio.TooSlowError):
                stream = await connected(path, NAMED_WITHIN)
                listens = False
                try:
                    listens = await _asked(stream, request)
                finally:
                    if not listens:
                        await trio.aclose_forcefully(stream)
                if listens:
                    return stream
        return None

    async def _listen(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        """Accept connections, until the socket that listens is given away."""
        path = _place(self._folder, self._port)
        path.unlink(missing_ok=True)
        with listener, socket.socket(socket.AF_UNIX, _STREAM) as made:
            made.bind(os.fspath(path))
            made.listen(BACKLOG)
            others = trio.socket.from_stdlib_socket(made)
            try:
                async with trio.open_nursery() as accepting:
                    accepting.start_soon(self._accept, listener, nursery)
                    await _given_away(others, listener)
                    accepting.cancel_scope.cancel()
            finally:
                path.unlink(missing_ok=True)

    async def _accept(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> NoReturn:
        while True:
            came, _ = await accepted(listener.accept)
            nursery.start_soon(self._stranger, came, nursery)

    async def _stranger(self, came: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        """See whom it calls: there is nobody here but the daemon."""
        name = ""
        try:
            with suppress(NotTls, OSError), self._places.within(address_of(came), NAMED_WITHIN):
                name = await called(came)
        except BaseException:
            came.close()
            raise
        if program_of(name) == DAEMON:
            nursery.start_soon(self._take, came)
        else:
            came.close()

    async def _be_handed(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        """Take what the process that listens hands over, until it has the port no more."""
        reports = b""
        async with stream:
            try:
                while True:
                    data, files = await received(stream.socket, MOST_REPORTED, 8)
                    for file in files:
                        came = _connection(file)
                        if came is not None:
                            nursery.start_soon(self._take, came)
                    if not data:
                        return
                    reports = read_reports(self._places, reports + data.replace(HANDED, b""))
            except (OSError, ValueError):
                return  # it is gone, or speaks nonsense: it is asked anew
            finally:
                last = self._places.elsewhere
                self._places.elsewhere = msgspec.structs.replace(last, taken=0)


def read_reports(places: ConnectionLimiter, data: bytes) -> bytes:
    """Take the reports that are whole; returns the beginning of the next one.

    Args:
        places: of the face that they are about.
        data: from the process that listens.

    Raises:
        ValueError: it is no report.
    """
    *lines, rest = data.split(b"\n")
    for line in lines:
        places.take_report(msgspec.json.decode(line, type=PlacesReport))
    if len(rest) > MOST_REPORTED:
        raise ValueError("the report has no end")
    return rest


async def _asked(stream: trio.SocketStream, request: bytes) -> bool:
    """True if the process at the other end listens, and hands over connections from now on.

    Raises:
        OSError, trio.BrokenResourceError, trio.TooSlowError: it gives no answer.
    """
    if not unix_peer(stream.socket).trusted:
        return False
    with trio.fail_after(NAMED_WITHIN):
        await stream.send_all(request)
        return bool(await stream.receive_some(1) == HANDED)


async def _given_away(others: trio.socket.SocketType, listener: trio.socket.SocketType) -> None:
    """Wait until the socket that listens is asked for, and hand it over."""
    while True:
        asker, _ = await accepted(others.accept)
        with suppress(OSError, trio.TooSlowError):
            async with trio.SocketStream(asker) as stream:
                if unix_peer(asker).trusted:
                    await hand_over(stream, listener)
                    return


async def asked_for(folder: Path, port: int) -> socket.socket | None:
    """The socket of the daemon that listens at a port, which it does no more; None for none.

    Args:
        folder: with the sockets of this machine's programs.
        port: the port.
    """
    with suppress(OSError, trio.TooSlowError):
        async with await connected(_place(folder, port), NAMED_WITHIN) as stream:
            with trio.fail_after(NAMED_WITHIN):
                if unix_peer(stream.socket).trusted:
                    _, files = await received(stream.socket, 1, 1)
                    return as_socket(files[0]) if files else None
    return None


def _place(folder: Path, port: int) -> Path:
    """The path of the socket by which a daemon is asked for the one that listens."""
    return folder / f"daemon.port-{port}"


async def hand_over(stream: trio.SocketStream, connection: trio.socket.SocketType) -> None:
    """Give a copy of a connection to the other end.

    Raises:
        OSError, trio.TooSlowError: it does not take it.
    """
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [connection.fileno()]))]
    with trio.fail_after(NAMED_WITHIN):
        await stream.socket.sendmsg([HANDED], beside)


async def received(come: trio.socket.SocketType, size: int, most: int) -> tuple[bytes, list[int]]:
    """Some bytes, and the descriptors beside them, which are the caller's to close.

    Args:
        come: a Unix socket.
        size: bytes at the most.
        most: descriptors; the kernel closes further ones.

    Raises:
        OSError: the connection is broken.
    """
    room = socket.CMSG_SPACE(most * _INT)
    data, beside, _, _ = await come.recvmsg(size, room, _CLOSE_ON_EXEC)
    files: list[int] = []
    for level, kind, content in beside:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files += array("i", content[: len(content) - len(content) % _INT])
    return data, files


def as_socket(file: int) -> socket.socket:
    """A descriptor that was handed over, as a socket.

    Raises:
        OSError: it is none, and closed.
    """
    try:
        return socket.socket(fileno=file)
    except OSError:
        os.close(file)
        raise


def _connection(file: int) -> trio.socket.SocketType | None:
    """A descriptor as a TCP connection of no mark; None where it is none, and closed.

    It has the mark of the process that listened, and a gateway's fence goes by marks.
    """
    try:
        came = as_socket(file)
    except OSError:
        return None
    try:
        if came.family not in _NETWORK or came.type != socket.SOCK_STREAM:
            raise OSError("it is no connection of a network's")
        if came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK):
            came.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0)
        return trio.socket.from_stdlib_socket(came)
    except OSError:
        came.close()
        return None


async def called(came: trio.socket.SocketType) -> str:
    """The name that a connection calls. Raises NotTls, OSError."""
    seen = 0
    while True:
        begin = await came.recv(MOST + 5, socket.MSG_PEEK)
        name = server_name(begin)
        if name is not None:
            return name
        if not begin or len(begin) > MOST:
            raise NotTls("it says nothing")
        # What was seen stays there, so that the socket stays readable.
        await trio.sleep(LOOK if len(begin) == seen else 0.001)
        seen = len(begin)


def bound(port: int, mark: int) -> socket.socket | None:
    """A socket that listens; None where another process has the port.

    Args:
        port: the port.
        mark: firewall mark of what is answered.

    Raises:
        OSError: it cannot be had for another reason.
    """
    both = socket.has_dualstack_ipv6()
    family, everywhere = (socket.AF_INET6, "::") if both else (socket.AF_INET, "0.0.0.0")
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if both:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if mark:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        made.bind((everywhere, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return made
