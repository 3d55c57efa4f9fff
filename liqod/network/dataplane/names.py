"""Names and numbers of all of liqod's objects on a machine. Pure.

A peer's names are made of a hash of both clusters' ids, so that daemons of several clusters on one
machine do not meet: names of network namespaces, and of the sockets that some tunnels have, are the
machine's. All objects of a peer are recognized by these names alone, also by a daemon that never
had the peer.

In the node's own network namespace the rules are in this order, before those of most others and
behind the kernel's table of local addresses:

    18725  all packets                    the table of all peers' aliases: on the gateway into their
                                          namespaces, on other nodes to the gateway
    18730  from a peer's namespace        to pods on other nodes

Peers and the overlay share that table, since each rule would cost every packet that a node
forwards. Routes are their owner's by their metric. Behind each is one that refuses: where the first
is gone nothing may look for another, for main tables have a default route. The version before had a
table and rules for each peer, and for the overlay, at lower priorities. They are taken away when
the shared routes stand, and win again where that version comes back.
"""

from hashlib import sha256
from typing import Final, Literal

import msgspec

Side = Literal["server", "client"]
"""The end of a tunnel that a cluster has."""

NAMESPACE_PREFIX: Final = "liqod-"
VETH_PREFIX: Final = "lqv"
TUNNEL_PREFIX: Final = "lqt"
TABLE_PREFIX: Final = "liqod_"
"""How names of a peer's things begin; the hash follows."""

INSIDE: Final = "gw0"
"""The end of the pair that is in a peer's namespace."""
INSIDE_TABLE: Final = "inet liqod"
"""The table of nftables in a peer's namespace."""
CUT_TABLE: Final = "inet liqod_cut"
"""In a peer's namespace, besides: there only while connections to the peer are cut."""
OVERLAY: Final = "lqx"
"""The device that joins the nodes of this cluster."""
OVERLAY_TABLE: Final = f"inet {TABLE_PREFIX}overlay"

PODS_TABLE: Final = 18718
"""On the gateway: pods on other nodes, through the overlay."""
ALIASES_TABLE: Final = 18717
"""Aliases of peers: of all on the gateway, and of the overlay on other nodes."""
OVERLAY_METRICS: Final = (1 << 31, (1 << 31) + 1)
"""As :attr:`PeerNames.metrics`: behind any peer's routes, before those that refuse."""
FORMER_GATEWAY_TABLE: Final = 18719
"""Of the overlay of the version before."""
OUTWARD_TABLE: Final = 100
INWARD_TABLE: Final = 101
"""In a peer's namespace: what comes from the cluster goes into the tunnel, and the reverse."""

PRIORITIES: Final = (18700, 18799)
"""Routing rules with these priorities are ours."""
ALIASES_PRIORITY: Final = 18725
PODS_PRIORITY: Final = 18730
INSIDE_PRIORITY: Final = 18740
CUT_PRIORITY: Final = 18750

OUTER_ADDRESS: Final = "169.254.19.1"
INNER_ADDRESS: Final = "169.254.19.2"
"""Of the pair between the node and a peer's namespace; the same for every peer."""
OUTER_ADDRESS6: Final = "fe80::1"
INNER_ADDRESS6: Final = "fe80::2"

TUNNEL_NETWORK: Final = "169.254.18.0/30"
TUNNEL_NETWORK6: Final = "fd18:6c71:18::/64"
"""Networks of the tunnels' ends. liqod and Liqo speak IPv4 to each other; errors about packets of
IPv6 come from the other."""
TUNNEL_ADDRESSES: Final[dict[Side, str]] = {"server": "169.254.18.1", "client": "169.254.18.2"}
TUNNEL_ADDRESSES6: Final[dict[Side, str]] = {
    "server": "fd18:6c71:18::1",
    "client": "fd18:6c71:18::2",
}
PROBE_PORT: Final = 12345
"""UDP: the probes of each side to the other."""
SERVER_PORT: Final = 6443
"""TCP: the API server, at its external address; whatever port it has in this cluster."""
PROXY_PORT: Final = 8118
"""TCP: at the same address, Liqo's path to it."""

VNI: Final = 18
OVERLAY_PORT: Final = 4790
OVERLAY_NETWORK: Final = "169.254.32.0/20"
OVERLAY_NETWORK6: Final = "fd18:6c71:20::/64"
"""Addresses of the nodes on the overlay. The first is clear of 169.254.20.10 and 169.254.25.10,
where caches of the cluster's DNS listen, and of the clouds' metadata."""

DIGITS: Final = 8


class PeerNames(msgspec.Struct, frozen=True):
    """The names of a peer's objects on this machine.

    Attributes:
        own_id: this cluster's id.
        peer_id: the peer's.
    """

    own_id: str
    peer_id: str

    @property
    def hash(self) -> str:
        """Eight hexadecimal digits; another in the peer's cluster than here."""
        return sha256(f"{self.own_id}/{self.peer_id}".encode()).hexdigest()[:DIGITS]

    @property
    def mark(self) -> str:
        """The mark of the owner, a text on links and in tables of nftables."""
        return f"{marks_of(self.own_id)}{self.peer_id[:40]}"

    @property
    def namespace(self) -> str:
        """The peer's network namespace, below ``/run/netns``."""
        return NAMESPACE_PREFIX + self.hash

    @property
    def veth(self) -> str:
        """The end of the pair that is in the node's namespace."""
        return VETH_PREFIX + self.hash

    @property
    def tunnel(self) -> str:
        """The tunnel's interface, in both of the namespaces that it is in."""
        return TUNNEL_PREFIX + self.hash

    @property
    def nftables(self) -> str:
        """The peer's table of nftables in the node's namespace."""
        return f"inet {TABLE_PREFIX}{self.hash}"

    @property
    def former_table(self) -> int:
        """The peer's table of routes of the version before: from 2**30 on."""
        return 1 << 30 | int(self.hash, 16) >> 2

    @property
    def metrics(self) -> tuple[int, int]:
        """Of the peer's routes in :data:`ALIASES_TABLE`, and of those behind them that refuse."""
        return self.former_table, self.former_table | 1 << 31

    @property
    def outer_mac(self) -> str:
        """Link-layer address of :attr:`veth`; locally administered."""
        return self._mac("0a")

    @property
    def inner_mac(self) -> str:
        """Link-layer address of :data:`INSIDE`."""
        return self._mac("0e")

    def _mac(self, first: str) -> str:
        digits = self.hash
        return ":".join((first, "18", *(digits[at : at + 2] for at in range(0, DIGITS, 2))))


def marks_of(own_id: str) -> str:
    """How the marks of all peers of a cluster begin."""
    return f"liqod {own_id[:40]}/"


def owner_of(mark: str) -> str:
    """The id of the cluster that has a peer with a mark, cut as there; empty for other text."""
    word, _, rest = mark.partition(" ")
    own_id, slash, _ = rest.partition("/")
    return own_id if word == "liqod" and slash else ""
