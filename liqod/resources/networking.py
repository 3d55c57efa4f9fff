"""``networking.liqo.io``: what two clusters tell each other about their networks, and gateways.

``liqod peer``, ``liqoctl`` or a manifest makes Configuration, Gateway* and PublicKey in both
clusters; :mod:`liqod.network` takes them in. The conditions of gateways are liqod's. The kinds
that a cluster of Liqo's uses inside itself are in :mod:`liqod.resources.fabric`.
"""

from typing import Annotated, ClassVar, Final

from msgspec import field

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    Address,
    Base,
    Column,
    Definition,
    Int32,
    Int64,
    LocalRef,
    ObjectRef,
    Opaque,
    Prefix,
    Resource,
    Time,
    one_of,
    schema,
)

GROUP = "networking.liqo.io"
VERSION = "v1beta1"

CONFIGURATIONS = Kind(GROUP, VERSION, "Configuration", "configurations")
CONNECTIONS = Kind(GROUP, VERSION, "Connection", "connections")
GATEWAY_SERVERS = Kind(GROUP, VERSION, "GatewayServer", "gatewayservers")
GATEWAY_CLIENTS = Kind(GROUP, VERSION, "GatewayClient", "gatewayclients")
WG_GATEWAY_SERVERS = Kind(GROUP, VERSION, "WgGatewayServer", "wggatewayservers")
WG_GATEWAY_CLIENTS = Kind(GROUP, VERSION, "WgGatewayClient", "wggatewayclients")
WG_GATEWAY_SERVER_TEMPLATES = Kind(
    GROUP, VERSION, "WgGatewayServerTemplate", "wggatewayservertemplates"
)
WG_GATEWAY_CLIENT_TEMPLATES = Kind(
    GROUP, VERSION, "WgGatewayClientTemplate", "wggatewayclienttemplates"
)
PUBLIC_KEYS = Kind(GROUP, VERSION, "PublicKey", "publickeies")


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


def _exclusive(one: str, many: str) -> dict[str, str]:
    rule = f"!(has(self.{one}) && has(self.{many}))"
    return _rule(rule, f"{one} and {many} are mutually exclusive")


def _unique(many: str) -> dict[str, str]:
    rule = f"!(has(self.{many})) || self.{many}.all(p, self.{many}.filter(q, q == p).size() == 1)"
    return _rule(rule, f"{many} must not contain duplicates")


_SOME_PORT: Final = _rule(
    "has(self.port) || (has(self.ports) && size(self.ports) > 0)",
    "at least one of port or ports must be set",
)
_ENDPOINT_RULES: Final = {
    "x-kubernetes-validations": [_exclusive("port", "ports"), _SOME_PORT, _unique("ports")]
}
_SERVER_RULES: Final = {
    "x-kubernetes-validations": [
        _exclusive("port", "ports"),
        _exclusive("nodePort", "nodePorts"),
        _SOME_PORT,
        _unique("ports"),
        _unique("nodePorts"),
    ]
}
Ports = Annotated[tuple[Int32, ...], schema(maxItems=64)]


RANGES_REFUSED = "RangesRefused"
"""Reason of a Configuration's condition where its ranges cannot be; others pass by themselves."""


