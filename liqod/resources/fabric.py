"""``networking.liqo.io``: what Liqo uses inside one cluster, its node overlay and its rules.

Nothing reconciles them yet; the CRDs are lean and hold what Liqo's own objects hold.
"""

from typing import Annotated, Any, ClassVar

from msgspec import field

from liqod.kube.kinds import Kind
from liqod.resources.base import (
    AGE,
    Address,
    Base,
    Column,
    Definition,
    Int32,
    ObjectRef,
    Prefix,
    Resource,
    Time,
    one_of,
    schema,
)
from liqod.resources.networking import GROUP, VERSION

INTERNAL_NODES = Kind(GROUP, VERSION, "InternalNode", "internalnodes", namespaced=False)
INTERNAL_FABRICS = Kind(GROUP, VERSION, "InternalFabric", "internalfabrics")
GENEVE_TUNNELS = Kind(GROUP, VERSION, "GeneveTunnel", "genevetunnels")
ROUTE_CONFIGURATIONS = Kind(GROUP, VERSION, "RouteConfiguration", "routeconfigurations")
FIREWALL_CONFIGURATIONS = Kind(GROUP, VERSION, "FirewallConfiguration", "firewallconfigurations")


class Named(Base, frozen=True, omit_defaults=True, rename="camel"):
    """An interface by name."""

    name: str


class Addressed(Base, frozen=True, omit_defaults=True, rename="camel"):
    """An interface by address."""

    ip: Address


class NodeInterfaces(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The two ends of the overlay, seen from a node."""

    gateway: Named
    node: Addressed


class InternalNodeSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The interfaces of a node."""

    interface: NodeInterfaces


class NodeAddresses(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The node's addresses, as gateways here and elsewhere see them."""

    local: Address = ""
    remote: Address = ""


class InternalNodeStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The addresses of a node."""

    node_ip: NodeAddresses | None = field(name="nodeIP", default=None)


class InternalNode(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A node of this cluster in Liqo's overlay."""

    KIND: ClassVar[Kind] = INTERNAL_NODES
    spec: InternalNodeSpec | None = None
    status: InternalNodeStatus = InternalNodeStatus()


class FabricInterfaces(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The two ends of the overlay, seen from a gateway."""

    gateway: Addressed
    node: Named


class InternalFabricSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A gateway in the overlay."""

    gateway_ip: Address = field(name="gatewayIP")
    interface: FabricInterfaces
    mtu: int = 0
    remote_cidrs: tuple[Prefix, ...] = field(name="remoteCIDRs", default=())


class InternalFabric(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A gateway in Liqo's overlay, and the ranges behind it."""

    KIND: ClassVar[Kind] = INTERNAL_FABRICS
    spec: InternalFabricSpec | None = None


class GeneveTunnelSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One tunnel of the overlay."""

    id: Int32
    internal_fabric_ref: ObjectRef
    internal_node_ref: ObjectRef


class GeneveTunnel(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A tunnel between a node and a gateway."""

    KIND: ClassVar[Kind] = GENEVE_TUNNELS
    spec: GeneveTunnelSpec | None = None


class HostCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Whether one host has applied a configuration."""

    host: str
    type: str
    status: str
    last_transition_time: Time = ""


class AppliedStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Which hosts have applied it."""

    conditions: tuple[HostCondition, ...] = ()


class Route(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One route."""

    dst: Prefix
    gw: Address = ""
    dev: str = ""
    src: Address = ""
    onlink: bool | None = None
    scope: Annotated[str, one_of("global", "link", "host", "site", "nowhere")] = ""
    target_ref: ObjectRef | None = None


class RouteRule(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One policy rule and its routes."""

    routes: tuple[Route, ...]
    src: Prefix = ""
    dst: Prefix = ""
    iif: str = ""
    oif: str = ""
    fwmark: int | None = None
    priority: int | None = None
    target_ref: ObjectRef | None = None


class RouteTable(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A routing table."""

    name: str
    rules: Annotated[tuple[RouteRule, ...], schema(minItems=1)]
    target_ref: ObjectRef | None = None


class RouteConfigurationSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A routing table for the hosts that the labels choose."""

    table: RouteTable | None = None


class RouteConfiguration(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Policy routing for nodes or gateways."""

    KIND: ClassVar[Kind] = ROUTE_CONFIGURATIONS
    spec: RouteConfigurationSpec = RouteConfigurationSpec()
    status: AppliedStatus = AppliedStatus()


class FilterRule(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One filter rule; ``match`` entries are kept as they are."""

    action: Annotated[
        str,
        one_of(
            "ctmark", "metamarkfromctmark", "tcpmssclamp", "accept", "drop", "reject", "notrack"
        ),
    ]
    counter: Annotated[bool, schema(default=True)]
    match: list[dict[str, Any]]
    name: str | None = None
    value: str | None = None


class NatRule(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One NAT rule; ``match`` entries are kept as they are."""

    match: list[dict[str, Any]]
    nat_type: Annotated[str, one_of("dnat", "snat", "masquerade")]
    name: str | None = None
    to: str | None = None
    target_ref: ObjectRef | None = None


class RouteNftRule(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One rule of a route chain."""

    name: str | None = None


class ChainRules(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The rules of a chain, of the sort that its type asks for."""

    nat_rules: tuple[NatRule, ...] = ()
    filter_rules: tuple[FilterRule, ...] = ()
    route_rules: tuple[RouteNftRule, ...] = ()


class Chain(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One nftables base chain."""

    name: str
    type: Annotated[str, one_of("filter", "route", "nat")]
    hook: Annotated[
        str, one_of("prerouting", "input", "forward", "output", "postrouting", "ingress")
    ]
    policy: Annotated[str, one_of("drop", "accept")]
    priority: Annotated[int, schema(format="int32", default=0)]
    rules: ChainRules


class FirewallTable(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One nftables table."""

    name: str
    family: Annotated[str, one_of("INET", "IPV4", "IPV6", "ARP", "NETDEV", "BRIDGE")]
    chains: tuple[Chain, ...] = ()


class FirewallConfigurationSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A table for the hosts that the labels choose."""

    table: FirewallTable


class FirewallConfiguration(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """nftables rules for nodes or gateways."""

    KIND: ClassVar[Kind] = FIREWALL_CONFIGURATIONS
    spec: FirewallConfigurationSpec | None = None
    status: AppliedStatus = AppliedStatus()


DEFINITIONS = (
    Definition(
        InternalNode,
        ("in", "inode"),
        (
            Column("Node IP Local", ".status.nodeIP.local"),
            Column("Node IP Remote", ".status.nodeIP.remote"),
            AGE,
        ),
    ),
    Definition(
        InternalFabric,
        ("if", "ifabric"),
        (Column("Gateway IP", ".spec.gatewayIP"), AGE),
        status=False,
    ),
    Definition(GeneveTunnel, ("gvtn",), (AGE,), status=False),
    Definition(RouteConfiguration, ("rcnf", "rcnfg", "rcfg", "routecfg"), (AGE,)),
    Definition(FirewallConfiguration, ("fw", "fwconfig", "fwcfg"), (AGE,)),
)
