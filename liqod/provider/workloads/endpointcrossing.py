"""Finds how each address of a consumer's ShadowEndpointSlice is reached from here.

An address is the consumer's own, or one that the consumer says is a third cluster's. The latter is
judged by the network that this cluster has with that one, and counts only where the operator lets
the consumer name addresses there (``direct_connections``). The decision is
:func:`liqod.model.crossing.thirdclusters.chosen`.
"""

from typing import Final

import msgspec
import trio

from liqod.model.crossing.thirdclusters import (
    Chosen,
    Facts,
    ThirdAddresses,
    another_key,
    chosen,
    permits,
    third_addresses,
)
from liqod.model.network.remapping import Remapped
from liqod.model.objects.partial import EndpointSlice
from liqod.peers.peer import Peer
from liqod.peers.peeraddresses import PeerAddresses, awaited, unreachable
from liqod.provider.workloads.endpointtranslation import Cross, Reached
from liqod.resources import ShadowEndpointSlice

NOT_JOINED: Final = "this cluster has joined no network with {}"
SETTLE: Final = 10.0
"""Seconds after the start in which a peer that is not there yet may still begin."""
LASTS: Final = 300.0
"""Seconds for which slices stay as they are while the ranges of a third cluster are not known: they
come within seconds, or are refused until an operator does something."""
_SHOWN: Final = 63


class EndpointCrossing:
    """Finds how one consumer's endpoints are reached; lives as long as their controller.

    Args:
        peer: the consumer.
        addresses: of its pods.
    """

    def __init__(self, peer: Peer, addresses: PeerAddresses) -> None:
        self._peer = peer
        self._addresses = addresses
        self._began = trio.current_time()
        self._waits: dict[str, float] = {}
        """The times since when slices wait for the ranges of a third cluster, by its id."""

    def follow(self) -> None:
        """Take note of the third clusters whose ranges are known, after a change of any peer."""
        for owner in tuple(self._waits):
            peer = self._peer.neighbours.get(owner)
            if peer is None or not awaited(peer):
                del self._waits[owner]

    def third(self, shadow: ShadowEndpointSlice) -> ThirdAddresses:
        """The addresses of a ShadowEndpointSlice that are a third cluster's."""
        return third_addresses(shadow.metadata.annotations)

    def awaits(self, third: ThirdAddresses) -> bool:
        """True while it is not known whether a third cluster is reached, and will be.

        Such as while this daemon starts: what was made before stays as it is, for a bounded time:
        one cluster may not keep the endpoints of another as they are for good.
        """
        found = {each for owners in third.owners.values() for each in owners}
        now = trio.current_time()
        young = now < self._began + SETTLE
        for owner in found:
            if self._permits(owner):
                peer = self._peer.neighbours.get(owner)
                if young if peer is None else self._is_awaited(peer, now):
                    return True
                if young and owner in third.keys and self._peer.neighbours.keys(owner) is None:
                    return True
        return False

    def cross(self, third: ThirdAddresses, live: bytes | None) -> Cross:
        """A function that finds how an address of a ShadowEndpointSlice is reached.

        Args:
            third: those of its addresses that are a third cluster's.
            live: the EndpointSlice made of it before, as JSON.
        """
        ready = _ready_before(live)
        problem = self._addresses.unreachable()

        def reached(node: str, peer: Peer) -> bool:
            lost = peer.reach.now
            return not lost if lost is not None else ready.get(node, True)

        def of(address: str) -> Reached:
            if third.problem:
                return Reached(problem=third.problem)
            if not third.owners.get(address):
                here = Remapped("", problem) if problem else self._addresses.received(address)
                up = reached(self._peer.id, self._peer)
                return Reached(here.address, self._peer.id, up, here.problem)
            owner, way = self._chosen(third, address)
            known = self._peer.neighbours.get(owner) if way.direct else self._peer
            if not way.address or known is None:
                said = f"endpoints at {owner}: {way.problem}"
                return Reached(problem=said, expected=way.expected)
            return Reached(way.address, known.id, reached(known.id, known))

        return of

    def _is_awaited(self, peer: Peer, now: float) -> bool:
        return awaited(peer) and now < self._waits.setdefault(peer.id, now) + LASTS

    def _permits(self, owner: str) -> bool:
        own = (self._peer.id, self._peer.context.cluster_id)
        return owner not in own and permits(self._peer.settings.direct_connections, owner)

    def _chosen(self, third: ThirdAddresses, address: str) -> tuple[str, Chosen]:
        """The cluster that has a third cluster's address, and the way that is taken to it."""
        owner, *others = sorted(third.owners[address])
        if others:
            said = f"{address[:_SHOWN]} is said to be of {owner} and of {others[0]}"
            return owner, Chosen(problem=said)
        peer, told = self._peer.neighbours.get(owner), third.by_way.get(address)
        joined = NOT_JOINED.format(owner) if peer is None else unreachable(peer)
        direct = Remapped("", joined)
        if peer is not None and not joined:
            keys = self._peer.neighbours.keys(owner)
            other = another_key(owner, third.keys.get(owner, ()), keys)
            found = self._addresses.received_of(peer, address)
            direct = Remapped("", other) if other else found
        lost = peer.reach.now if peer is not None else None
        by_way = None
        if told is not None and not self._addresses.unreachable():
            by_way = self._addresses.received(told)
        reaches = None if lost is None else not lost
        facts = Facts(self._permits(owner), joined, reaches, direct, by_way)
        return owner, chosen(owner, self._peer.id, facts)


def _ready_before(live: bytes | None) -> dict[str, bool]:
    """True for each cluster that endpoints of a slice are reached by, if any of these was ready."""
    found: dict[str, bool] = {}
    if live is not None:
        for each in msgspec.json.decode(live, type=EndpointSlice).endpoints or ():
            node = each.node_name or ""
            found[node] = found.get(node, False) or bool(each.conditions.ready)
    return found
