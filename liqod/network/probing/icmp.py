"""Echoes by ICMP: what passes a tunnel, and whether a packet comes back from a pod's address.

They are sent with ``don't fragment``, and are answered by kernels: no daemon has to run at the
other side, and Liqo's gateways answer those through the tunnel, too.
"""

import errno
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import TUNNEL_ADDRESSES, PeerNames, Side

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 10, 23, 3
SMALLEST_MTU: Final = 576
"""A tunnel that carries less is of no use."""
TRIES: Final = 3
"""Packets of a size that are lost before that size is taken not to pass."""
PATIENCE: Final = 0.3
"""Seconds for the answer to an echo."""
GROUPS: Final = Path("/proc/sys/net/ipv4/ping_group_range")
TOKEN: Final = 8
"""Bytes by which an answer is recognized."""
HEADERS: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}
"""Bytes of IP's header and of ICMP's."""
ASKS: Final = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""Types of an echo request and of its answer."""


class Echoes:
    """Requests echoes by one socket.

    Args:
        sock: as :func:`_opened` made it.
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
            if answer[0] == ASKS[self._family][1]:
                return answer[8 : 8 + TOKEN], origin[0]

    async def passes(self, target: str, size: int, patience: float) -> bool:
        """True if one of :data:`TRIES` packets of a size comes back."""
        for _ in range(TRIES):
            if await self.ping(target, size, patience) is not None:
                return True
        return False

    def close(self) -> None:
        """Release the socket."""
        self._sock.close()


@asynccontextmanager
async def echoes(namespace: str | None, source: str) -> AsyncIterator[Echoes]:
    """Echoes from an address in a namespace.

    Args:
        namespace: by its name; None for the process's own.
        source: where they come from.

    Raises:
        NetworkError: there is no such namespace.
        OSError: there is no such address, or the right is missing.
    """
    # Only a peer's namespace is ours to change.
    made = await namespaces.inside(namespace, partial(_opened, source, ours=namespace is not None))
    found = Echoes(made)
    try:
        yield found
    finally:
        found.close()


async def largest_packet(
    names: PeerNames,
    side: Side,
    mtu: int,
    *,
    patience: float = PATIENCE,
) -> int | None:
    """The largest packet that goes through a tunnel whole, and comes back.

    Where packets between the gateways are lost by their size, and nothing says so, it is less than
    the interface's MTU.

    Args:
        names: of the peer.
        side: of this cluster.
        mtu: of the interface; nothing larger is tried.
        patience: seconds for each answer.

    Returns:
        Bytes, IP's header included; None where nothing at all passes.

    Raises:
        NetworkError: there is no such namespace.
        OSError: no echo can be requested here.
    """
    other = other_end(side)
    async with echoes(names.namespace, TUNNEL_ADDRESSES[side]) as asking:
        if await asking.passes(other, mtu, patience):
            return mtu
        if not await asking.passes(other, SMALLEST_MTU, patience):
            return None
        low, high = SMALLEST_MTU, mtu
        while high - low > 1:
            middle = (low + high) // 2
            if await asking.passes(other, middle, patience):
                low = middle
            else:
                high = middle
        return low


def other_end(side: Side) -> str:
    """The other side's address on a tunnel."""
    return TUNNEL_ADDRESSES["client" if side == "server" else "server"]


def _opened(source: str, *, ours: bool) -> socket.socket:
    """A socket for echoes: one that needs no right where that is allowed, else a raw one."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    try:
        made = socket.socket(family, socket.SOCK_DGRAM, protocol)
    except PermissionError:
        if ours:
            GROUPS.write_text(f"{os.getegid()} {os.getegid()}")
            made = socket.socket(family, socket.SOCK_DGRAM, protocol)
        else:
            made = socket.socket(family, socket.SOCK_RAW, protocol)
    six = family == socket.AF_INET6
    level = socket.IPPROTO_IPV6 if six else socket.IPPROTO_IP
    try:
        # Don't fragment, and ignore the kernel's cached MTU of the path.
        made.setsockopt(level, IPV6_MTU_DISCOVER if six else IP_MTU_DISCOVER, PMTUDISC_PROBE)
        made.bind((source, 0))
    except BaseException:
        made.close()
        raise
    return made


def _checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
