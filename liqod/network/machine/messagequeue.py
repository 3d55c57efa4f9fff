"""Carries messages between the daemon and the machine's side in one process, as bytes in order.

So no object is shared by the two: a message is encoded by its sender and decoded by its receiver.
"""

from collections.abc import Callable
from typing import Final, Generic, NoReturn, TypeVar

import msgspec
import trio

from liqod.network.orders import messages

M = TypeVar("M", bound=msgspec.Struct)

MOST: Final = 1024
"""Messages under way; a receiver takes each at once, so that there are a few at the most."""


class MessageQueue(Generic[M]):
    """One direction of the connection.

    Args:
        decoder: of its messages.
        receive: called with each.
    """

    def __init__(self, decoder: "msgspec.json.Decoder[M]", receive: Callable[[M], None]) -> None:
        self._decoder, self._receive = decoder, receive
        self._into, self._out = trio.open_memory_channel[bytes](MOST)

    def send(self, message: M) -> None:
        """Send a message; it is received soon, and after those that were sent before."""
        self._into.send_nowait(messages.encode(message))

    async def run(self) -> NoReturn:
        """Carry the messages until cancelled."""
        async for data in self._out:
            self._receive(self._decoder.decode(data))
        raise AssertionError("nothing closes the queue")
