"""Takes down on this machine the garbage of peers that are gone, by their names alone.

A peer's own task takes its network down while the peer is there. Where the tenant namespace went
first, or while no daemon ran, the private key of its tunnel shows that there may be something.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model import ids
from liqod.network.dataplane.names import PeerNames
from liqod.network.gateway import keysecrets
from liqod.network.gatewayhost import GatewayHost, take_down
from liqod.telemetry.events import NetworkSwept

SETTLE: Final = 2.0
"""Seconds that a peer's own task has to do it."""


class NetworkGarbageCollector(Controller[str]):
    """Takes down the networks of peers that have no tenant namespace any more; keys are their ids.

    Args:
        context: this cluster.
        machine: this machine.
    """

    def __init__(self, context: ClusterContext, machine: GatewayHost) -> None:
        self._context = context
        self._machine = machine
        ours = Selection(context.namespace, labels=f"{labels.TUNNEL}={labels.TRUE}")
        self._keys = Watched(SECRETS, self._peers, ours, debounce=SETTLE)
        self._namespaces = Watched(NAMESPACES, self._left, debounce=SETTLE)
        super().__init__(
            context, "network", self._keys, self._namespaces, name="leftovers of networks"
        )

    def _peers(self, change: StoreChange) -> Iterator[str]:
        if change.new is not None:
            yield from _peer_of(change.new)

    def _left(self, change: StoreChange) -> Iterator[str]:
        if change.new is None and change.old is not None:
            yield from _peer_of(change.old)

    async def reconcile(self, peer: str) -> float | None:
        """Take down what is left of a peer that surely is gone."""
        client, own = self._context.client, self._context.namespace
        name = ids.gateway_resource(peer)
        if (own, name) not in self._keys.store:
            return None
        if self._namespaces.doubtful:
            return DOUBT
        selector = f"{labels.TENANT_NAMESPACE}={labels.TRUE},{labels.REMOTE_CLUSTER_ID}={peer}"
        if await client.list(NAMESPACES, Selection(labels=selector), decode=Partial):
            return None
        await take_down(self._machine, PeerNames(self._context.cluster_id, peer))
        await keysecrets.forget(client, peer, own)
        self._context.hub.publish(NetworkSwept(peer=peer, did="taken down"))
        return None


def _peer_of(body: bytes) -> Iterator[str]:
    peer = msgspec.json.decode(body, type=Partial).metadata.labels.get(labels.REMOTE_CLUSTER_ID, "")
    if peer:
        yield peer
