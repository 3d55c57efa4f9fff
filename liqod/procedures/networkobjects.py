"""The objects by which two clusters join their networks, as Liqo's tools write them. Pure."""

from base64 import b64encode
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.resources.networking import (
    GROUP,
    VERSION,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
    Ranges,
)

Json = dict[str, Any]
Where = Literal["Provider", "Consumer"]
ServiceType = Literal["LoadBalancer", "NodePort", "ClusterIP"]

WIREGUARD: Final = "wireguard"
WEBSOCKET: Final = "websocket"
PORT: Final = 51840
USUAL_PORTS: Final = {WIREGUARD: PORT, WEBSOCKET: 443, "vxlan": 4789}
"""The ports of the backends that are built in."""
MTU: Final = 1340


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for joining two networks; the names are Liqo's.

    Attributes:
        server_at: the side that is dialled.
        service_type: the type of its gateway's Service.
        port: the first port of its search for a free one; 0 for the usual one of the backend.
        node_port: the exact port; 0 for any.
        load_balancer_ip: an address at which it is to be reached, before others.
        client_address: the address that is dialled, where it is not the one of the server's status.
        client_port: likewise its port; 0 for that of the status.
        mtu: of the tunnel, in bytes.
        backend: the tunnel's backend; empty for WireGuard, or one that both sides have.
    """

    server_at: Where = "Provider"
    service_type: ServiceType = "LoadBalancer"
    port: int = 0
    node_port: int = 0
    load_balancer_ip: str = ""
    client_address: str = ""
    client_port: int = 0
    mtu: int = MTU
    backend: str = ""

    @property
    def made_by(self) -> str:
        """The backend of the tunnel, as far as one side has it."""
        return self.backend or WIREGUARD

    def dialled(self, told: GatewayEndpoint) -> GatewayEndpoint:
        """The endpoint that the client dials, from that of the server's status."""
        first = told.port if told.port is not None else next(iter(told.ports), PORT)
        addresses = (self.client_address,) if self.client_address else told.addresses
        port = self.client_port or first
        return GatewayEndpoint(addresses=addresses, port=port, protocol=told.protocol or "UDP")


def configuration(described: str, ranges: Ranges) -> Json:
    """The ranges of a cluster, for the other side."""
    cidr = {"pod": list(ranges.pod), "external": list(ranges.external)}
    return {"metadata": _meta(described), "spec": {"remote": {"cidr": cidr}}}


def gateway_server(peer: str, liqo: str, asked: NetworkOptions) -> Json:
    """The gateway that is dialled, for the side that has the peer."""
    endpoint: Json = {"serviceType": asked.service_type}
    # Liqo's definition takes no server without a port.
    endpoint["port"] = asked.port or USUAL_PORTS.get(asked.made_by, PORT)
    if asked.node_port:
        endpoint["nodePort"] = asked.node_port
    if asked.load_balancer_ip:
        endpoint["loadBalancerIP"] = asked.load_balancer_ip
    ref = _template("Server", liqo, asked)
    spec = {"endpoint": endpoint, "mtu": asked.mtu, "serverTemplateRef": ref}
    return {"metadata": _meta(peer), "spec": spec}


def gateway_client(
    peer: str, liqo: str, asked: NetworkOptions, endpoint: GatewayEndpoint, websocket: int = 0
) -> Json:
    """The gateway that dials.

    Args:
        peer: the peer that it dials.
        liqo: liqod's own namespace in its cluster.
        asked: the options.
        endpoint: the endpoint that it dials.
        websocket: TCP port at which the server accepts the tunnel in a websocket, too; 0 for none.
    """
    ref = _template("Client", liqo, asked)
    where = {**msgspec.to_builtins(endpoint), "addresses": list(endpoint.addresses)}
    spec = {"endpoint": where, "mtu": asked.mtu, "clientTemplateRef": ref}
    metadata = _meta(peer)
    if websocket:
        metadata["annotations"] = {labels.WEBSOCKET: str(websocket)}
    return {"metadata": metadata, "spec": spec}


def public_key(peer: str, key: bytes, gateway: GatewayServer | GatewayClient) -> Json:
    """The peer's public key; it goes with the gateway that it is for."""
    metadata = _meta(peer)
    metadata["labels"][labels.GATEWAY_RESOURCE] = labels.TRUE
    metadata["ownerReferences"] = [_owner(gateway, gateway.metadata)]
    return {"metadata": metadata, "spec": {"publicKey": b64encode(key).decode()}}


def _owner(gateway: GatewayServer | GatewayClient, meta: ObjectMeta) -> Json:
    kind = gateway.KIND
    owner = {"apiVersion": kind.api_version, "kind": kind.name}
    return {**owner, "name": meta.name, "uid": meta.uid}


def _meta(cluster: str) -> Json:
    return {"name": cluster, "labels": {labels.REMOTE_CLUSTER_ID: cluster}}


def _template(side: Literal["Server", "Client"], liqo: str, asked: NetworkOptions) -> Json:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": f"WgGateway{side}Template",
        "name": f"{asked.made_by}-{side.lower()}",
        "namespace": liqo,
    }
