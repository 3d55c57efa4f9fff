"""``networking.liqo.io``: what is used inside one cluster, its node overlay and its rules.

InternalNode and InternalFabric are Liqo's kinds with fields of our own beside Liqo's: the leader
writes them, each node reads them (:mod:`liqod.network.overlay`). No object has both: on the way to
liqod and back the objects of the other go (:mod:`liqod.install.migration`), and the definitions ask
for no field, so that whoever runs can write its own. Nothing reconciles the other kinds; their CRDs
are lean and hold what Liqo's own objects hold.
"""

from typing import Annotated, Any, ClassVar

from msgspec import field

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    Address,
    Base,
    Column,
    Definition,
    Int32,
    Int64,
    ObjectRef,
    Opaque,
    Prefix,
    Resource,
    Time,
    one_of,
    schema,
)
from liqod.resources.networking import GROUP, VERSION, StandardCondition

INTERNAL_NODES = Kind(GROUP, VERSION, "InternalNode", "internalnodes", namespaced=False)
INTERNAL_FABRICS = Kind(GROUP, VERSION, "InternalFabric", "internalfabrics")
GENEVE_TUNNELS = Kind(GROUP, VERSION, "GeneveTunnel", "genevetunnels")
ROUTE_CONFIGURATIONS = Kind(GROUP, VERSION, "RouteConfiguration", "routeconfigurations")
FIREWALL_CONFIGURATIONS = Kind(GROUP, VERSION, "FirewallConfiguration", "firewallconfigurations")


class InternalNodeSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A node's part in the overlay that leads to the gateway.

    Attributes:
        index: its number there, which it keeps; its address on the overlay is made of it.
        address: where the other nodes reach it.
        pod_cidrs: ranges of its pods; where none are known the gateway leaves the way to the CNI.
        interface: Liqo's alone: of the node's tunnels to gateways.
    """

    index: Annotated[int, schema(minimum=1, maximum=4094)] = 0
    address: Annotated[str, schema(minLength=2, maxLength=45)] = ""
    pod_cidrs: Annotated[tuple[Prefix, ...], schema(maxItems=32)] = field(
        name="podCIDRs", default=()
    )
    interface: Opaque | None = None


class DroppedPackets(Base, frozen=True, omit_defaults=True, rename="camel"):
    """Packets that a node has dropped since its rules were written, as last read.

    Attributes:
        forged: of the overlay's own, from who is not of it.
        spoofed: with a source that the sending node does not have.
        strangers: for the node itself.
    """

    forged: Int64 = 0
    spoofed: Int64 = 0
    strangers: Int64 = 0


class InternalNodeStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The state that the node itself reports: nobody else is believed about it.

    Attributes:
        observed_generation: of this object, as applied.
        fabric_generation: of the InternalFabric, as applied.
        latency: round trip to the gateway over the overlay, when that was last notable.
        dropped: packets that were dropped.
        conditions: Applied, GatewayReachable.
        node_ip: Liqo's alone: addresses of the node's own programs.
    """

    observed_generation: Int64 = 0
    fabric_generation: Int64 = 0
    latency: str = ""
    dropped: DroppedPackets = DroppedPackets()
    conditions: tuple[StandardCondition, ...] = ()
    node_ip: Opaque | None = field(name="nodeIP", default=None)


