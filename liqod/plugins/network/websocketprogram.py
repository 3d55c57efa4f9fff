"""The process that carries packets in websockets, as the daemon starts, queries and ends it.

There is one for all tunnels of a machine. It is begun for the first one, and ended with the last.
"""

import json
import os
import socket
import sys
from array import array
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import trio

from liqod.plugins.network import processes, uapi
from liqod.plugins.providers import Place, TunnelServices
from liqod.runtime.unixpeer import unix_peer
from liqod.tunnel import wanted
from liqod.tunnel.wanted import TunnelRequest, Wanted

MODULE: Final = "liqod.tunnel"
READY_DEADLINE: Final = 10.0
"""Seconds for the process to answer, once it is begun."""
PATIENCE: Final = 5.0
"""Seconds for its answer."""
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
        # Of what begins and ends the process there is one at a time.
        self._turn = _turns.setdefault(str(self.control), trio.Lock())

    async def status(self) -> dict[str, Any] | None:
        """The state of the tunnel; None where there is none, or no process answers."""
        try:
            found = await self._ask(TunnelRequest(wanted.STATUS, self.name))
        except OSError:
            return None
        is_there = "digest" in found or found.get("version") != wanted.VERSION
        return found if is_there else None

    async def be(self, what: Wanted, device: Callable[[], Awaitable[int]]) -> dict[str, Any]:
        """Have the tunnel be as wanted; how it is then.

        Args:
            what: the wanted state.
            device: opens the device of a tunnel that is not there.

        Raises:
            OSError, NetworkError: the process cannot be begun, or does not answer.
        """
        found = await self.status()
        if found is not None and found.get("version") == wanted.VERSION:
            if found["digest"] == what.digest:
                return found
            return await self._ask(TunnelRequest(wanted.BE, self.name, what))
        await self._retire()
        async with self._turn:
            file = await device()
            try:
                await self._have_process()
                return await self._ask(TunnelRequest(wanted.BE, self.name, what), file)
            finally:
                os.close(file)

    async def hurry(self) -> None:
        """Have it dial anew at once. Raises OSError."""
        await self._ask(TunnelRequest(wanted.HURRY, self.name))

    async def end(self) -> None:
        """End the tunnel, and with the last one the process. Idempotent."""
        await self._retire()
        async with self._turn:
            try:
                left = (await self._ask(TunnelRequest(wanted.END, self.name))).get("tunnels", 0)
            except OSError:
                left = 0
            if not left:
                await self._end_process()

    async def process(self) -> int | None:
        """Id of the process that there is; None where nobody listens."""
        return await uapi.process(self.control)

    async def _have_process(self) -> None:
        """Have a process of this release that answers.

        One of another release is replaced, and so is one that hangs: the tunnels that it had are
        made anew by their owners, which see that their interfaces are gone.

        Raises:
            NetworkError: it has ended, or was not ready in time.
            OSError: it cannot be begun.
        """
        with suppress(OSError):
            found = await self._ask(TunnelRequest(wanted.STATUS, self.name))
            if found.get("version") == wanted.VERSION:
                return
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

    async def _ask(self, request: TunnelRequest, file: int | None = None) -> dict[str, Any]:
        """The process's answer. Raises OSError, without the text of the request."""
        answer = b""
        try:
            with trio.fail_after(PATIENCE):
                async with await trio.open_unix_socket(self.control) as stream:
                    if not unix_peer(stream.socket).trusted:
                        raise PermissionError("somebody else listens where the process is to")
                    await _send(stream, wanted.encoded(request), file)
                    async for part in stream:
                        answer += part
                        if answer.endswith(b"\n") or len(answer) > wanted.MOST:
                            break
            return dict(json.loads(answer))
        except trio.TooSlowError:
            raise TimeoutError(f"no answer of its process within {PATIENCE:.0f} s") from None
        except (trio.BrokenResourceError, ValueError):
            raise ConnectionError("its process ends, or gives no answer") from None


_turns: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()


async def _send(stream: trio.SocketStream, line: bytes, file: int | None) -> None:
    sent = 0
    if file is not None:
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file]))]
        sent = await stream.socket.sendmsg([line], beside)
    await stream.send_all(line[sent:])
