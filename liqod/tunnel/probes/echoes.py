"""Echoes by ICMP, by a socket that was opened for them.

They are answered by kernels: no daemon has to run at the other side, and Liqo's gateways answer
those through the tunnel, too.
"""

import errno
import os
import socket
import struct
from typing import Final

import trio

from liqod.tunnel.probes import orders
from liqod.tunnel.probes.orders import Echoed, EchoOrder

TOKEN: Final = 8
"""Bytes by which an answer is recognized."""
HEADERS: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""Bytes of IP's header and of ICMP's."""
ASKS: Final = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""Types of an echo request and of its answer."""


class Echoes:
    """Requests echoes by one socket.

    Args:
        sock: of ICMP, or a raw one.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = trio.socket.from_stdlib_socket(sock)
        self._family = socket.AddressFamily(sock.family)
        # A raw socket of IPv4 gives packets with their header, and leaves the checksum to us.
        self._whole = sock.type == socket.SOCK_RAW and sock.family == socket.AF_INET

    async def ping(self, target: str, size: int, patience: float) -> float | None:
        """Seconds of a round trip; None where nothing came back in time, or it does not fit.

        Args:
            target: an address.
            size: of the packet in bytes, IP's header included.
            patience: seconds.

        Raises:
            OSError: it cannot be sent.
        """
        token = os.urandom(TOKEN)
        began = trio.current_time()
        if not await self.send(token, target, size):
            return None
        with trio.move_on_after(patience):
            while await self.receive() != (token, target):
                pass
            return trio.current_time() - began
        return None

    async def send(self, token: bytes, target: str, size: int) -> bool:
        """Request one, recognized by its token; whether a packet of that size fits at all.

        Raises:
            OSError: it cannot be sent.
        """
        body = token + bytes(max(0, size - HEADERS[self._family] - TOKEN))
        packet = struct.pack("!BBHHH", ASKS[self._family][0], 0, 0, 1, 1) + body
        if self._whole:
            packet = packet[:2] + struct.pack("!H", _checksum(packet)) + packet[4:]
        try:
            await self._sock.sendto(packet, (target, 0))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return False
            raise
        return True

    async def receive(self) -> tuple[bytes, str]:
        """The token of the next echo that comes back, and from where."""
        while True:
            try:
                answer, origin = await self._sock.recvfrom(1 << 16)
            except OSError:
                continue  # an error of ICMP that is about another packet
            if self._whole:
                answer = answer[(answer[0] & 15) * 4 :]
            if answer[:1] == bytes([ASKS[self._family][1]]):
                return answer[8 : 8 + TOKEN], origin[0]

    def close(self) -> None:
        """Release the socket."""
        self._sock.close()


async def answered(order: EchoOrder, sock: socket.socket) -> float | None:
    """Request echoes until one is answered; seconds of its round trip, None where none is.

    Args:
        order: which.
        sock: of ICMP, or a raw one; closed with this.

    Raises:
        OSError: it cannot be sent.
    """
    asking = Echoes(sock)
    try:
        for _ in range(order.tries):
            took = await asking.ping(order.target, order.size, order.patience)
            if took is not None:
                return took
        return None
    finally:
        asking.close()


async def echo(order: EchoOrder, sock: socket.socket, parent: trio.SocketStream) -> None:
    """Request echoes until one is answered, and report it to the parent.

    Args:
        order: of the parent's.
        sock: of ICMP; closed with this.
        parent: a connection.
    """
    took, why = None, ""
    try:
        took = await answered(order, sock)
    except OSError as error:
        why = error.strerror or str(error)
    await parent.send_all(orders.encoded(Echoed(took, why)))


def _checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
