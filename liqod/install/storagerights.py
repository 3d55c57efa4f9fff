"""The rights by which the daemon provisions the virtual StorageClass. Pure."""

from typing import Final

from liqod.install.daemonrights import READ, DaemonRule

STORAGE: Final = (
    DaemonRule(
        "claims of the virtual StorageClass: followed, and the scheduler's choice of a node taken "
        "back where there is no volume to be had",
        ("",),
        ("persistentvolumeclaims",),
        (*READ, "patch"),
    ),
    DaemonRule("what a peer says of them", ("",), ("persistentvolumeclaims/status",), ("patch",)),
    DaemonRule(
        "their volumes here, which stand for those at peers or on this cluster's own nodes",
        ("",),
        ("persistentvolumes",),
        (*READ, "create", "patch", "delete"),
    ),
    DaemonRule(
        "what becomes of a volume whose claim is gone, and which class is the default",
        ("storage.k8s.io",),
        ("storageclasses",),
        ("get", "list"),
    ),
)
"""Rights that only ``liqod install --storage`` grants."""

REAL_CLAIMS: Final = (
    DaemonRule(
        "the claims behind volumes on this cluster's own nodes",
        ("",),
        ("persistentvolumeclaims",),
        ("create", "delete"),
    ),
)
"""The same, of its Role in ``liqo-storage``."""
