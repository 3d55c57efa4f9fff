"""Translates the addresses of endpoints between this cluster and one peer, by the peer's settings.

A peer may name addresses of its own alone: in joined networks those of its Configuration, else
those that are nobody's here.
"""

from collections.abc import Iterator

import msgspec

from liqod.cluster.ownnetworks import OwnNetworks
from liqod.kube.cache.store import Key, StoreChange
from liqod.model.network.ranges import ClusterCidrs, holds
from liqod.model.network.remapping import Remapped, remap_received, remap_sent
from liqod.peers.peer import Peer
from liqod.resources import Network


class PeerAddresses:
    """The addresses of one peer's pods here, and of this cluster's pods there.

    Args:
        peer: the peer.

    Attributes:
        own: this cluster's own networks; set before an address is judged.
    """

    own: OwnNetworks

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._ranges: dict[Key, str] = {}
        """The CIDR of each of this cluster's Networks."""

    def on_network(self, change: StoreChange) -> bool:
        """Take note of a Network; true if its range has changed."""
        found = msgspec.json.decode(change.new, type=Network) if change.new is not None else None
        before = self._ranges.pop(change.key, "")
        if found is not None and found.status.cidr:
            self._ranges[change.key] = found.status.cidr
        return self._ranges.get(change.key, "") != before

    def unreachable(self) -> str:
        """The reason why no address of the peer's is reachable; empty where they are."""
        return unreachable(self._peer)

    @property
    def waits(self) -> bool:
        """True while ranges are not known by which addresses are judged, or change: what was made
        of the peer's addresses before stays as it is."""
        return awaited(self._peer)

    def received(self, address: str) -> Remapped:
        """The address here of one that the peer names as its own."""
        return self._received(address, self._peer)

    def lent(self, address: str) -> Remapped:
        """The address here of one that the peer lends: an address of its external range, in joined
        networks alone."""
        peer = self._peer
        ranges = peer.network.ranges if peer.settings.pod_network == "tunnel" else None
        if ranges is None:
            return Remapped("", "no address is lent without a tunnel")
        lent = msgspec.structs.replace(
            ranges,
            peer=ClusterCidrs(external=ranges.peer.external),
            seen=ClusterCidrs(external=ranges.seen.external),
        )
        return remap_received(address, lent, self._networks(), self.own.addresses)

    def received_of(self, owner: Peer, address: str) -> Remapped:
        """The address here of one that the peer names as a pod's of another peer.

        It is judged by what this cluster has with that one, as if that one had named it; what it
        lends to its own peers is no pod's.
        """
        return self._received(address, owner, pods=True)

    def _received(self, address: str, of: Peer, *, pods: bool = False) -> Remapped:
        networks = self._networks()
        settings = of.settings
        ranges = of.network.ranges if settings.pod_network == "tunnel" else None
        if ranges is None:
            networks = (*networks, *self._used(of))
        elif pods:
            ranges = msgspec.structs.replace(
                ranges, peer=ClusterCidrs(ranges.peer.pod), seen=ClusterCidrs(ranges.seen.pod)
            )
        return remap_received(address, ranges, networks, self.own.addresses, settings.pod_cidrs)

    def _networks(self) -> tuple[str, ...]:
        """This cluster's own pod and service networks."""
        known = self._peer.context.addressing
        return *known.pod_cidrs, *known.service_cidrs, *self.own.pod_cidrs

    def sent(self, address: str) -> Remapped:
        """The form in which the peer is told an address of this cluster."""
        problem = self.unreachable()
        if problem:
            return Remapped("", problem)
        tunnel = self._peer.settings.pod_network == "tunnel"
        return remap_sent(address, self._peer.network.ranges if tunnel else None)

    def judges_by(self) -> object:
        """A value that differs where :meth:`sent` or :meth:`theirs` may judge otherwise."""
        return self.unreachable(), self._peer.network.ranges, tuple(self._ranges.items())

    def theirs(self, address: str) -> str:
        """The reason why an address is a pod's of some peer, as a clause; empty if it is none."""
        own = self._peer.context.namespace
        for (place, _), cidr in self._ranges.items():
            if place != own and holds(cidr, address):
                return f"it lies in {cidr}, which a peer has here"
        return ""

    def _used(self, of: Peer) -> Iterator[str]:
        """Ranges that addresses mean something else in here: lent ones, other peers' aliases."""
        own = of.tenant_namespace
        return (cidr for (place, _), cidr in self._ranges.items() if place != own)


def unreachable(peer: Peer) -> str:
    """The reason why no address of a peer's is reachable; empty where they are."""
    way, network = peer.settings.pod_network, peer.network
    if way == "none":
        return "pod_network is none: this peer's addresses are not reachable"
    if way == "tunnel" and network.ranges is None:
        yet = " yet" if network.started else ""
        return f"this peer's addresses are not reachable{yet}: {network.waits}"
    return ""


def awaited(peer: Peer) -> bool:
    """True while the ranges by which a peer's addresses are judged are not known, or change."""
    network = peer.network
    tunnel = peer.settings.pod_network == "tunnel"
    return tunnel and network.ranges is None and (network.started or not network.read)
