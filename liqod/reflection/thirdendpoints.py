"""The endpoints at other peers, as one peer's reflection tells them.

Keeps the virtual nodes of other peers, with the ranges by which this cluster sees these. A way
through this cluster is published for as long as an object at the peer may have it
(:mod:`liqod.cluster.transitaddresses`).
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
import trio

from liqod.apimachinery.meta import Partial
from liqod.cluster.transitaddresses import REFLECTION, SharedNamespace, TransitAddresses
from liqod.errors import LiqodError
from liqod.kube.cache.store import StoreChange
from liqod.model.crossing.thirdclusters import ThirdCluster, Transit
from liqod.model.network.ranges import PeerRanges
from liqod.peers.peer import Peer
from liqod.reflection.topology import PartialVirtualNode
from liqod.reflection.view import ReflectedObject
from liqod.resources import NAMESPACE_MAPS
from liqod.runtime.ticks import sleep_until_tick

DEBOUNCE: Final = 0.2
"""Seconds in which changes of addresses are taken together."""
LOOK: Final = 1.0
"""Seconds between two looks at whether all objects were gone through once."""

Endpoint = tuple[str, str]
"""Id of the cluster that has an endpoint, and its address here."""

_node = msgspec.json.Decoder(PartialVirtualNode)


class ThirdEndpoints:
    """Knows other peers for one peer's reflection, and publishes endpoints at them to it.

    Args:
        peer: the peer that reads them.

    Attributes:
        nodes: other peers' virtual nodes by name.
        published: the endpoints that each object publishes.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._owners: dict[tuple[str, str], str] = {}
        """The cluster of each virtual node, by the node's tenant namespace and name."""
        self.nodes: Mapping[str, ThirdCluster] = {}
        self.published: dict[ReflectedObject, frozenset[Endpoint]] = {}

    @property
    def _transit(self) -> TransitAddresses:
        return self._peer.context.transit

    # Which clusters there are.

    def on_node(self, change: StoreChange) -> bool:
        """Take note of a virtual node; true if one of another peer comes, goes or changes."""
        if change.key[0] == self._peer.tenant_namespace:
            return False
        name, found = change.key[1], None
        if change.new is None:
            self._owners.pop(change.key, None)
        else:
            owner = self._owners[change.key] = _node.decode(change.new).spec.cluster_id
            found = self._cluster(change.key[0], owner)
        if self.nodes.get(name) == found:
            return False
        others = {node: each for node, each in self.nodes.items() if node != name}
        self.nodes = others if found is None else {**others, name: found}
        return True

    def _look(self) -> bool:
        """Read what this cluster has with the other peers now; true if it has changed."""
        found = {name: self._cluster(place, of) for (place, name), of in self._owners.items()}
        changed = found != self.nodes
        self.nodes = found
        return changed

    async def follow(self, changed: Callable[[], None]) -> NoReturn:
        """Call a function whenever what this cluster has with another peer changes."""
        while True:
            if self._look():
                changed()
            await self._peer.neighbours.wait_changed()
            await trio.sleep(DEBOUNCE)

    def _cluster(self, namespace: str, cluster: str) -> ThirdCluster:
        """A cluster by its virtual node's namespace, which is that of one peer."""
        peer = self._peer.neighbours.get(cluster)
        if peer is None or peer.tenant_namespace != namespace:
            return ThirdCluster(cluster)
        way, ranges = peer.settings.pod_network, peer.network.ranges
        keys = self._peer.neighbours.keys(cluster) or frozenset()
        used = None
        if way == "tunnel" and ranges is not None:
            used = PeerRanges(peer=ranges.peer, seen=ranges.seen)
        return ThirdCluster(cluster, way, used, keys)

    # What is published.

    def address(self, owner: str, address: str) -> Transit:
        """The address by which the peer reaches an endpoint through this cluster."""
        reader, transit = self._peer.id, self._transit
        found = transit.address(reader, owner, address)
        if found:
            return Transit(found)
        return Transit(
            "", transit.refusal(reader, owner, address), transit.awaits(reader, owner, address)
        )

    def begin(self, subject: ReflectedObject, wanted: Iterable[Endpoint]) -> None:
        """Publish the endpoints of a new decision, before it is written, beside those of the last.

        A pod there is not led astray while the peer still has the object as it was.
        """
        before = self.published.get(subject, frozenset())
        self._publish(subject, before.union(wanted))

    def end(self, subject: ReflectedObject, wanted: Iterable[Endpoint]) -> None:
        """Publish the endpoints of a decision that was written, and no others of its object."""
        self._publish(subject, frozenset(wanted))

    def keep(self, namespaces: Collection[str]) -> None:
        """Publish nothing of objects of other namespaces than these, which went with them."""
        for subject in [each for each in self.published if each.namespace not in namespaces]:
            self._publish(subject, frozenset())

    def _publish(self, subject: ReflectedObject, wanted: frozenset[Endpoint]) -> None:
        # Also what is as before: it was forgotten where the peer was gone for a while.
        self._transit.publish(subject, self._peer.id, wanted)
        if wanted:
            self.published[subject] = wanted
        else:
            self.published.pop(subject, None)

    async def follow_addresses(self, changed: Callable[[], None]) -> NoReturn:
        """Call a function whenever there may be other addresses."""
        while True:
            await self._transit.wait_changed()
            await trio.sleep(DEBOUNCE)
            changed()

    async def settle(self, gone_through: Callable[[], bool | None]) -> None:
        """Report once that all objects were gone through, so that what is left over goes.

        All of it goes with the map of namespaces, since the peer has no object any more.

        Args:
            gone_through: True once they were; None while there is no map.
        """
        peer, transit, done = self._peer.id, self._transit, False
        if not transit.partners(peer):
            return
        while True:
            await sleep_until_tick(LOOK)
            found = gone_through()
            if found and not done:
                self._let_go()
                done = True
            settled = transit.is_settled(peer, REFLECTION)
            unsettled = found is None and (self._users() or not settled)
            # A store may be empty by mistake.
            if unsettled and await self._map_is_gone() and gone_through() is None:
                self.keep(())
                self._let_go()

    def _let_go(self) -> None:
        """Release what a reflection before this one has published."""
        for user in self._users() - self.published.keys():
            self._transit.release(user, self._peer.id)
        self._transit.settle(self._peer.id, REFLECTION)

    def _users(self) -> set[Hashable]:
        """The objects that are reflected, and publish anything to the peer."""
        users = self._transit.users(self._peer.id)
        return {each for each in users if not isinstance(each, SharedNamespace)}

    async def _map_is_gone(self) -> bool:
        """True if there is no map, as the API server itself answers."""
        client, place = self._peer.context.client, self._peer.tenant_namespace
        with suppress(LiqodError):
            return await client.find(NAMESPACE_MAPS, self._peer.id, place, decode=Partial) is None
        return False
