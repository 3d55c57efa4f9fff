"""The rights by which the daemon shares Services with peers (Multi-Cluster Services API). Pure."""

from typing import Final

from liqod.install.daemonrights import PEERING, READ, DaemonRule
from liqod.resources.multicluster import GROUP

SERVICES: Final = (
    DaemonRule(
        "what users export, and one of these is asked for before its import goes",
        (GROUP,),
        ("serviceexports",),
        READ,
    ),
    DaemonRule(
        "imports are made of what this cluster and its peers export",
        (GROUP,),
        ("serviceimports",),
        (*READ, "create", "patch", "delete"),
    ),
    DaemonRule(
        "the state of both",
        (GROUP,),
        ("serviceexports/status", "serviceimports/status"),
        ("patch",),
    ),
    DaemonRule(
        "what clusters tell each other of their exports",
        (PEERING,),
        ("serviceexchanges",),
        (*READ, "create", "patch", "delete"),
    ),
    DaemonRule("and what is answered", (PEERING,), ("serviceexchanges/status",), ("patch",)),
)
"""Rights that only ``liqod install --services`` grants."""
