"""Frames of the connection between the daemon and the machine's side: a length, then JSON. Pure."""

import struct
from typing import Final

LARGEST: Final = 4 << 20
"""Bytes of a message: the nodes of the largest clusters fit in."""
LARGEST_GREETING: Final = 1 << 10
"""Bytes of the first message of either side."""
_LENGTH: Final = struct.Struct("!I")


def frame(body: bytes) -> bytes:
    """A message's bytes with their length before them."""
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts the bytes of a connection into messages.

    Attributes:
        largest: bytes that a message may have.
    """

    def __init__(self) -> None:
        self.largest = LARGEST_GREETING
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray) -> None:
        """Take bytes in that were received."""
        self._buffer += data

    def next(self) -> bytes | None:
        """The next message that is complete; None where more has to be received.

        Raises:
            ValueError: one is announced that is too large.
        """
        if len(self._buffer) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._buffer)
        if size > self.largest:
            raise ValueError(f"a message of {size} bytes, where {self.largest} are allowed")
        end = _LENGTH.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_LENGTH.size : end])
        del self._buffer[:end]
        return body
