"""The process: has the tunnels of this machine, and does what its parent requested."""

# Loaded before the process is confined: modules may lie where only root reads.
import encodings.idna  # noqa: F401
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import serve_listeners
from liqod.runtime.unixpeer import unix_peer
from liqod.sharedport import CALLS, HANDED, as_socket, received, send
from liqod.tunnel import leading, wanted
from liqod.tunnel.confinement import confine
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.listening import Port, Ports
from liqod.tunnel.packets import Tun
from liqod.tunnel.probes.attendance import ProbeAttendance
from liqod.tunnel.probes.echoes import echo
from liqod.tunnel.tunnel import CarriedTunnel
from liqod.tunnel.wanted import MOST_FILES, OLDEST, VERSION, TunnelReport, TunnelRequest

ASKED_WITHIN: Final = 5.0
UNUSED: Final = 10.0
"""Seconds with nothing to do after which it ends by itself: the interfaces of tunnels were taken
away, and nobody sends requests any more."""

Attend = Callable[[], Awaitable[object]]


class Process:
    """Has the tunnels, each in a nursery of its own.

    Args:
        control: the socket for requests, which listens.
        owner: the user whose requests are done, besides root's.
        callers: what callers may take of this process.
    """

    def __init__(self, control: socket.socket, owner: int, callers: Account) -> None:
        self._control, self._owner = control, owner
        self._tunnels: dict[str, CarriedTunnel] = {}
        self._ports = Ports(callers)
        self._attended = 0
        """Number of things that are done while a connection lasts, and that it is kept for."""

    async def run(self) -> None:
        """Until it is ended, or has nothing to do any more."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._control))
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(serve_listeners, self._serve, [listener])
            await self._unused()
            self._nursery.cancel_scope.cancel()

    async def _unused(self) -> None:
        """Wait until there has been nothing to do for a while."""
        since = trio.current_time()
        while trio.current_time() - since < UNUSED:
            await trio.sleep(UNUSED / 4)
            # One may have been opened for a connection that broke before its time.
            self._ports.close_unused()
            if self._tunnels or self._attended:
                since = trio.current_time()

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Answer one request of the parent's, or the daemon's."""
        files: list[int] = []
        with suppress(OSError, trio.BrokenResourceError, trio.TooSlowError):
            if unix_peer(stream.socket).user not in (0, self._owner):
                return
            try:
                with trio.fail_after(ASKED_WITHIN):
                    attend = await self._answered(stream, files)
            finally:
                close_all(files)
            if attend is not None:
                await stream.send_all(HANDED)
                await attend()

    async def _attend(self, attend: Attend) -> None:
        """Do something that this process is kept for; a failure ends it alone."""
        self._attended += 1
        try:
            await attend()
        except* Exception:
            pass  # nobody reads the output of this process, and the parent sees the end
        finally:
            self._attended -= 1

    async def _answered(self, stream: trio.SocketStream, files: list[int]) -> Attend | None:
        """Read a request and answer it, unless it is to be done while the connection lasts.

        Args:
            files: gets the descriptors that came along, and are not taken.
        """
        name, request = "", None
        try:
            request = wanted.decoded(await _line(stream.socket, files))
            attend = self._attendance(request, stream, files)
            if attend is not None:
                return attend
            name = request.tunnel
            await self._do(request, files)
            found = self._status(name)
        except (ValueError, OSError, ssl.SSLError) as error:
            found = msgspec.structs.replace(self._status(name), error=_error_text(error))
        along = self._tunnels[name].files() if request and request.do == wanted.SOCKETS else []
        await send(stream, wanted.encoded(found), along[:MOST_FILES])
        return None

    def _attendance(
        self, request: TunnelRequest, stream: trio.SocketStream, files: list[int]
    ) -> Attend | None:
        """The part that is done while a connection lasts; None where a request has none.

        Raises:
            ValueError, OSError: its descriptor does not come along, or is no such socket.
        """
        if request.do == CALLS:
            port = self._opened(request, files)
            if self._ports.called.get(port.number, request.cluster) != request.cluster:
                raise ValueError("another cluster's daemon is called there")
            hand_on = partial(self._hand_on, port, stream, request.cluster)
            return partial(self._attend, hand_on)
        if request.lead is not None:
            lead = partial(leading.lead, request.lead, _taken(files), stream)
            return partial(self._attend, lead)
        if request.probe is not None:
            return partial(self._attend, ProbeAttendance(request.probe, stream).run)
        if request.echo is not None:
            return partial(self._attend, partial(echo, request.echo, _taken(files), stream))
        if request.do == wanted.STAY:
            return partial(self._attend, partial(stream.receive_some, 1))
        return None

    async def _do(self, request: TunnelRequest, files: Sequence[int]) -> None:
        """Do one request. Raises ValueError, OSError, ssl.SSLError."""
        tunnel = self._tunnels.get(request.tunnel)
        if request.wanted is not None:
            await self._be(request, files)
        elif tunnel is not None and request.do == wanted.HURRY:
            tunnel.hurry()
        elif tunnel is not None and request.do == wanted.END:
            await tunnel.end()
        elif tunnel is None and request.do == wanted.SOCKETS:
            raise ValueError("the tunnel is not there")

    async def _be(self, request: TunnelRequest, files: Sequence[int]) -> None:
        """Have a tunnel be as wanted, with copies of the descriptors that came along."""
        assert request.wanted is not None
        if len(request.parts) != len(files):
            raise ValueError("the descriptors are others than the request names")
        tunnel = self._tunnels.get(request.tunnel)
        parts = list(zip(request.parts, files, strict=True))
        devices = [file for part, file in parts if part == "device"]
        if tunnel is None:
            if len(devices) != 1:
                raise ValueError("the tunnel is not there, and the request brings no device")
            tunnel = await self._open(request.tunnel, Tun(os.dup(devices[0])))
        tunnel.sockets.add([os.dup(file) for part, file in parts if part == "dialling"])
        given = [self._ports.open(os.dup(file)) for part, file in parts if part == "listening"]
        opened = [port for port in given if port is not None]
        for port in opened:
            self._nursery.start_soon(port.run)
        try:
            await tunnel.be(request.wanted)
        finally:
            for port in opened:
                port.awaited = False
            self._ports.close_unused()

    def _opened(self, request: TunnelRequest, files: list[int]) -> Port:
        """The port whose calls are to be handed on, which the socket that came along may open."""
        made = self._ports.open(files.pop()) if files else None
        if made is not None:
            made.awaited = False
            self._nursery.start_soon(made.run)
        found = self._ports.get(request.port)
        if found is None:
            self._ports.close_unused()
            raise ValueError("this process does not listen there")
        return found

    async def _hand_on(self, port: Port, stream: trio.SocketStream, cluster: str) -> None:
        """Hand on what calls the daemon; the port is closed after that where nobody else has it."""
        try:
            await port.hand_on(stream, cluster)
        finally:
            self._ports.close_unused()

    async def _open(self, name: str, device: Tun) -> CarriedTunnel:
        tunnel = CarriedTunnel(device, self._ports)
        self._tunnels[name] = tunnel
        await self._nursery.start(self._keep, name, tunnel)
        return tunnel

    async def _keep(
        self, name: str, tunnel: CarriedTunnel, task_status: trio.TaskStatus[None]
    ) -> None:
        try:
            await tunnel.run(task_status)
        finally:
            del self._tunnels[name]
            self._ports.close_unused()

    def _status(self, name: str) -> TunnelReport:
        """How a tunnel is; of one that is not there only how many others are."""
        tunnel = self._tunnels.get(name)
        found = tunnel.status() if tunnel is not None else TunnelReport()
        return msgspec.structs.replace(
            found,
            version=VERSION,
            oldest=OLDEST,
            tunnels=len(self._tunnels) + self._attended,
            ports=self._ports.numbers,
            called=self._ports.called,
        )


