"""The external addresses by which peers' tunnels to each other go by this cluster (``relay``).

One for each peer that may be relayed: at it the others reach that peer's gateway. It is an IP, so
that it lasts and can be read during peering (``liqod peer --relay-kubeconfig``), and is lent to
nobody; what it opens, and to which peers, is in :mod:`liqod.network.dataplane.entrances`.
"""

from typing import Any

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.network.dataplane.entrances import is_named
from liqod.network.dataplane.families import first, of_family
from liqod.network.dataplane.names import OUTER_ADDRESS
from liqod.network.ipam.configurations import TENANTS
from liqod.network.ipam.joinedpeers import JoinedPeers
from liqod.network.ipam.networks import TOPIC
from liqod.resources import CONFIGURATIONS, IPS, Configuration

PREFIX = "relay-"
"""How names of these IPs begin; the peer's id follows."""


class Relays(Controller[str]):
    """Keeps those IPs; a key is a peer's id."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._configurations = Watched(CONFIGURATIONS, by_name)
        self._namespaces: Watched[str] = Watched(NAMESPACES, None, Selection(labels=TENANTS))
        self._ips = Watched(IPS, self._on_ip, within=(context.namespace,))
        self._joined = JoinedPeers(context.client, self._namespaces, self._configurations)
        super().__init__(
            context, TOPIC, self._namespaces, self._configurations, self._ips, name="relays"
        )

    def _on_ip(self, change: StoreChange) -> tuple[str, ...]:
        name = change.key[1]
        return (name.removeprefix(PREFIX),) if name.startswith(PREFIX) else ()

    async def reconcile(self, peer: str) -> float | None:
        """Have the IP of a peer, or not."""
        place: Key = (self._context.namespace, PREFIX + peer)
        if is_named(peer, self._context.config.network.relay):
            found = self._joined.find(peer)
            gateway = gateway_of(found) if found is not None else ""
            if gateway:
                wanted = ip(self._context.namespace, peer, gateway)
                await ensure(self._context.client, IPS, wanted, live=self._ips.store.get(place))
            if found is not None:
                return None
            if await self._joined.is_there(peer):
                return DOUBT
        live = self._ips.store.decode(place, Partial)
        if live is not None and labels.MANAGED_BY_LIQOD in live.metadata.labels:
            await delete_all(self._context.client, IPS, [live])
        return None


def gateway_of(found: Configuration) -> str:
    """The alias at which a peer's gateway is reached by relays; empty while there is none.

    It is the one of its first external address, which no host of its own has.
    """
    seen = of_family(4, found.status.remote.cidr.external) if found.status.remote else ()
    return first(seen[0]) if seen else ""


def ip(namespace: str, peer: str, gateway: str) -> dict[str, Any]:
    """The IP object of a peer's gateway.

    The address that it names cannot be changed, so it names this cluster's own gateway.
    """
    metadata = {
        "name": PREFIX + peer,
        "namespace": namespace,
        "labels": {labels.IP_TYPE: labels.RELAY, labels.MANAGED_BY_LIQOD: labels.TRUE},
        "annotations": {labels.RELAYS_TO: peer, labels.RELAYED_AT: gateway},
    }
    return {"metadata": metadata, "spec": {"ip": OUTER_ADDRESS}}
