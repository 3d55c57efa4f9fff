"""A server's part: sessions with its peer, at a port that is shared by the servers of all peers.

The process has the port's one listening socket, which its parent made, and accepts for all: the
name that a ClientHello calls decides for whom. A call of the daemon's name is handed back to the
parent, unread, for the daemon. A connection that calls nobody's name is closed: nothing was said to
it.

A connection with a server's name may be of any client: it has to prove itself the peer's.
"""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

import msgspec
import trio

from liqod.model.network.clienthello import NotTls
from liqod.runtime.account import CALLERS, SHARED, Account
from liqod.runtime.connectionlimit import ConnectionLimiter, accepted, address_of
from liqod.sharedport import DAEMON, NAMED_WITHIN, as_socket, called, hand_over, program_of
from liqod.tunnel.tunnelsession import ConnectionFailed, TunnelSession, tuned, written

PROVED_WITHIN: Final = 10.0
"""Seconds for that."""
REPORTED: Final = 1.0
"""Seconds between reports to the daemon, where there is something new."""

Carry = Callable[[TunnelSession], None]
Take = Callable[[trio.socket.SocketType], None]


class DaemonLine:
    """A connection that leads to the daemon, by one message after another.

    Args:
        stream: the connection.
        cluster: id of the daemon's cluster.
    """

    def __init__(self, stream: trio.SocketStream, cluster: str) -> None:
        self.stream, self.cluster = stream, cluster
        self._turn = trio.Lock()

    async def hand_over(self, connection: trio.socket.SocketType) -> None:
        """Give it a copy of a connection. Raises OSError, trio.TooSlowError: it takes none."""
        async with self._turn:
            await hand_over(self.stream, connection)

    async def report(self, line: bytes) -> None:
        """Report in one line. Raises OSError: it is gone, or takes no more."""
        async with self._turn:
            # At once or not at all: a descriptor may be handed over beside it.
            if await self.stream.socket.send(line) != len(line):
                self.stream.socket.shutdown(socket.SHUT_RDWR)
                raise ConnectionError("the line is cut")


class Port:
    """One port at which the process listens.

    Args:
        listener: its socket; closed with this.
        strangers: places of those who have called no name yet.

    Attributes:
        servers: takes a connection, by the name that it calls.
        daemon: a connection that leads to the daemon, for what calls it; None where none does.
        awaited: True until the server that it was opened for has it.
    """

    def __init__(self, listener: socket.socket, strangers: ConnectionLimiter) -> None:
        self.servers: dict[str, Take] = {}
        self.daemon: DaemonLine | None = None
        self.awaited = True
        self.number = int(listener.getsockname()[1])
        self._listener = trio.socket.from_stdlib_socket(listener)
        self._strangers = strangers
        self._over = trio.Event()

    @property
    def file(self) -> int:
        """The descriptor of its socket."""
        return self._listener.fileno()

    async def run(self) -> None:
        """Accept connections until it is closed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._accept, nursery)
            await self._over.wait()
            nursery.cancel_scope.cancel()

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()
        self._over.set()

    async def hand_on(self, stream: trio.SocketStream, cluster: str) -> None:
        """Hand a cluster's daemon what calls it, until its connection or the port is gone."""
        self.daemon = line = DaemonLine(stream, cluster)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._closed, nursery.cancel_scope)
                nursery.start_soon(self._report, line)
                with suppress(trio.BrokenResourceError):
                    await stream.receive_some(1)
                nursery.cancel_scope.cancel()
        finally:
            if self.daemon is line:
                self.daemon = None

    async def _report(self, line: DaemonLine) -> None:
        """Report to the daemon who was refused here: it shows that, and this process has no face.

        It ends where the daemon does not take it, and the daemon's end is seen elsewhere.
        """
        told = None
        while True:
            report = self._strangers.report
            if report != told:
                try:
                    await line.report(msgspec.json.encode(report) + b"\n")
                except OSError:
                    return
                told = report
            await trio.sleep(REPORTED)

    async def _closed(self, scope: trio.CancelScope) -> None:
        await self._over.wait()
        scope.cancel()

    async def _accept(self, nursery: trio.Nursery) -> None:
        with suppress(OSError, trio.ClosedResourceError):
            while True:
                came, _ = await accepted(self._listener.accept)
                nursery.start_soon(self._stranger, came)

    async def _stranger(self, came: trio.socket.SocketType) -> None:
        """See whom it calls."""
        program = None
        try:
            with (
                suppress(NotTls, OSError),
                self._strangers.within(address_of(came), NAMED_WITHIN),
            ):
                program = program_of(await called(came))
                if program == DAEMON and self.daemon is not None:
                    await self.daemon.hand_over(came)
        except BaseException:
            came.close()
            raise
        take = self.servers.get(program or "")
        if take is None:
            came.close()
        else:
            take(came)


