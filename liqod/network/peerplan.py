"""A peer's whole data path on the gateway, from a pod to the tunnel and back, as values. Pure.

On the wire a packet has the sender's own source and the receiver's own destination. Each side
translates only what it sees of the other, in a network namespace of the peer's own, since both
clusters may use the same addresses::

    node's namespace                 │ the peer's namespace
                                     │
    pod ─► rule "to alias" ─► table ─┼► gw0 ─► alias becomes the peer's own ─► tunnel ─► peer
    pod ◄─ main table, or overlay ◄──┼─ gw0 ◄─ the peer's own becomes alias ◄─ filter ◄─ tunnel

What comes out of the tunnel is believed only where its source is the peer's own and its
destination a pod here or an address that was lent; the rest is dropped and counted before anything
is translated.
"""

from typing import Final

import msgspec

from liqod.model.network.ranges import PeerRanges
from liqod.network.names import Names, Side
from liqod.network.values import Namespace

LEAST_MTU: Final = 1280
"""No network of IPv6 may have less."""


class PeerPlan(msgspec.Struct, frozen=True):
    """What one peer needs on the gateway.

    Attributes:
        names: what its things are called.
        node: its part of the node's namespace.
        inside: all of its own namespace, ``names.namespace``.
    """

    names: Names
    node: Namespace
    inside: Namespace


def plan(
    names: Names, ranges: PeerRanges, side: Side, mtu: int, *, ports: tuple[int, ...] = ()
) -> PeerPlan:
    """The data path of a peer.

    Args:
        names: what its things are called.
        ranges: of both clusters; they have been checked (:mod:`liqod.model.network.claims`).
        side: which end of the tunnel this cluster has.
        mtu: of the tunnel, in bytes.
        ports: TCP ports of this cluster's address on the tunnel that the peer may connect to.

    Raises:
        ValueError: the MTU is too small.
    """
    raise NotImplementedError
