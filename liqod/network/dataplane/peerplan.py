"""A peer's whole data path on the gateway, from a pod to the tunnel and back, as values. Pure.

On the wire a packet has the sender's own source and the receiver's own destination. Each side
translates only the other's addresses, in a network namespace of the peer's own, since both
clusters may use the same addresses::

    node's namespace                 │ the peer's namespace
                                     │
    pod ─► table of all aliases ─────┼► gw0 ─► alias becomes the peer's own ─► tunnel ─► peer
    pod ◄─ main table, or overlay ◄──┼─ gw0 ◄─ the peer's own becomes alias ◄─ filter ◄─ tunnel

A packet out of the tunnel is accepted only where its source is the peer's own and its destination
a pod here or an address that was lent; others are dropped and counted before anything is
translated. The text of nftables is in :mod:`.nftables`.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.model.network.pathfigures import LEAST_MTU
from liqod.model.network.ranges import PeerRanges
from liqod.network.dataplane import aliasroutes, names, nftables
from liqod.network.dataplane.families import Family, families
from liqod.network.dataplane.names import INSIDE, PeerNames, Side
from liqod.network.dataplane.values import (
    Address,
    ForeignLink,
    Namespace,
    Neighbour,
    Owned,
    Route,
    Rule,
    Veth,
)

EVERYWHERE: Final[dict[Family, str]] = {4: "0.0.0.0/0", 6: "::/0"}
OUTER: Final[dict[Family, str]] = {4: names.OUTER_ADDRESS, 6: names.OUTER_ADDRESS6}
INNER: Final[dict[Family, str]] = {4: names.INNER_ADDRESS, 6: names.INNER_ADDRESS6}
ALONE: Final[dict[Family, int]] = {4: 32, 6: 128}
OTHER: Final[dict[Side, Side]] = {"server": "client", "client": "server"}


class PeerPlan(msgspec.Struct, frozen=True):
    """One peer's part of the network on the gateway.

    Attributes:
        names: of its objects.
        node: its part of the node's namespace.
        inside: all of its own namespace, ``names.namespace``.
    """

    names: PeerNames
    node: Namespace
    inside: Namespace

    @property
    def node_owned(self) -> Owned:
        """This peer's part of the node's namespace."""
        return Owned(
            mark=self.names.mark,
            links=(self.names.veth,),
            tables=(self.names.former_table,),
            shared=names.ALIASES_TABLE,
            metrics=self.names.metrics,
            priorities=names.PRIORITIES,
            nftables=(self.names.nftables,),
        )

    @property
    def inside_owned(self) -> Owned:
        """liqod's part of the peer's own namespace."""
        return Owned(
            mark=self.names.mark,
            links=(INSIDE, self.names.tunnel),
            tables=(names.OUTWARD_TABLE, names.INWARD_TABLE),
            priorities=names.PRIORITIES,
            nftables=(names.INSIDE_TABLE, names.CUT_TABLE),
        )


def plan(
    called: PeerNames,
    ranges: PeerRanges,
    side: Side,
    mtu: int,
    *,
    carries: int = 0,
    active: bool = True,
    cut: bool = False,
) -> PeerPlan:
    """The data path of a peer.

    Args:
        called: the names of its objects.
        ranges: of both clusters; they have been checked (:mod:`liqod.model.network.rangechecks`).
        side: this cluster's end of the tunnel.
        mtu: of the tunnel, in bytes.
        carries: the largest packet that the path was found to carry; 0 for the MTU. Routes and
            segments go by it, while the interfaces keep theirs, so that larger ones can be tried.
        active: whether packets take this path; on a standby, all is there but the routes
            and rules that lead to it.
        cut: whether connections to the peer are ended, since nothing gets through to it.

    Raises:
        ValueError: the MTU is too small.
    """
    carries = min(carries or mtu, mtu)
    if carries < LEAST_MTU:
        raise ValueError(f"the MTU {carries} is below {LEAST_MTU}, the least that IPv6 works with")
    node = _node(called, ranges, mtu, carries)
    if not active:
        node = msgspec.structs.replace(node, routes=(), rules=())
    inside = _inside(called, ranges, side, mtu, carries)
    return PeerPlan(called, node, _cut(called, ranges, inside) if cut else inside)


def _node(called: PeerNames, ranges: PeerRanges, mtu: int, carries: int) -> Namespace:
    """The peer's part of the gateway's own namespace, where it has only its aliases."""
    aliases = dict.fromkeys((*ranges.seen.pod, *ranges.seen.external), carries)
    used = families(*aliases)
    from_peer = (
        Rule(names.PODS_PRIORITY, family, names.PODS_TABLE, incoming=called.veth) for family in used
    )
    pair = Veth(called.veth, called.outer_mac, mtu, INSIDE, called.namespace)
    return Namespace(
        links=(pair,),
        addresses=tuple(_alone(called.veth, OUTER, used)),
        routes=tuple(aliasroutes.routes(aliases, called.veth, INNER, called.metrics)),
        rules=(*aliasroutes.rules(aliases), *from_peer),
        neighbours=tuple(Neighbour(called.veth, INNER[each], called.inner_mac) for each in used),
        sysctls=_sysctls(used, loose=(called.veth,)),
        tables={called.nftables: nftables.node(called, ranges)},
    )


def _inside(called: PeerNames, ranges: PeerRanges, side: Side, mtu: int, carries: int) -> Namespace:
    """The peer's own namespace: two interfaces, and packets from one leave by the other."""
    used = families(*ranges.seen.pod, *ranges.seen.external)
    other, least = OTHER[side], carries if carries < mtu else 0
    ends: dict[Family, str] = {4: names.TUNNEL_ADDRESSES[other], 6: names.TUNNEL_ADDRESSES6[other]}
    addresses = [
        Address(called.tunnel, f"{names.TUNNEL_ADDRESSES[side]}/30"),
        *_alone(INSIDE, INNER, used),
    ]
    if 6 in used:
        addresses.append(Address(called.tunnel, f"{names.TUNNEL_ADDRESSES6[side]}/64"))
    routes: list[Route] = []
    rules: list[Rule] = []
    for family in used:
        everywhere = EVERYWHERE[family]
        routes += (
            Route(names.OUTWARD_TABLE, everywhere, called.tunnel, ends[family], least),
            Route(names.INWARD_TABLE, everywhere, INSIDE, via=OUTER[family]),
        )
        for incoming, table in (
            (INSIDE, names.OUTWARD_TABLE),
            (called.tunnel, names.INWARD_TABLE),
        ):
            rules.append(Rule(names.INSIDE_PRIORITY, family, table, incoming=incoming))
    # The other end is in the node's own namespace, which has no name.
    pair = Veth(INSIDE, called.inner_mac, mtu, called.veth, "")
    return Namespace(
        links=(pair, ForeignLink(called.tunnel, mtu)),
        addresses=tuple(addresses),
        routes=tuple(routes),
        rules=tuple(rules),
        neighbours=tuple(Neighbour(INSIDE, OUTER[each], called.outer_mac) for each in used),
        # The same source may come from both sides: its interface is no sign of forgery.
        sysctls=_sysctls(used, off=("all", "default", INSIDE, called.tunnel)),
        tables={names.INSIDE_TABLE: nftables.inside(called, ranges, side, carries)},
    )


