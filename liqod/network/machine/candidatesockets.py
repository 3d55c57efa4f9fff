"""The sockets of a candidate: one that answers the others, and one that asks the gateway."""

import socket
from collections.abc import Callable

from liqod.network.orders.candidacy import LocalCandidate


def listening(me: LocalCandidate) -> socket.socket:
    """A socket at which other candidates send requests. Raises OSError where the port is taken."""
    return _datagrams(me.address, lambda made: made.bind((me.address, me.port)))


def asking(me: LocalCandidate, address: str) -> socket.socket:
    """A socket for requests to the candidate at an address. Raises OSError: there is no route."""
    return _datagrams(address, lambda made: made.connect((address, me.port)))


def _datagrams(address: str, begin: Callable[[socket.socket], None]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        begin(made)
    except BaseException:
        made.close()
        raise
    return made
