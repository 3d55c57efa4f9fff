"""Rights that a built-in plugin needs beside the daemon's, installed where somebody asks for them.

They are in ClusterRoles of their own, which the role of plugins sums up: an installation without
the plugin has none of them.
"""

from typing import Final

from liqod.install.daemonrights import READ, DaemonRule

CLUSTER_PROFILES: Final = "liqod-clusterprofiles"
"""ClusterRole of the discovery plugin ``clusterprofile``."""
GROUP: Final = "multicluster.x-k8s.io"
"""Of ClusterProfile (sigs.k8s.io/cluster-inventory-api)."""
CLUSTER_PROFILE_RULES: Final = (
    DaemonRule(
        "clusters are seen in an inventory; with `publish`, this cluster's own profile is kept",
        (GROUP,),
        ("clusterprofiles",),
        (*READ, "create", "patch"),
    ),
    DaemonRule("and says where this cluster is", (GROUP,), ("clusterprofiles/status",), ("patch",)),
)
