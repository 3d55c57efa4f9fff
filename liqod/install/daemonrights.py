"""The daemon's rights, rule by rule, and why; no wildcard, and no right to give itself more."""

from typing import Any, Final, NamedTuple

from liqod.apimachinery import labels
from liqod.model.objects.rbac import rule
from liqod.plugins import declared
from liqod.plugins.contracts import READ as READ

Manifest = dict[str, Any]

AUTHENTICATION: Final = "authentication.liqo.io"
CORE: Final = "core.liqo.io"
OFFLOADING: Final = "offloading.liqo.io"
NETWORKING: Final = "networking.liqo.io"
IPAM: Final = "ipam.liqo.io"
PEERING: Final = "peering.liqod.io"
OVERRIDES: Final = "offloading.liqod.io"

_FOLLOW: Final = ("list", "watch")
_OWN: Final = (*_FOLLOW, "create", "patch", "delete")
_PATCH: Final = ("patch",)


class DaemonRule(NamedTuple):
    """One RBAC rule and why the daemon has it."""

    reason: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def manifest(self) -> Manifest:
        """The rule as RBAC writes it."""
        return rule(self.groups, self.resources, self.verbs, self.names)


_LIQO = (
    DaemonRule(
        "what is lent and borrowed: written by both sides' daemons, and by this one for peers that "
        "its configuration names",
        (AUTHENTICATION,),
        ("identities", "resourceslices"),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "renewals are asked for; those that consumers copied here go when they leave",
        (AUTHENTICATION,),
        ("renews",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "consumers are verified; what is lent to one that went is cleared, and the finalizer of a "
        "Liqo before this is taken off",
        (AUTHENTICATION,),
        ("tenants",),
        (*READ, "patch"),
    ),
    DaemonRule(
        "state of slices, tenants, identities and renewals is written to their status",
        (AUTHENTICATION,),
        ("identities/status", "renews/status", "resourceslices/status", "tenants/status"),
        ("patch",),
    ),
    DaemonRule(
        "ForeignClusters are written by the daemon only",
        (CORE,),
        ("foreignclusters",),
        (*_OWN, "get"),
    ),
    DaemonRule("and their state", (CORE,), ("foreignclusters/status",), ("patch",)),
    DaemonRule(
        "namespace maps follow offloaded namespaces",
        (OFFLOADING,),
        ("namespacemaps",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "quotas and virtual nodes follow slices; one of these is asked for before its Node or its "
        "namespaces go",
        (OFFLOADING,),
        ("quotas", "virtualnodes"),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "which namespaces are offloaded is the users' word, held until it has been undone",
        (OFFLOADING,),
        ("namespaceoffloadings",),
        (*_FOLLOW, "patch"),
    ),
    DaemonRule(
        "what is different at peers of the objects that are reflected there is the users' word",
        (OVERRIDES,),
        ("overridepolicies",),
        _FOLLOW,
    ),
    DaemonRule(
        "whether such a policy can be applied", (OVERRIDES,), ("overridepolicies/status",), _PATCH
    ),
    DaemonRule(
        "state of those, and the phase of ShadowPods",
        (OFFLOADING,),
        (
            "namespacemaps/status",
            "namespaceoffloadings/status",
            "shadowpods/status",
            "virtualnodes/status",
        ),
        ("patch",),
    ),
    DaemonRule(
        "ShadowPods and ShadowEndpointSlices are the consumers', and go with their namespaces; one "
        "is asked for before what was made from it goes",
        (OFFLOADING,),
        ("shadowendpointslices", "shadowpods"),
        READ,
    ),
    DaemonRule(
        "a peer's ranges get their aliases, beside which this cluster's own are written; addresses "
        "of pods are translated by both where networks are joined",
        (NETWORKING,),
        ("configurations",),
        (*_FOLLOW, "patch"),
    ),
    DaemonRule(
        "which aliases those are, or why none", (NETWORKING,), ("configurations/status",), _PATCH
    ),
    DaemonRule(
        "this cluster's own ranges are recorded, and each of a peer's has its alias, in Networks",
        (IPAM,),
        ("networks",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "hosts that are lent to peers get their addresses by IPs, and so does the API server",
        (IPAM,),
        ("ips",),
        _OWN,
    ),
    DaemonRule(
        "the ranges and addresses that are given",
        (IPAM,),
        ("ips/status", "networks/status"),
        _PATCH,
    ),
    DaemonRule(
        "the Service that an IP asks for, without selector",
        ("",),
        ("services",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "a pod that its consumer wrote itself, and that somebody else ended here, gets a ShadowPod",
        (OFFLOADING,),
        ("shadowpods",),
        ("create",),
    ),
    DaemonRule(
        "who asks to peer with this cluster and whom it asks is kept in these, and who may unasked",
        (PEERING,),
        ("incomingpeerings", "invitations", "outgoingpeerings"),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "how far each has come, and who has used an invitation",
        (PEERING,),
        ("incomingpeerings/status", "invitations/status", "outgoingpeerings/status"),
        _PATCH,
    ),
    DaemonRule(
        "owner references that block deletion are checked against this (OpenShift)",
        (AUTHENTICATION,),
        ("identities/finalizers", "resourceslices/finalizers", "tenants/finalizers"),
        ("update",),
    ),
    DaemonRule(
        "and these, of Networks and of the Services of IPs",
        (NETWORKING, IPAM),
        ("configurations/finalizers", "ips/finalizers"),
        ("update",),
    ),
    DaemonRule(
        "the revision of the installed CRDs is checked at start, their age before they are "
        "bounded, and that they are there before anything goes for the absence of their objects",
        ("apiextensions.k8s.io",),
        ("customresourcedefinitions",),
        ("get", "list"),
    ),
)

_NODES = (
    DaemonRule(
        "virtual nodes are made, kept and removed; real nodes are read for their addresses, "
        "and for being cordoned",
        ("",),
        ("nodes",),
        (*_OWN, "get"),
    ),
    DaemonRule("their conditions and capacity", ("",), ("nodes/status",), ("patch",)),
    DaemonRule(
        "pods of virtual nodes and of ShadowPods: made, labelled, given their toleration, removed",
        ("",),
        ("pods",),
        (*_OWN, "get"),
    ),
    DaemonRule("the state of offloaded pods", ("",), ("pods/status",), ("patch",)),
    DaemonRule(
        "what a consumer changes of a pod that runs: its resources, and containers to debug it",
        ("",),
        ("pods/ephemeralcontainers", "pods/resize"),
        ("patch",),
    ),
    DaemonRule(
        "a leaving virtual node is drained with respect to disruption budgets, and pods return "
        "that a peer cannot start",
        ("",),
        ("pods/eviction",),
        ("create",),
    ),
    DaemonRule(
        "offloaded namespaces are labelled; tenant and mapped namespaces are made and removed",
        ("",),
        ("namespaces",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "what consumers make is bounded by ResourceQuotas; what is used of those in a consumer's "
        "namespaces is followed, so that these have shares of what the consumer may have",
        ("",),
        ("resourcequotas",),
        (*_FOLLOW, "get", "create", "patch"),
    ),
    DaemonRule(
        "reflected to peers from offloaded namespaces; one of `kube-system` says which authority's "
        "client certificates the API server shows to a virtual node, and one if the cluster "
        "autoscaler may add nodes",
        ("",),
        ("configmaps", "services"),
        READ,
    ),
    DaemonRule(
        "Secrets of offloaded namespaces are reflected; those of tenant namespaces hold nonces, "
        "certificates and kubeconfigs of peers, that of the daemon's namespace the cluster's key",
        ("",),
        ("secrets",),
        (*_OWN, "get"),
    ),
)
"""Rights on nodes, pods and namespaces, independent of the kinds that are reflected."""

_MADE = (
    DaemonRule(
        "EndpointSlices are reflected, and made from ShadowEndpointSlices",
        ("discovery.k8s.io",),
        ("endpointslices",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "tokens of pods at peers that may speak with this API server, bound to the pod; an "
        "admission policy holds it to that",
        ("",),
        ("serviceaccounts/token",),
        ("create",),
    ),
    DaemonRule(
        "Events are written of what happens, also of pods that run at peers: once each, and again "
        "as their counts grow",
        ("",),
        ("events",),
        ("list", "create", "patch"),
    ),
    DaemonRule(
        "a peer's pod may not claim an address of this cluster's services",
        ("networking.k8s.io",),
        ("servicecidrs",),
        ("list",),
    ),
)

_TRUST = (
    DaemonRule(
        "certificates of consumers, and what virtual nodes serve with, are asked for; requests "
        "that were left behind are found",
        ("certificates.k8s.io",),
        ("certificatesigningrequests",),
        ("get", "list", "create", "delete"),
    ),
    DaemonRule(
        "and approved, after the daemon has checked whose they are",
        ("certificates.k8s.io",),
        ("certificatesigningrequests/approval",),
        ("update",),
    ),
    DaemonRule(
        "by this signer only",
        ("certificates.k8s.io",),
        ("signers",),
        ("approve",),
        ("kubernetes.io/kube-apiserver-client",),
    ),
    DaemonRule(
        "consumers are bound in their tenant namespace and in mapped namespaces, and their peering "
        "users narrowed and ended; existing bindings are read, since a cluster id may not be a "
        "user or group of theirs",
        ("rbac.authorization.k8s.io",),
        ("clusterrolebindings", "rolebindings"),
        ("get", "list", "create", "patch", "delete"),
    ),
    DaemonRule(
        "to these roles and to no other",
        ("rbac.authorization.k8s.io",),
        ("clusterroles",),
        ("bind",),
        (
            labels.CONTROL_PLANE_ROLE,
            labels.REMOTE_ROLE,
            *(each.role for each, _ in declared.opt_ins()),
            labels.CLUSTER_WIDE_ROLE,
            labels.PEERING_USER_WRITER_ROLE,
            labels.PEERING_USER_ACCEPTED_ROLE,
            labels.PEERING_USER_LIQOCTL_ROLE,
        ),
    ),
    DaemonRule(
        "a consumer that was let in by the handshake reads the public key of its tunnel by a role "
        "of its own; the API server lets the daemon give nobody more than it has",
        ("rbac.authorization.k8s.io",),
        ("roles",),
        ("list", "create", "delete"),
    ),
    DaemonRule(
        "the webhook for pods of offloaded namespaces is announced, and withdrawn",
        ("admissionregistration.k8s.io",),
        ("mutatingwebhookconfigurations",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "the policies that hold consumers are looked for, since nothing new is lent without them",
        ("admissionregistration.k8s.io",),
        ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        _FOLLOW,
    ),
)

_INSPECTOR = (
    DaemonRule(
        "authenticates the token of an inspector's client over TCP, and of a client that asks a "
        "virtual node for a pod",
        ("authentication.k8s.io",),
        ("tokenreviews",),
        ("create",),
    ),
    DaemonRule(
        "and whether that user may look, or act: ordinary RBAC on ForeignClusters, and on "
        "`nodes/proxy` of a virtual node",
        ("authorization.k8s.io",),
        ("subjectaccessreviews",),
        ("create",),
    ),
    DaemonRule(
        "who may act has namespaces offloaded and brought back",
        (OFFLOADING,),
        ("namespaceoffloadings",),
        ("get", "create", "delete"),
    ),
    DaemonRule(
        "cordons, drains and accepts tenants, and ends peerings",
        (AUTHENTICATION,),
        ("tenants",),
        ("list", "patch", "delete"),
    ),
)

_NETWORK = (
    DaemonRule(
        "gateways and keys of peers are their administrators' word, and taken in",
        (NETWORKING,),
        ("gatewayclients", "gatewayservers", "publickeies"),
        READ,
    ),
    DaemonRule(
        "a cluster that was asked by the handshake is joined as `liqod peer` does it: ranges, "
        "gateways and keys are written on this side, and withdrawn where that comes to nothing",
        (NETWORKING,),
        ("configurations", "gatewayclients", "gatewayservers", "publickeies"),
        ("get", "create", "delete"),
    ),
    DaemonRule(
        "where a gateway is reached and what became of it, and how its tunnel is",
        (NETWORKING,),
        ("connections/status", "gatewayclients/status", "gatewayservers/status"),
        ("patch",),
    ),
    DaemonRule(
        "each gateway has a Deployment that stands for it, whose pod is never scheduled: by that "
        "`liqoctl` knows that it is there; that without pods, which stands for Liqo's programs, "
        "shows the labels of this cluster",
        ("apps",),
        ("deployments",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "each tunnel has a Connection that shows it",
        (NETWORKING,),
        ("connections",),
        (*_OWN, "get"),
    ),
    DaemonRule(
        "owner references that block deletion are checked against this (OpenShift)",
        (NETWORKING,),
        ("gatewayclients/finalizers", "gatewayservers/finalizers"),
        ("update",),
    ),
    DaemonRule(
        "where there are several nodes these objects name each of them, and the gateway",
        (NETWORKING,),
        ("internalfabrics", "internalnodes"),
        (*_OWN, "get"),
    ),
)

LEASES: Final = (
    DaemonRule(
        "replicas elect the one that works; the others show that they stand by",
        ("coordination.k8s.io",),
        ("leases",),
        (*_OWN, "get"),
    ),
)
"""Of the daemon's Roles in its own namespace and in that of node leases."""

HANDED_ON: Final = (
    DaemonRule(
        "consumers that are let in by the handshake read here who this cluster is",
        ("rbac.authorization.k8s.io",),
        ("roles",),
        ("bind",),
        (labels.PEERING_USER_LIQO_ROLE,),
    ),
)
"""Of its Role in its own namespace."""

_SERVING = (
    DaemonRule(
        "virtual nodes serve with a certificate that the API server and metrics-server know as a "
        "kubelet's. Delete the ClusterRoleBinding of this role, and they serve with one of the "
        "daemon's own",
        ("certificates.k8s.io",),
        ("signers",),
        ("approve",),
        ("kubernetes.io/kubelet-serving",),
    ),
)


def _reflected() -> tuple[DaemonRule, ...]:
    """Rights of the built-in reflectors beside those that the daemon has anyway."""
    own = (*_LIQO, *_NODES, *_MADE)
    has = {
        (group, resource, verb)
        for each in own
        if not each.names
        for group in each.groups
        for resource in each.resources
        for verb in each.verbs
    }
    return tuple(
        DaemonRule(each.why, (each.group,), each.resources, each.verbs)
        for each in declared.rights()
        if any(
            (each.group, resource, verb) not in has
            for resource in each.resources
            for verb in each.verbs
        )
    )


DAEMON_ROLES: Final = {
    "liqod-resources": _LIQO,
    "liqod-workloads": (*_NODES, *_reflected(), *_MADE),
    "liqod-trust": _TRUST,
    "liqod-serving": _SERVING,
    "liqod-inspector": _INSPECTOR,
    "liqod-network": _NETWORK,
}
"""The daemon's ClusterRoles by name."""
