"""Finds older tables of iptables that drop forwarded packets: nftables does not show them.

The kernel returns a table whole, as ``iptables-legacy`` reads it. Only tables that are there are
read: a request for another one would make it. Everything blocks and works in the network
namespace of the calling thread.
"""

import ctypes
import errno
import socket
import struct
from pathlib import Path
from typing import Final, NamedTuple

TABLE: Final = "filter"
NAMES: Final = Path("/proc/thread-self/net")
_INFO: Final = struct.Struct("=32sI5I5III")
"""Name, hooks that are used, where each one's rules begin, where its policy is, count and size."""
_GET_INFO, _GET_ENTRIES, _FORWARD = 64, 65, 2
_HEAD: Final = struct.Struct("=32sI4x")
"""Before the rules: name and size, at an address that is a multiple of eight."""
_TARGET_HEAD: Final = 32
_DROP: Final = -1
"""The verdict, as it is in a rule."""


class _Kind(NamedTuple):
    """The access to the tables of one of both families.

    Attributes:
        program: the owner of the table.
        names: file that lists the tables that are there.
        family, level: of the socket for the request.
        target: offset in a rule of the offset of its target.
    """

    program: str
    names: str
    family: socket.AddressFamily
    level: int
    target: int


_KINDS: Final = (
    _Kind("iptables-legacy", "ip_tables_names", socket.AF_INET, socket.IPPROTO_IP, 88),
    _Kind("ip6tables-legacy", "ip6_tables_names", socket.AF_INET6, socket.IPPROTO_IPV6, 140),
)


def forward_drops() -> list[str]:
    """The chain ``FORWARD`` of either family, where its policy is to drop.

    Raises:
        OSError: the kernel does not answer.
    """
    return [f"{kind.program} {TABLE} FORWARD" for kind in _KINDS if _drops(kind)]


def _drops(kind: _Kind) -> bool:
    try:
        there = (NAMES / kind.names).read_text().split()
    except FileNotFoundError:
        return False  # a kernel without them
    if TABLE not in there:
        return False
    with socket.socket(kind.family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as made:
        for _ in range(3):
            asked = TABLE.encode().ljust(32, b"\0")
            info = _getsockopt(made, kind.level, _GET_INFO, asked.ljust(_INFO.size, b"\0"))
            _, hooks, *rest, _, size = _INFO.unpack(info)
            policy = rest[5 + _FORWARD]
            if not hooks & 1 << _FORWARD:
                return False
            try:
                whole = _HEAD.pack(asked, size) + bytes(size)
                rules = _getsockopt(made, kind.level, _GET_ENTRIES, whole)[_HEAD.size :]
            except OSError as error:
                if error.errno == errno.EAGAIN:
                    continue  # it was changed in between
                raise
            (target,) = struct.unpack_from("=H", rules, policy + kind.target)
            (verdict,) = struct.unpack_from("=i", rules, policy + target + _TARGET_HEAD)
            return bool(verdict == _DROP)
    return False


def _getsockopt(sock: socket.socket, level: int, what: int, data: bytes) -> bytes:
    """The kernel's answer, which it writes to where it reads the question.

    Raises:
        OSError: it does not.
    """
    space = ctypes.create_string_buffer(data, len(data))
    size = ctypes.c_uint32(len(data))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(sock.fileno(), level, what, space, ctypes.byref(size)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"iptables: {errno.errorcode.get(number, number)}")
    return space.raw
