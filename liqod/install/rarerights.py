"""Rights of the daemon that an ordinary peering does not use, and when they are needed."""

from typing import Final, NamedTuple

from liqod.install.daemonrights import READ
from liqod.plugins import declared


class Rare(NamedTuple):
    """Rights that an ordinary peering does not use, and when they are needed."""

    when: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


RARE: Final = (
    Rare(
        "asked for by the API server itself when a binding is made, a certificate approved, or an "
        "owner reference that blocks deletion written",
        (
            "clusterroles",
            "signers",
            "identities/finalizers",
            "resourceslices/finalizers",
            "tenants/finalizers",
        ),
        ("approve", "bind", "update"),
    ),
    Rare(
        "an API server that cannot send lists as watches (before Kubernetes 1.32), or that holds "
        "an object which is too large for a watch",
        (
            "endpointslices",
            "foreignclusters",
            "identities",
            *("ingressclasses", "ingresses"),
            "mutatingwebhookconfigurations",
            "namespaceoffloadings",
            "namespaces",
            "overridepolicies",
            "quotas",
            "resourcequotas",
            "secrets",
            "services",
            *("shadowendpointslices", "shadowpods", "virtualnodes"),
            *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
        ),
        ("list",),
    ),
    Rare(
        "something is refused, or a peer reports what becomes of a pod, and an Event says so",
        ("events",),
        ("list", "create", "patch"),
    ),
    *(Rare(each.rare, each.resources, each.verbs) for each in declared.rights() if each.rare),
    Rare("an OverridePolicy is there", ("overridepolicies/status",), ("patch",)),
    Rare("pods without a ShadowPod are here from an older version", ("shadowpods",), ("create",)),
    Rare(
        "a consumer resizes a pod that runs here, or debugs it",
        ("pods/ephemeralcontainers", "pods/resize"),
        ("patch",),
    ),
    Rare("another daemon stands by", ("leases",), ("list", "watch")),
    Rare(
        "something was edited by hand and is put right",
        (
            "clusterrolebindings",
            "endpointslices",
            "mutatingwebhookconfigurations",
            "resourcequotas",
            "rolebindings",
        ),
        ("get", "patch"),
    ),
    Rare(
        "the stores contradict a watch, or lists what was known, and the API server is asked",
        (
            "configmaps",
            "endpointslices",
            *("ingressclasses", "ingresses"),
            "mutatingwebhookconfigurations",
            "pods",
            "quotas",
            "services",
            "shadowendpointslices",
            "shadowpods",
            "virtualnodes",
        ),
        ("get",),
    ),
    Rare(
        "the daemon peers by itself, with a peer that its configuration names",
        ("foreignclusters", "resourceslices"),
        ("create", "get"),
    ),
    Rare(
        "a peer was drained, denied or forgotten, or left while nobody looked",
        (
            "endpointslices",
            "identities",
            "quotas",
            "renews",
            "resourceslices",
            "rolebindings",
            "virtualnodes",
        ),
        ("delete",),
    ),
    Rare(
        "clusters find each other and ask (`liqod invite`, `liqod peer NAME`, `liqod inbox`)",
        (
            *("incomingpeerings", "invitations", "outgoingpeerings"),
            *("incomingpeerings/status", "invitations/status", "outgoingpeerings/status"),
            "roles",
        ),
        (*READ, "create", "patch", "delete"),
    ),
    Rare("a certificate is renewed for the second time", ("renews",), ("patch",)),
    Rare("a renewal that waits is not in the store yet", ("renews",), ("get",)),
    Rare("Liqo left its finalizer on a Tenant", ("tenants",), ("patch",)),
    Rare(
        "somebody acts through the inspector",
        ("namespaceoffloadings", "tenants"),
        ("create", "delete", "get"),
    ),
    Rare(
        "an inspector's client connects over TCP, or somebody asks for the logs of a pod at a peer "
        "or a stream to it",
        ("subjectaccessreviews", "tokenreviews"),
        ("create",),
    ),
    Rare(
        "the networks of two clusters are joined",
        (
            *("configurations", "connections", "ips"),
            *("connections/status", "gatewayclients/status", "gatewayservers/status"),
            *("deployments", "gatewayclients", "gatewayservers", "publickeies"),
            *("gatewayclients/finalizers", "gatewayservers/finalizers"),
            *("configurations/finalizers", "configurations/status"),
            *("ips/finalizers", "ips/status"),
            *("internalfabrics", "internalnodes"),
        ),
        (*READ, "create", "patch", "update", "delete"),
    ),
    Rare(
        "a range of this cluster's own, or the alias of a peer's, is written anew or removed",
        ("networks",),
        ("get", "list", "patch", "delete"),
    ),
    Rare("an IP lends another host by a Service", ("services",), ("create", "patch", "delete")),
    Rare("the webhook is switched off", ("mutatingwebhookconfigurations",), ("delete",)),
)
"""Rights that an end-to-end run does not use; a test sees the use of every other one."""
