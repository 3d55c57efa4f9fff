"""This machine as a candidate: its name, where it listens, and its sockets."""

import socket

import msgspec

from liqod.network.failover import candidatemessages


class LocalCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """This candidate.

    Attributes:
        name: of its Node.
        address: on the nodes' network.
        reached: where peers reach it; empty for the same.
        key: of the cluster's candidates.
        port: where candidates listen.
    """

    name: str
    address: str
    key: bytes
    reached: str = ""
    port: int = candidatemessages.PORT

    def __repr__(self) -> str:
        return f"Me({self.name}, {self.address}:{self.port})"

    def listening(self) -> socket.socket:
        """A socket at which others ask. Raises OSError where the port is taken."""
        made = _datagrams(self.address)
        try:
            made.bind((self.address, self.port))
        except BaseException:
            made.close()
            raise
        return made

    def asking(self, address: str) -> socket.socket:
        """A socket that asks the candidate at an address. Raises OSError: there is no route."""
        made = _datagrams(address)
        try:
            made.connect((address, self.port))
        except BaseException:
            made.close()
            raise
        return made


def _datagrams(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
