"""Unix connections of programs that may be an attacker's, which keep this one never waiting.

A descriptor that comes along is closed by whoever receives it, or closes a connection in which it
lies unread. The last ``close`` of a socket waits for as long as its sender has set
(``SO_LINGER``). So both are done in a thread, and here no descriptor is ever requested.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from liqod.sharedport import received

READ: Final = 65536
"""Bytes at once."""
MOST_FILES: Final = 253
"""Descriptors that the kernel lets be beside one message."""


class WaryStream(trio.abc.Stream):
    """The connection.

    Args:
        stream: the same, which is this one's from now on.
        closed: called once it is closed, which may be long after that was requested.

    Attributes:
        socket: of it.
    """

    def __init__(
        self, stream: trio.SocketStream, closed: Callable[[], object] = lambda: None
    ) -> None:
        self.socket: trio.socket.SocketType = stream.socket
        self._stream, self._closed = stream, closed

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
            _close_soon(files, lambda: None)
            raise trio.BrokenResourceError("descriptors come along, which nobody has requested")
        return data

    async def aclose(self) -> None:
        """As :meth:`trio.abc.AsyncResource.aclose`."""
        if self.socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self.socket)
            _close_soon([self.socket.detach()], self._closed)
        await trio.lowlevel.checkpoint()


class WaryListener(trio.abc.Listener[WaryStream]):
    """A listener for such connections, of which it lets only so many be open.

    Args:
        listener: at a Unix socket.
        most: connections, with those that are still being closed.
    """

    def __init__(self, listener: trio.SocketListener, most: int) -> None:
        self._listener, self._places = listener, trio.Semaphore(most)

    async def accept(self) -> WaryStream:
        """As :meth:`trio.abc.Listener.accept`, once one may be open. Raises OSError."""
        await self._places.acquire()
        try:
            came = await self._listener.accept()
        except BaseException:
            self._places.release()
            raise
        return WaryStream(came, self._places.release)

    async def aclose(self) -> None:
        """As :meth:`trio.abc.AsyncResource.aclose`."""
        await self._listener.aclose()


def _close_soon(files: Sequence[int], then: Callable[[], object]) -> None:
    """Closes descriptors in a thread; Trio's calls a function after that."""
    token = trio.lowlevel.current_trio_token()

    def close() -> None:
        for each in files:
            os.close(each)
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(then)

    threading.Thread(target=close, name="liqod-close", daemon=True).start()
