"""Echoes by ICMP inside a peer's network namespace, and the largest packet that its tunnel carries.

They are sent with ``don't fragment``, by the tunnels' process, which reads the answers. It gets no
raw socket, by which packets of any source can be forged: where the node's network allows no other
(``net.ipv4.ping_group_range``), echoes are sent from here.
"""

import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import trio

from liqod.errors import NetworkError
from liqod.model.text import printable
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import TUNNEL_ADDRESSES, PeerNames, Side
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.tunnel.probes import echoes, orders
from liqod.tunnel.probes.orders import EchoOrder
from liqod.tunnel.wanted import ECHO, TunnelRequest

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 10, 23, 3
SMALLEST_MTU: Final = 576
"""A tunnel that carries less is of no use."""
PATIENCE: Final = 0.3
"""Seconds for the answer to an echo."""
TRIES: Final = 3
"""Packets of a size that are lost before that size is taken not to pass."""
ANSWERED: Final = 5.0
"""Seconds for the process's answer, besides those for echoes."""
GROUPS: Final = Path("/proc/sys/net/ipv4/ping_group_range")


async def opened(namespace: str | None, source: str) -> socket.socket:
    """Open a socket for echoes; arguments and errors as :class:`Echoes` has them."""
    # Only a peer's namespace is ours to change.
    return await namespaces.inside(namespace, partial(_opened, source, ours=namespace is not None))


class Echoes:
    """Echoes from an address in a namespace.

    Args:
        process: the tunnels' process, which reads the answers.
        namespace: by its name; None for the process's own.
        source: where they come from.
    """

    def __init__(self, process: MachineProcess, namespace: str | None, source: str) -> None:
        self._process, self._namespace, self._source = process, namespace, source

    async def ping(
        self, target: str, size: int, patience: float, tries: int = TRIES
    ) -> float | None:
        """Seconds of a round trip; None where nothing came back in time, or it does not fit.

        Args:
            target: an address.
            size: of the packet in bytes, IP's header included.
            patience: seconds for each answer.
            tries: packets of which one is to come back.

        Raises:
            NetworkError: there is no such namespace, or no process.
            OSError: there is no such address, the right is missing, or it cannot be sent.
        """
        order = EchoOrder(target, size, patience, tries)
        with await opened(self._namespace, self._source) as sock:
            if sock.type == socket.SOCK_RAW:
                sock.connect((target, 0))  # packets of others are not read here
                return await echoes.answered(order, sock)
            return await self._ordered(order, sock)

    async def _ordered(self, order: EchoOrder, sock: socket.socket) -> float | None:
        """The same by the tunnels' process."""
        request = TunnelRequest(ECHO, echo=order)
        async with self._process.attended(request, [sock.fileno()]) as stream:
            line = await _line(stream, order.patience * order.tries + ANSWERED)
        try:
            found = orders.echoed(line)
        except ValueError as error:
            raise NetworkError(f"the tunnels' process: {error}") from None
        if found.why:
            raise OSError(printable(found.why))
        return found.took

    async def passes(self, target: str, size: int, patience: float) -> bool:
        """True if one of :data:`TRIES` packets of a size comes back. Raises as :meth:`ping`."""
        return await self.ping(target, size, patience) is not None


async def _line(stream: trio.SocketStream, seconds: float) -> bytes:
    """The process's answer, as much of it as comes in time."""
    line = b""
    with suppress(trio.BrokenResourceError), trio.move_on_after(seconds):
        while not line.endswith(b"\n") and len(line) <= orders.MOST:
            part = await stream.receive_some(orders.MOST)
            if not part:
                break
            line += part
    return line


async def largest_packet(
    process: MachineProcess,
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
        process: the tunnels' process.
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
    other, asking = other_end(side), Echoes(process, names.namespace, TUNNEL_ADDRESSES[side])
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
