"""The process at the other end of a Unix socket, as the kernel names it.

It is the same for every socket that liqod serves or connects to, for every purpose.
"""

import os
import socket
import struct
from typing import Final, NamedTuple, Protocol

_CREDENTIALS: Final = struct.Struct("=iII")
"""``struct ucred`` of unix(7): the ids of the process, of its user and of its group."""


class _Options(Protocol):
    """A socket of the standard library or of Trio."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """As :meth:`socket.socket.getsockopt`."""


class UnixPeer(NamedTuple):
    """The process that connected, or that listens.

    Attributes:
        process: its id, as this process sees it; 0 for one of another PID namespace.
        user: its user's id.
    """

    process: int
    user: int

    @property
    def trusted(self) -> bool:
        """True for root, and for this process's own user."""
        return self.user in (0, os.geteuid())


def unix_peer(connection: _Options) -> UnixPeer:
    """The process at the other end, as it was when it connected or began to listen.

    Raises:
        OSError: there is no connection.
    """
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(said)
    return UnixPeer(process, user)
