"""The process of the tunnels in websockets, as its parent starts, queries and ends it.

There is one for all tunnels of a machine (:mod:`liqod.tunnel`). It is begun for the first one, and
ended with the last. It has no right of its own: each descriptor is opened and marked here.
"""

import socket
import sys
from array import array
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

import trio

from liqod.plugins.network import processes, uapi
from liqod.plugins.providers import Place, TunnelServices
from liqod.runtime.unixpeer import unix_peer
from liqod.sharedport import TAKEN, as_socket, asked_for, bound, received
from liqod.tunnel import dialsockets, wanted
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.wanted import MOST_FILES, Part, TunnelReport, TunnelRequest, Wanted

MODULE: Final = "liqod.tunnel"
READY_DEADLINE: Final = 10.0
"""Seconds for the process to answer, once it is begun."""
PATIENCE: Final = 5.0
"""Seconds for its answer."""
FORBIDDEN: Final = (
    "this process may not listen there: it needs CAP_NET_BIND_SERVICE for a port below 1024, or "
    "another port (--gw-server-service-port)"
)
_FORMER: Final = ".control"
"""Suffix of the sockets of an older release's processes, of which each tunnel had one."""


class TunnelProcess:
    """The part of one tunnel in the machine's process.

    Args:
        services: of the daemon: the machine, and the folder of the sockets.
        place: of the tunnel: its packets travel where the process is begun.
        name: of the tunnel, unique on this machine.

    Attributes:
        name: the same.
        control: path of the process's socket for requests.
    """

    def __init__(self, services: TunnelServices, place: Place, name: str) -> None:
        self._host, self._folder = services.host, Path(services.folder)
        self._underlay, self.name = place.underlay, name
        among = f"-{place.underlay}" if place.underlay else ""
        self.control = self._folder / f"tunnels{among}.socket"
        # Of what begins and ends the process, and opens ports, there is one at a time.
        self._turn = _turns.setdefault(str(self.control), trio.Lock())

    async def status(self) -> TunnelReport | None:
        """The state of the tunnel; None where there is none, or no process answers."""
        try:
            found, _ = await self._ask(TunnelRequest(wanted.STATUS, self.name))
        except OSError:
            return None
        is_there = found.digest is not None or found.version != wanted.VERSION
        return found if is_there else None

    async def be(self, what: Wanted, device: Callable[[], Awaitable[int]]) -> TunnelReport:
        """Have the tunnel be as wanted; how it is then.

        Args:
            what: the wanted state.
            device: opens the device of a tunnel that is not there.

        Raises:
            OSError, NetworkError: the process cannot be begun, does not answer, or a descriptor
                that it needs cannot be opened.
        """
        found = await self.status()
        there = found is not None and found.version == wanted.VERSION
        if there and found is not None and found.digest == what.digest:
            return found
        await self._retire()
        files: list[tuple[Part, int]] = []
        async with self._turn:
            try:
                if not there:
                    files.append(("device", await device()))
                    found = await self._have_process()
                elif found is not None and found.mark != what.mark:
                    await self._mark(what.mark)
                assert found is not None
                files += await self._needed(what, found)
                request = TunnelRequest(wanted.BE, self.name, what, tuple(p for p, _ in files))
                answer, _ = await self._ask(request, [file for _, file in files])
                return answer
            finally:
                close_all([file for _, file in files])

    async def _needed(self, what: Wanted, found: TunnelReport) -> list[tuple[Part, int]]:
        """Open the sockets that the process lacks for a tunnel; the caller's to close."""
        if what.quiet:
            return []
        if what.side == "client":
            if found.dials:
                return []
            make = partial(dialsockets.made, what.mark)
            return [("dialling", each) for each in await self._host.within(self._underlay, make)]
        if what.port in found.ports:
            return []
        return [("listening", await self._listening(what.port, what.mark))]

    async def _listening(self, port: int, mark: int) -> int:
        """Open the socket that listens at a port, or take the daemon's."""
        try:
            made = await self._host.within(self._underlay, partial(bound, port, mark))
        except PermissionError as error:
            raise PermissionError(error.errno, FORBIDDEN) from None
        made = made or await asked_for(self._folder, port)
        if made is None:
            raise OSError(TAKEN)
        with made:
            if made.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) != mark:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
            return made.detach()

    async def _mark(self, mark: int) -> None:
        """Set another firewall mark on the tunnel's sockets, which the process may not."""
        _, files = await self._ask(TunnelRequest(wanted.SOCKETS, self.name))
        for file in files:
            with suppress(OSError), as_socket(file) as each:  # it has just ended
                each.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)

    async def hurry(self) -> None:
        """Have it dial anew at once. Raises OSError."""
        await self._ask(TunnelRequest(wanted.HURRY, self.name))

    async def end(self) -> None:
        """End the tunnel, and with the last one the process. Idempotent."""
        await self._retire()
        async with self._turn:
            try:
                left, _ = await self._ask(TunnelRequest(wanted.END, self.name))
            except OSError:
                left = TunnelReport()
            if not left.tunnels:
                await self._end_process()

    async def process(self) -> int | None:
        """Id of the process that there is; None where nobody listens."""
        return await uapi.process(self.control)

    async def _have_process(self) -> TunnelReport:
        """Have a process of this release that answers; its answer.

        One of another release is replaced, and so is one that hangs: the tunnels that it had are
        made anew by their owners, which see that their interfaces are gone.

        Raises:
            NetworkError: it has ended, or was not ready in time.
            OSError: it cannot be begun.
        """
        with suppress(OSError):
            found, _ = await self._ask(TunnelRequest(wanted.STATUS, self.name))
            if found.version == wanted.VERSION:
                return found
        await self._end_process()
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
        return TunnelReport()

    async def _is_ready(self) -> bool:
        return await self.process() is not None

    async def _end_process(self) -> None:
        process = await self.process()
        if process is not None:
            await processes.end(process, named=str(self.control))
        self.control.unlink(missing_ok=True)

    async def _retire(self) -> None:
        """End the process that an older release began for this tunnel alone."""
        former = self._folder / f"{self.name}{_FORMER}"
        if former.exists():
            process = await uapi.process(former)
            if process is not None:
                await processes.end(process, named=self.name)
            former.unlink(missing_ok=True)

    async def _ask(
        self, request: TunnelRequest, files: Sequence[int] = ()
    ) -> tuple[TunnelReport, list[int]]:
        """The process's answer, and descriptors with it. Raises OSError, without the request."""
        answer, along = b"", list[int]()
        try:
            with trio.fail_after(PATIENCE):
                async with await trio.open_unix_socket(self.control) as stream:
                    if not unix_peer(stream.socket).trusted:
                        raise PermissionError("somebody else listens where the process is to")
                    await _send(stream, wanted.encoded(request), files)
                    while not answer.endswith(b"\n") and len(answer) <= wanted.MOST:
                        part, beside = await received(stream.socket, wanted.MOST, MOST_FILES)
                        along += beside
                        answer += part
                        if not part:
                            break
            return wanted.report(answer), along
        except trio.TooSlowError:
            raise TimeoutError(f"no answer of its process within {PATIENCE:.0f} s") from None
        except (trio.BrokenResourceError, ValueError):
            raise ConnectionError("its process ends, or gives no answer") from None


_turns: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()


async def _send(stream: trio.SocketStream, line: bytes, files: Sequence[int]) -> None:
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))] if files else []
    sent = await stream.socket.sendmsg([line], beside)
    await stream.send_all(line[sent:])
