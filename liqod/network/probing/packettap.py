"""Counts datagrams of the other gateway that reach this machine, authentic or not.

A tunnel does not report datagrams that are not authentic. Where it is silent it is the difference
between a firewall on the path and a wrong key: so while nothing answers they are counted, by a
socket to which the kernel gives copies of those for a port only.
"""

import ctypes
import ipaddress
import socket
import struct
from typing import Final

import trio

SO_ATTACH_FILTER: Final = 26
MOST: Final = 64
"""Datagrams after which counting ends."""
HEADER: Final = 64
"""Bytes of each that the kernel keeps."""
# Of the kernel's packet filter: where IP's header ends, then UDP's ports.
_END, _PORT, _IF_PORT, _TAKE = 0xB1, 0x48, 0x15, 0x06


def program(source: int, destination: int) -> bytes:
    """A filter that passes datagrams from a port or to a port; 0 for none."""
    return b"".join(
        struct.pack("=HBBI", *each)
        for each in (
            (_END, 0, 0, 0),
            (_PORT, 0, 0, 2),
            (_IF_PORT, 2, 0, destination or 0x10000),
            (_PORT, 0, 0, 0),
            (_IF_PORT, 0, 1, source or 0x10000),
            (_TAKE, 0, 0, HEADER),
            (_TAKE, 0, 0, 0),
        )
    )


def listening(endpoint: str, port: int) -> socket.socket:
    """A socket that gets copies, of IPv4.

    Raises:
        OSError: the right CAP_NET_RAW is missing.
    """
    source = int(endpoint.rpartition(":")[2]) if endpoint else 0
    made = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_UDP)
    try:
        code = ctypes.create_string_buffer(program(0 if port else source, port))
        count = (len(code) - 1) // 8
        made.setsockopt(
            socket.SOL_SOCKET,
            SO_ATTACH_FILTER,
            struct.pack("@HP", count, ctypes.addressof(code)),
        )
    except BaseException:
        made.close()
        raise
    return made


async def count(made: socket.socket, endpoint: str, port: int, seconds: float) -> int:
    """Counts the datagrams that come within so many seconds; closes the socket.

    A client has the other side's address, and counts no other sender; a server counts all.
    """
    wanted = "" if port else endpoint.rpartition(":")[0]
    found = 0
    with trio.socket.from_stdlib_socket(made) as sock, trio.move_on_after(seconds):
        while found < MOST:
            # Who sent it says the kernel; no byte of it is read here.
            _, origin = await sock.recvfrom(0)
            found += not wanted or origin[0] == wanted
    return found


def is_ipv4(endpoint: str) -> bool:
    """True if an endpoint's datagrams can be counted: it is IPv4, or not known yet."""
    host = endpoint.rpartition(":")[0]
    try:
        return not host or ipaddress.ip_address(host).version == 4
    except ValueError:
        return False
