"""Listens for daemons at Unix sockets, for the machine's side of joined networks.

    folder (root's, 0750, the daemon's group) ┬ machine.sock (0660) ─ MachineServer
                                              └ calls.sock, calls-PORT.sock (0660) ─ callrelay
                                                if root or the daemon's user connects

A program holds the lock beside the sockets for as long as it listens. The holder of the lock
replaces what is left of a program that is gone; nobody replaces the sockets of one that lives.
"""

import errno
import fcntl
import os
import socket
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import trio

from liqod.errors import NetworkError
from liqod.network.framestream import FrameStream
from liqod.network.orders.greeting import Denied
from liqod.runtime.connectionlimit import serve_listeners
from liqod.runtime.unixpeer import unix_peer
from liqod.warystream import WaryListener, WaryStream

MOST: Final = 8
"""Connections to one socket at a time: one that orders, and those that have not greeted yet."""
_LOCK: Final = "machine.lock"
_NEW: Final = ".new"
"""Suffix of a socket that does not listen yet."""
_FOLDER_MODE: Final = 0o750
_SOCKET_MODE: Final = 0o660
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class DaemonAccount(NamedTuple):
    """The account of the daemon on this machine, which may order beside root.

    Attributes:
        user: its user's id.
        group: its group's.
    """

    user: int = 0
    group: int = 0


Serve = Callable[[WaryStream], Awaitable[object]]
"""Serves one connection until it ends, and never raises for what comes over it."""


class MachineSocket:
    """Listens for daemons.

    Args:
        folder: of the sockets; made where it is not there.
        account: of the daemon.
        faces: the server of each socket, by its name.
    """

    def __init__(self, folder: Path, account: DaemonAccount, faces: Mapping[str, Serve]) -> None:
        self._folder, self._account, self._faces = folder, account, faces
        self._taken: Counter[str] = Counter()

    async def run(self, *, task_status: trio.TaskStatus[Path] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled; the folder is given once connections are taken.

        Raises:
            NetworkError: there can be no socket, or another program listens there.
        """
        with _errors(self._folder), _locked(self._folder, self._account), ExitStack() as stack:
            made = {
                name: stack.enter_context(_bound(self._folder / name, self._account))
                for name in self._faces
            }
            async with trio.open_nursery() as nursery:
                for name, each in made.items():
                    listening = trio.SocketListener(trio.socket.from_stdlib_socket(each))
                    listener = WaryListener(listening, 2 * MOST)
                    nursery.start_soon(serve_listeners, partial(self._take, name), [listener])
                task_status.started(self._folder)

    async def _take(self, name: str, stream: WaryStream) -> None:
        self._taken[name] += 1
        try:
            problem = self._refusal(name, stream)
            if problem:
                await deny(stream, problem)
            else:
                await self._faces[name](stream)
        finally:
            self._taken[name] -= 1

    def _refusal(self, name: str, stream: WaryStream) -> str:
        """The reason why a connection is not served; empty where it is."""
        user = unix_peer(stream.socket).user
        if user not in (0, self._account.user):
            return f"user {user} may not order this machine: root and user {self._account.user} may"
        if self._taken[name] > MOST:
            return f"there are {MOST} connections already: end the other daemons of this machine"
        return ""


async def deny(stream: trio.abc.Stream, problem: str) -> None:
    """Say why a connection is not served, and read nothing."""
    with suppress(NetworkError):
        await FrameStream(stream).deliver(Denied(problem))


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NetworkError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _locked(folder: Path, account: DaemonAccount) -> Iterator[None]:
    """Have the folder as it has to be, and hold the lock in it."""
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    opened = os.open(folder, _FOLDER_FLAGS)
    try:
        if os.fstat(opened).st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "the folder is another user's, who could replace the socket")
        os.fchown(opened, -1, account.group)
        os.fchmod(opened, _FOLDER_MODE)
        lock = os.open(_LOCK, _LOCK_FLAGS, 0o600, dir_fd=opened)
    finally:
        os.close(opened)
    try:
        _lock(lock)
        yield
    finally:
        os.close(lock)


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(errno.EADDRINUSE, "another program listens there") from None


@contextmanager
def _bound(path: Path, account: DaemonAccount) -> Iterator[socket.socket]:
    """A socket that listens, under its name only once it does."""
    beside = path.with_suffix(_NEW)
    beside.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
        made.setblocking(False)
        # The mode of the socket is that of its name: there is no moment with a wider one.
        os.fchmod(made.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        made.bind(os.fspath(beside))
        # In this order: of what is another user's, root may change the mode by a right of its own.
        beside.chmod(_SOCKET_MODE)
        os.chown(beside, account.user, account.group, follow_symlinks=False)
        made.listen(MOST)
        beside.rename(path)
        try:
            yield made
        finally:
            with suppress(OSError):
                path.unlink()