class InternalNode(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A node of this cluster in the overlay; it has the Node's name."""

    KIND: ClassVar[Kind] = INTERNAL_NODES
    spec: InternalNodeSpec | None = None
    status: InternalNodeStatus = InternalNodeStatus()


class FabricGateway(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The node that has the tunnels.

    Attributes:
        node: name of the Node.
        index: its number in the overlay.
        address: where the other nodes reach it.
        epoch: raised each time that another node or another daemon becomes the gateway.
        holder: the daemon that is the gateway, as it calls itself in the Lease.
    """

    node: Annotated[str, schema(required=True)] = ""
    index: Annotated[int, schema(required=True, minimum=1, maximum=4094)] = 0
    address: Annotated[str, schema(required=True, minLength=2, maxLength=45)] = ""
    epoch: Int64 = 0
    holder: str = ""


class FabricAlias(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A range under which a peer's addresses are seen, and the MTU of the way there."""

    cidr: Prefix
    mtu: Annotated[int, schema(minimum=1280, maximum=65535)]


class InternalFabricSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The settings that all nodes have in common.

    Attributes:
        cluster: this cluster's id.
        gateway: the node that has the tunnels; its own daemon sets itself up.
        aliases: what is behind it.
        pod_cidrs: ranges of all pods of this cluster.
        vni: number of the overlay (VXLAN).
        port: UDP port of the overlay.
        mtu: of the overlay's device, in bytes.
        gateway_ip: Liqo's alone: address of a gateway's pod.
        interface: Liqo's alone: of the nodes' tunnels to that gateway.
        remote_cidrs: Liqo's alone: what is behind it.
    """

    cluster: str = ""
    gateway: FabricGateway = FabricGateway()
    aliases: Annotated[tuple[FabricAlias, ...], schema(maxItems=8192)] = ()
    pod_cidrs: Annotated[tuple[Prefix, ...], schema(maxItems=256)] = field(
        name="podCIDRs", default=()
    )
    vni: Annotated[int, schema(minimum=1, maximum=16777215)] = 18
    port: Annotated[int, schema(minimum=1, maximum=65535)] = 4790
    mtu: Annotated[int, schema(minimum=1280, maximum=65535)] = 1430
    gateway_ip: Address = field(name="gatewayIP", default="")
    interface: Opaque | None = None
    remote_cidrs: Annotated[tuple[Prefix, ...], schema(maxItems=256)] = field(
        name="remoteCIDRs", default=()
    )


class InternalFabric(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The overlay of this cluster's nodes: who is the gateway, and what is behind it."""

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
    """The condition that one host has applied a configuration."""

    host: str
    type: str
    status: str
    last_transition_time: Time = ""


class AppliedStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The hosts that have applied it."""

    conditions: tuple[HostCondition, ...] = ()


class FabricRoute(Base, frozen=True, omit_defaults=True, rename="camel"):
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

    routes: tuple[FabricRoute, ...]
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


FABRIC = "gateway"
"""Name of the one InternalFabric, in liqod's namespace."""
APPLIED = "Applied"
REACHABLE = "GatewayReachable"
"""Conditions of an InternalNode."""


def _state(condition: str) -> str:
    return f'.status.conditions[?(@.type=="{condition}")].status'


DEFINITIONS = (
    Definition(
        InternalNode,
        ("in", "inode"),
        (
            Column("Index", ".spec.index", "integer"),
            Column("Address", ".spec.address"),
            Column("Applied", _state(APPLIED)),
            Column("Gateway reachable", _state(REACHABLE)),
            AGE,
            Column("Pod CIDRs", ".spec.podCIDRs", priority=1),
            Column("Latency", ".status.latency", priority=1),
        ),
    ),
    Definition(
        InternalFabric,
        ("if", "ifabric"),
        (
            Column("Gateway", ".spec.gateway.node"),
            Column("Gateway IP", ".spec.gateway.address"),
            Column("Epoch", ".spec.gateway.epoch", "integer"),
            AGE,
            Column("Holder", ".spec.gateway.holder", priority=1),
            Column("MTU", ".spec.mtu", "integer", priority=1),
        ),
        status=False,
    ),
    Definition(GeneveTunnel, ("gvtn",), (AGE,), status=False),
    Definition(RouteConfiguration, ("rcnf", "rcnfg", "rcfg", "routecfg"), (AGE,)),
    Definition(FirewallConfiguration, ("fw", "fwconfig", "fwcfg"), (AGE,)),
)
