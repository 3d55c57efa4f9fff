"""The external address by which peers reach this cluster's API server, where any may: ``in_band``
under ``[network]``, or this cluster's own pods there by ``api_server`` of a peer.

It is an IP as Liqo has it, with the same name: ``liqoctl`` and ``liqod peer --in-band`` read there
where the proxy is. It is lent to nobody: what it opens, and to which peer, is in
:mod:`liqod.network.dataplane.entrances`. It is made before others where it can be, and so has the
second address of the external range, where peers that run liqod look for it by default.
"""

from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.config import opens_api
from liqod.errors import ConfigError
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.deletion import delete_all
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.model.crossing.addresses import parse
from liqod.model.endpoints import join
from liqod.model.network.apiaddress import place_of
from liqod.model.objects.partial import EndpointSlice
from liqod.network.dataplane.families import family_of
from liqod.network.dataplane.peerplan import OUTER
from liqod.network.ipam.networks import TOPIC
from liqod.resources import IPS

SERVER: Final = "API server"
"""The one key."""
KUBERNETES: Final = Selection("default", labels=f"{labels.SERVICE_NAME}=kubernetes")
"""The Endpoints in which API servers publish their addresses."""


class ServerAddress(Controller[str]):
    """Keeps that IP; there is one key."""

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._enabled = bool(context.config.network.in_band) or opens_api(context.config)
        self._ips = Watched(IPS, self._on_ip, within=(context.namespace,))
        self._slices = Watched(ENDPOINT_SLICES, always(SERVER), KUBERNETES)
        followed = (self._ips, self._slices) if self._enabled else (self._ips,)
        # There may be no such IP yet.
        super().__init__(context, TOPIC, *followed, name="API server's address", first=(SERVER,))

    def _on_ip(self, change: StoreChange) -> tuple[str, ...]:
        return (SERVER,) if change.key[1] == labels.API_SERVER_PROXY else ()

    async def reconcile(self, key: str) -> float | None:
        """Have the IP, or not."""
        context, place = self._context, (self._context.namespace, labels.API_SERVER_PROXY)
        live = self._ips.store.get(place)
        if self._enabled:
            server = self._server()
            await ensure(context.client, IPS, ip(context.namespace, *server), live=live)
            return None
        found = self._ips.store.decode(place, Partial)
        if found is not None and labels.MANAGED_BY_LIQOD in found.metadata.labels:
            await delete_all(context.client, IPS, [found])
        return None

    def _server(self) -> tuple[str, int]:
        """Address and port of the API server, as it publishes them or as configured.

        Raises:
            ConfigError: neither has one that others than this machine can use.
        """
        told = (
            place for each in self._slices.store.values(EndpointSlice) for place in places(each)
        )
        host, port = min(told, default=place_of(self._context.endpoint.server))
        parsed = parse(host)
        if parsed is None or parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local:
            raise ConfigError(
                f"in_band, api_server: the API server is at {host!r}, which is no address that the "
                "tunnel can lead to; the EndpointSlice default/kubernetes or [api_server] "
                "advertise must have one"
            )
        return host, port


def places(found: EndpointSlice) -> list[tuple[str, int]]:
    """Addresses and ports that an EndpointSlice names."""
    ports = [each.port for each in found.ports or () if each.port]
    return [
        (address, ports[0]) for one in found.endpoints or () for address in one.addresses if ports
    ]


def ip(namespace: str, host: str, port: int) -> dict[str, Any]:
    """The IP object of the API server.

    The address that it names cannot be changed, so it names the gateway, where the proxy is.
    """
    marks = {labels.IP_TYPE: labels.API_SERVER_PROXY, labels.MANAGED_BY_LIQOD: labels.TRUE}
    metadata = {
        "name": labels.API_SERVER_PROXY,
        "namespace": namespace,
        "labels": marks,
        "annotations": {labels.API_SERVER: join(host, port)},
    }
    return {"metadata": metadata, "spec": {"ip": OUTER[family_of(host)]}}
