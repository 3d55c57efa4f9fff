"""Translates addresses that are sent to a peer, or received from it. Pure.

In joined networks (``pod_network: tunnel``), a packet carries its sender's own source and
its receiver's own destination, and so do the objects: each cluster writes addresses as it uses
them itself, and translates those of the other into its own aliases. A peer that runs Liqo does the
same. Pods' own addresses, if they are routed, cross as they are.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from liqod.model.crossing.addresses import parse, refuse
from liqod.model.network.ranges import PeerRanges, holds, translate


class Remapped(NamedTuple):
    """The result of translating an address.

    Attributes:
        address: as it is written on the other side; empty where it does not cross.
        problem: the reason why it does not, as a clause.
    """

    address: str
    problem: str = ""


def remap_received(
    address: object,
    ranges: PeerRanges | None,
    own: Iterable[str] = (),
    nodes: Collection[str] = frozenset(),
    allowed: Iterable[str] | None = None,
) -> Remapped:
    """The address under which this cluster reaches an address of a peer.

    Args:
        address: from the peer.
        ranges: of the two clusters; None where addresses cross as they are.
        own: this cluster's pod and service networks, textual prefixes.
        nodes: addresses of this cluster's nodes.
        allowed: where addresses cross as they are, the networks that the peer's may lie in; None
            for any.
    """
    if ranges is None:
        problem = refuse(address, own, nodes, allowed)
        return Remapped("", problem) if problem is not None else Remapped(str(address))
    problem = refuse(address)
    if problem is not None:
        return Remapped("", problem)
    alias = translate(str(address), ranges.peer, ranges.seen)
    if alias is None:
        return Remapped("", "it lies in none of the ranges that the peer's Configuration names")
    problem = refuse(alias, own, nodes)
    if problem is not None:
        return Remapped("", f"its alias {alias} cannot be used: {problem}")
    return Remapped(alias)


def remap_sent(address: object, ranges: PeerRanges | None) -> Remapped:
    """The form in which a local address is sent to a peer; the peer translates it.

    Args:
        address: of an endpoint.
        ranges: of the two clusters; None where addresses cross as they are.
    """
    problem = refuse(address)
    if problem is not None:
        return Remapped("", problem)
    text = str(address)
    if ranges is None or any(holds(prefix, text) for prefix in ranges.own.pod):
        return Remapped(text)
    same = parse(text)
    for stand_in, real in ranges.lent.items():
        if parse(real) == same and any(holds(each, stand_in) for each in ranges.own.external):
            return Remapped(stand_in)
    return Remapped("", "it is no pod's of this cluster, and no IP lends it to peers")