def _taken(files: list[int]) -> socket.socket:
    """The one socket that came along. Raises ValueError, OSError: there is none."""
    if len(files) != 1:
        raise ValueError("the descriptors are others than the request needs")
    return as_socket(files.pop())


async def _line(come: trio.socket.SocketType, files: list[int]) -> bytes:
    """A request, and the files along with it, which are the caller's to close.

    Raises:
        OSError: it does not come whole.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) <= wanted.MOST:
        data, beside = await received(come, wanted.MOST, MOST_FILES)
        files += beside
        if not data:
            raise ConnectionError("the request ends early")
        line += data
    return line


def _error_text(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def listening(control: Path) -> socket.socket:
    """Listen for requests at a path, which is this user's alone.

    Raises:
        OSError: there can be no socket.
    """
    control.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.bind(os.fspath(control))
        control.chmod(0o600)
        made.listen(64)
    except BaseException:
        made.close()
        raise
    return made


async def _confined(process: Process) -> None:
    # Here, since Trio's own sockets are made by now.
    confine()
    await process.run()


def main(arguments: list[str]) -> None:
    """Run until ended; the one argument is the path of the socket for requests."""
    callers = account.derived(account.TUNNEL_SHARES)
    with listening(Path(arguments[0])) as control, suppress(KeyboardInterrupt):
        trio.run(_confined, Process(control, os.geteuid(), callers))


if __name__ == "__main__":
    main(sys.argv[1:])
