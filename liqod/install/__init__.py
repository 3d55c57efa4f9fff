"""Putting liqod into a cluster and taking it out again: manifests (pure) and the verbs."""

from liqod.install.daemonkubeconfig import daemon_kubeconfig
from liqod.install.manifests import KINDS, MANAGED, Options, daemon_manifests, manifests, render
from liqod.install.removal import peers_left, uninstall
from liqod.install.verbs import check_revision, choose_cluster_id, install

__all__ = [
    "KINDS",
    "MANAGED",
    "Options",
    "check_revision",
    "choose_cluster_id",
    "daemon_kubeconfig",
    "daemon_manifests",
    "install",
    "manifests",
    "peers_left",
    "render",
    "uninstall",
]
