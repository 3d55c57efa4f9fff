"""Starts, orders and ends the process that reads the bytes of strangers for a machine.

There is one for all peers of a machine (:mod:`liqod.tunnel`), begun for the first use, also where
the machine has a `liqod node` for each of several clusters. It has no
right of its own: each descriptor is opened here, or by whoever asks here. A tunnel in a websocket
lasts until it is ended; everything else as long as the connection by which it was ordered, so that
a daemon that starts anew has nothing to find again.
"""

import errno
import fcntl
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn
from weakref import WeakValueDictionary

import trio

from liqod.errors import NetworkError
from liqod.plugins.network import processes, uapi
from liqod.plugins.providers import Host
from liqod.runtime.ownfolder import own_folder
from liqod.runtime.unixpeer import unix_peer
from liqod.runtime.unixstream import connected
from liqod.sharedport import CALLS, HANDED, TAKEN, bound, received, send
from liqod.tunnel import wanted
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.wanted import MOST_FILES, TunnelReport, TunnelRequest

MODULE: Final = "liqod.tunnel"
FORBIDDEN: Final = (
    "this process may not listen there: it needs CAP_NET_BIND_SERVICE for a port below 1024, or "
    "another port (--gw-server-service-port)"
)
CALLED: Final = (
    "the daemon of the cluster {} is called there: give this one another port ([handshake] port)"
)
OTHER: Final = (
    "the program on this machine was replaced by another release, whose tunnels' process does not "
    "do what this liqod node requests: restart liqod node"
)
HANGS: Final = "does not answer"
OLDER: Final = "is of an older release"
READY_DEADLINE: Final = 10.0
"""Seconds for the process to answer, once it is begun."""
PATIENCE: Final = 5.0
"""Seconds for its answer."""
LOOKED: Final = 2.0
"""Seconds between looks at whether it answers."""
ANSWERS: Final = 3.0
"""Seconds for its answer to a look: one that gives none twice in a row hangs."""
LOCKED: Final = 0.02
"""Seconds until it is looked again whether another program still begins the process."""
AT_ONCE: Final = 16
"""Orders that wait to be taken: fewer than the backlog of its socket holds."""

log = logging.getLogger(__name__)


