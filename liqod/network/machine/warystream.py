"""A Unix connection of a program that may be an attacker's, which keeps this one never waiting.

A descriptor that comes along is closed by whoever receives it, or closes a connection in which it
lies unread. The last ``close`` of a socket waits for as long as its sender has set
(``SO_LINGER``). So both are done in a thread, and here no descriptor is ever requested.
"""

import os
import threading
from collections.abc import Sequence
from typing import Final

import trio

from liqod.sharedport import received

READ: Final = 65536
"""Bytes at once."""
MOST_FILES: Final = 253
"""Descriptors that the kernel lets be beside one message."""
LOOKED: Final = 0.01
"""Seconds between looks at whether a connection is closed."""


class WaryStream(trio.abc.Stream):
    """The connection.

    Args:
        stream: the same, which is this one's from now on.

    Attributes:
        socket: of it.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self.socket: trio.socket.SocketType = stream.socket
        self._stream = stream
        self._closing: threading.Thread | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """As :meth:`trio.abc.SendStream.send_all`."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """As :meth:`trio.abc.SendStream.wait_send_all_might_not_block`."""
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """As :meth:`trio.abc.ReceiveStream.receive_some`.

        Raises:
            trio.BrokenResourceError: the connection is broken, or descriptors come along.
        """
        try:
            data, files = await received(self.socket, max_bytes or READ, MOST_FILES)
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        if files:
            _closing(files)
            raise trio.BrokenResourceError("descriptors come along, which nobody has requested")
        return data

    async def aclose(self) -> None:
        """As :meth:`trio.abc.AsyncResource.aclose`."""
        if self.socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self.socket)
            self._closing = _closing([self.socket.detach()])
        await trio.lowlevel.checkpoint()

    async def closed(self) -> None:
        """Wait until it is closed, once it is about to be: its place is taken until then."""
        while self._closing is not None and self._closing.is_alive():  # noqa: ASYNC110  # a thread
            await trio.sleep(LOOKED)


def _closing(files: Sequence[int]) -> threading.Thread:
    """A thread that closes descriptors."""
    made = threading.Thread(target=_close, args=(files,), name="liqod-close", daemon=True)
    made.start()
    return made


def _close(files: Sequence[int]) -> None:
    for each in files:
        os.close(each)
