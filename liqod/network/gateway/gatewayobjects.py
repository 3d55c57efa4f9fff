"""Reads a peer's gateway objects: sides, ages, ports, and the addresses of the other end. Pure."""

from typing import Final

from liqod.apimachinery.kinds import Kind
from liqod.model.endpoints import join
from liqod.model.objects import conditions
from liqod.network.dataplane.names import Side
from liqod.network.orders.tunnels import PORT, Gateway
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    GROUP,
    VERSION,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
)

Object = GatewayServer | GatewayClient

ACCEPTED: Final = "Accepted"
"""Condition of a gateway that can be, and is the one."""
WEBSOCKET_TOLD: Final = "WebSocket"
"""Condition of a server that takes its tunnel in a websocket, too, for people and for 0.1.0 until
November 2026, which had no ``status.websocketPort``."""
TEMPLATES: Final = {"server": "WgGatewayServerTemplate", "client": "WgGatewayClientTemplate"}
"""Kinds of Liqo's templates, by the side."""


def kind_of(gateway: Gateway) -> Kind:
    """The kind of the object that requests a gateway."""
    return GATEWAY_SERVERS if gateway.side == "server" else GATEWAY_CLIENTS


def made_by(side: Side, name: str, namespace: str, uid: str) -> dict[str, str]:
    """The reference to what Liqo's tools take for the maker of a gateway: its WgGateway*."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": TEMPLATES[side].removesuffix("Template"),
        "name": name,
        "namespace": namespace,
        "uid": uid,
    }


def side_of(one: Object) -> Side:
    """On which side a gateway is."""
    return "server" if isinstance(one, GatewayServer) else "client"


def age(one: Object) -> tuple[str, bool, str, str]:
    """Sort key of gateways by age; of the same second, first the one that counted so far."""
    late = not conditions.holds(one.status.conditions, ACCEPTED)
    return (one.metadata.creation_timestamp or "", late, one.KIND.name, one.metadata.name)


def first_port(endpoint: GatewayEndpoint) -> int | None:
    """The port of an endpoint, or the first of its ports."""
    return endpoint.port if endpoint.port is not None else next(iter(endpoint.ports), None)


def requested_port(one: GatewayServer, usual: int = PORT) -> tuple[int, bool]:
    """The port that a server requests, and whether it must be that one.

    Args:
        one: the server.
        usual: the one where it requests none.

    There is no Service between: the gateway listens on the machine itself. A node port is a value
    that others rely on; the port of the Service is where to begin.
    """
    endpoint = one.spec.endpoint
    if endpoint is None:
        return usual, False
    exact = endpoint.node_port or next(iter(endpoint.node_ports), 0)
    if exact:
        return exact, True
    return endpoint.port or next(iter(endpoint.ports), usual), False


def offered(port: int) -> str:
    """The message of a server's condition :data:`WEBSOCKET_TOLD` for that port."""
    return f"TCP {port}"


def reported_websocket(one: GatewayServer) -> int:
    """The TCP port at which a server takes the tunnel in a websocket, by its status; 0 for none.

    A server of 0.1.0 until November 2026 reports it by the condition's message alone.
    """
    if one.status.websocket_port:
        return one.status.websocket_port
    found = conditions.of_type(one.status.conditions, WEBSOCKET_TOLD)
    said = (
        found.message.removeprefix("TCP ") if found is not None and found.status == "True" else ""
    )
    return int(said) if said.isascii() and said.isdecimal() else 0


def reported_port(one: GatewayServer) -> int:
    """The port at which a server listens, by its status; 0 where that has none."""
    told = one.status.endpoint
    return (first_port(told) or 0) if told is not None else 0


def endpoints_of(one: GatewayClient) -> tuple[str, ...]:
    """``address:port`` of each address of the peer's gateway."""
    endpoint = one.spec.endpoint or GatewayEndpoint()
    port = first_port(endpoint) or PORT
    return tuple(join(address, port) for address in endpoint.addresses)
