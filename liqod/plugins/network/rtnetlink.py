"""Interfaces by rtnetlink: found, made, moved to another namespace, set up, deleted.

Everything blocks and concerns the network namespace of the calling thread.
"""

import errno
import os
import struct
from ipaddress import ip_network
from pathlib import Path

import msgspec

from liqod.netlink import (
    CREATE,
    EXCLUSIVE,
    Attribute,
    Netlink,
    NetlinkRefused,
    attributes,
    inside,
    number,
    pairs,
    read_number,
    read_text,
    text,
)

_LINK = struct.Struct("=BxHiII")
_ADDRESSED = struct.Struct("=BBBBi")
_ADDRESSES, _PREFIX = 22, 1
_GLOBAL = 0
"""The scope of addresses that are good beyond one link."""
_NEW, _DELETE, _GET = 16, 17, 18
_UP = 0x1
_MAC, _NAME, _MTU, _INFO, _ALIAS, _WANTED = 1, 3, 4, 18, 20, 29
PROPERTIES, ALTERNATIVE_NAME = 52, 53
_NO_STATISTICS = 8
_KIND, _DATA, _COUNTERS = 1, 2, 23
_COUNTED = struct.Struct("=QQQQ")
"""Packets and bytes, received and sent, as counters begin."""
_ANY = _LINK.pack(0, 0, 0, 0, 0)
_PLAIN = _ANY + number(_WANTED, _NO_STATISTICS)
"""The head of a question for an interface, with its statistics or without them."""
NAMESPACES = Path("/run/netns")
"""Where network namespaces have names."""


class Link(msgspec.Struct, frozen=True):
    """An interface.

    Attributes:
        index: its number in the namespace.
        name: as ``ip`` shows it.
        mtu: in bytes.
        up: whether it is set up.
        kind: ``wireguard``, ``vxlan``, ``tun`` …
        data: the kernel's data of the kind, as attributes.
        received, sent: bytes; 0 where they were not asked for.
        mac: its link-layer address.
        alias: text that its maker has given it.
        alternative_names: as ``ip link`` shows them.
    """

    index: int
    name: str
    mtu: int
    up: bool
    kind: str = ""
    data: bytes = b""
    received: int = 0
    sent: int = 0
    mac: str = ""
    alias: str = ""
    alternative_names: tuple[str, ...] = ()


def find(name: str) -> Link | None:
    """The interface of that name, with its statistics; None where there is none."""
    with Netlink() as netlink:
        return find_by(netlink, name, _ANY)


def find_by(netlink: Netlink, name: str, asked: bytes = _PLAIN) -> Link | None:
    """As :func:`find`, in the namespace of a socket."""
    try:
        return read(netlink.get(_GET, asked + text(_NAME, name)))
    except NetlinkRefused as error:
        if error.errno == errno.ENODEV:
            return None
        raise


def every(netlink: Netlink) -> list[Link]:
    """Every interface of a socket's namespace, without statistics."""
    return [read(answer) for answer in netlink.dump(_GET, _PLAIN)]


def read(body: bytes) -> Link:
    """An interface from the body of the kernel's message."""
    _, _, index, flags, _ = _LINK.unpack_from(body)
    said = attributes(body, _LINK.size)
    info = attributes(said.get(_INFO, b""))
    counters = said.get(_COUNTERS, b"").ljust(_COUNTED.size, b"\0")
    _, _, received, sent = _COUNTED.unpack_from(counters)
    return Link(
        index=index,
        name=read_text(said.get(_NAME)),
        mtu=read_number(said.get(_MTU)),
        up=bool(flags & _UP),
        kind=read_text(info.get(_KIND)),
        data=info.get(_DATA, b""),
        received=received,
        sent=sent,
        mac=said.get(_MAC, b"").hex(":"),
        alias=read_text(said.get(_ALIAS)),
        alternative_names=tuple(
            read_text(value)
            for each, value in pairs(said.get(PROPERTIES, b""))
            if each == ALTERNATIVE_NAME
        ),
    )


def make(name: str, kind: str, *data: Attribute, mac: str = "") -> None:
    """Make an interface.

    Args:
        name: how it is called.
        kind: ``wireguard``, ``vxlan`` …
        data: attributes of that kind, by the kernel's names.
        mac: its link-layer address, if it is to have a certain one.

    Raises:
        Refused: there is one of that name, or the kernel lacks the kind.
    """
    info: list[Attribute] = [("IFLA_INFO_KIND", kind)]
    if data:
        info.append(("IFLA_INFO_DATA", inside(*data)))
    wanted: list[Attribute] = [("IFLA_IFNAME", name), ("IFLA_LINKINFO", inside(*info))]
    if mac:
        wanted.append(("IFLA_ADDRESS", mac))
    with Netlink() as netlink:
        netlink.change(_NEW, CREATE | EXCLUSIVE, *wanted)


def delete(name: str) -> bool:
    """Delete an interface; True if there was one."""
    try:
        with Netlink() as netlink:
            netlink.change(_DELETE, 0, ("IFLA_IFNAME", name))
    except NetlinkRefused as error:
        if error.errno == errno.ENODEV:
            return False
        raise
    return True


def raise_(name: str, mtu: int, *, segments: int = 0) -> None:
    """Set an interface's MTU, and set it up.

    Args:
        name: of the interface.
        mtu: in bytes.
        segments: of a TCP connection that it is given in one piece, at most; 0 leaves that.
    """
    wanted: list[Attribute] = [("IFLA_IFNAME", name), ("IFLA_MTU", mtu)]
    if segments:
        wanted.append(("IFLA_GSO_MAX_SEGS", segments))
    with Netlink() as netlink:
        netlink.change(_NEW, 0, *wanted, flags=_UP, change=_UP)


def move(name: str, namespace: str) -> None:
    """Move an interface into a namespace, where it is down at first.

    Raises:
        FileNotFoundError: there is no such namespace.
        Refused: by the kernel, such as where it holds one of that name.
    """
    descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Netlink() as netlink:
            netlink.change(_NEW, 0, ("IFLA_IFNAME", name), ("IFLA_NET_NS_FD", descriptor))
    finally:
        os.close(descriptor)


def networks() -> tuple[str, ...]:
    """Prefixes of the networks that this namespace has an address in, but for those of one link."""
    found = []
    with Netlink() as netlink:
        for body in netlink.dump(_ADDRESSES, _ADDRESSED.pack(0, 0, 0, 0, 0)):
            _, length, _, scope, _ = _ADDRESSED.unpack_from(body)
            address = attributes(body, _ADDRESSED.size).get(_PREFIX)
            if scope == _GLOBAL and address:
                found.append(str(ip_network((address, length), strict=False)))
    return tuple(dict.fromkeys(found))


def is_namespace(name: str) -> bool:
    """True if a network namespace of that name exists."""
    return (NAMESPACES / name).exists()
