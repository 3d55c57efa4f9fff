"""Connects to Unix sockets, also while more connect at once than the listener's backlog holds."""

import errno
import os
from typing import Final

import trio

PATIENCE: Final = 5.0
"""Seconds for a place in the backlog."""
AGAIN: Final = 0.02
"""Seconds until a full backlog is tried again."""


async def connected(path: os.PathLike[str], patience: float = PATIENCE) -> trio.SocketStream:
    """A connection to whoever listens at a path.

    A full backlog refuses a socket that does not block by EAGAIN, which Trio takes for a connection
    under way: what it returns then is not connected.

    Args:
        path: of the socket.
        patience: seconds for a place in the backlog.

    Raises:
        TimeoutError: the backlog stays full: somebody listens, and accepts nothing.
        OSError: nobody listens.
    """
    with trio.move_on_after(patience):
        while True:
            stream = await trio.open_unix_socket(path)
            if _is_connected(stream):
                return stream
            await trio.aclose_forcefully(stream)
            await trio.sleep(AGAIN)
    raise TimeoutError(errno.ETIMEDOUT, f"{os.fspath(path)}: no connection is accepted")


def _is_connected(stream: trio.SocketStream) -> bool:
    try:
        stream.socket.getpeername()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return False
        raise
    return True
