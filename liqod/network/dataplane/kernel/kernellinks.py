"""Links with their addresses, neighbours and forwarding entries, in netlink's form.

Every function here works in the namespace of the :class:`~liqod.netlink.Netlink` that it is given.
"""

import errno
import ipaddress
import struct
from collections.abc import Iterable
from pathlib import Path

from liqod.errors import NetworkError
from liqod.netlink import (
    CREATE,
    EXCLUSIVE,
    REPLACE,
    Attribute,
    Netlink,
    NetlinkRefused,
    attributes,
    inside,
    nest,
    number,
    read_number,
    read_text,
    text,
)
from liqod.network.dataplane.values import Address, Forwarding, Neighbour, Veth, Vxlan
from liqod.plugins.network.rtnetlink import ALTERNATIVE_NAME, PROPERTIES, Link, find_by

_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_NEIGHBOUR = struct.Struct("=BBHiHBB")

NEW_LINK, DELETE_LINK, NEW_PROPERTY = 16, 17, 108
NEW_ADDRESS, DELETE_ADDRESS, GET_ADDRESS = 20, 21, 22
NEW_NEIGHBOUR, DELETE_NEIGHBOUR, GET_NEIGHBOUR = 28, 29, 30

# Attributes of links.
_NAME = 3
_NO_ADDRESSES = 1
_VNI, _LOCAL, _LEARNING, _PORT, _LOCAL_6 = 1, 4, 7, 15, 17
UP = 1

# Attributes and states of addresses and neighbours.
_PREFIX, _OWN, _PROTOCOL = 1, 2, 11
_BY_KERNEL = (1, 2, 3)
_NO_DETECTION = 0x02
_TO, _LINK_ADDRESS, _BY_INDEX = 1, 2, 8
_PERMANENT, _STATIC, _ON_DEVICE = 0x80, 0xC0, 2
BRIDGE, INET, INET6 = 7, 2, 10


def named(body: bytes) -> tuple[int, str]:
    """Number and name of the link that a message is about."""
    return _LINK.unpack_from(body)[2], read_text(attributes(body, _LINK.size).get(_NAME))


def index(netlink: Netlink, name: str) -> int:
    """The number of a link.

    Raises:
        NetworkError: there is none of that name.
    """
    found = find_by(netlink, name)
    if found is None:
        raise NetworkError(f"there is no interface {name}")
    return found.index


def set_up(
    netlink: Netlink,
    number_of: int,
    *,
    mac: str = "",
    mtu: int = 0,
    alias: str = "",
    up: bool = True,
) -> None:
    """Changes the attributes of a link, and whether it is up."""
    wanted: list[Attribute] = []
    if mac:
        wanted.append(("IFLA_ADDRESS", mac))
    if mtu:
        wanted.append(("IFLA_MTU", mtu))
    if alias:
        wanted.append(("IFLA_IFALIAS", alias))
        if Path("/proc/net/if_inet6").exists():
            wanted.append(_unaddressed())
    netlink.change(NEW_LINK, 0, *wanted, index=number_of, flags=UP if up else 0, change=UP)


def add_name(netlink: Netlink, number_of: int, name: str) -> None:
    """Gives a link an alternative name."""
    body = _LINK.pack(0, 0, number_of, 0, 0) + nest(PROPERTIES, text(ALTERNATIVE_NAME, name))
    netlink.request(NEW_PROPERTY, CREATE | EXCLUSIVE, body)


def add_veth(netlink: Netlink, link: Veth, mark: str, peers_namespace: int) -> None:
    """Makes a pair; the other end goes into the namespace of an open file."""
    other = inside(
        ("IFLA_IFNAME", link.peer), ("IFLA_MTU", link.mtu), ("IFLA_NET_NS_FD", peers_namespace)
    )
    _add(netlink, link, mark, "veth", ("VETH_INFO_PEER", other))


def add_vxlan(netlink: Netlink, link: Vxlan, mark: str) -> None:
    """Makes an overlay device that learns nothing."""
    local = ipaddress.ip_address(link.local)
    data = (
        ("IFLA_VXLAN_ID", link.vni),
        ("IFLA_VXLAN_LOCAL" if local.version == 4 else "IFLA_VXLAN_LOCAL6", str(local)),
        ("IFLA_VXLAN_LEARNING", 0),
        ("IFLA_VXLAN_PORT", link.port),
    )
    _add(netlink, link, mark, "vxlan", *data)


def delete(netlink: Netlink, number_of: int) -> None:
    """Takes a link away."""
    netlink.change(DELETE_LINK, 0, index=number_of)


def addresses(netlink: Netlink, link: Link) -> set[Address]:
    """The addresses of a link, but those that the kernel gave it."""
    found = set()
    for answer in netlink.dump(GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, link.index)):
        _, length, _, _, number_of = _ADDRESS.unpack_from(answer)
        said = attributes(answer, _ADDRESS.size)
        by_kernel = said.get(_PROTOCOL, b"\0")[0] in _BY_KERNEL
        if number_of == link.index and not by_kernel:
            address = ipaddress.ip_address(said.get(_OWN, said.get(_PREFIX, b"")))
            found.add(Address(link.name, f"{address}/{length}"))
    return found


def add_address(netlink: Netlink, address: Address, number_of: int) -> None:
    """Gives a link an address, which is used at once."""
    _address(netlink, NEW_ADDRESS, CREATE | REPLACE, address, number_of)


