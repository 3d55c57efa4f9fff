"""The daemon's request to the process, as it is sent over its socket. Pure.

The daemon and the process may be of different releases, since the process outlives the daemon, so
that both sides check what they hear. It is text that only root can send: what is wrong here is a
mistake, not an attack.
"""

import json
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any, Final, NamedTuple

VERSION: Final = 1
"""Of what is said between daemon and process; a process of another one is replaced."""
DATAGRAMS: Final = "datagrams"
"""Word of the command line by which datagrams are carried, and not the packets of an interface."""
MOST: Final = 1 << 16
"""Bytes of what is said at once."""


class Target(NamedTuple):
    """Where a client dials.

    Attributes:
        host, port: of the server.
        proxy: URL of the HTTP proxy on the way; empty for none.
    """

    host: str
    port: int
    proxy: str = ""


class Wanted(NamedTuple):
    """The wanted state of the tunnel.

    Attributes:
        side: ``server`` or ``client``.
        name, identity, peer: as :class:`liqod.identity.tunnelcertificates.Pinned` has them.
        port: where a server listens.
        targets: where a client dials, the preferred one first.
        keepalive: seconds; 0 for none.
        proxy_ca: path of the certificates of who may issue a proxy's; empty for the system's.
        quiet: nothing is said to anybody, and nobody is listened to.
        mark: firewall mark of what travels on the underlay; 0 for none.
        local: UDP port of the WireGuard on this machine whose datagrams are carried; 0 where
            packets of an interface are.
    """

    side: str
    name: str
    identity: str
    peer: bytes
    port: int = 0
    targets: tuple[Target, ...] = ()
    keepalive: int = 0
    proxy_ca: str = ""
    quiet: bool = False
    mark: int = 0
    local: int = 0

    def __repr__(self) -> str:
        return f"Wanted({self.side}, {self.name}, {self.port})"

    @property
    def digest(self) -> str:
        """SHA-256 of the request, in hexadecimal: identifies the request that a process has."""
        return sha256(encoded(self).encode()).hexdigest()


def encoded(wanted: Wanted) -> str:
    """As text."""
    said: dict[str, Any] = wanted._asdict()
    said["peer"] = b64encode(wanted.peer).decode()
    if not wanted.local:
        del said["local"]  # a process of an older release need not know of it
    return json.dumps(said, sort_keys=True)


def decoded(text: str) -> Wanted:
    """Of text. Raises ValueError: it is not what is wanted of a tunnel."""
    try:
        said = json.loads(text)
        said["peer"] = b64decode(said["peer"])
        said["targets"] = tuple(Target(*each) for each in said["targets"])
        found = Wanted(**said)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it is no tunnel: {type(error).__name__}") from None
    if found.side not in ("server", "client"):
        raise ValueError(f"a tunnel has no side {found.side!r}")
    return found
