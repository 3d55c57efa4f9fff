"""Checks that the gateway is reached over the overlay: by ICMP echoes, which its kernel answers.

So the path is seen while no daemon runs there, and nothing has to listen. At rest it is one packet
every ten seconds.
"""

import errno
import socket
from collections.abc import Callable
from typing import Final, NoReturn

import msgspec
import trio

from liqod.tunnel.probes.echoes import Echoes

EVERY: Final = 10.0
"""Seconds between echoes while they are answered."""
SOON: Final = 1.0
"""Seconds between them while they are not; as long is waited for an answer."""
MISSED: Final = 3
"""So many without an answer, and the gateway is taken not to be reached."""
SIZE: Final = 64
"""Bytes of an echo, IP's header included."""
_PROTOCOL: Final = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
_FAMILY: Final = {4: socket.AF_INET, 6: socket.AF_INET6}


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
    asking, missed = Echoes(made), 0
    try:
        while True:
            latency, why = await _once(asking, address)
            missed = 0 if latency is not None else missed + 1
            if latency is not None or missed >= MISSED:
                on_result(PingResult(latency is not None, why, latency))
            await trio.sleep(EVERY if latency is not None else SOON)
    finally:
        asking.close()


async def _once(asking: Echoes, address: str) -> tuple[float | None, str]:
    """The seconds of one round trip, None where there was none; and that, as a sentence."""
    try:
        latency = await asking.ping(address, SIZE, SOON)
    except OSError as error:
        return None, f"{address} is not reached over the overlay: {error.strerror or error}"
    answers = "answers" if latency is not None else "does not answer"
    return latency, f"{address} {answers} over the overlay"
