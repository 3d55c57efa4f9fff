"""One connection between the daemon and the machine's side, from either end."""

from collections import deque
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
import trio

from liqod.errors import NetworkError
from liqod.network.orders import messages
from liqod.network.orders.framing import LARGEST, FrameReader, frame

OUTSTANDING: Final = 4 * LARGEST
"""Bytes that may wait for a slow reader."""
PATIENCE: Final = 5.0
"""Seconds for the other end to read a message, and to greet or answer a greeting."""
CLOSED: Final = "the other end has closed the connection"


class FrameStream:
    """Sends and receives messages in order.

    Args:
        stream: the connection, which its opener closes.
        said: what was received of it already.
    """

    def __init__(self, stream: trio.abc.Stream, said: bytes = b"") -> None:
        self._stream = stream
        self._reader = FrameReader()
        self._reader.feed(said)
        self._waiting: deque[bytes] = deque()
        self._outstanding = 0
        self._stirred = trio.Event()

    def admit(self) -> None:
        """Allow messages of full size, after the greeting."""
        self._reader.largest = LARGEST

    async def receive(self) -> bytes:
        """Wait for the next message, and return its bytes.

        Raises:
            NetworkError: the connection has ended.
            ValueError: the message is too large.
        """
        while (body := self._reader.next()) is None:
            try:
                data = await self._stream.receive_some()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise NetworkError(CLOSED) from error
            if not data:
                raise NetworkError(CLOSED)
            self._reader.feed(data)
        return body

    async def greet(self, message: msgspec.Struct) -> bytes:
        """Send the first message, and return the bytes of the answer.

        Raises:
            NetworkError: none came in time.
            ValueError: the answer is too large.
        """
        # Who denies without reading has closed already, and has said why.
        with suppress(NetworkError):
            await self.deliver(message)
        return await self.greeted()

    async def deliver(self, message: msgspec.Struct) -> None:
        """Send a message at once, where none waits. Raises NetworkError: it is not read."""
        await self._write(frame(messages.encode(message)))

    async def greeted(self) -> bytes:
        """Wait for the other end's first message, and return its bytes. Raises as :meth:`greet`."""
        with trio.move_on_after(PATIENCE):
            return await self.receive()
        raise NetworkError(f"the other end has said nothing for {PATIENCE:.0f} s")

    def send(self, message: msgspec.Struct) -> None:
        """Send a message soon, after those before it, if the other end reads fast enough."""
        made = frame(messages.encode(message))
        self._outstanding += len(made)
        if self._outstanding <= OUTSTANDING:
            self._waiting.append(made)
        self._stirred.set()

    async def run(self) -> NoReturn:
        """Send the messages that wait, and those to come.

        Raises:
            NetworkError: the connection has ended, or the other end reads too slowly.
        """
        while True:
            self._stirred = trio.Event()
            while self._waiting:
                made = self._waiting.popleft()
                await self._write(made)
                self._outstanding -= len(made)
            if self._outstanding:  # a message was not kept: what follows would make no sense
                raise NetworkError(f"the other end has left {OUTSTANDING >> 20} MiB unread")
            await self._stirred.wait()

    async def _write(self, made: bytes) -> None:
        try:
            with trio.fail_after(PATIENCE):
                await self._stream.send_all(made)
        except trio.TooSlowError:
            raise NetworkError(f"the other end has read nothing for {PATIENCE:.0f} s") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise NetworkError(CLOSED) from error
