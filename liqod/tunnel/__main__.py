"""The process: has the tunnels of this machine, and does what the daemon requested last."""

import json
import os
import socket
import ssl
import sys
from array import array
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from liqod.runtime import account
from liqod.runtime.connectionlimit import serve_listeners
from liqod.runtime.unixpeer import unix_peer
from liqod.tunnel import wanted
from liqod.tunnel.packets import Tun
from liqod.tunnel.tunnel import MARK, CarriedTunnel
from liqod.tunnel.wanted import TunnelRequest

ASKED_WITHIN: Final = 5.0
UNUSED: Final = 10.0
"""Seconds without a tunnel after which it ends by itself: their interfaces were taken away, and
nobody sends requests any more."""
_INT: Final = array("i")
_CLOSE_ON_EXEC: Final = 0x40000000
"""``MSG_CMSG_CLOEXEC``."""


class Marked(trio.abc.SocketFactory):
    """Makes sockets with the firewall mark of their tunnel, from a connection's first packet on."""

    def socket(
        self, family: int = socket.AF_INET, type: int = socket.SOCK_STREAM, proto: int = 0
    ) -> trio.socket.SocketType:
        """As Trio wants it: it calls this for every socket that it makes itself."""
        made = socket.socket(family, type, proto)
        mark = MARK.get()
        if mark and family in (socket.AF_INET, socket.AF_INET6):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
        return trio.socket.from_stdlib_socket(made)


class Process:
    """Has the tunnels, each in a nursery of its own.

    Args:
        control: path of the socket for requests; other sockets are beside it.
    """

    def __init__(self, control: Path) -> None:
        self._control = control
        self._tunnels: dict[str, CarriedTunnel] = {}
        self._account = account.derived(account.TUNNEL_SHARES)

    async def run(self) -> None:
        """Until it is ended, or has no tunnel any more."""
        trio.socket.set_custom_socket_factory(Marked())
        self._control.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            made.bind(os.fspath(self._control))
            self._control.chmod(0o600)
            made.listen(64)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
            try:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(serve_listeners, self._serve, [listener])
                    await self._unused()
                    self._nursery.cancel_scope.cancel()
            finally:
                self._control.unlink(missing_ok=True)

    async def _unused(self) -> None:
        """Wait until there has been no tunnel for a while."""
        since = trio.current_time()
        while trio.current_time() - since < UNUSED:
            await trio.sleep(UNUSED / 4)
            if self._tunnels:
                since = trio.current_time()

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Answer one request of the daemon's."""
        with suppress(OSError, trio.BrokenResourceError, trio.TooSlowError):
            async with stream:
                with trio.fail_after(ASKED_WITHIN):
                    if not unix_peer(stream.socket).trusted:
                        return
                    files: list[int] = []
                    try:
                        line = await _line(stream.socket, files)
                        answer = await self._answer(line, files)
                    finally:
                        for file in files:
                            os.close(file)
                    await stream.send_all(json.dumps(answer).encode() + b"\n")

    async def _answer(self, line: bytes, files: list[int]) -> dict[str, Any]:
        name = ""
        try:
            request = wanted.decoded(line)
            name = request.tunnel
            await self._do(request, files)
        except (ValueError, OSError, ssl.SSLError) as error:
            return {**self._status(name), "error": _error_text(error)}
        return self._status(name)

    async def _do(self, request: TunnelRequest, files: list[int]) -> None:
        """Do one request. Raises ValueError, OSError, ssl.SSLError."""
        tunnel = self._tunnels.get(request.tunnel)
        if request.wanted is not None:
            if tunnel is None:
                tunnel = await self._open(request.tunnel, _tun(files))
            await tunnel.be(request.wanted)
        elif tunnel is not None and request.do == wanted.HURRY:
            tunnel.hurry()
        elif tunnel is not None and request.do == wanted.END:
            await tunnel.end()

    async def _open(self, name: str, device: Tun) -> CarriedTunnel:
        tunnel = CarriedTunnel(name, self._control.parent, device, self._account)
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

    def _status(self, name: str) -> dict[str, Any]:
        """How a tunnel is; of one that is not there only how many others are."""
        tunnel = self._tunnels.get(name)
        told = tunnel.status() if tunnel is not None else {"version": wanted.VERSION}
        return {**told, "tunnels": len(self._tunnels)}


def _tun(files: list[int]) -> Tun:
    if len(files) != 1:
        raise ValueError("the tunnel is not there, and the request brings no device")
    return Tun(files.pop())


async def _line(came: trio.socket.SocketType, files: list[int]) -> bytes:
    """A request, and the files along with it, which are the caller's to close.

    Raises:
        OSError: it does not come whole.
    """
    line = b""
    while not line.endswith(b"\n") and len(line) <= wanted.MOST:
        data, beside, _, _ = await came.recvmsg(
            wanted.MOST, socket.CMSG_LEN(_INT.itemsize), _CLOSE_ON_EXEC
        )
        for level, kind, content in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                files += array("i", content[: len(content) - len(content) % _INT.itemsize])
        if not data:
            raise ConnectionError("the request ends early")
        line += data
    return line


def _error_text(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return (
            "this process may not listen there: it needs CAP_NET_BIND_SERVICE for a port below "
            "1024, or another port (--gw-server-service-port)"
        )
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def main(arguments: list[str]) -> None:
    """Run until ended; the one argument is the path of the socket for requests."""
    with suppress(KeyboardInterrupt):
        trio.run(Process(Path(arguments[0])).run)


if __name__ == "__main__":
    main(sys.argv[1:])
