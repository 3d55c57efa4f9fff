"""The name that a ClientHello calls (RFC 8446 §4.1.2, RFC 6066 §3). Pure."""

from typing import Final

MOST: Final = 16384
"""Bytes of a record that are waited for; a ClientHello has some hundreds, with new key shares two
thousand."""
_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME, _HOST = 22, 1, 0, 0


class NotTls(Exception):
    """It is no ClientHello, or one without a name."""


def server_name(begin: bytes) -> str | None:
    """The name that is called; None where more bytes are needed.

    Args:
        begin: what came so far.

    Raises:
        NotTls: nothing that may follow makes it one.
    """
    if not begin:
        return None
    if begin[0] != _HANDSHAKE or (len(begin) > 1 and begin[1] != 3):
        raise NotTls("it does not speak TLS")
    if len(begin) < 5:
        return None
    size = int.from_bytes(begin[3:5], "big")
    if not 42 <= size <= MOST:
        raise NotTls("its first record has no ClientHello's size")
    if len(begin) < 5 + size:
        return None
    try:
        return _named(_Reader(begin[5 : 5 + size]))
    except IndexError:
        raise NotTls("its ClientHello has no end") from None


class _Reader:
    """Takes bytes from the front. Raises IndexError where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise IndexError(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size: int) -> "_Reader":
        """The next block, which has its length before it in so many bytes."""
        return _Reader(self.take(self.number(size)))


def _named(record: _Reader) -> str:
    if record.number(1) != _CLIENT_HELLO:
        raise NotTls("it begins with no ClientHello")
    hello = record.block(3)
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    extensions = hello.block(2)
    while extensions.left:
        kind, body = extensions.number(2), extensions.block(2)
        if kind == _SERVER_NAME:
            names = body.block(2)
            if names.number(1) == _HOST:
                name = names.block(2)
                return name.take(name.left).decode("ascii", "replace")
    raise NotTls("it names nobody")
