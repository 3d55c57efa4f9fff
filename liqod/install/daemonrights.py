"""What the daemon may do, rule by rule, and why; no wildcard, and no right to give itself more."""

from typing import Any, Final, NamedTuple

from liqod.model import labels

Manifest = dict[str, Any]

AUTHENTICATION: Final = "authentication.liqo.io"
CORE: Final = "core.liqo.io"
OFFLOADING: Final = "offloading.liqo.io"
NETWORKING: Final = "networking.liqo.io"
IPAM: Final = "ipam.liqo.io"

READ: Final = ("get", "list", "watch")
_OWN: Final = (*READ, "create", "patch", "update", "delete")


class Rule(NamedTuple):
    """One RBAC rule and why the daemon has it."""

    reason: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """The rule as RBAC writes it."""
        return rule(self.groups, self.resources, self.verbs, self.names)


def rule(
    groups: tuple[str, ...],
    resources: tuple[str, ...],
    verbs: tuple[str, ...],
    names: tuple[str, ...] = (),
) -> Manifest:
    """A ``PolicyRule``."""
    made: Manifest = {
        "apiGroups": list(groups),
        "resources": list(resources),
        "verbs": list(verbs),
    }
    if names:
        made["resourceNames"] = list(names)
    return made


_LIQO = (
    Rule(
        "read and write Liqo's custom resources: all lasting state is in them",
        (AUTHENTICATION,),
        ("identities", "renews", "resourceslices", "tenants"),
        _OWN,
    ),
    Rule(
        "state of slices, tenants, identities and renewals is written to their status",
        (AUTHENTICATION,),
        ("identities/status", "renews/status", "resourceslices/status", "tenants/status"),
        ("get", "patch", "update"),
    ),
    Rule(
        "ForeignClusters are written by the daemon only",
        (CORE,),
        ("foreignclusters", "foreignclusters/status"),
        _OWN,
    ),
    Rule(
        "quotas, namespace maps, virtual nodes, and namespaces' offloading",
        (OFFLOADING,),
        ("namespacemaps", "namespaceoffloadings", "quotas", "virtualnodes", "vkoptionstemplates"),
        _OWN,
    ),
    Rule(
        "state of those, and the phase of ShadowPods",
        (OFFLOADING,),
        (
            "namespacemaps/status",
            "namespaceoffloadings/status",
            "shadowpods/status",
            "virtualnodes/status",
        ),
        ("get", "patch", "update"),
    ),
    Rule(
        "ShadowPods and ShadowEndpointSlices are the consumers': read, and clear when one leaves",
        (OFFLOADING,),
        ("shadowendpointslices", "shadowpods"),
        (*READ, "delete"),
    ),
    Rule(
        "objects of the network part are read for status and cleared when a peer leaves",
        (NETWORKING, IPAM),
        (
            "configurations",
            "connections",
            "gatewayclients",
            "gatewayservers",
            "ips",
            "networks",
            "publickeies",
        ),
        (*READ, "delete"),
    ),
    Rule(
        "owner references that block deletion are checked against this (OpenShift)",
        (AUTHENTICATION, CORE, OFFLOADING),
        (
            "foreignclusters/finalizers",
            "identities/finalizers",
            "namespaceoffloadings/finalizers",
            "resourceslices/finalizers",
            "shadowendpointslices/finalizers",
            "shadowpods/finalizers",
            "tenants/finalizers",
            "virtualnodes/finalizers",
        ),
        ("update",),
    ),
    Rule(
        "the revision of the installed CRDs is checked at start",
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get", "list"),
    ),
)

_NODES = (
    Rule(
        "virtual nodes are made, kept and removed; real nodes are read for their addresses",
        ("",),
        ("nodes",),
        _OWN,
    ),
    Rule("their conditions and capacity", ("",), ("nodes/status",), ("get", "patch", "update")),
    Rule(
        "pods of virtual nodes and of ShadowPods: made, labelled, told their toleration, removed",
        ("",),
        ("pods",),
        _OWN,
    ),
    Rule("the state of offloaded pods", ("",), ("pods/status",), ("get", "patch", "update")),
    Rule(
        "a leaving virtual node is drained with respect to disruption budgets",
        ("",),
        ("pods/eviction",),
        ("create",),
    ),
    Rule(
        "a drain names the disruption budget in its way",
        ("policy",),
        ("poddisruptionbudgets",),
        READ,
    ),
    Rule(
        "offloaded namespaces are labelled; tenant and mapped namespaces are made and removed",
        ("",),
        ("namespaces",),
        _OWN,
    ),
    Rule(
        "mapped namespaces carry a ResourceQuota on object counts",
        ("",),
        ("resourcequotas",),
        _OWN,
    ),
    Rule(
        "reflected to peers from offloaded namespaces",
        ("",),
        ("configmaps", "services"),
        READ,
    ),
    Rule(
        "Secrets of offloaded namespaces are reflected; those of tenant namespaces hold nonces, "
        "certificates and kubeconfigs of peers, that of the daemon's namespace the cluster's key",
        ("",),
        ("secrets",),
        _OWN,
    ),
    Rule(
        "EndpointSlices are reflected, and made from ShadowEndpointSlices",
        ("discovery.k8s.io",),
        ("endpointslices",),
        _OWN,
    ),
    Rule("what happened is told by Events", ("",), ("events",), ("create", "patch")),
    Rule(
        "a peer's pod may not claim an address of this cluster's services",
        ("networking.k8s.io",),
        ("servicecidrs",),
        ("get", "list"),
    ),
    Rule(
        "storage classes are offered to consumers",
        ("storage.k8s.io",),
        ("storageclasses",),
        READ,
    ),
)

_TRUST = (
    Rule(
        "certificates of consumers are asked for",
        ("certificates.k8s.io",),
        ("certificatesigningrequests",),
        ("get", "list", "watch", "create", "delete"),
    ),
    Rule(
        "and approved, after the daemon has checked whose they are",
        ("certificates.k8s.io",),
        ("certificatesigningrequests/approval",),
        ("patch", "update"),
    ),
    Rule(
        "by this signer only",
        ("certificates.k8s.io",),
        ("signers",),
        ("approve",),
        ("kubernetes.io/kube-apiserver-client",),
    ),
    Rule(
        "consumers are bound in their tenant namespace and in mapped namespaces; existing "
        "bindings are read, since a cluster id may not be a user or group of theirs",
        ("rbac.authorization.k8s.io",),
        ("clusterrolebindings", "rolebindings"),
        _OWN,
    ),
    Rule(
        "to these roles and to no other",
        ("rbac.authorization.k8s.io",),
        ("clusterroles",),
        ("bind",),
        (labels.CONTROL_PLANE_ROLE, labels.REMOTE_ROLE, labels.CLUSTER_WIDE_ROLE),
    ),
    Rule(
        "the webhook for pods of offloaded namespaces is announced, and withdrawn",
        ("admissionregistration.k8s.io",),
        ("mutatingwebhookconfigurations",),
        _OWN,
    ),
)

LEASES: Final = (
    Rule(
        "replicas elect the one that works",
        ("coordination.k8s.io",),
        ("leases",),
        _OWN,
    ),
)
"""Of the daemon's Roles in its own namespace and in that of node leases."""

DAEMON_ROLES: Final = {
    "liqod-resources": _LIQO,
    "liqod-workloads": _NODES,
    "liqod-trust": _TRUST,
}
"""The daemon's ClusterRoles by name."""