def delete_address(netlink: Netlink, address: Address, number_of: int) -> None:
    """Takes an address from a link; one of its network may take those of the same network along."""
    try:
        _address(netlink, DELETE_ADDRESS, 0, address, number_of)
    except NetlinkRefused as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise


def neighbours(netlink: Netlink, link: Link) -> set[Neighbour]:
    """The permanent neighbours of a link, which are never resolved."""
    found = set()
    for family in (INET, INET6):
        # The kernel takes the interface for this dump by an attribute only.
        body = _NEIGHBOUR.pack(family, 0, 0, 0, 0, 0, 0) + number(_BY_INDEX, link.index)
        for answer in netlink.dump(GET_NEIGHBOUR, body):
            _, _, _, number_of, state, _, _ = _NEIGHBOUR.unpack_from(answer)
            said = attributes(answer, _NEIGHBOUR.size)
            if number_of == link.index and state & _PERMANENT and _TO in said:
                address = str(ipaddress.ip_address(said[_TO]))
                found.add(Neighbour(link.name, address, said.get(_LINK_ADDRESS, b"").hex(":")))
    return found


def set_neighbour(
    netlink: Netlink, wanted: Neighbour, number_of: int, *, there: bool = True
) -> None:
    """Sets the link-layer address of a neighbour, in place of the former one, or forgets it."""
    netlink.change(
        *_set(there),
        ("NDA_DST", wanted.address),
        ("NDA_LLADDR", wanted.mac),
        family=_family(ipaddress.ip_address(wanted.address)),
        ifindex=number_of,
        state=_PERMANENT,
    )


def forwarding(netlink: Netlink, link: Link) -> set[Forwarding]:
    """Where an overlay device sends frames."""
    found = set()
    body = _NEIGHBOUR.pack(BRIDGE, 0, 0, link.index, 0, 0, 0)
    for answer in netlink.dump(GET_NEIGHBOUR, body):
        _, _, _, number_of, _, _, _ = _NEIGHBOUR.unpack_from(answer)
        said = attributes(answer, _NEIGHBOUR.size)
        if number_of == link.index and _TO in said and _LINK_ADDRESS in said:
            to = str(ipaddress.ip_address(said[_TO]))
            found.add(Forwarding(link.name, said[_LINK_ADDRESS].hex(":"), to))
    return found


def set_forwarding(
    netlink: Netlink, entry: Forwarding, number_of: int, *, there: bool = True
) -> None:
    """Sends frames for a link-layer address to one node, in place of another, or nowhere."""
    netlink.change(
        *_set(there),
        ("NDA_LLADDR", entry.mac),
        ("NDA_DST", entry.to),
        family=BRIDGE,
        ifindex=number_of,
        state=_STATIC,
        flags=_ON_DEVICE,
    )


def _set(there: bool) -> tuple[int, int]:
    """Kind and flags of a request that sets a neighbour, or deletes it."""
    return (NEW_NEIGHBOUR, CREATE | REPLACE) if there else (DELETE_NEIGHBOUR, 0)


def by_name(netlink: Netlink, wanted: Iterable[str]) -> dict[str, Link]:
    """Those of the links that there are."""
    found = ((name, find_by(netlink, name)) for name in wanted)
    return {name: link for name, link in found if link is not None}


def _add(netlink: Netlink, link: Veth | Vxlan, mark: str, kind: str, *data: Attribute) -> None:
    netlink.change(
        NEW_LINK,
        CREATE | EXCLUSIVE,
        ("IFLA_IFNAME", link.name),
        ("IFLA_ADDRESS", link.mac),
        ("IFLA_MTU", link.mtu),
        # The kind first: pyroute2 encodes the data by it.
        ("IFLA_LINKINFO", inside(("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", inside(*data)))),
    )
    # The kernel takes none of this for a link that is only being made.
    set_up(netlink, index(netlink, link.name), alias=mark, up=False)


def _unaddressed() -> Attribute:
    """The attribute that has the kernel give a link no address by itself."""
    mode = inside(("IFLA_INET6_ADDR_GEN_MODE", _NO_ADDRESSES))
    return "IFLA_AF_SPEC", inside(("AF_INET6", mode))


def overlay(link: Link) -> tuple[int, int, str, bool]:
    """Number, port and local address of a VXLAN device, and whether it learns."""
    data = attributes(link.data)
    local = data.get(_LOCAL, data.get(_LOCAL_6, b""))
    return (
        read_number(data.get(_VNI)),
        int.from_bytes(data.get(_PORT, b""), "big"),
        str(ipaddress.ip_address(local)) if local else "",
        data.get(_LEARNING, b"\0") != b"\0",
    )


def _address(netlink: Netlink, kind: int, flags: int, address: Address, number_of: int) -> None:
    of = ipaddress.ip_interface(address.prefix)
    netlink.change(
        kind,
        flags,
        ("IFA_LOCAL", str(of.ip)),
        ("IFA_ADDRESS", str(of.ip)),
        family=_family(of),
        prefixlen=of.network.prefixlen,
        flags=_NO_DETECTION,
        scope=_scope(of.ip),
        index=number_of,
    )


def _family(of: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return INET if of.version == 4 else INET6


def _scope(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return 253 if address.version == 6 and address.is_link_local else 0
