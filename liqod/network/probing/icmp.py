"""Echoes by ICMP inside a peer's network namespace, and the largest packet that its tunnel carries.

They are sent with ``don't fragment``.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import TUNNEL_ADDRESSES, PeerNames, Side
from liqod.tunnel.probes.echoes import Echoes

IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 10, 23, 3
SMALLEST_MTU: Final = 576
"""A tunnel that carries less is of no use."""
PATIENCE: Final = 0.3
"""Seconds for the answer to an echo."""
GROUPS: Final = Path("/proc/sys/net/ipv4/ping_group_range")


async def opened(namespace: str | None, source: str) -> socket.socket:
    """Open a socket for echoes; arguments and errors as :func:`echoes` has them."""
    # Only a peer's namespace is ours to change.
    return await namespaces.inside(namespace, partial(_opened, source, ours=namespace is not None))


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
    found = Echoes(await opened(namespace, source))
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
