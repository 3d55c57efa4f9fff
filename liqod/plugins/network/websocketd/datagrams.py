"""Datagrams of a WireGuard on this machine, to be carried where no UDP passes.

Beside the WireGuard there may be who asks whether the other one is there, from a socket of its own:
an answer goes to where its question came from, which the number in both says. All else goes to the
WireGuard. Nothing here knows a key, and nothing is believed: WireGuard itself judges what it gets.
"""

import socket
from collections import OrderedDict
from typing import Final

HOST: Final = "127.0.0.1"
LARGEST: Final = 9300
"""Bytes of a datagram: a tunnel's MTU is 9000 at most."""
WAITING: Final = 1 << 22
"""Bytes that wait in the kernel."""
ASKING: Final = 64
"""Questions of which is known who asked."""
QUESTION, ANSWER = 1, 2
"""WireGuard's first two messages."""
SHORTEST: Final = 32
"""Bytes of the shortest message of WireGuard's."""
_FORCED: Final = 33
"""``SO_RCVBUFFORCE``: beyond what is usual here, as root may."""


class Datagrams:
    """A UDP socket on loopback, in place of the way to the other side.

    Attributes:
        port: of the socket.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind((HOST, 0))
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, _FORCED, WAITING)
        except OSError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WAITING)
        self.port = int(self._socket.getsockname()[1])
        self._to = 0
        self._asked: OrderedDict[bytes, int] = OrderedDict()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def fileno(self) -> int:
        """The file to wait for."""
        return self._socket.fileno()

    def give_to(self, port: int) -> None:
        """Have datagrams go to a WireGuard at that port."""
        self._to = port

    def read(self) -> bytes:
        """One datagram, empty for what no WireGuard says.

        Raises:
            BlockingIOError: there is none now.
        """
        try:
            data, (_, port) = self._socket.recvfrom(LARGEST)
        except ConnectionError:
            return b""  # of an earlier one: nobody was there
        if port != self._to:
            if len(data) < SHORTEST or data[0] != QUESTION:
                return b""
            self._asked[data[4:8]] = port
            while len(self._asked) > ASKING:
                self._asked.popitem(last=False)
        return data

    def write(self, piece: bytes) -> bool:
        """Give a datagram to the port it is for; True if WireGuard may have sent it.

        A datagram that nobody takes just now is lost, as on any way.
        """
        if not SHORTEST <= len(piece) <= LARGEST:
            return False
        port = self._to
        if piece[0] == ANSWER:
            port = self._asked.pop(piece[8:12], port)
        if port:
            try:
                self._socket.sendto(piece, (HOST, port))
            except OSError:
                return True
        return True
