"""Two clusters with real nodes, as `joined.Joined`, whose daemons are pods of theirs.

liqod's image (`ownimages`) is loaded into each node's containerd, and installed by the command that
users have.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from liqod.apimachinery import labels
from tests.testbed import evidence, ownimages, programs
from tests.testbed.api import wait_until
from tests.testbed.controlplane import Settings
from tests.testbed.daemon import toml
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Member
from tests.testbed.joined import Joined
from tests.testbed.node import NodeCluster

LIQOCTL_DEADLINE = 150.0
"""Seconds: after 120 it ends by itself, and says what it has waited for."""
LEFT_DEADLINE = 60.0
SETTINGS: Mapping[str, Any] = {
    "peer_defaults": {"pod_network": "tunnel", "api_server": "asked"},
    # Liqo's own test of the network asks for node ports.
    "guests": {"fields": ["nodePort"]},
}


class Podded(Joined):
    """Clusters with a node each, joined to each other, with liqod in them.

    Args:
        images: liqod's.
        names: of the clusters.
        second: the one that has a second node, on which nothing is to be but what is on each; empty
            for none.
    """

    def __init__(self, images: ownimages.Images, *names: str, second: str = "") -> None:
        # Of an external range Liqo's tools tell one: nodes have no address of the other family.
        super().__init__(*names, settings=SETTINGS, planes=Settings())
        self._images += [images.daemon, images.node]
        self._second = second
        self._tails: dict[str, Callable[[], str]] = {}

    def start(self) -> None:
        """Starts all of it, side by side. Raises `TestbedError` with logs."""
        super().start()

    def _start_one(self, cluster: NodeCluster) -> None:
        super()._start_one(cluster)
        if cluster.name == self._second:
            worker = self.add_worker(cluster.name)
            worker.masquerade()
            cluster.plane.kubectl("cordon", worker.name)

    def _settle(self, cluster: NodeCluster) -> None:
        # From the network of pods a daemon reaches other clusters' API servers, and no route leads
        # back there.
        cluster.masquerade()
        for archive in self._images:
            cluster.load(archive)
        member = Member(cluster.plane)
        self.members[cluster.name] = member
        self._tails[cluster.name] = partial(self.logs, cluster.name)
        evidence.add(f"pods of {cluster.name}", self._tails[cluster.name])
        self.before[cluster.name] = member.inventory()
        self.install(member)
        # Liqo's tools do not wait for what a daemon says of its ranges.
        wait_until(f"own ranges of {cluster.name}", partial(_tells_ranges, member), 60)

    def install(self, member: Member) -> None:
        """Installs liqod into a cluster, by its command."""
        member.create("/api/v1/namespaces", {"metadata": {"name": "liqo"}})
        text = toml(self._settings) + f'[api_server]\nadvertise = "{member.plane.server}"\n'
        config = {"metadata": {"name": "liqod"}, "stringData": {"liqod.toml": text}}
        member.create("/api/v1/namespaces/liqo/secrets", config)
        member.install("--in-cluster", "--image", ownimages.NAME)

    @property
    def liqoctl_program(self) -> Path:
        """Liqo's command."""
        return programs.find_liqoctl()

    def liqoctl(self, name: str, *arguments: str) -> str:
        """Runs Liqo's command as the administrator of a cluster; raises `TestbedError`."""
        command = (str(self.liqoctl_program), *arguments)
        answer = subprocess.run(
            [*command, "--kubeconfig", str(self.clusters[name].kubeconfig)],
            capture_output=True,
            text=True,
            timeout=LIQOCTL_DEADLINE,
            check=False,
        )
        said = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", answer.stdout + answer.stderr)
        if answer.returncode != 0:
            raise TestbedError(f"liqoctl {' '.join(arguments)}: {said}")
        return said

    def remote(self, name: str) -> tuple[str, str]:
        """The flags that point `liqoctl` to another cluster."""
        return ("--remote-kubeconfig", str(self.clusters[name].kubeconfig))

    def logs(self, name: str, lines: int = 30) -> str:
        """Returns the logs of liqod's pods, and their list."""
        kubectl = self.members[name].plane.kubectl
        said = ""
        for place, part in (("liqo", "controller-manager"), ("liqo-nodes", "liqod-node")):
            said += kubectl("get", "pods", "--namespace", place, "-o", "wide")
            which = (f"--selector=app.kubernetes.io/name={part}", "--prefix")
            said += kubectl("logs", "--namespace", place, *which, f"--tail={lines}")
        return said

    def destroy(self) -> None:
        """Ends everything."""
        for name, tail in self._tails.items():
            evidence.remove(f"pods of {name}", tail)
        super().destroy()


def _tells_ranges(member: Member) -> bool:
    """True if a cluster's own ranges are known, the external one among them."""
    found = member.api.get("/apis/ipam.liqo.io/v1alpha1/namespaces/liqo/networks")["items"]
    told = {
        each["metadata"].get("labels", {}).get(labels.NETWORK_TYPE)
        for each in found
        if each.get("status", {}).get("cidr")
    }
    return {labels.POD_CIDR, labels.EXTERNAL_CIDR} <= told