class MachineProcess:
    """The process of one machine.

    Args:
        host: the machine.
        folder: with the sockets of this machine's programs.
        underlay: name of the network namespace where it is begun; empty for the daemon's own.

    Attributes:
        control: path of its socket for requests.
        turn: held by who begins or ends it, or opens ports: there is one at a time.
    """

    def __init__(self, host: Host, folder: Path, underlay: str = "") -> None:
        self._host, self._underlay = host, underlay
        among = f"-{underlay}" if underlay else ""
        self.control = folder / f"tunnels{among}.socket"
        self.turn = _turns.setdefault(str(self.control), trio.Lock())
        self._orders = _orders.setdefault(str(self.control), trio.CapacityLimiter(AT_ONCE))

    async def process(self) -> int | None:
        """Id of the process that there is; None where nobody listens."""
        return await uapi.process(self.control)

    async def have(self) -> TunnelReport:
        """Have a process that answers and does these requests; its answer. The caller has the turn.

        Another one is replaced: the tunnels that it had are made anew by their owners, which see
        that their interfaces are gone.

        Raises:
            NetworkError: it has ended, was not ready in time, has no folder for its socket, or is
                of a release that does other requests.
            OSError: it cannot be begun, or does not answer.
        """
        found, _ = await self._look(PATIENCE)
        if found is not None and found.fits:
            return found
        own_folder(self.control.parent)
        async with _alone(self.control.with_suffix(".lock")):
            # Once more: another program may have begun it.
            found, hangs = await self._look(ANSWERS)
            if found is not None and found.fits:
                return found
            await self.end(hangs=hangs)
            await self._begin()
        found, _ = await self.ask(TunnelRequest(wanted.STATUS))
        if not found.fits:
            raise NetworkError(OTHER)
        return found

    async def _look(self, patience: float) -> tuple[TunnelReport | None, bool]:
        """How the process is, None where none answers; and whether it hangs."""
        try:
            found, _ = await self.ask(TunnelRequest(wanted.STATUS), patience=patience)
        except OSError as error:
            return None, isinstance(error, TimeoutError)
        return found, False

    async def _begin(self) -> None:
        # -I: nothing of the folder it is begun in, nor of anybody's environment, is imported.
        command = [sys.executable, "-I", "-m", MODULE, str(self.control)]
        await processes.start_until_ready(
            self._host,
            self._underlay,
            command,
            {"MALLOC_ARENA_MAX": "1"},
            ready=self._is_ready,
            deadline=READY_DEADLINE,
            who="the tunnels' process",
        )

    async def watch(self) -> NoReturn:
        """End the process whenever it hangs, until cancelled, and one of an older release at first.

        Another is begun by those that have work for it: they notice at once, since their
        connections break. Later the older one is another program's, which would begin it again.
        """
        first = True
        while True:
            await trio.sleep(LOOKED)
            if await self._fault(older=first):
                async with self.turn:
                    # This program itself may have been stopped, or another process is there now.
                    if fault := await self._fault(older=first):
                        log.warning("the tunnels' process %s, and is ended", fault)
                        await self.end(hangs=fault == HANGS)
            first = False

    async def _fault(self, *, older: bool) -> str:
        """The reason for which the process is to be ended; empty where there is none, or it.

        Args:
            older: whether an older release is one.
        """
        try:
            found, _ = await self.ask(TunnelRequest(wanted.STATUS), patience=ANSWERS)
        except OSError as error:
            return HANGS if isinstance(error, TimeoutError) else ""  # it may be just ending
        return OLDER if older and found.version < wanted.VERSION else ""

    async def end(self, *, hangs: bool = False) -> None:
        """End the process, if there is one; at once where it hangs."""
        process = await self.process()
        if process is not None:
            patience = 0.0 if hangs else processes.TERM_PATIENCE
            await processes.end(process, named=str(self.control), patience=patience)
        else:
            # It may be there, and accept nothing: without its socket nobody would find it again.
            await processes.end_named(MODULE, str(self.control))
        self.control.unlink(missing_ok=True)

    async def ask(
        self, request: TunnelRequest, files: Sequence[int] = (), patience: float = PATIENCE
    ) -> tuple[TunnelReport, list[int]]:
        """The process's answer, and descriptors with it.

        The descriptors are of the answer to :data:`.wanted.SOCKETS`; others are closed.

        Args:
            request: the request.
            files: descriptors that go with it; they stay the caller's to close.
            patience: seconds for the answer.

        Raises:
            TimeoutError: none came in time.
            OSError: there is no process, or it gives none.
        """
        answer, along, kept = b"", list[int](), list[int]()
        try:
            with trio.fail_after(patience):
                async with await self._open() as stream:
                    await send(stream, wanted.encoded(request), files)
                    while not answer.endswith(b"\n") and len(answer) <= wanted.MOST:
                        part, beside = await received(stream.socket, wanted.MOST, MOST_FILES)
                        along += beside
                        answer += part
                        if not part:
                            break
            found = wanted.report(answer)
            if request.do == wanted.SOCKETS:
                along, kept = [], along
            return found, kept
        except trio.TooSlowError:
            raise TimeoutError(f"no answer of its process within {patience:.0f} s") from None
        except (trio.BrokenResourceError, ValueError):
            raise ConnectionError("its process ends, or gives no answer") from None
        finally:
            close_all(along)

    @asynccontextmanager
    async def attended(
        self, request: TunnelRequest, files: Sequence[int] = ()
    ) -> AsyncIterator[trio.SocketStream]:
        """Have something done for as long as the block lasts, by a process that is begun for it.

        Args:
            request: with what is to be done.
            files: descriptors that go with it; they stay the caller's to close.

        Raises:
            NetworkError, OSError: the process cannot be begun, or does not take it.
        """
        stream = await self._taken(request, files)
        if stream is None:
            async with self.turn:
                await self.have()
                # Before the turn is another's, who may end a process that nobody uses yet.
                stream = await self._taken(request, files)
        if stream is None:
            raise ConnectionError("the tunnels' process does not take what it is ordered")
        async with stream:
            yield stream

    async def listening(self, port: int, mark: int) -> int:
        """Open the socket that listens at a port, for the process; the caller's to close.

        Args:
            port: the port.
            mark: firewall mark of what is answered; 0 for none.

        Raises:
            OSError, NetworkError: it cannot be had.
        """
        try:
            made = await self._host.within(self._underlay, partial(bound, port, mark))
        except PermissionError as error:
            raise PermissionError(error.errno, FORBIDDEN) from None
        if made is None:
            raise OSError(errno.EADDRINUSE, TAKEN)
        return made.detach()

    async def calls(self, port: int, cluster: str) -> trio.SocketStream:
        """A connection by which the process hands over what calls a cluster's daemon at a port.

        It listens there for as long as that lasts, also where no tunnel is served. A later
        connection of the same cluster replaces it.

        Raises:
            NetworkError, OSError: the process cannot be begun, or the port cannot be had.
        """
        files: list[int] = []
        async with self.turn:
            found = await self.have()
            other = found.called.get(port, cluster)
            if other != cluster:
                raise ConnectionError(CALLED.format(ascii(other[:63])))
            try:
                if port not in found.ports:
                    files.append(await self.listening(port, 0))
                request = TunnelRequest(CALLS, port=port, cluster=cluster)
                stream = await self._taken(request, files)
            finally:
                close_all(files)
        if stream is None:
            raise ConnectionError("the tunnels' process does not take what it is ordered")
        return stream

    async def _taken(
        self, request: TunnelRequest, files: Sequence[int]
    ) -> trio.SocketStream | None:
        """A connection by which the process does what is ordered; None where it does not."""
        async with self._orders:
            return await self.hand(request, files)

    async def hand(self, request: TunnelRequest, files: Sequence[int]) -> trio.SocketStream | None:
        """A connection by which the process has taken an order; None where it has not."""
        with (
            suppress(OSError, trio.BrokenResourceError, trio.TooSlowError),
            trio.fail_after(PATIENCE),
        ):
            stream, taken = await self._open(), False
            try:
                await send(stream, wanted.encoded(request), files)
                taken = await stream.receive_some(len(HANDED)) == HANDED
                return stream if taken else None
            finally:
                if not taken:
                    await trio.aclose_forcefully(stream)
        return None

    async def _open(self) -> trio.SocketStream:
        """A connection to the process. Raises OSError: it is not there, or somebody else's."""
        stream = await connected(self.control, PATIENCE)
        if not unix_peer(stream.socket).trusted:
            await trio.aclose_forcefully(stream)
            raise PermissionError("somebody else listens where the process is to")
        return stream

    async def _is_ready(self) -> bool:
        return await self.process() is not None


@asynccontextmanager
async def _alone(path: Path) -> AsyncIterator[None]:
    """Be the only program of this machine that begins the process, for the length of the block.

    Raises:
        OSError: there can be no such lock, or another program has it for too long.
    """
    with trio.move_on_after(READY_DEADLINE) as waiting:
        while (file := _locked(path)) is None:  # noqa: ASYNC110  # of another process's doing
            await trio.sleep(LOCKED)
    if waiting.cancelled_caught:
        raise TimeoutError("another liqod node of this machine begins the tunnels' process")
    assert file is not None
    try:
        yield
    finally:
        _unlock(path, file)


def _locked(path: Path) -> int | None:
    """A descriptor of the locked file of that name; None while another program has it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The one that had it takes the name away: a lock of a file without it is nobody's.
        if os.path.samestat(os.fstat(file), path.stat()):
            return file
    os.close(file)
    return None


def _unlock(path: Path, file: int) -> None:
    """Take the name away, and the lock with it."""
    path.unlink(missing_ok=True)
    os.close(file)


_turns: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()
_orders: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
