"""Finds the path to a gateway through a peer of both (``liqod peer --relay-kubeconfig``)."""

from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.cluster.ownid import cluster_id
from liqod.cluster.tenancy import find_tenant_namespace
from liqod.errors import ConfigError, Forbidden
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.network.ranges import ClusterCidrs, translate
from liqod.network.ipam.relays import PREFIX
from liqod.procedures.networkobjects import NetworkOptions
from liqod.resources import CONFIGURATIONS, IP, IPS, Configuration
from liqod.resources.networking import GATEWAY_CLIENTS, GatewayClient, GatewayEndpoint
from liqod.runtime.polling import poll_until

PEER: Final = labels.REMOTE_CLUSTER_ID
ANSWERS_WITHIN: Final = 15.0
"""Seconds that the relay's daemon may take to give the address."""


class Relay(msgspec.Struct, frozen=True):
    """A cluster that carries the datagrams of two of its peers.

    Attributes:
        client: of its API server; a peering user's rights do.
        liqo: liqod's own namespace in it.
    """

    client: Client
    liqo: str = labels.LIQO_NAMESPACE

    async def behind(
        self, told: GatewayEndpoint, asked: NetworkOptions, client: Client, server: str
    ) -> GatewayEndpoint:
        """The endpoints at which a gateway is dialled, the relay last.

        Args:
            told: the direct endpoint.
            asked: the options for joining the networks.
            client: of the cluster that dials.
            server: id of the one that is dialled.

        Raises:
            ConfigError: there is no such path, with the missing part.
        """
        if told.protocol not in ("", "UDP"):
            raise ConfigError(f"tunnels by {asked.backend} go by {told.protocol}: relays carry UDP")
        if asked.client_port:
            raise ConfigError(
                "--gw-client-port is the port of all addresses, and a relay knows the server's own"
            )
        alias = await self._alias(client, server)
        return msgspec.structs.replace(told, addresses=(*told.addresses, alias))

    async def _alias(self, client: Client, server: str) -> str:
        """The address at the relay for the server, as the client's cluster sees it."""
        hub = await cluster_id(self.client, self.liqo)
        name = PREFIX + server

        async def look() -> IP | None:
            found = await self.client.find(IPS, name, self.liqo, decode=IP)
            return found if found is not None and found.status.ip else None

        found = await poll_until(
            look,
            within=ANSWERS_WITHIN,
            failing=lambda: ConfigError(
                f"{hub} does not relay to {server} (it has no IP {name}): [network] relay of its "
                "daemon must name both clusters, and their networks be joined with it"
            ),
        )
        try:
            here = await _seen(client, hub)
            behind = await _seen(client, server)
            dialled = await client.list(GATEWAY_CLIENTS, Selection(), decode=GatewayClient)
        except Forbidden as error:
            raise ConfigError(
                f"the side that dials must be asked how it sees {hub}, which the kubeconfig does "
                "not allow: have the other side dial (--gw-server-service-location), or use an "
                f"administrator's kubeconfig: {error}"
            ) from error
        alias = here and translate(found.status.ip, *here)
        if not alias:
            raise ConfigError(
                f"the side that dials has not joined its network with {hub}: first do so"
            )
        to_hub = (each for each in dialled if each.metadata.labels.get(PEER) == hub)
        addresses = {
            one for each in to_hub for one in (each.spec.endpoint or GatewayEndpoint()).addresses
        }
        if behind and any(one in behind[1] for one in addresses):
            raise ConfigError(
                f"the tunnel to {hub} may itself go by {server}: each would wait for the other"
            )
        return alias


async def _seen(client: Client, peer: str) -> tuple[ClusterCidrs, ClusterCidrs] | None:
    """The ranges of a cluster's peer, its own and their aliases; None: not joined."""
    namespace = await find_tenant_namespace(client, peer)
    if namespace is None:
        return None
    place = Selection(namespace, labels=f"{PEER}={peer}")
    for each in await client.list(CONFIGURATIONS, place, decode=Configuration):
        theirs, seen = each.spec.remote.cidr, each.status.remote
        if seen is not None:
            ranges = ClusterCidrs(theirs.pod, theirs.external)
            return ranges, ClusterCidrs(seen.cidr.pod, seen.cidr.external)
    return None
