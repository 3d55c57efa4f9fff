"""Gateways and keys of a peer as objects, for tests."""

from typing import Any

from liqod.apimachinery.meta import ObjectMeta
from liqod.network.gateway.gatewayplan import LocalFacts
from liqod.network.orders.tunnels import Listening
from liqod.resources.base import ObjectRef
from liqod.resources.networking import (
    GatewayClient,
    GatewayClientSpec,
    GatewayEndpoint,
    GatewayServer,
    GatewayServerSpec,
    GatewayServerStatus,
    PublicKey,
    PublicKeySpec,
    ServerEndpoint,
)

PEER, PLACE = "milan", "liqo-tenant-milan"
HERE = LocalFacts(
    namespace="liqo", backends={"wireguard": Listening()}, networks=("10.244.0.0/16",)
)


def meta(name: str = PEER, age: int = 0, peer: str = PEER, place: str = PLACE) -> ObjectMeta:
    marks = {"liqo.io/remote-cluster-id": peer} if peer else {}
    created = f"2026-01-01T00:00:{age:02}Z"
    uid = f"{place}/{name}/{age}"
    return ObjectMeta(name=name, namespace=place, uid=uid, labels=marks, creation_timestamp=created)


def template(side: str, name: str = "", namespace: str = "liqo", kind: str = "") -> ObjectRef:
    return ObjectRef(
        api_version="networking.liqo.io/v1beta1",
        kind=kind or f"WgGateway{side.capitalize()}Template",
        name=name or f"wireguard-{side}",
        namespace=namespace,
    )


def server(
    metadata: ObjectMeta | None = None,
    ref: ObjectRef | None = None,
    mtu: int = 1340,
    told: int = 0,
    protocol: str = "UDP",
    **endpoint: Any,
) -> GatewayServer:
    """A GatewayServer; ``told`` is the port that its status says."""
    where = GatewayEndpoint(("192.0.2.1",), told, protocol=protocol) if told else None
    status = GatewayServerStatus(where)
    spec = GatewayServerSpec(
        endpoint=ServerEndpoint(**{"port": 51840, **endpoint}),
        mtu=mtu,
        server_template_ref=ref or template("server"),
    )
    return GatewayServer(metadata=metadata or meta(), spec=spec, status=status)


def client(
    *addresses: str,
    metadata: ObjectMeta | None = None,
    ref: ObjectRef | None = None,
    **endpoint: Any,
) -> GatewayClient:
    spec = GatewayClientSpec(
        endpoint=GatewayEndpoint(addresses, **{"port": 51840, "protocol": "UDP", **endpoint}),
        mtu=1340,
        client_template_ref=ref or template("client"),
    )
    return GatewayClient(metadata=metadata or meta(), spec=spec)


def public_key(key: bytes, metadata: ObjectMeta | None = None) -> PublicKey:
    return PublicKey(metadata=metadata or meta(), spec=PublicKeySpec(key))
