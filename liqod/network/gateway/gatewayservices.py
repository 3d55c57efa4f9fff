"""The Service of a gateway in a cluster, made as its GatewayServer requests, and its address.

Only where the daemon is a pod: on a host there is nothing that a Service could lead to that peers
would not reach without one.
"""

from functools import partial
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.kube import times
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.watched import Watched, always
from liqod.model import ids
from liqod.model.crossing.addresses import parse
from liqod.network.failover.role import Role
from liqod.network.gateway import exposure
from liqod.network.gateway.exposure import TAKEN_UP_WITHIN, Exposed
from liqod.network.gateway.gatewaydeployments import SELECTION
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import Gateway
from liqod.peers.peer import Peer
from liqod.resources.networking import GATEWAY_SERVERS, GatewayServer
from liqod.runtime.observable import Observable

SERVICE: Final = "service"
"""The one key: a peer has one gateway that counts."""

Json = dict[str, Any]


class GatewayServices(Controller[str]):
    """Keeps the Service of a peer's gateway, and publishes where it is reached.

    Args:
        ends: of the tunnel.
        known: notified of its address.
        own: addresses of this machine, as peers reach it.
        role: where the gateway is.
    """

    def __init__(
        self,
        peer: Peer,
        ends: Observable[TunnelEndpoints],
        known: Observable[Exposed],
        own: tuple[str, ...],
        role: Role,
    ) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._ends = ends
        self._known = known
        self._own = own
        self._role = role
        within = (peer.tenant_namespace,)
        self._servers = Watched(GATEWAY_SERVERS, always(SERVICE), within=within)
        self._services = Watched(SERVICES, always(SERVICE), SELECTION, within=within)
        self._slices = Watched(ENDPOINT_SLICES, always(SERVICE), SELECTION, within=within)
        told = (ends.wait_changed, role.wait_changed)
        super().__init__(
            peer,
            "network",
            *(self._servers, self._services, self._slices),
            name="services of gateways",
            tasks=[partial(self.whenever, wait, always(SERVICE)) for wait in told],
            budget=peer.work,
        )

    async def reconcile(self, key: str) -> float | None:
        """Let the requested Service, and no other, lead to the gateway."""
        ends, place = self._ends.now, self._peer.tenant_namespace
        if not ends.looked:
            return None
        gateway = ends.gateway
        server = self._server(gateway) if gateway is not None else None
        wanted = gateway is not None and server is not None and exposure.needs_service(server)
        name = ids.gateway_resource(gateway.name) if gateway is not None and wanted else ""
        for watched, kind in ((self._services, SERVICES), (self._slices, ENDPOINT_SLICES)):
            found = [
                one for one in watched.store.values(Partial) if one.metadata.namespace == place
            ]
            others = [one for one in found if one.metadata.name != name]
            await delete_all(self._client, kind, others)
        if gateway is None or server is None or not wanted:
            return None
        await self._have(server, gateway)
        return self._write_endpoint(server, gateway)

    def _server(self, gateway: Gateway) -> GatewayServer | None:
        where = (self._peer.tenant_namespace, gateway.name)
        found = self._servers.store.decode(where, GatewayServer)
        return found if found is not None and found.metadata.uid == gateway.uid else None

    def _addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._role.now.addresses, *self._own)))

    async def _have(self, server: GatewayServer, gateway: Gateway) -> None:
        place, peer = self._peer.tenant_namespace, self._peer.id
        key = (place, ids.gateway_resource(gateway.name))
        allowed = self._peer.context.config.network.service_annotations
        live = self._services.store.get(key)
        found = msgspec.json.decode(live) if live is not None else None
        wanted = exposure.service(peer, place, server, gateway, allowed=allowed, live=found)
        await ensure(self._client, SERVICES, wanted, live=live)
        # The node's own: the advertised address may be a load balancer's, or a name.
        candidates = (*self._role.now.addresses, self._peer.context.machine_address)
        address = next(each for each in candidates if parse(each) is not None)
        slice_ = exposure.endpoint_slice(peer, place, gateway, address)
        await ensure(self._client, ENDPOINT_SLICES, slice_, live=self._slices.store.get(key))

    def _write_endpoint(self, server: GatewayServer, gateway: Gateway) -> float | None:
        """Report its address; seconds until it is to be looked at again."""
        live = self._services.store.get(
            (self._peer.tenant_namespace, ids.gateway_resource(gateway.name))
        )
        if live is None:
            return None  # reported when it is seen
        found: Json = msgspec.json.decode(live)
        age = times.age(found["metadata"]["creationTimestamp"])
        now: Exposed = exposure.exposed(server, found, gateway.port, self._addresses(), age)
        self._known.set(now)
        # The Service shows an address, or its provider; only time shows that there is no provider.
        waits = not now.addresses and age < TAKEN_UP_WITHIN
        return TAKEN_UP_WITHIN - age + 0.05 if waits else None
