"""Connects the daemon to the machine's side by the sockets of its program."""

from pathlib import Path
from typing import Final

import trio

from liqod.errors import NetworkError
from liqod.network.framestream import FrameStream
from liqod.network.orders import messages
from liqod.network.orders.greeting import ANSWERS, CALLS, SOCKET, Denied
from liqod.runtime.unixpeer import unix_peer
from liqod.sharedport import HANDED, SHARED

AGREED_WITHIN: Final = 20.0
"""Seconds until the calls of a port are handed over: a process may have to be begun for that."""
START: Final = "start liqod node on this machine (systemctl start liqod-node)"


async def dial(folder: Path, name: str = SOCKET) -> trio.SocketStream:
    """A connection to the machine's side.

    Args:
        folder: of its sockets.
        name: of one of them.

    Raises:
        NetworkError: there is none; it says what to do.
    """
    path = folder / name
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


async def calls(folder: Path, port: int = SHARED) -> trio.SocketStream:
    """A connection by which the calls of this daemon are handed over, as :mod:`liqod.sharedport`.

    Args:
        folder: of the machine's sockets.
        port: at which the daemon is called; the machine's side knows it from its configuration.

    Raises:
        NetworkError: there is none; it says why.
    """
    name = calls_socket(port)
    if not _is_there(folder / name) and _is_there(folder / SOCKET):
        raise NetworkError(
            f"liqod node does not open port {port}: its own configuration has another port under "
            "[handshake], or it is of a version before"
        )
    stream, agreed = await dial(folder, name), False
    try:
        with trio.move_on_after(AGREED_WITHIN):
            # Of what follows this byte each has descriptors beside it.
            said = bytes(await stream.receive_some(len(HANDED)))
            agreed = said == HANDED
            if not agreed:
                raise NetworkError(await _refusal(stream, said))
            return stream
    except trio.BrokenResourceError as error:
        raise NetworkError(f"liqod node has ended the connection: {error}") from error
    finally:
        if not agreed:
            await trio.aclose_forcefully(stream)
    raise NetworkError(f"liqod node has not answered for {AGREED_WITHIN:.0f} s")


def _is_there(path: Path) -> bool:
    """True if a socket is there; also where it is not for this user, which dialling reports."""
    try:
        return path.exists()
    except PermissionError:
        return True


def calls_socket(port: int) -> str:
    """Name of the socket of the machine's for the connections that call the daemon at a port."""
    return CALLS if port == SHARED else f"calls-{port}.sock"


async def _refusal(stream: trio.SocketStream, said: bytes) -> str:
    """The reason why nothing is handed over, of which the first bytes were read."""
    try:
        answer = messages.read(ANSWERS, await FrameStream(stream, said).greeted())
    except ValueError as error:
        return f"liqod node gives no answer: {error}"
    return answer.problem if isinstance(answer, Denied) else "liqod node gives another answer"


async def problem(folder: Path) -> str:
    """The reason why there is no connection to the machine's side; empty for none."""
    try:
        await trio.aclose_forcefully(await dial(folder))
    except NetworkError as error:
        return str(error)
    return ""
