"""Shares one TCP port among several programs of this machine, by the server names of connections.

The program that comes first has the port, alone: none of anybody else's is ever given a part of
what comes there, nor gives one. The name that a ClientHello calls says whose a connection is, and
one that is another's is handed on by the socket of that name in the folder. The others wait until
the first one ends, for any reason, and one of them has the port then. A connection that calls
nobody's name is closed: nothing was said to it, and nothing was kept but its connection.

Of these programs are the servers of websocket tunnels, one for each peer, and the daemon, which
takes the calls of other daemons.
"""

import errno
import os
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import trio

from liqod.runtime.connectionlimit import ConnectionLimiter, accepted, address_of, serve_listeners

SHARED: Final = 443
"""The port that tunnels in websockets take, where nobody says another."""
BACKLOG: Final = 512
NAMED_WITHIN: Final = 5.0
"""Seconds until they must have."""
LOOK: Final = 0.05
"""Seconds until a beginning that has no end yet is looked at again."""
TRIES: Final = 10
"""Looks at who has the port until it is another program."""
AGAIN: Final = 5.0
"""Seconds until a port is tried again that another program took between two of ours."""
DAEMON: Final = "liqod-peering"
"""The name that daemons call when they dial each other; tunnels call 32 hexadecimal digits."""
_NAME: Final = re.compile(rf"([0-9a-f]{{32}}|{DAEMON})\..{{1,220}}")

Turn = trio.socket.SocketType | trio.SocketStream
"""A process's hold of a port: a listening socket, or a connection to the program that has one."""


def program_of(called: str) -> str | None:
    """The program that a name is for, by its first label; None where it is for none of ours.

    Args:
        called: the name in a TLS ``ClientHello``.
    """
    found = _NAME.fullmatch(called)
    return None if found is None else found[1]


class SharedPort:
    """Takes the connections that call one name.

    Args:
        name: the first label of what is called.
        port: where to listen, alone or in turn with others.
        folder: with the sockets of this machine's programs; this user's own.
        holder: distinguishes this program's own sockets from those of others.
        mark: firewall mark of what is sent; 0 for none.
        take: given each connection, which is its own from then on.
        places: of connections that have called nobody yet.

    Attributes:
        why: why the port cannot be had; empty while there is no reason known.
    """

    def __init__(
        self,
        name: str,
        port: int,
        folder: Path,
        holder: str,
        mark: int,
        take: Callable[[trio.socket.SocketType], Awaitable[None]],
        places: ConnectionLimiter,
    ) -> None:
        self.why = ""
        self._name, self._port = name, port
        self._folder, self._holder, self._mark = folder, holder, mark
        self._take = take
        self._places = places

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Listen until cancelled.

        Raises:
            OSError: the port is taken, before it is ready.
        """
        handed = self._folder / f"{self._holder}.{self._name}"
        turn = await self._turn()
        with _receiver(handed) as receiver:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._receive, receiver, nursery)
                    task_status.started()
                    await self._turns(turn, nursery)
            finally:
                handed.unlink(missing_ok=True)
        raise AssertionError("listening ends by cancellation only")

    async def _turns(self, turn: Turn, nursery: trio.Nursery) -> NoReturn:
        """Have the port, or wait for the one that has it to end."""
        while True:
            if isinstance(turn, trio.SocketStream):
                async with turn:
                    with suppress(trio.BrokenResourceError):
                        await turn.receive_some(1)
            else:
                with turn:
                    await self._listen(turn, nursery)
            while True:
                try:
                    turn = await self._turn()
                    self.why = ""
                    break
                except OSError as error:
                    self.why = f"TCP port {self._port}: {error.strerror or error}"
                    await trio.sleep(AGAIN)

    async def _turn(self) -> Turn:
        """The port, or a connection to the process of another peer that has it.

        Raises:
            OSError: another program has it, or it cannot be had.
        """
        for _ in range(TRIES):
            found = bound(self._port, self._mark) or await self._other()
            if found is not None:
                return found
            # Between the port and the socket of who has it there is a moment.
            await trio.sleep(LOOK)
        raise OSError(errno.EADDRINUSE, "another program has that TCP port on this machine")

    async def _other(self) -> trio.SocketStream | None:
        """A connection to the process of another peer that has the port; it lasts as long."""
        for path in self._folder.glob(f"*.port-{self._port}"):
            with suppress(OSError):
                return await trio.open_unix_socket(path)
        return None

    async def _listen(self, listener: trio.socket.SocketType, nursery: trio.Nursery) -> NoReturn:
        """Accept a connection; the processes of other peers see that this one does."""
        path = self._folder / f"{self._holder}.port-{self._port}"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            made.bind(os.fspath(path))
            made.listen(BACKLOG)
            others = trio.SocketListener(trio.socket.from_stdlib_socket(made))
            try:
                nursery.start_soon(serve_listeners, _last, [others])
                while True:
                    came, _ = await accepted(listener.accept)
                    nursery.start_soon(self._stranger, came, nursery)
            finally:
                path.unlink(missing_ok=True)

    async def _stranger(self, came: trio.socket.SocketType, nursery: trio.Nursery) -> None:
        """See whom it calls."""
        called = ""
        try:
            with suppress(NotTls, OSError), self._places.within(address_of(came), NAMED_WITHIN):
                called = await _called(came)
        except BaseException:
            came.close()
            raise
        program = program_of(called)
        if program is None:
            came.close()
        elif program == self._name:
            nursery.start_soon(self._take, came)
        else:
            with came:
                hand_over(self._folder, program, came.fileno())

    async def _receive(self, receiver: socket.socket, nursery: trio.Nursery) -> NoReturn:
        """Take connections that other processes were given."""
        while True:
            await trio.lowlevel.wait_readable(receiver)
            try:
                _, files, _, _ = socket.recv_fds(receiver, 1, 1, socket.MSG_DONTWAIT)
            except OSError:
                continue
            for file in files:
                came = socket.socket(fileno=file)
                # It has the mark of the program that listened, and a gateway's fence goes by marks.
                try:
                    if came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) != self._mark:
                        came.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, self._mark)
                except OSError:
                    came.close()
                    continue
                nursery.start_soon(self._take, trio.socket.from_stdlib_socket(came))


async def _called(came: trio.socket.SocketType) -> str:
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


def hand_over(folder: Path, name: str, file: int) -> bool:
    """Give a connection to whose it is; whether there is one, which takes it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to:
        to.setblocking(False)
        for path in folder.glob(f"*.{name}"):
            try:
                to.connect(os.fspath(path))
                socket.send_fds(to, [b"!"], [file])
            except OSError:
                continue
            return True
    return False


