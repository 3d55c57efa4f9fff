"""Commands beside clusters with daemons in pods: those of pages, and Liqo's own."""

from __future__ import annotations

from pathlib import Path

from tests.testbed import pages
from tests.testbed.federation import Member
from tests.testbed.pages import Terminal
from tests.testbed.podded import Podded


def reader(member: Member, folder: Path, *others: Member) -> Terminal:
    """A shell beside the kubeconfigs of clusters, of which the first one's is exported."""
    made = pages.terminal(folder, member.plane, *(each.plane for each in others))
    made.environment["KUBECONFIG"] = str(folder / f"{member.name}.kubeconfig")
    return made


def typing(clusters: Podded, folder: Path) -> Terminal:
    """One for rome where no cluster is named, with Liqo's command beside liqod's."""
    made = reader(clusters.members["rome"], folder, clusters.members["milan"])
    made.environment["PATH"] += f":{clusters.liqoctl_program.parent}"
    return made


def have_node_port(clusters: Podded) -> None:
    """Milan's gateway at a port of all its nodes, which another test may have made."""
    asked = ("--gw-server-service-type", "NodePort", "--wait")
    clusters.liqoctl("rome", "network", "connect", *clusters.remote("milan"), *asked)
