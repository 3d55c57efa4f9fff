"""A server's part: sessions with its peer, at a port that the servers of other peers share.

What comes to the port and calls this server's name is its peer, or somebody who knows that name: it
has to prove itself.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import trio

from liqod.plugins.network.websocketd.session import Failed, Session, tuned
from liqod.sharedport import Crowd, SharedPort

CALLERS: Final = 16
"""Connections that are to prove themselves; with one more the oldest goes."""
PROVED_WITHIN: Final = 10.0
"""Seconds for that."""

Carry = Callable[[Session], None]


class Listener:
    """Has sessions with the one peer.

    Args:
        how: TLS.
        name: by which the peer calls.
        port: where to listen, alone or in turn with those of other peers.
        folder: with the sockets of this machine's servers.
        interface: of the tunnel, by which this server's own are told from those of others.
        mark: firewall mark of what is sent; 0 for none.
        carry: takes an open session until it is over.
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
    ) -> None:
        self._refused = ""
        self._how, self._name, self._mark = how, name, mark
        self._carry = carry
        self._callers = Crowd(CALLERS)
        self._port = SharedPort(name, port, folder, interface, mark, self._caller)

    @property
    def why(self) -> str:
        """Why nobody comes through; empty while there is no reason known."""
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
        session: Session | None = None

        async def prove() -> None:
            nonlocal session
            tuned(came, self._mark)
            address, port = came.getpeername()[:2]
            address = address.removeprefix("::ffff:")
            where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            opening = Session("server", self._how, self._name, stream, came, where)
            try:
                await opening.open()
            except Failed as error:
                self._refused = f"{where}: {error}"
                return
            session = opening

        try:
            await self._callers.have(prove, PROVED_WITHIN)
        except OSError:
            pass
        finally:
            if session is None:
                with trio.CancelScope(shield=True):
                    await trio.aclose_forcefully(stream)
        if session is not None:
            self._refused = ""
            self._carry(session)
