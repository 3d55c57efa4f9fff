"""Forgets flows of packets that began before a route was there, by netlink (conntrack).

Each packet of a flow is translated as its first one was. A flow that began before a peer's
aliases had a route of their own left as any packet to the world, mostly in the name of the node,
and would for as long as it goes on. Everything blocks and works in the network namespace of the
calling thread.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from liqod.netlink import (
    NESTED,
    NETFILTER,
    Netlink,
    NetlinkRefused,
    attribute,
    attributes,
)

SUBSYSTEM: Final = 1
_GET, _DELETE = 1, 2
_ORIGINAL, _REPLY, _ID, _ZONE = 1, 2, 12, 18
_ADDRESSES: Final = 1
_OF: Final = {4: (socket.AF_INET, 1, 2), 6: (socket.AF_INET6, 3, 4)}
"""By the family: its number, and the attributes of source and destination."""


def forget(prefixes: Iterable[str]) -> int:
    """Forget flows to some ranges that go under another source than their own; how many.

    A flow that goes as it is to is left alone. Where the kernel keeps none, there are none.

    Args:
        prefixes: of destinations, as the senders have them.
    """
    wanted = [ip_network(each) for each in prefixes]
    forgotten = 0
    with Netlink(NETFILTER) as netlink:
        for version in sorted({each.version for each in wanted}):
            try:
                found = list(_found(netlink, version, wanted))
            except NetlinkRefused:
                continue
            for body in found:
                try:
                    netlink.request(SUBSYSTEM << 8 | _DELETE, 0, body)
                except NetlinkRefused as error:
                    if error.errno != errno.ENOENT:
                        raise
                    continue  # it has just ended
                forgotten += 1
    return forgotten


def _found(
    netlink: Netlink, version: int, wanted: list[IPv4Network | IPv6Network]
) -> Iterator[bytes]:
    """The netlink attributes that identify each such flow."""
    family, source, destination = _OF[version]
    head = struct.pack("!BBH", family, 0, 0)
    for answer in netlink.dump(SUBSYSTEM << 8 | _GET, head):
        said = attributes(answer, 4)
        original, reply = said.get(_ORIGINAL, b""), said.get(_REPLY, b"")
        sent, back = (attributes(attributes(one).get(_ADDRESSES, b"")) for one in (original, reply))
        to = sent.get(destination, b"")
        if back.get(destination) == sent.get(source) or len(to) not in (4, 16):
            continue
        address = ip_address(to)
        if any(address in each for each in wanted):
            # Its number, too: another one may have taken its place.
            kept = ((_ZONE, 0), (_ORIGINAL, NESTED), (_ID, 0))
            yield head + b"".join(
                attribute(kind | flags, said[kind]) for kind, flags in kept if kind in said
            )
