"""``core.liqo.io``: ForeignCluster, the state of a peer in one object.

It is output: written by the daemon, read by users, ``liqoctl`` and scripts.
"""

from typing import Annotated, ClassVar

from msgspec import field

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    ID_PATTERN,
    Base,
    Column,
    Definition,
    Int64,
    Resource,
    Time,
    immutable,
    one_of,
    schema,
)

FOREIGN_CLUSTERS = Kind(
    "core.liqo.io", "v1beta1", "ForeignCluster", "foreignclusters", namespaced=False
)

UNKNOWN = "Unknown"
CONSUMER = "Consumer"
PROVIDER = "Provider"
CONSUMER_AND_PROVIDER = "ConsumerAndProvider"

STATUSES = ("None", "Pending", "Established", "Error", "Ready", "NotReady", "SomeNotReady")
TYPES = (
    "APIServerStatus",
    "NetworkConnectionStatus",
    "NetworkGatewayServerStatus",
    "NetworkGatewayClientStatus",
    "NetworkGatewayPresence",
    "NetworkConfigurationStatus",
    "AuthIdentityControlPlaneStatus",
    "AuthTenantStatus",
    "OffloadingVirtualNodeStatus",
    "OffloadingNodeStatus",
)


class PeerCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One observation of the peer."""

    type: Annotated[str, one_of(*TYPES)]
    status: Annotated[str, one_of(*STATUSES, default="None")]
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""


class Module(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One side of the peering: whether it is in use and how it fares.

    Attributes:
        enabled: whether anything of it exists for the peer.
        conditions: how it fares.
    """

    enabled: bool
    conditions: tuple[PeerCondition, ...] = ()


_OFF = Module(enabled=False)


class Modules(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The three sides of a peering."""

    networking: Annotated[Module, schema(required=True)] = _OFF
    authentication: Annotated[Module, schema(required=True)] = _OFF
    offloading: Annotated[Module, schema(required=True)] = _OFF


class TenantNamespaces(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The tenant namespaces of the peering.

    Attributes:
        local: the peer's namespace in this cluster.
        remote: this cluster's namespace at the peer.
    """

    local: str = ""
    remote: str = ""


class ForeignClusterSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The peer that it is about.

    Attributes:
        cluster_id: id of the peer.
    """

    cluster_id: Annotated[
        str,
        schema(required=True, pattern=ID_PATTERN, **immutable("the cluster id is immutable")),
    ] = field(name="clusterID", default="")


class ForeignClusterStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The observed state of the peer.

    Attributes:
        role: what the peer is to this cluster.
        api_server_url: the peer's API server.
        foreign_proxy_url: HTTP proxy on the way to it.
        tenant_namespace: the two tenant namespaces.
        observed_generation: generation of the spec that this status is about.
        conditions: generic observations.
        modules: the three sides.
    """

    role: Annotated[
        str,
        one_of(CONSUMER, PROVIDER, CONSUMER_AND_PROVIDER, UNKNOWN, required=True, default=UNKNOWN),
    ] = UNKNOWN
    api_server_url: str = ""
    foreign_proxy_url: str = ""
    tenant_namespace: TenantNamespaces | None = None
    observed_generation: Int64 = 0
    conditions: tuple[PeerCondition, ...] = ()
    modules: Modules | None = None


class ForeignCluster(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """A peer of this cluster, as the daemon sees it; its name is the peer's id."""

    KIND: ClassVar[Kind] = FOREIGN_CLUSTERS
    spec: ForeignClusterSpec = ForeignClusterSpec()
    status: ForeignClusterStatus = ForeignClusterStatus()


DEFINITIONS = (
    Definition(
        ForeignCluster,
        ("fc",),
        (
            Column("Role", ".status.role"),
            AGE,
            Column("ClusterID", ".spec.clusterID", priority=1),
        ),
    ),
)
