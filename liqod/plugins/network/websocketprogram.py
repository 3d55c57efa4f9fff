"""One tunnel in a websocket: what the machine's process is to carry, and the descriptors for it.

Each descriptor is opened and marked here (:mod:`.machineprocess`).
"""

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from liqod.errors import NetworkError
from liqod.plugins.network import processes, uapi
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.sharedport import as_socket
from liqod.tunnel import dialsockets, wanted
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.wanted import Part, TunnelReport, TunnelRequest, Wanted

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
        machine: the process.
    """

    def __init__(self, services: TunnelServices, place: Place, name: str) -> None:
        self._host, self._folder = services.host, Path(services.folder)
        self._underlay, self.name = place.underlay, name
        self.machine = MachineProcess(services.host, self._folder, place.underlay)

    async def status(self) -> TunnelReport | None:
        """The state of the tunnel; None where there is none, or no process answers."""
        try:
            found, _ = await self.machine.ask(TunnelRequest(wanted.STATUS, self.name))
        except OSError:
            return None
        is_there = found.digest is not None or not found.fits
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
        there = found is not None and found.fits
        if there and found is not None and found.digest == what.digest:
            return found
        await self._retire()
        files: list[tuple[Part, int]] = []
        serves = what.side == "server" and not what.quiet
        async with self.machine.turn:
            try:
                if not there:
                    files.append(("device", await device()))
                    found = await self.machine.have()
                elif found is not None and found.mark != what.mark:
                    await self._mark(what.mark)
                assert found is not None
                files += await self._needed(what, found)
                request = TunnelRequest(wanted.BE, self.name, what, tuple(p for p, _ in files))
                answer, _ = await self.machine.ask(request, [file for _, file in files])
                if serves and what.port in found.ports:
                    # It is open for others, with whatever mark these have given it.
                    await self._mark(what.mark)
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
        return [("listening", await self.machine.listening(what.port, what.mark))]

    async def _mark(self, mark: int) -> None:
        """Set another firewall mark on the tunnel's sockets, which the process may not."""
        _, files = await self.machine.ask(TunnelRequest(wanted.SOCKETS, self.name))
        for file in files:
            with suppress(OSError), as_socket(file) as each:  # it has just ended
                each.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)

    async def hurry(self) -> None:
        """Have it dial anew at once. Raises OSError."""
        await self.machine.ask(TunnelRequest(wanted.HURRY, self.name))

    async def end(self) -> None:
        """End the tunnel, and with the last one the process. Idempotent.

        Raises:
            NetworkError: it does not end.
        """
        await self._retire()
        if self.machine.turn.locked() and await self.machine.process() is None:
            # It is begun or ended just now, and has no such tunnel. That takes seconds on a busy
            # machine, for which WireGuard's own tunnel would wait.
            return
        async with self.machine.turn:
            left = await self._left()
            if left is None or not left.tunnels:
                await self.machine.end(hangs=left is None)

    async def _left(self) -> TunnelReport | None:
        """How the process is once the tunnel has ended, empty where it is gone; None: it hangs.

        Raises:
            NetworkError: it answers, and has the tunnel yet.
        """
        try:
            left, _ = await self.machine.ask(TunnelRequest(wanted.END, self.name))
        except OSError as error:
            try:
                left, _ = await self.machine.ask(TunnelRequest(wanted.STATUS, self.name))
            except OSError as silence:  # it is gone, or it hangs, and all its tunnels with it
                return None if isinstance(silence, TimeoutError) else TunnelReport()
            if left.digest is not None:
                raise NetworkError(f"the tunnel {self.name} does not end: {error}") from error
        return left

    async def _retire(self) -> None:
        """End the process that an older release began for this tunnel alone."""
        former = self._folder / f"{self.name}{_FORMER}"
        if former.exists():
            process = await uapi.process(former)
            if process is not None:
                await processes.end(process, named=self.name)
            former.unlink(missing_ok=True)
