"""Connects the daemon to the machine's side by the socket of its program."""

from pathlib import Path
from typing import Final

import trio

from liqod.errors import NetworkError
from liqod.network.orders.greeting import SOCKET
from liqod.runtime.unixpeer import unix_peer

START: Final = "start liqod node on this machine (systemctl start liqod-node)"


async def dial(folder: Path) -> trio.SocketStream:
    """A connection to the machine's side.

    Args:
        folder: of its socket.

    Raises:
        NetworkError: there is none; it says what to do.
    """
    path = folder / SOCKET
    try:
        stream = await trio.open_unix_socket(path)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NetworkError(f"no liqod node answers at {path}: {START}") from None
    except PermissionError:
        raise NetworkError(
            f"{path} is not for this user: give this daemon's user and group to liqod node"
        ) from None
    except OSError as error:
        raise NetworkError(f"{path}: {error.strerror or error}") from error
    listens = unix_peer(stream.socket)
    if not listens.trusted:
        await trio.aclose_forcefully(stream)
        raise NetworkError(f"user {listens.user} listens at {path}, and not root")
    return stream


async def problem(folder: Path) -> str:
    """The reason why there is no connection to the machine's side; empty for none."""
    try:
        await trio.aclose_forcefully(await dial(folder))
    except NetworkError as error:
        return str(error)
    return ""