def _cut(called: PeerNames, ranges: PeerRanges, inside: Namespace) -> Namespace:
    """A peer's own namespace while connections to the peer are cut.

    The answers that this machine makes in the peer's place are led to the cluster, its probes to
    the tunnel's other end.
    """
    used = families(*ranges.seen.pod, *ranges.seen.external)
    table = names.INWARD_TABLE
    routes = (Route(table, nftables.TUNNEL[each], called.tunnel) for each in used)
    rules = (Rule(names.CUT_PRIORITY, each, table) for each in used)
    return msgspec.structs.replace(
        inside,
        routes=(*inside.routes, *routes),
        rules=(*inside.rules, *rules),
        tables={**inside.tables, names.CUT_TABLE: nftables.cut(called)},
    )


def _alone(link: str, addresses: dict[Family, str], used: tuple[Family, ...]) -> Iterator[Address]:
    for family in used:
        # An address of IPv6 that is link-local has the network that all of them have.
        length = ALONE[family] if family == 4 else 64
        yield Address(link, f"{addresses[family]}/{length}")


def _sysctls(
    used: tuple[Family, ...], loose: tuple[str, ...] = (), off: tuple[str, ...] = ()
) -> dict[str, str]:
    """Forwarding on, and the check of sources by their return path (rp_filter) loose or off."""
    found: dict[str, str] = {}
    if 4 in used:
        found["net/ipv4/ip_forward"] = "1"
        found |= {f"net/ipv4/conf/{each}/rp_filter": "2" for each in loose}
        found |= {f"net/ipv4/conf/{each}/rp_filter": "0" for each in off}
    if 6 in used:
        found["net/ipv6/conf/all/forwarding"] = "1"
        # Addresses that are ours alone on a pair need no duplicate detection, which takes a second.
        found |= {f"net/ipv6/conf/{each}/accept_dad": "0" for each in (*loose, *off)}
    return found
