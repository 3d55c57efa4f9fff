"""TLS without any input or output: bytes in, bytes out, for any carrier. Sans-IO."""

import ssl
from collections.abc import Iterator
from typing import Any, Final

PIECE: Final = 16384
"""Bytes that are handed to OpenSSL at once."""
READ: Final = 65536
"""Bytes of plain text to read from OpenSSL at once; a record has 16 KiB at the most."""
NOTHING: Final = memoryview(b"")
"""Replaces a used-up view, which would keep all of its data."""


class TlsPump:
    """One end of a TLS connection.

    Args:
        context: the trusted authorities, and this end's certificate.
        server_name: the server's required name; None where this end is the server.
        session: resumes an earlier session with that server.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        server_name: str | None,
        session: ssl.SSLSession | None = None,
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._arrived = NOTHING
        self._ended = False
        self.tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
            session=session,
        )

    def greet(self) -> bool:
        """Take the handshake as far as it goes; True if it is over. Raises ssl.SSLError."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                if not self._take_piece():
                    return False
            else:
                return True

    def write(self, data: Any) -> None:
        """Encrypt plain text. Raises ssl.SSLError."""
        sent = self.tls.write(data) if data else 0
        while sent < len(data):
            sent += self.tls.write(memoryview(data)[sent:])

    def outgoing(self) -> bytes:
        """The bytes to send; empty for none."""
        return self._outgoing.read()

    @property
    def pending(self) -> bool:
        """True if there are bytes to send."""
        return self._outgoing.pending > 0

    def feed(self, data: Any) -> None:
        """Take received bytes; empty ones are the end. All before must be read."""
        if not data:
            self._incoming.write_eof()
        elif len(data) <= PIECE:
            self._incoming.write(data)
        else:
            self._arrived = memoryview(data)
            self._take_piece()

    def pieces(self) -> Iterator[bytes]:
        """The available plain text, piece by piece; an empty one is the end of the stream.

        Raises:
            ssl.SSLError: the received bytes are no TLS.
        """
        while not self._ended:
            # A check first costs a fifth of the exception.
            at_hand = self._incoming.pending or self.tls.pending() or self._incoming.eof
            if not at_hand and not self._take_piece():
                return
            try:
                data = self.tls.read(READ)
            except ssl.SSLWantReadError:
                if not self._take_piece():
                    return
                continue
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                data = b""
            except ssl.SSLError:
                self._ended = True
                raise
            self._ended = not data
            if data:
                yield data
        yield b""

    def _take_piece(self) -> bool:
        """Give OpenSSL one piece of the received bytes: its buffers never shrink."""
        if not self._arrived:
            return False
        self._incoming.write(self._arrived[:PIECE])
        self._arrived = self._arrived[PIECE:] or NOTHING
        return True
