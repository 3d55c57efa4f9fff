"""Requests of the daemon to the process of the tunnels, as they are sent over its socket. Pure.

A request is an object of JSON in one line, and the answer is another. The first request for a
tunnel brings the device along, as an open file. The daemon and the process may be of different
releases, since the process outlives the daemon, so that both sides check what they get. It is text
that only root can send: an error here is a mistake, not an attack.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

VERSION: Final = 2
"""Of the requests; a process of another one is replaced."""
MOST: Final = 1 << 16
"""Bytes of a request, and of an answer."""
STATUS, BE, HURRY, END = "status", "be", "hurry", "end"
"""Requests to a tunnel: to report its state, to match a spec, to dial anew at once, to end."""


class Target(NamedTuple):
    """Where a client dials.

    Attributes:
        host, port: of the server.
        proxy: URL of the HTTP proxy on the path; empty for none.
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
        proxy_ca: path of the certificates of a proxy's issuers; empty for the system's.
        quiet: nothing is sent, and nothing accepted.
        mark: firewall mark of what travels on the underlay; 0 for none.
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

    def __repr__(self) -> str:
        return f"Wanted({self.side}, {self.name}, {self.port})"

    @property
    def digest(self) -> str:
        """SHA-256 of the request, in hexadecimal: identifies the request that a tunnel follows."""
        return sha256(json.dumps(_plain(self), sort_keys=True).encode()).hexdigest()


class TunnelRequest(NamedTuple):
    """One request.

    Attributes:
        do: one of :data:`STATUS`, :data:`BE`, :data:`HURRY`, :data:`END`.
        tunnel: name of the tunnel, unique on this machine.
        wanted: of :data:`BE`.
    """

    do: str
    tunnel: str
    wanted: Wanted | None = None


def encoded(request: TunnelRequest) -> bytes:
    """As a line."""
    made: dict[str, Any] = {"do": request.do, "tunnel": request.tunnel}
    if request.wanted is not None:
        made["wanted"] = _plain(request.wanted)
    return json.dumps(made).encode() + b"\n"


def decoded(line: bytes) -> TunnelRequest:
    """Of a line. Raises ValueError: it is no request."""
    try:
        found = json.loads(line)
        wanted = _decode(found["wanted"]) if found.get("wanted") is not None else None
        request = TunnelRequest(found["do"], found["tunnel"], wanted)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"it is no request: {type(error).__name__}") from None
    if request.do not in (STATUS, BE, HURRY, END) or not isinstance(request.tunnel, str):
        raise ValueError(f"nothing can be done of {request.do!r}")
    if (request.do == BE) is not (wanted is not None):
        raise ValueError("a tunnel is to be, and nothing states how")
    return request


def _plain(wanted: Wanted) -> dict[str, Any]:
    return {**wanted._asdict(), "peer": b64encode(wanted.peer).decode()}


def _decode(plain: Mapping[str, Any]) -> Wanted:
    made = dict(plain)
    made["peer"] = b64decode(made["peer"])
    made["targets"] = tuple(Target(*each) for each in made["targets"])
    found = Wanted(**made)
    if found.side not in ("server", "client"):
        raise ValueError(f"a tunnel has no side {found.side!r}")
    return found
