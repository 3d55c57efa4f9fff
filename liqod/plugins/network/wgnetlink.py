"""The kernel's WireGuard by generic netlink: an interface read and changed, as bytes and values.

Calls block, and concern the network namespace of the calling thread.
"""

import errno
import socket
import struct
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from msgspec.structs import replace

from liqod.netlink import Netlink, NetlinkRefused, attribute, nest, number, pairs, text
from liqod.plugins.network.device import (
    Change,
    PeerChange,
    WireGuardDevice,
    WireGuardPeer,
    same_key,
)
from liqod.plugins.network.endpointselection import parted

GENERIC = 16
"""The netlink family of families that are found by name."""
_CONTROL, _GET_FAMILY, _FAMILY_NUMBER, _FAMILY_NAME = 16, 3, 1, 2
FAMILY = "wireguard"
_GET, _SET, _VERSION = 0, 1, 1
_D_NAME, _D_PRIVATE, _D_PORT, _D_MARK, _D_PEERS = 2, 3, 6, 7, 8
_P_PUBLIC, _P_FLAGS, _P_ENDPOINT, _P_KEEPALIVE = 1, 3, 4, 5
_P_HANDSHAKE, _P_RECEIVED, _P_SENT, _P_ALLOWED = 6, 7, 8, 9
_A_FAMILY, _A_ADDRESS, _A_LENGTH = 1, 2, 3
_REMOVE, _REPLACE_ALLOWED = 1, 2


def is_supported() -> bool:
    """True if this kernel has WireGuard. It loads the module where there is one."""
    with Netlink(GENERIC) as netlink:
        return _family(netlink) is not None


def read(interface: str, private_key: bytes = b"") -> WireGuardDevice:
    """How an interface is. Raises NetworkError."""
    body = struct.pack("=BBH", _GET, _VERSION, 0) + text(_D_NAME, interface)
    with Netlink(GENERIC) as netlink:
        return parsed(netlink.dump(_number(netlink), body), private_key)


def write(interface: str, change: Change) -> None:
    """Change an interface. Raises NetworkError."""
    with Netlink(GENERIC) as netlink:
        family = _number(netlink)
        for each in encoded(interface, change):
            netlink.request(family, 0, each)


def encoded(interface: str, change: Change) -> list[bytes]:
    """A change as messages. A peer that goes and comes again is in two, since order counts."""
    head = struct.pack("=BBH", _SET, _VERSION, 0) + text(_D_NAME, interface)
    first = head
    if change.private_key is not None:
        first += attribute(_D_PRIVATE, change.private_key)
    if change.port is not None:
        first += attribute(_D_PORT, struct.pack("=H", change.port))
    if change.mark is not None:
        first += attribute(_D_MARK, struct.pack("=I", change.mark))
    messages = [first] if first != head else []
    return messages + [head + nest(_D_PEERS, nest(0, _peer_message(peer))) for peer in change.peers]


def parsed(bodies: Iterable[bytes], private_key: bytes = b"") -> WireGuardDevice:
    """Messages of the kernel as a value; a peer may come in several parts."""
    keyed, port, mark = False, 0, 0
    peers: dict[bytes, WireGuardPeer] = {}
    for body in bodies:
        for kind, value in pairs(body[4:]):
            if kind == _D_PRIVATE:
                keyed = same_key(value, private_key)
            elif kind == _D_PORT:
                port = struct.unpack("=H", value)[0]
            elif kind == _D_MARK:
                mark = struct.unpack("=I", value)[0]
            elif kind == _D_PEERS:
                for _, inner in pairs(value):
                    found = _peer(inner)
                    before = peers.get(found.public_key)
                    if before is not None:
                        allowed = tuple(sorted({*before.allowed, *found.allowed}))
                        found = replace(before, allowed=allowed)
                    peers[found.public_key] = found
    return WireGuardDevice(keyed=keyed, port=port, mark=mark, peers=tuple(peers.values()))


def _number(netlink: Netlink) -> int:
    found = _family(netlink)
    if found is None:
        raise NetlinkRefused(errno.EOPNOTSUPP, "the kernel has no WireGuard")
    return found


def _family(netlink: Netlink) -> int | None:
    """The kernel's number of it; None where it has none."""
    try:
        body = struct.pack("=BBH", _GET_FAMILY, 1, 0) + text(_FAMILY_NAME, FAMILY)
        said = dict(pairs(netlink.get(_CONTROL, body), 4))
    except NetlinkRefused as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return int(struct.unpack_from("=H", said[_FAMILY_NUMBER])[0])


def _peer_message(peer: PeerChange) -> bytes:
    flags = _REMOVE if peer.remove else 0
    if peer.allowed is not None:
        flags |= _REPLACE_ALLOWED
    parts = [attribute(_P_PUBLIC, peer.public_key), number(_P_FLAGS, flags)]
    if peer.endpoint is not None:
        parts.append(attribute(_P_ENDPOINT, _packed(peer.endpoint)))
    if peer.keepalive is not None:
        parts.append(attribute(_P_KEEPALIVE, struct.pack("=H", peer.keepalive)))
    if peer.allowed is not None:
        parts.append(nest(_P_ALLOWED, *(nest(0, _prefix(each)) for each in peer.allowed)))
    return b"".join(parts)


def _prefix(prefix: str) -> bytes:
    network = ip_network(prefix)
    kind = socket.AF_INET if network.version == 4 else socket.AF_INET6
    return b"".join(
        (
            attribute(_A_FAMILY, struct.pack("=H", kind)),
            attribute(_A_ADDRESS, network.network_address.packed),
            attribute(_A_LENGTH, struct.pack("=B", network.prefixlen)),
        )
    )


def _packed(endpoint: str) -> bytes:
    """``address:port`` as the kernel's ``sockaddr``."""
    text, port = parted(endpoint)
    address = ip_address(text)
    if address.version == 4:
        kind, rest = socket.AF_INET, address.packed + bytes(8)
    else:
        kind, rest = socket.AF_INET6, bytes(4) + address.packed + bytes(4)
    return struct.pack("=H", kind) + struct.pack("!H", port) + rest


def _endpoint(value: bytes) -> str:
    (kind,) = struct.unpack_from("=H", value)
    (port,) = struct.unpack_from("!H", value, 2)
    if kind == socket.AF_INET:
        return f"{ip_address(value[4:8])}:{port}"
    return f"[{ip_address(value[8:24])}]:{port}"


def _peer(body: bytes) -> WireGuardPeer:
    said = dict(pairs(body))
    allowed = []
    for _, inner in pairs(said.get(_P_ALLOWED, b"")):
        each = dict(pairs(inner))
        allowed.append(f"{ip_address(each[_A_ADDRESS])}/{each[_A_LENGTH][0]}")
    whole, part = struct.unpack("=qq", said.get(_P_HANDSHAKE, bytes(16)))
    return WireGuardPeer(
        public_key=said[_P_PUBLIC],
        endpoint=_endpoint(said[_P_ENDPOINT]) if _P_ENDPOINT in said else "",
        keepalive=struct.unpack("=H", said.get(_P_KEEPALIVE, bytes(2)))[0],
        allowed=tuple(sorted(allowed)),
        handshake=whole + part / 1e9,
        received=struct.unpack("=Q", said.get(_P_RECEIVED, bytes(8)))[0],
        sent=struct.unpack("=Q", said.get(_P_SENT, bytes(8)))[0],
    )
