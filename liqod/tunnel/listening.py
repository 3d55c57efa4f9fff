"""A server's part: sessions with its peer, at a port that the servers of other peers share.

A connection to the port with this server's name is its peer's, or of any client with that name:
it has to prove itself.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import trio

from liqod.runtime.account import CALLERS, SHARED, Account
from liqod.runtime.connectionlimit import address_of
from liqod.sharedport import SharedPort
from liqod.tunnel.tunnelsession import ConnectionFailed, TunnelSession, tuned

PROVED_WITHIN: Final = 10.0
"""Seconds for that."""

Carry = Callable[[TunnelSession], None]


class Listener:
    """Has sessions with the one peer.

    Args:
        how: TLS.
        name: by which the peer calls.
        port: where to listen, alone or in turn with those of other peers.
        folder: with the sockets of this machine's servers.
        interface: of the tunnel, by which this server's own are told from those of others.
        mark: firewall mark of its packets; 0 for none.
        carry: takes an open session until it is over.
        account: what callers may take of this process.
    """

    def __init__(
        self,
        how: ssl.SSLContext,
        name: str,
        port: int,
        folder: Path,
        interface: str,
        mark: int,
        carry: Carry,
        account: Account,
    ) -> None:
        self._refused = ""
        self._how, self._name, self._mark = how, name, mark
        self._carry = carry
        self._callers = account[CALLERS]
        strangers = account[SHARED]
        self._port = SharedPort(name, port, folder, interface, mark, self._caller, strangers)

    @property
    def why(self) -> str:
        """The reason no connection succeeds; empty while none is known."""
        return self._refused or self._port.why

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> NoReturn:
        """Listen until cancelled.

        Raises:
            OSError: the port is taken, before it is ready.
        """
        await self._port.run(task_status)

    async def _caller(self, came: trio.socket.SocketType) -> None:
        """See whether it is the peer."""
        stream = trio.SocketStream(came)
        session: TunnelSession | None = None

        try:
            with self._callers.within(address_of(came), PROVED_WITHIN):
                session = await self._proved(stream, came)
        except OSError:
            pass
        finally:
            if session is None:
                with trio.CancelScope(shield=True):
                    await trio.aclose_forcefully(stream)
        if session is not None:
            self._refused = ""
            self._carry(session)

    async def _proved(
        self, stream: trio.SocketStream, came: trio.socket.SocketType
    ) -> TunnelSession | None:
        """The session of a caller that proves itself. Raises OSError where it has gone."""
        tuned(came, self._mark)
        address, port = came.getpeername()[:2]
        address = address.removeprefix("::ffff:")
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        session = TunnelSession("server", self._how, self._name, stream, came, where)
        try:
            await session.open()
        except ConnectionFailed as error:
            self._refused = f"{where}: {error}"
            return None
        return session
