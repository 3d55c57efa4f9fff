"""A node's part of the overlay that leads from every node to the gateway, as values. Pure.

A cluster of one node has none. In others each node sends what is for an alias of a peer to the
gateway, and the gateway sends what comes from a peer to the node that has the pod::

    pod ─► table of aliases ─► lqx ═► lqx ─► the peer's part of the gateway (peerplan)
    pod ◄─ main table ◄────── lqx ◄══ lqx ◄─ rule "from a peer" ◄─ the peer's part

The device learns nothing from packets: the cluster's resources alone assign addresses to nodes, so
that no node can draw another's traffic to itself.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

import msgspec

from liqod.network.dataplane import aliasroutes, names, nftables
from liqod.network.dataplane.families import Family, families, family_of
from liqod.network.dataplane.names import OVERLAY
from liqod.network.dataplane.values import (
    Address,
    Forwarding,
    Namespace,
    Neighbour,
    Owned,
    Route,
    Vxlan,
)

OVERHEAD: Final[dict[Family, int]] = {4: 50, 6: 70}
"""Bytes that the overlay adds to a packet, by the family of the nodes' addresses."""
NETWORK: Final[dict[Family, str]] = {4: names.OVERLAY_NETWORK, 6: names.OVERLAY_NETWORK6}
MOST_NODES: Final = 4094
"""As many have an address on the overlay."""


class OverlayNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the overlay.

    Attributes:
        name: of the Node.
        address: where the other nodes reach it.
        index: its number in the overlay, from 1 to :data:`MOST_NODES`, of which its address there
            and its link-layer address are made; no two nodes have the same.
        pods: the ranges of its pods; where none are known the gateway leaves the route to them to
            the CNI, and accepts the node as the source of all of the cluster's.
    """

    name: str
    address: str
    index: int
    pods: tuple[str, ...] = ()

    def inner(self, family: Family) -> str:
        """Its address on the overlay.

        Raises:
            ValueError: its number is none that a node can have.
        """
        if not 1 <= self.index <= MOST_NODES:
            raise ValueError(f"the node {self.name} has the number {self.index} on the overlay")
        return str(ip_network(NETWORK[family])[self.index])

    @property
    def mac(self) -> str:
        """Its link-layer address there; locally administered."""
        digits = f"{self.index:08x}"
        return ":".join(("0a", "20", *(digits[at : at + 2] for at in range(0, 8, 2))))


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that all nodes of the overlay have in common.

    Attributes:
        pods: the ranges of all pods of this cluster.
        aliases: the MTU of the path to each alias of a peer, in bytes, by its prefix.
        vni: number of the overlay.
        port: UDP port.
        mtu: of the device, in bytes: that of the network between the nodes less
            :data:`OVERHEAD`.
    """

    pods: tuple[str, ...]
    aliases: Mapping[str, int]
    vni: int = names.VNI
    port: int = names.OVERLAY_PORT
    mtu: int = 1430


def owned(cluster: str) -> Owned:
    """The overlay's part of a node's own namespace.

    Args:
        cluster: this cluster's id.
    """
    return Owned(
        mark=f"liqod {cluster[:80]}",
        links=(OVERLAY,),
        tables=(names.PODS_TABLE, names.FORMER_GATEWAY_TABLE),
        shared=names.ALIASES_TABLE,
        metrics=names.OVERLAY_METRICS,
        priorities=names.PRIORITIES,
        nftables=(names.OVERLAY_TABLE,),
    )


def plan(
    me: OverlayNode, gateway: OverlayNode, others: Iterable[OverlayNode], overlay: Overlay
) -> Namespace:
    """A node's part of the overlay.

    Args:
        me: the node.
        gateway: the node that has the tunnels; may be the same.
        others: further nodes; only the gateway needs them.
        overlay: what all have in common.

    Raises:
        ValueError: a node has a number that none can have, or the nodes' addresses are not of one
            family.
    """
    leads = me.name == gateway.name
    reached = tuple(each for each in others if each.name != me.name) if leads else (gateway,)
    if any(family_of(each.address) != family_of(me.address) for each in reached):
        raise ValueError("the nodes' addresses are not of one family")
    used = families(*overlay.pods)
    sources = {
        each.mac: (*(each.pods or overlay.pods), *(each.inner(family) for family in used))
        for each in reached
        if leads
    }
    senders = {str(ip_address(each.address)): each.mac for each in reached}
    return Namespace(
        links=(Vxlan(OVERLAY, me.mac, overlay.mtu, overlay.vni, overlay.port, me.address),),
        addresses=tuple(
            Address(OVERLAY, f"{me.inner(each)}/{ip_network(NETWORK[each]).prefixlen}")
            for each in used
        ),
        routes=tuple(_to_nodes(reached) if leads else _to_gateway(gateway, overlay.aliases)),
        rules=() if leads else aliasroutes.rules(overlay.aliases),
        neighbours=tuple(
            Neighbour(OVERLAY, each.inner(family), each.mac) for each in reached for family in used
        ),
        forwarding=tuple(
            Forwarding(OVERLAY, each.mac, str(ip_address(each.address))) for each in reached
        ),
        sysctls=_sysctls(used, leads),
        tables={
            names.OVERLAY_TABLE: nftables.overlay(
                overlay.pods, senders, overlay.port, sources, () if leads else overlay.aliases
            )
        },
    )


def numbered(have: Mapping[str, int], nodes: Iterable[str]) -> dict[str, int]:
    """Numbers of nodes on the overlay: each keeps its own, a new one gets the lowest that is free.

    Args:
        have: numbers by the names of Nodes; of two with the same number the first name keeps it.
        nodes: names of the Nodes that there are.

    Raises:
        ValueError: there are more nodes than numbers.
    """
    present = sorted(set(nodes))
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in present:
        number = have.get(name, 0)
        if 1 <= number <= MOST_NODES and number not in taken:
            found[name] = number
            taken.add(number)
    free = (number for number in range(1, MOST_NODES + 1) if number not in taken)
    for name in present:
        if name not in found:
            number = next(free, 0)
            if not number:
                raise ValueError(f"an overlay has at most {MOST_NODES} nodes")
            found[name] = number
    return found


def _to_nodes(nodes: Iterable[OverlayNode]) -> list[Route]:
    """On the gateway: what comes from a peer goes to the node that has the pod."""
    return [
        Route(names.PODS_TABLE, prefix, OVERLAY, via=node.inner(family_of(prefix)))
        for node in nodes
        for prefix in node.pods
    ]


def _to_gateway(gateway: OverlayNode, aliases: Mapping[str, int]) -> Iterable[Route]:
    """On every other node: what is for an alias goes to the gateway, or nowhere."""
    way = {family: gateway.inner(family) for family in families(*aliases)}
    return aliasroutes.routes(aliases, OVERLAY, way, names.OVERLAY_METRICS)


def _sysctls(used: tuple[Family, ...], leads: bool) -> dict[str, str]:
    """Every node of a cluster forwards already, so that on most nothing is written."""
    found: dict[str, str] = {}
    if 4 in used:
        found["net/ipv4/ip_forward"] = "1"
        if leads:
            # Pods of other nodes come by the overlay, and the CNI's route leads back to them.
            found[f"net/ipv4/conf/{OVERLAY}/rp_filter"] = "2"
    if 6 in used:
        found["net/ipv6/conf/all/forwarding"] = "1"
        if leads:
            found[f"net/ipv6/conf/{OVERLAY}/accept_dad"] = "0"
    return found
