"""The rights of the Job that leaves all peers before Helm takes an installation away. Pure.

It marks and deletes the objects of peerings, and the daemon does the rest with its own rights. It
has them while ``helm uninstall`` runs.
"""

from typing import Final

from liqod.apimachinery import labels
from liqod.install.daemonrights import (
    AUTHENTICATION,
    CORE,
    NETWORKING,
    OFFLOADING,
    PEERING,
    DaemonRule,
)

ACCOUNT: Final = "liqod-uninstall"
"""The ServiceAccount, its roles and what binds them, and the Job."""
_FOUND: Final = ("list",)
_ENDED: Final = ("delete", "list")

CLUSTER_RULES: Final = (
    DaemonRule(
        "the tenant namespace of a peer is marked as one that is left",
        ("",),
        ("namespaces",),
        ("get", "list", "patch"),
    ),
    DaemonRule(
        "what is lent and borrowed ends",
        (AUTHENTICATION,),
        ("identities", "resourceslices", "tenants"),
        _ENDED,
    ),
    DaemonRule(
        "virtual nodes are drained, and namespaces come back",
        (OFFLOADING,),
        ("namespaceoffloadings", "virtualnodes"),
        _ENDED,
    ),
    DaemonRule(
        "networks are left",
        (NETWORKING,),
        ("configurations", "gatewayclients", "gatewayservers", "publickeies"),
        _ENDED,
    ),
    DaemonRule(
        "whether a peer answers, and is left",
        (CORE,),
        ("foreignclusters",),
        ("get",),
    ),
    DaemonRule(
        "peering users lose their rights",
        ("rbac.authorization.k8s.io",),
        ("rolebindings",),
        _ENDED,
    ),
)
RULES: Final = (
    DaemonRule(
        "the cluster's id, and whether Helm uninstalls its release", ("",), ("configmaps",), _FOUND
    ),
    DaemonRule(
        "the same, whether a tunnel is gone, and the keys of invitations that end",
        ("",),
        ("secrets",),
        ("delete", "get", "list"),
    ),
    DaemonRule(
        "whether a daemon works, by its Lease",
        ("coordination.k8s.io",),
        ("leases",),
        ("get",),
        (labels.LEADER_LEASE,),
    ),
    DaemonRule(
        "agreements end with their peering",
        (PEERING,),
        ("incomingpeerings", "invitations", "outgoingpeerings"),
        _ENDED,
    ),
)
"""Of its Role in liqod's own namespace."""