class Ranges(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Address ranges of a cluster.

    Attributes:
        pod: ranges of its pods.
        external: ranges under which it shows other addresses.
    """

    pod: tuple[Prefix, ...] = ()
    external: tuple[Prefix, ...] = ()


class ClusterRanges(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Address ranges of one side."""

    cidr: Ranges = Ranges()


class StandardCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """``meta/v1 Condition``."""

    type: Annotated[str, schema(maxLength=316)]
    status: Annotated[str, one_of("True", "False", "Unknown")]
    reason: Annotated[str, schema(minLength=1, maxLength=1024)]
    message: Annotated[str, schema(maxLength=32768)]
    last_transition_time: Time
    observed_generation: Int64 | None = None


class ConfigurationSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The ranges of both sides, as each side uses them.

    Attributes:
        local: this cluster's.
        remote: the peer's.
    """

    local: ClusterRanges | None = None
    remote: ClusterRanges = ClusterRanges()


class ConfigurationStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The peer's ranges as this cluster sees them."""

    remote: ClusterRanges | None = None
    conditions: tuple[StandardCondition, ...] = ()


class Configuration(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The network of a peer; its name is the peer's id."""

    KIND: ClassVar[Kind] = CONFIGURATIONS
    spec: ConfigurationSpec = ConfigurationSpec()
    status: ConfigurationStatus = ConfigurationStatus()


class ConnectionSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The gateway that it is about."""

    type: Annotated[str, one_of("Server", "Client")]
    gateway_ref: ObjectRef


class Latency(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A measured round trip."""

    value: str = ""
    timestamp: Time = ""


class ConnectionStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How the tunnel fares: Connected, Connecting or Error."""

    value: str = ""
    latency: Latency | None = None


class Connection(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The state of a tunnel."""

    KIND: ClassVar[Kind] = CONNECTIONS
    spec: ConnectionSpec | None = None
    status: ConnectionStatus = ConnectionStatus()


class GatewayEndpoint(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where a gateway is reached; one of ``port`` and ``ports``."""

    addresses: tuple[str, ...] = ()
    port: Int32 | None = None
    ports: Ports = ()
    protocol: Annotated[str, one_of("TCP", "UDP")] = ""


class InternalEndpoint(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where a gateway runs."""

    ip: Address = ""
    node: str = ""


class ServerEndpoint(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How a gateway server is exposed; one of ``port`` and ``ports``."""

    port: Int32 | None = None
    ports: Ports = ()
    node_port: Int32 | None = None
    node_ports: Ports = ()
    service_type: Annotated[
        str,
        one_of("ClusterIP", "NodePort", "LoadBalancer", "ExternalName", default="ClusterIP"),
    ] = "ClusterIP"
    load_balancer_ip: str = field(name="loadBalancerIP", default="")


class GatewayServerSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The gateway that is dialled."""

    endpoint: Annotated[ServerEndpoint | None, schema(**_SERVER_RULES)] = None
    mtu: int = 0
    secret_ref: LocalRef | None = None
    server_template_ref: ObjectRef | None = None
    service_annotations: dict[str, str] = {}
    service_labels: dict[str, str] = {}


class GatewayServerStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where it is reached, and what became of it.

    Attributes:
        websocket_port: TCP port at which it takes the tunnel in a websocket, too.
        backends: kinds of tunnels that this cluster makes, where the one asked for is none of them.
    """

    endpoint: Annotated[GatewayEndpoint | None, schema(**_ENDPOINT_RULES)] = None
    internal_endpoint: InternalEndpoint | None = None
    secret_ref: ObjectRef | None = None
    server_ref: ObjectRef | None = None
    websocket_port: int = 0
    backends: tuple[str, ...] | None = None
    conditions: tuple[StandardCondition, ...] = ()


class GatewayServer(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The side of a tunnel that is dialled."""

    KIND: ClassVar[Kind] = GATEWAY_SERVERS
    spec: GatewayServerSpec = GatewayServerSpec()
    status: GatewayServerStatus = GatewayServerStatus()


class GatewayClientSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The gateway that dials."""

    endpoint: Annotated[GatewayEndpoint | None, schema(**_ENDPOINT_RULES)] = None
    mtu: int = 0
    secret_ref: LocalRef | None = None
    client_template_ref: ObjectRef | None = None


class GatewayClientStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where it runs, and what became of it.

    Attributes:
        backends: kinds of tunnels that this cluster makes, where the one asked for is none of them.
    """

    client_ref: ObjectRef | None = None
    secret_ref: ObjectRef | None = None
    internal_endpoint: InternalEndpoint | None = None
    backends: tuple[str, ...] | None = None
    conditions: tuple[StandardCondition, ...] = ()


class GatewayClient(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The side of a tunnel that dials."""

    KIND: ClassVar[Kind] = GATEWAY_CLIENTS
    spec: GatewayClientSpec = GatewayClientSpec()
    status: GatewayClientStatus = GatewayClientStatus()


class WgGatewaySpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Templates of a WireGuard gateway's Deployment, Service and monitors, relayed unseen."""

    deployment: Annotated[Opaque, schema(required=True)] = {}
    service: Opaque | None = None
    metrics: Opaque | None = None
    secret_ref: LocalRef | None = None


class WgGatewayStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Where it runs and is reached."""

    secret_ref: ObjectRef | None = None
    internal_endpoint: InternalEndpoint | None = None
    endpoint: Annotated[GatewayEndpoint | None, schema(**_ENDPOINT_RULES)] = None


class WgGatewayServer(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A WireGuard gateway server of Liqo's."""

    KIND: ClassVar[Kind] = WG_GATEWAY_SERVERS
    spec: WgGatewaySpec = WgGatewaySpec()
    status: WgGatewayStatus = WgGatewayStatus()


class WgGatewayClient(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A WireGuard gateway client of Liqo's."""

    KIND: ClassVar[Kind] = WG_GATEWAY_CLIENTS
    spec: WgGatewaySpec = WgGatewaySpec()
    status: WgGatewayStatus = WgGatewayStatus()


class ObjectKind(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A kind by name."""

    api_version: str = ""
    kind: str = ""


class GatewayTemplateSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """An object whose texts are Go templates over the gateway."""

    object_kind: ObjectKind | None = None
    template: Opaque = {}


class WgGatewayServerTemplate(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A template of WireGuard gateway servers."""

    KIND: ClassVar[Kind] = WG_GATEWAY_SERVER_TEMPLATES
    spec: GatewayTemplateSpec = GatewayTemplateSpec()


class WgGatewayClientTemplate(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A template of WireGuard gateway clients."""

    KIND: ClassVar[Kind] = WG_GATEWAY_CLIENT_TEMPLATES
    spec: GatewayTemplateSpec = GatewayTemplateSpec()


class PublicKeySpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A WireGuard public key, 32 raw bytes."""

    public_key: bytes = b""


class PublicKey(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The tunnel key of a peer."""

    KIND: ClassVar[Kind] = PUBLIC_KEYS
    spec: PublicKeySpec = PublicKeySpec()


def _gateway_columns(side: str, endpoint: str) -> tuple[Column, ...]:
    ref = f".spec.{side}TemplateRef"
    return (
        Column("Template Kind", f"{ref}.kind", priority=1),
        Column("Template Name", f"{ref}.name"),
        Column("Template Namespace", f"{ref}.namespace", priority=1),
        Column("IP", f"{endpoint}.addresses[*]"),
        Column("Port", f"{endpoint}.port"),
        Column("Protocol", f"{endpoint}.protocol", priority=1),
        Column("MTU", ".spec.mtu", "integer", priority=1),
        AGE,
    )


_TEMPLATE: Final = {labels.GATEWAY_TEMPLATE: labels.TRUE}

DEFINITIONS = (
    Definition(
        Configuration,
        ("conf",),
        (
            Column("Desired Pod CIDR", ".spec.remote.cidr.pod"),
            Column("Remapped Pod CIDR", ".status.remote.cidr.pod"),
            AGE,
            Column("Desired External CIDR", ".spec.remote.cidr.external", priority=1),
            Column("Remapped External CIDR", ".status.remote.cidr.external", priority=1),
            Column("ClusterID", r".metadata.labels.liqo\.io/remote-cluster-id", priority=1),
        ),
    ),
    Definition(
        Connection,
        ("conn",),
        (
            Column("Type", ".spec.type"),
            Column("Status", ".status.value"),
            AGE,
            Column("Latency", ".status.latency.value", priority=1),
        ),
    ),
    Definition(GatewayServer, ("gws", "gwserver"), _gateway_columns("server", ".status.endpoint")),
    Definition(GatewayClient, ("gwc", "gwclient"), _gateway_columns("client", ".spec.endpoint")),
    Definition(WgGatewayServer, ("wgs", "wggs"), (AGE,)),
    Definition(WgGatewayClient, ("wgc", "wggc"), (AGE,)),
    Definition(WgGatewayServerTemplate, ("wggst", "wgst"), (AGE,), status=False, labels=_TEMPLATE),
    Definition(WgGatewayClientTemplate, ("wggct", "wgct"), (AGE,), status=False, labels=_TEMPLATE),
    Definition(PublicKey, ("pk", "pkies", "pkey"), (AGE,), status=False),
)