async def _last(stream: trio.SocketStream) -> None:
    """Answer nothing: the connection's end is the answer."""
    with suppress(trio.BrokenResourceError):
        await stream.receive_some(1)


def bound(port: int, mark: int) -> trio.socket.SocketType | None:
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
    return trio.socket.from_stdlib_socket(made)


def _receiver(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        made.bind(os.fspath(path))
    except BaseException:
        made.close()
        raise
    return made


MOST: Final = 16384
"""Bytes of a record that are waited for; a ClientHello has some hundreds, with new key shares two
thousand."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST = 22, 1, 0, 0


class NotTls(Exception):
    """It is no ClientHello, or one without a name."""


def server_name(begin: bytes) -> str | None:
    """The name that is called; None where more bytes are needed.

    Args:
        begin: what came so far.

    Raises:
        NotTls: nothing that may follow makes it one.
    """
    if not begin:
        return None
    if begin[0] != _HANDSHAKE or (len(begin) > 1 and begin[1] != 3):
        raise NotTls("it does not speak TLS")
    if len(begin) < 5:
        return None
    size = int.from_bytes(begin[3:5], "big")
    if not 42 <= size <= MOST:
        raise NotTls("its first record has no ClientHello's size")
    if len(begin) < 5 + size:
        return None
    try:
        return _named(_Reader(begin[5 : 5 + size]))
    except IndexError:
        raise NotTls("its ClientHello has no end") from None


class _Reader:
    """Takes bytes from the front. Raises IndexError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise IndexError(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> "_Reader":
        """The next block, which has its length before it in so many bytes."""
        return _Reader(self.take(self.number(size)))


def _named(record: _Reader) -> str:
    if record.number(1) != _CLIENT_HELLO:
        raise NotTls("it begins with no ClientHello")
    hello = record.block(3)
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    extensions = hello.block(2)
    while extensions.left:
        kind, body = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = body.block(2)
            if names.number(1) == _HOST:
                name = names.block(2)
                return name.take(name.left).decode("ascii", "replace")
    raise NotTls("it names nobody")
