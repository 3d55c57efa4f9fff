"""The process that carries packets in a websocket, as the daemon begins it, asks it and ends it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import trio

from liqod.plugins.network import processes
from liqod.plugins.network.interface import Interface
from liqod.plugins.network.uapi import other
from liqod.plugins.network.websocketd import wanted

MODULE = "liqod.plugins.network.websocketd"
READY_DEADLINE = 10.0
"""Seconds for the process to make its interface."""
PATIENCE = 5.0
"""Seconds for its answer."""


class Program:
    """The process of one tunnel.

    Args:
        interface: of the tunnel.
        folder: for its sockets.
        name: by which it is found again: its sockets' names begin with it.
        more: words of its command line.
    """

    def __init__(self, interface: Interface, folder: Path, name: str, *more: str) -> None:
        self._interface, self._folder = interface, folder
        self._name, self._more = name, more

    async def said(self) -> dict[str, Any] | None:
        """How the process is, whoever began it; None where there is none that answers."""
        try:
            return await self.ask("")
        except OSError:
            return None

    async def end(self) -> None:
        """End the process, of whichever release, and also one that hangs."""
        process = await self.process()
        if process is not None:
            await processes.end(process, named=self._name)

    async def begin(self) -> dict[str, Any]:
        """Begin it where its packets travel.

        Raises:
            NetworkError, OSError: it could not be begun.
        """
        # -I: nothing of the folder it is begun in, nor of anybody's environment, is imported.
        command = [sys.executable, "-I", "-m", MODULE, self._name, str(self._folder), *self._more]
        await self._interface.begin(
            command,
            {"MALLOC_ARENA_MAX": "1"},
            ready=self._ready,
            deadline=READY_DEADLINE,
            who="the tunnel's process",
            late=f"the tunnel's process was not ready in {READY_DEADLINE:.0f} s",
        )
        return await self.ask("")

    async def _ready(self) -> bool:
        return await self.process() is not None

    async def process(self) -> int | None:
        """Id of the process that there is; None where nobody listens."""
        try:
            with trio.fail_after(PATIENCE):
                stream = await trio.open_unix_socket(self._control)
        except (OSError, trio.TooSlowError):
            return None
        async with stream:
            found, user = other(stream)
        return found if user in (0, os.geteuid()) else None

    async def ask(self, text: str) -> dict[str, Any]:
        """The process's answer to a request. Raises OSError, without the text of the request."""
        answer = b""
        try:
            with trio.fail_after(PATIENCE):
                async with await trio.open_unix_socket(self._control) as stream:
                    if other(stream)[1] not in (0, os.geteuid()):
                        raise PermissionError("somebody else listens where the tunnel's process is")
                    await stream.send_all(text.encode() + b"\n")
                    async for part in stream:
                        answer += part
                        if answer.endswith(b"\n") or len(answer) > wanted.MOST:
                            break
            return dict(json.loads(answer))
        except trio.TooSlowError:
            raise TimeoutError(f"no answer of its process within {PATIENCE:.0f} s") from None
        except (trio.BrokenResourceError, ValueError):
            raise ConnectionError("its process ends, or gives no answer") from None

    @property
    def _control(self) -> Path:
        return self._folder / f"{self._name}.control"
