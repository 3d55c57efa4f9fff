"""Liqo's custom resources, and the handshake's, as typed structs.

There is one :class:`~liqod.apimachinery.kinds.Kind` for each. The structs decode what the API
server gives and describe the CRDs that ``python -m liqod.resources`` writes to ``crds/``.
:mod:`~liqod.resources.crdmanifests` reads those back, for installing and upgrading.
"""

from liqod.resources import (
    authentication,
    core,
    fabric,
    ipam,
    networking,
    nodes,
    offloading,
    overrides,
    peering,
)
from liqod.resources.authentication import (
    IDENTITIES,
    RENEWS,
    RESOURCE_SLICES,
    TENANTS,
    AuthParams,
    Identity,
    Renew,
    ResourceSlice,
    SliceCondition,
    Tenant,
)
from liqod.resources.base import CRD_REVISION, Definition, Quantities, Resource
from liqod.resources.core import (
    FOREIGN_CLUSTERS,
    ForeignCluster,
    ForeignClusterStatus,
    Module,
    Modules,
    PeerCondition,
    TenantNamespaces,
)
from liqod.resources.fabric import (
    FIREWALL_CONFIGURATIONS,
    GENEVE_TUNNELS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    ROUTE_CONFIGURATIONS,
    InternalFabric,
    InternalNode,
)
from liqod.resources.ipam import IP, IPS, NETWORKS, Network
from liqod.resources.networking import (
    CONFIGURATIONS,
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
    WG_GATEWAY_CLIENT_TEMPLATES,
    WG_GATEWAY_CLIENTS,
    WG_GATEWAY_SERVER_TEMPLATES,
    WG_GATEWAY_SERVERS,
    Configuration,
)
from liqod.resources.nodes import (
    VIRTUAL_NODES,
    VK_OPTIONS_TEMPLATES,
    OffloadingPatch,
    VirtualNode,
    VkOptionsTemplate,
)
from liqod.resources.offloading import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    QUOTAS,
    SHADOW_ENDPOINT_SLICES,
    SHADOW_PODS,
    NamespaceMap,
    NamespaceOffloading,
    Quota,
    ShadowEndpointSlice,
    ShadowPod,
)
from liqod.resources.overrides import OVERRIDE_POLICIES, OverridePolicy
from liqod.resources.peering import (
    INCOMING_PEERINGS,
    INVITATIONS,
    OUTGOING_PEERINGS,
    IncomingPeering,
    Invitation,
    OutgoingPeering,
)

DEFINITIONS: tuple[Definition, ...] = (
    *authentication.DEFINITIONS,
    *core.DEFINITIONS,
    *offloading.DEFINITIONS,
    *nodes.DEFINITIONS,
    *ipam.DEFINITIONS,
    *networking.DEFINITIONS,
    *fabric.DEFINITIONS,
    *peering.DEFINITIONS,
    *overrides.DEFINITIONS,
)
"""Every custom resource, in the order of installation."""

REPLICATED = (NAMESPACE_MAPS, RESOURCE_SLICES, RENEWS)
"""The kinds that cross clusters: spec from consumer to provider, status back."""

__all__ = [
    "CONFIGURATIONS",
    "CONNECTIONS",
    "CRD_REVISION",
    "DEFINITIONS",
    "FIREWALL_CONFIGURATIONS",
    "FOREIGN_CLUSTERS",
    "GATEWAY_CLIENTS",
    "GATEWAY_SERVERS",
    "GENEVE_TUNNELS",
    "IDENTITIES",
    "INCOMING_PEERINGS",
    "INTERNAL_FABRICS",
    "INTERNAL_NODES",
    "INVITATIONS",
    "IP",
    "IPS",
    "NAMESPACE_MAPS",
    "NAMESPACE_OFFLOADINGS",
    "NETWORKS",
    "OUTGOING_PEERINGS",
    "OVERRIDE_POLICIES",
    "PUBLIC_KEYS",
    "QUOTAS",
    "RENEWS",
    "REPLICATED",
    "RESOURCE_SLICES",
    "ROUTE_CONFIGURATIONS",
    "SHADOW_ENDPOINT_SLICES",
    "SHADOW_PODS",
    "TENANTS",
    "VIRTUAL_NODES",
    "VK_OPTIONS_TEMPLATES",
    "WG_GATEWAY_CLIENTS",
    "WG_GATEWAY_CLIENT_TEMPLATES",
    "WG_GATEWAY_SERVERS",
    "WG_GATEWAY_SERVER_TEMPLATES",
    "AuthParams",
    "Configuration",
    "ForeignCluster",
    "ForeignClusterStatus",
    "Identity",
    "IncomingPeering",
    "InternalFabric",
    "InternalNode",
    "Invitation",
    "Module",
    "Modules",
    "NamespaceMap",
    "NamespaceOffloading",
    "Network",
    "OffloadingPatch",
    "OutgoingPeering",
    "OverridePolicy",
    "PeerCondition",
    "Quantities",
    "Quota",
    "Renew",
    "Resource",
    "ResourceSlice",
    "ShadowEndpointSlice",
    "ShadowPod",
    "SliceCondition",
    "Tenant",
    "TenantNamespaces",
    "VirtualNode",
    "VkOptionsTemplate",
]
