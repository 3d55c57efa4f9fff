"""Checks that the gateway is reached over the overlay: by ICMP echoes, which its kernel answers.

So the path is seen while no daemon runs there, and nothing has to listen. At rest it is one packet
every ten seconds.
"""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec
import trio

EVERY: Final = 10.0
"""Seconds between echoes while they are answered."""
SOON: Final = 1.0
"""Seconds between them while they are not; as long is waited for an answer."""
MISSED: Final = 3
"""So many without an answer, and the gateway is taken not to be reached."""
_REQUEST: Final = {4: 8, 6: 128}
_ANSWER: Final = {4: 0, 6: 129}
_PROTOCOL: Final = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
_FAMILY: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_HEAD: Final = struct.Struct(">BBHHH")


class PingResult(msgspec.Struct, frozen=True):
    """How the gateway is reached.

    Attributes:
        reached: whether it answers.
        why: a sentence.
        latency: seconds of the last round trip; None where none was answered.
    """

    reached: bool
    why: str
    latency: float | None = None


def open_socket(family: int) -> socket.socket | None:
    """A socket for echoes, in the namespace of this thread; None where that may not be had.

    Without ``CAP_NET_RAW`` it can be had where ``net.ipv4.ping_group_range`` allows.
    """
    for how in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            return socket.socket(
                _FAMILY[family], how | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, _PROTOCOL[family]
            )
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise
    return None


async def ping(
    made: socket.socket, address: str, on_result: Callable[[PingResult], None]
) -> NoReturn:
    """Probe without end, and report each answer, or that there is none; the socket is closed."""
    number = missed = 0
    with trio.socket.from_stdlib_socket(made) as asking:
        while True:
            number = (number + 1) & 0xFFFF
            latency, why = await _once(asking, address, number)
            missed = 0 if latency is not None else missed + 1
            if latency is not None:
                on_result(PingResult(True, f"{address} answers over the overlay", latency))
            elif missed >= MISSED:
                on_result(PingResult(False, why))
            await trio.sleep(EVERY if latency is not None else SOON)


async def _once(
    asking: trio.socket.SocketType, address: str, number: int
) -> tuple[float | None, str]:
    """The seconds of one round trip; None and why not."""
    family = 6 if ":" in address else 4
    began = time.monotonic()
    try:
        await asking.sendto(_echo(family, number), (address, 0))
        with trio.move_on_after(SOON):
            while True:
                data, sender = await asking.recvfrom(2048)
                if sender[0] == address and _is_answer(family, _body(asking, family, data), number):
                    return time.monotonic() - began, ""
    except OSError as error:
        await trio.lowlevel.checkpoint()
        return None, f"{address} is not reached over the overlay: {error.strerror or error}"
    return None, f"{address} does not answer over the overlay"


def _body(asking: trio.socket.SocketType, family: int, data: bytes) -> bytes:
    """A raw socket of IPv4 shows the header, too."""
    if family == 4 and asking.type & 0xF == socket.SOCK_RAW and data:
        return data[(data[0] & 0xF) * 4 :]
    return data


def _echo(family: int, number: int) -> bytes:
    """A request; of one that the kernel sends for a group of users it sets the identifier."""
    head = _HEAD.pack(_REQUEST[family], 0, 0, os.getpid() & 0xFFFF, number)
    return _HEAD.pack(_REQUEST[family], 0, _checksum(head), os.getpid() & 0xFFFF, number)


def _is_answer(family: int, body: bytes, number: int) -> bool:
    if len(body) < _HEAD.size:
        return False
    kind, _, _, _, said = _HEAD.unpack_from(body)
    return bool(kind == _ANSWER[family] and said == number)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF
