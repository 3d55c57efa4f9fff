"""Shares one TCP port between the daemon and this machine's tunnels, by the names that are called.

    stranger ─ TCP 443 ─ `liqod tunnel` (reads the name) ─ `liqod node` (reads nothing) ─ the daemon

`liqod node` opens the port, the tunnels' process listens there, and the name that a ClientHello
calls says whose a connection is. One that calls nobody's name is closed: nothing was said to it,
and nothing was kept but its connection.
"""

import errno
import os
import re
import socket
from array import array
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec
import trio

from liqod.model.network.clienthello import MOST, NotTls, server_name
from liqod.runtime.connectionlimit import ConnectionLimiter, PlacesReport

SHARED: Final = 443
"""The port that tunnels in websockets take, where nobody says another."""
BACKLOG: Final = 512
NAMED_WITHIN: Final = 5.0
"""Seconds until they must have."""
LOOK: Final = 0.05
"""Seconds until a beginning that has no end yet is looked at again."""
TAKEN: Final = "another program has that TCP port on this machine"
CALLS: Final = "calls"
"""The request to the tunnels' process for what calls the daemon at a port."""
MOST_REPORTED: Final = 8192
"""Bytes of a report of the process that listens, in one line; 64 reasons have some 3,000."""
MOST_HANDED: Final = 8
"""Connections in one message."""
HANDED: Final = b"!"
"""The byte beside a connection that is handed over; alone it says that there will be some."""
_NETWORK: Final = (socket.AF_INET, socket.AF_INET6)
_INT: Final = array("i").itemsize
_CLOSE_ON_EXEC: Final = 0x40000000
"""``MSG_CMSG_CLOEXEC``."""
DAEMON: Final = "liqod-peering"
"""The name that daemons call when they dial each other; tunnels call 32 hexadecimal digits."""
_NAME: Final = re.compile(rf"([0-9a-f]{{32}}|{DAEMON})\..{{1,220}}")

Connect = Callable[[int], Awaitable[trio.SocketStream]]
"""Connects to the program that hands over what calls the daemon at a port. Raises LiqodError."""


def program_of(called: str) -> str | None:
    """The program that a name is for, by its first label; None where it is for none of ours.

    Args:
        called: the name in a TLS ``ClientHello``.
    """
    found = _NAME.fullmatch(called)
    return None if found is None else found[1]


async def be_handed(
    stream: trio.SocketStream,
    take: Callable[[trio.socket.SocketType], Awaitable[None]],
    places: ConnectionLimiter,
    nursery: trio.Nursery,
) -> None:
    """Take the connections that call the daemon, for as long as they are handed over.

    Args:
        stream: to the program that hands them over; it ends with this.
        take: given each connection, which is its own from then on.
        places: of connections that have called nobody yet, by that program's reports.
        nursery: has the tasks of those that were taken, which go on.
    """
    reports = b""
    async with stream:
        try:
            while True:
                data, files = await received(stream.socket, MOST_REPORTED, MOST_HANDED)
                for file in files:
                    came = as_connection(file)
                    if came is not None:
                        nursery.start_soon(take, trio.socket.from_stdlib_socket(came))
                if not data:
                    return
                reports = read_reports(places, reports + data.replace(HANDED, b""))
        except (OSError, ValueError):
            return  # it is gone, or speaks nonsense: it is asked anew
        finally:
            places.elsewhere = msgspec.structs.replace(places.elsewhere, taken=0)


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


async def hand_over(stream: trio.SocketStream, connection: trio.socket.SocketType) -> None:
    """Give a copy of a connection to the other end.

    Raises:
        OSError, trio.TooSlowError: it does not take it.
    """
    with trio.fail_after(NAMED_WITHIN):
        await send(stream, HANDED, [connection.fileno()])


class UnixStream(Protocol):
    """A connection beside whose bytes descriptors go."""

    socket: trio.socket.SocketType

    async def send_all(self, data: bytes, /) -> None:
        """As :meth:`trio.abc.SendStream.send_all`."""


async def send(stream: UnixStream, line: bytes, files: Sequence[int] = ()) -> None:
    """Send a line, with descriptors beside it. Raises OSError, BrokenResourceError."""
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))] if files else []
    sent = await stream.socket.sendmsg([line], beside)
    if sent < len(line):
        await stream.send_all(line[sent:])


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


def as_connection(file: int, port: int = 0) -> socket.socket | None:
    """A descriptor as a TCP connection of no mark; None where it is none, and closed.

    It has the mark of the socket that listened, and a gateway's fence goes by marks: where a mark
    may be taken off, what this machine has dialled, and what listens, keeps its own.

    Args:
        file: the descriptor.
        port: at which it was accepted; 0 where that is not known.
    """
    try:
        came = as_socket(file)
    except OSError:
        return None
    try:
        if came.family not in _NETWORK or came.type != socket.SOCK_STREAM:
            raise OSError("it is no connection of a network's")
        if port and came.getsockname()[1] != port:
            raise OSError("it was not accepted at that port")
        if came.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError("it listens")
        if came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK):
            came.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0)
        came.setblocking(False)
    except OSError:
        came.close()
        return None
    return came


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
