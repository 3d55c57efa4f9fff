"""The sockets of a candidate: one that answers the others, and one that asks the gateway."""

import socket

from liqod.network.orders.candidacy import LocalCandidate


def listening(me: LocalCandidate) -> socket.socket:
    """A socket at which other candidates send requests. Raises OSError where the port is taken."""
    made = _datagrams(me.address)
    try:
        made.bind((me.address, me.port))
    except BaseException:
        made.close()
        raise
    return made


def asking(me: LocalCandidate, address: str) -> socket.socket:
    """A socket for requests to the candidate at an address. Raises OSError: there is no route."""
    made = _datagrams(address)
    try:
        made.connect((address, me.port))
    except BaseException:
        made.close()
        raise
    return made


def _datagrams(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
