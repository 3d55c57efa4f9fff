"""Address ranges of two clusters, with the translation of addresses between them. Pure.

Both clusters may use the same ranges. Each therefore sees the other's under aliases of its own
choosing, of the same size: an address and its alias differ in the network and agree in the host
part. :func:`translate` is the one place where one becomes the other; the kernel's rules for packets
are made from the same ranges.
"""

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Literal

import msgspec

from liqod.model.crossing.addresses import IPNetwork, parse

MOST_TRANSIT: Final = 2048
"""Endpoints at peers that are opened to other peers: half of the usual external range."""


class ClusterCidrs(msgspec.Struct, frozen=True):
    """The ranges of one cluster, in an order that its aliases follow.

    Attributes:
        pod: of its pods, as prefixes such as ``10.244.0.0/16``; at most one of each family.
        external: under which it shows addresses that are no pod's.
    """

    pod: tuple[str, ...] = ()
    external: tuple[str, ...] = ()

    def __contains__(self, address: str) -> bool:
        """True if an address lies in any of the ranges."""
        return any(holds(prefix, address) for prefix in (*self.pod, *self.external))


class Entrance(msgspec.Struct, frozen=True, order=True):
    """An external address and port at which one peer reaches one host that is no pod.

    Attributes:
        shown: address in ``own.external``, as the peer uses it.
        protocol: of the packets that may enter.
        port: their destination; 0 for any.
        host: address that it leads to.
        to: the port of ``host``; 0 for the same.
        rate: bytes per second that may pass, in both directions together; 0 for no limit.
    """

    shown: str
    protocol: Literal["tcp", "udp"]
    port: int
    host: str
    to: int = 0
    rate: int = 0


class TransitEntrance(msgspec.Struct, frozen=True, order=True):
    """An external address at which one peer reaches one endpoint at another peer.

    Attributes:
        owner: id of the peer that has the endpoint.
        host: alias of the endpoint, by which it is reached from here.
        shown: address in ``own.external``, as the peer that reaches it uses it.
    """

    owner: str
    host: str
    shown: str


class PeerRanges(msgspec.Struct, frozen=True, kw_only=True):
    """The ranges of this cluster and of one peer.

    Attributes:
        own: this cluster's.
        peer: the peer's, as it uses them itself.
        seen: the aliases under which this cluster sees the peer's, in the same order.
        lent: addresses outside of this cluster that peers may reach, by the address in
            ``own.external`` of each.
        unmasked: those of them that see a peer's pods under their aliases, and have a route back to
            these; all others see the gateway's node.
        entrances: single ports that were opened to this peer alone.
        transit: endpoints at other peers that were opened to this peer alone.
        transit_rate: bytes per second that may pass to and from those of one other peer.
    """

    own: ClusterCidrs = ClusterCidrs()
    peer: ClusterCidrs = ClusterCidrs()
    seen: ClusterCidrs = ClusterCidrs()
    lent: Mapping[str, str] = {}
    unmasked: tuple[str, ...] = ()
    entrances: tuple[Entrance, ...] = ()
    transit: tuple[TransitEntrance, ...] = ()
    transit_rate: int = 0


def transit_problem(ranges: PeerRanges, way: TransitEntrance) -> str:
    """The reason why an external address cannot lead to an endpoint; empty if it can.

    Args:
        ranges: of this cluster, and of the peer that is to reach it.
        way: the address and the endpoint.
    """
    shown, host = parse(way.shown), parse(way.host)
    if shown is None or host is None or "%" in way.shown + way.host:
        return f"{way.shown!r} or {way.host!r} is no address"
    if shown.version != host.version:
        return f"{shown} and {host} are of two families"
    if not any(holds(prefix, way.shown) for prefix in ranges.own.external):
        return f"{shown} is no external address of this cluster's"
    if way.host in ranges.own or way.host in ranges.seen:
        return f"{host} is no address at another peer"
    return ""


def translating(ranges: PeerRanges | None) -> PeerRanges | None:
    """The part of the ranges by which addresses are translated; None without any."""
    return msgspec.structs.replace(ranges, transit=()) if ranges is not None else None


def translate(address: str, source: ClusterCidrs, target: ClusterCidrs) -> str | None:
    """The address that has the place in ``target`` which another has in ``source``.

    None where it lies in no range of ``source`` that has one of the same size in ``target``.
    """
    parsed = parse(address)
    if parsed is None:
        return None
    pairs = (
        *zip(source.pod, target.pod, strict=False),
        *zip(source.external, target.external, strict=False),
    )
    for before, after in pairs:
        here, there = _network(before), _network(after)
        if here is None or there is None or parsed not in here:
            continue
        if (here.version, here.prefixlen) != (there.version, there.prefixlen):
            continue
        host = int(parsed) & int(here.hostmask)
        return str(there[host])
    return None


def server_in(external: tuple[str, ...]) -> str:
    """The address of a cluster's API server in its external ranges; empty where it has none.

    It is the second address: the first is that of senders that have no address at peers.
    """
    network = _network(external[0]) if external else None
    return str(network[1]) if network is not None else ""


def holds(prefix: str, address: str) -> bool:
    """True if an address lies in a range; False where either is malformed."""
    parsed, network = parse(address), _network(prefix)
    return parsed is not None and network is not None and parsed in network


@lru_cache(maxsize=1024)
def _network(prefix: str) -> IPNetwork | None:
    try:
        return ipaddress.ip_network(prefix)
    except ValueError:
        return None