class Ports:
    """All ports at which the process listens.

    Args:
        account: what callers may take of this process.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._ports: dict[int, Port] = {}

    @property
    def callers(self) -> ConnectionLimiter:
        """Places of those who are to prove themselves."""
        return self._account[CALLERS]

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of all of them."""
        return tuple(self._ports)

    def open(self, file: int) -> Port | None:
        """The port of a descriptor that listens; None where there is one already.

        Raises:
            OSError: it is no such descriptor.
        """
        listener = as_socket(file)
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.close()
            raise OSError("the descriptor that came along does not listen")
        if listener.getsockname()[1] in self._ports:
            listener.close()
            return None
        port = Port(listener, self._account[SHARED])
        self._ports[port.number] = port
        return port

    @property
    def called(self) -> dict[int, str]:
        """Ids of the clusters whose daemons are called, by ports."""
        return {port.number: port.daemon.cluster for port in self._ports.values() if port.daemon}

    def files(self, number: int) -> list[int]:
        """The descriptor of one of them, where it is there."""
        return [self._ports[number].file] if number in self._ports else []

    def get(self, number: int) -> Port | None:
        """One of them; None where this process does not listen there."""
        return self._ports.get(number)

    def close_unused(self) -> None:
        """Close those that have no server any more, and lead to no daemon."""
        for port in list(self._ports.values()):
            if port.servers or port.awaited or port.daemon is not None:
                continue
            del self._ports[port.number]
            port.close()


class Listener:
    """Has sessions with the one peer.

    Args:
        how: TLS.
        name: by which the peer calls.
        port: where it listens.
        mark: firewall mark of its packets; 0 for none.
        ports: of the process.
        carry: takes an open session until it is over.

    Attributes:
        why: the reason no connection succeeds; empty while none is known.
    """

    def __init__(
        self,
        how: ssl.SSLContext,
        name: str,
        port: int,
        mark: int,
        ports: Ports,
        carry: Carry,
    ) -> None:
        self.why = ""
        self._how, self._name, self._number, self._mark = how, name, port, mark
        self._ports, self._carry = ports, carry

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Take the peer's connections until cancelled.

        Raises:
            OSError: this process does not listen at the port, before it is ready.
        """
        port = self._ports.get(self._number)
        if port is None:
            raise OSError("the process has no socket that listens there")
        async with trio.open_nursery() as nursery:

            def take(came: trio.socket.SocketType) -> None:
                nursery.start_soon(self._caller, came)

            with _served(port, self._name, take):
                task_status.started()
                await trio.sleep_forever()
        raise AssertionError("listening ends by cancellation only")

    async def _caller(self, came: trio.socket.SocketType) -> None:
        """See whether it is the peer."""
        stream = trio.SocketStream(came)
        session: TunnelSession | None = None

        try:
            with self._ports.callers.within(address_of(came), PROVED_WITHIN):
                session = await self._proved(stream, came)
        except OSError:
            pass
        finally:
            if session is None:
                with trio.CancelScope(shield=True):
                    await trio.aclose_forcefully(stream)
        if session is not None:
            self.why = ""
            self._carry(session)

    async def _proved(
        self, stream: trio.SocketStream, came: trio.socket.SocketType
    ) -> TunnelSession | None:
        """The session of a caller that proves itself. Raises OSError where it has gone."""
        if came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) != self._mark:
            return None  # it came before the port was marked anew, and the peer dials again
        tuned(came)
        where = written(came.getpeername())
        session = TunnelSession("server", self._how, self._name, stream, came, where)
        try:
            await session.open()
        except ConnectionFailed as error:
            self.why = f"{where}: {error}"
            return None
        return session


@contextmanager
def _served(port: Port, name: str, take: Take) -> Iterator[None]:
    """Have a server take what calls it at a port."""
    port.servers[name] = take
    try:
        yield
    finally:
        if port.servers.get(name) is take:
            del port.servers[name]
