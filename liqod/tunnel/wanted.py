"""Requests to the process of the tunnels and its answers, as they go over its socket. Pure.

A request is an object of JSON in one line, with descriptors beside it, and the answer is another.
The two ends may be of different releases, since the process outlives the one that started it: both
check what they get, pass over fields that they do not know, and refuse requests that they do not.
Only root can send a request: an error in one is a mistake, not an attack.
"""

from hashlib import sha256
from typing import Final, Literal

import msgspec

from liqod.sharedport import CALLS
from liqod.tunnel.probes.orders import EchoOrder, ProbeOrder, read_line

VERSION: Final = 5
"""Of the requests that this release sends."""
OLDEST: Final = 5
"""The oldest version of requests that this release's process does."""
MOST: Final = 1 << 20
"""Bytes of a request, and of an answer; the certificates of a proxy's issuers are in it."""
MOST_FILES: Final = 250
"""Descriptors beside one; the kernel has a bound of 253."""
STATUS: Final = "status"
BE: Final = "be"
HURRY: Final = "hurry"
END: Final = "end"
SOCKETS: Final = "sockets"
"""Requests to a tunnel: to report its state, to match a spec, to dial anew at once, to end, and to
give copies of its sockets, which only its parent may mark."""
LEAD: Final = "lead"
PROBE: Final = "probe"
STAY: Final = "stay"
ECHO: Final = "echo"
"""Requests that are done for as long as their connection lasts: to lead a caller of Liqo's proxy to
the API server, to probe a tunnel, to stay, for a tunnel that is to be probed soon, and to request
an echo."""

Part = Literal["device", "dialling", "listening"]
"""The purpose of a descriptor that comes with a request: a TUN device, a socket to dial by, or a
socket that listens."""


class Target(msgspec.Struct, frozen=True):
    """Where a client dials.

    Attributes:
        host, port: of the server.
        proxy: URL of the HTTP proxy on the path; empty for none.
    """

    host: str
    port: int
    proxy: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """The wanted state of the tunnel.

    Attributes:
        side: ``server`` or ``client``.
        name, identity, peer: as :class:`liqod.identity.tunnelcertificates.Pinned` has them.
        port: where a server listens.
        targets: where a client dials, the preferred one first.
        keepalive: seconds; 0 for none.
        proxy_ca: certificates of a proxy's issuers, in PEM; empty for the system's.
        quiet: nothing is sent, and nothing accepted.
        mark: firewall mark of the sockets that come along; 0 for none.
    """

    side: Literal["server", "client"]
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
        return sha256(msgspec.json.encode(self)).hexdigest()


class Lead(msgspec.Struct, frozen=True):
    """How a caller of Liqo's proxy is led to the API server, the only one that it may name.

    The connection to the server is handed over when the caller has named it.

    Attributes:
        host, port: of the server, as callers name it.
        idle: seconds without a byte in either direction, after which both connections end.
        half_idle: the same where one side has closed its direction: mostly it is gone.
        head_within: seconds for the caller's request.
    """

    host: str
    port: int
    idle: float
    half_idle: float
    head_within: float


class TunnelRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request.

    Attributes:
        do: one of :data:`STATUS`, :data:`BE`, :data:`HURRY`, :data:`END`, :data:`SOCKETS`,
            :data:`LEAD`, :data:`PROBE`, :data:`STAY`, :data:`ECHO`, or
            :data:`liqod.sharedport.CALLS`.
        tunnel: name of the tunnel, unique on this machine.
        wanted: of :data:`BE`.
        parts: of :data:`BE`: the purposes of the descriptors beside it, in their order.
        port: of :data:`liqod.sharedport.CALLS`, with the socket that listens there beside it where
            the process has none.
        cluster: of the same: id of the cluster whose daemon is called.
        lead: of :data:`LEAD`, with the caller's connection beside it.
        probe: of :data:`PROBE`, whose connection goes on with messages of its own
            (:mod:`.probes.orders`).
        echo: of :data:`ECHO`, with the socket for it beside it.
    """

    do: Literal["status", "be", "hurry", "end", "sockets", "calls", "lead", "probe", "stay", "echo"]
    tunnel: str = ""
    wanted: Wanted | None = None
    parts: tuple[Part, ...] = ()
    port: int = 0
    cluster: str = ""
    lead: Lead | None = None
    probe: ProbeOrder | None = None
    echo: EchoOrder | None = None

    def __post_init__(self) -> None:
        if (self.do == BE) is not (self.wanted is not None):
            raise ValueError("a tunnel is to be, and nothing states how")
        if (self.do == LEAD) is not (self.lead is not None):
            raise ValueError("a caller is to be led, and nothing states where")
        if (self.do == PROBE) is not (self.probe is not None):
            raise ValueError("a tunnel is to be probed, and nothing states which")
        if (self.do == ECHO) is not (self.echo is not None):
            raise ValueError("an echo is to be requested, and nothing states which")
        if self.do == CALLS and not self.port:
            raise ValueError("no port is named")


class TunnelReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer.

    Attributes:
        version: of the requests of the process's release.
        oldest: version of requests that it does.
        tunnels: number of its tunnels, and of what it does besides.
        ports: at which it listens.
        called: by their ports, ids of the clusters whose daemons are called there.
        digest: of the request that the tunnel follows; None where there is no such tunnel.
        mark: of its sockets, as it was told.
        dials: True if it has sockets to dial by.
        endpoint: ``address:port`` of the other end, or the proxy's; empty without a connection.
        age: seconds since both ends of that had proved themselves.
        why: why there is no connection.
        refused: what came of the other end and was no packet.
        error: why the request was not done.
    """

    version: int = 0
    oldest: int = 0
    tunnels: int = 0
    ports: tuple[int, ...] = ()
    called: dict[int, str] = {}
    digest: str | None = None
    mark: int = 0
    dials: bool = False
    endpoint: str = ""
    age: float | None = None
    why: str = ""
    refused: int = 0
    error: str = ""

    @property
    def fits(self) -> bool:
        """True if the process does the requests of this release, and all of them."""
        return self.oldest <= VERSION <= self.version


_requests = msgspec.json.Decoder(TunnelRequest)
_reports = msgspec.json.Decoder(TunnelReport)


def encoded(message: TunnelRequest | TunnelReport) -> bytes:
    """As a line."""
    return msgspec.json.encode(message) + b"\n"


def decoded(line: bytes) -> TunnelRequest:
    """Of a line. Raises ValueError: it is no request."""
    return read_line(_requests, line, "it is no request")


def report(line: bytes) -> TunnelReport:
    """The answer in a line. Raises ValueError: it is none."""
    try:
        return _reports.decode(line)
    except msgspec.MsgspecError:
        raise ValueError("it is no answer") from None
