"""How a gateway in a cluster is exposed: by a Service, and where that is reached. Pure.

A gateway listens on its node's own network; the Service leads there by an EndpointSlice, since no
pod could be selected. On a host there is none, and peers get the machine's address.
"""

from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta, owner_reference
from liqod.model import ids
from liqod.model.crossing.addresses import family
from liqod.network.gateway.gatewayplan import GatewayRefusal
from liqod.network.orders.tunnels import Gateway
from liqod.resources.networking import GATEWAY_SERVERS, GatewayServer

Json = dict[str, Any]

EXPOSED: Final = "Exposed"
"""Condition of a GatewayServer with a Service: whether that has the requested address."""
PENDING: Final = "LoadBalancerPending"
NOBODY: Final = "NoLoadBalancer"
TYPES: Final = ("LoadBalancer", "NodePort")
"""Those by which a Service is made. ``ClusterIP`` is the gateway's own address, without one."""
TAKEN_UP_WITHIN: Final = 5.0
"""Seconds in which a load balancer controller marks a Service as his, or gives it an address."""


class Exposed(msgspec.Struct, frozen=True):
    """Where a gateway's Service is reached.

    Attributes:
        uid: of the GatewayServer.
        addresses: the preferred one first; none while there is none.
        port: its port there.
        why: the reason to report; None where all is as requested.
    """

    uid: str = ""
    addresses: tuple[str, ...] = ()
    port: int = 0
    why: GatewayRefusal | None = None


def needs_service(server: GatewayServer) -> bool:
    """True if the server requests a Service."""
    return server.spec.endpoint is not None and server.spec.endpoint.service_type in TYPES


def allots_port(server: GatewayServer) -> bool:
    """True if the server's port is the one that the cluster allots to its NodePort Service."""
    asked = server.spec.endpoint
    return asked is not None and asked.service_type == "NodePort" and not asked.node_port


def node_port(live: Json | None) -> int:
    """The port of all nodes that a Service has; 0 for none."""
    ports = ((live or {}).get("spec") or {}).get("ports") or [{}]
    return int(ports[0].get("nodePort") or 0)


def exposed(
    server: GatewayServer, live: Json, port: int, own: tuple[str, ...], age: float
) -> Exposed:
    """Where a gateway's Service is reached.

    Args:
        server: the gateway.
        live: its Service.
        port: where the gateway listens.
        own: addresses of its node, as peers reach it.
        age: seconds since the Service was made.
    """
    uid = server.metadata.uid
    if live["spec"].get("type") == "NodePort":
        return Exposed(uid, own, node_port(live) or port)
    ingress = (live.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    given = tuple(each.get("ip") or each.get("hostname") or "" for each in ingress)
    if any(given):
        return Exposed(uid, tuple(filter(None, given)), port)
    if live["metadata"].get("finalizers") or age < TAKEN_UP_WITHIN:
        why = GatewayRefusal(PENDING, "the Service waits for an address of its load balancer")
        return Exposed(uid, why=why)
    why = GatewayRefusal(
        NOBODY,
        "nobody here makes load balancers for Services: peers are told the node's own address; "
        "ask for NodePort or ClusterIP instead",
    )
    return Exposed(uid, own, port, why)


def service(
    peer: str,
    namespace: str,
    server: GatewayServer,
    gateway: Gateway,
    *,
    allowed: tuple[str, ...] = (),
    live: Json | None = None,
) -> Json:
    """The Service of a gateway.

    Args:
        peer: the peer's id.
        namespace: its tenant namespace here.
        server, gateway: the gateway.
        allowed: keys of annotations that it may have: a peer may have written it.
        live: the Service that is there; it keeps the port that it was given.
    """
    asked = server.spec.endpoint
    assert asked is not None
    ports = [{**each, "targetPort": each["port"]} for each in _ports(gateway)]
    given = asked.node_port or (node_port(live) if allots_port(server) else 0)
    if given:
        ports[0]["nodePort"] = given
    # Of the types LoadBalancer is the one that leads to a port as low as a websocket's.
    through = ports if asked.service_type == "LoadBalancer" else ports[:1]
    spec: Json = {"type": asked.service_type, "ports": through}
    if asked.service_type == "LoadBalancer" and asked.load_balancer_ip:
        spec["loadBalancerIP"] = asked.load_balancer_ip
    metadata = _metadata(peer, namespace, gateway)
    metadata["annotations"] = annotations_of(server, allowed)
    return {"metadata": metadata, "spec": spec}


def annotations_of(server: GatewayServer, allowed: tuple[str, ...]) -> dict[str, str]:
    """The annotations that the Service of a gateway has, of those that the gateway asks for."""
    told = server.spec.service_annotations
    return {key: told[key] for key in allowed if key in told}


def endpoint_slice(peer: str, namespace: str, gateway: Gateway, address: str) -> Json:
    """Where that Service leads: to the gateway's node."""
    metadata = _metadata(peer, namespace, gateway)
    metadata["labels"][labels.SERVICE_NAME] = metadata["name"]
    metadata["labels"][labels.ENDPOINT_SLICE_MANAGED_BY] = "liqod"
    return {
        "metadata": metadata,
        "addressType": family(address),
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": _ports(gateway),
    }


def _ports(gateway: Gateway) -> list[Json]:
    ports: list[Json] = [
        {"name": "tunnel", "port": gateway.port, "protocol": gateway.transport},
        {"name": "websocket", "port": gateway.websocket, "protocol": "TCP"},
    ]
    return ports if gateway.websocket else ports[:1]


def _metadata(peer: str, namespace: str, gateway: Gateway) -> Json:
    owner = ObjectMeta(name=gateway.name, uid=gateway.uid)
    return {
        "name": ids.gateway_resource(gateway.name),
        "namespace": namespace,
        "labels": {labels.STAND_IN: labels.TRUE, labels.REMOTE_CLUSTER_ID: peer},
        "ownerReferences": [owner_reference(GATEWAY_SERVERS, owner)],
    }
