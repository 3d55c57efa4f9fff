"""A second real node of a cluster: a machine of its own with containerd, kubelet and kube-proxy.

Pods of the two nodes reach each other by plain routes over the cable between their machines, as in
a network whose CNI needs no overlay.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.testbed import machine, workspace
from tests.testbed.machine import Machine
from tests.testbed.node import CGROUP, NodeCluster


class Worker(NodeCluster):
    """A node beside that of a cluster which has started. `start` it, then `destroy` it.

    Args:
        of: the cluster.
        images: archives that it is to have before the first pod.
    """

    def __init__(self, of: NodeCluster, images: Sequence[Path] = ()) -> None:
        self._of, self._images = of, images
        self.name = f"{of.name}-2"
        self.settings = of.settings
        self.plane = of.plane
        self.dns = of.dns
        self._children, self._commands = {}, {}
        self.folder = workspace.new(self.name)
        self.machine = Machine(self.name, self.folder)
        self.cgroup = f"{CGROUP}{os.getpid()}-{self.machine.index}"
        try:
            machine.make_cgroups(self.cgroup)
        except BaseException:
            self.machine.destroy()
            raise

    def _begin(self) -> None:
        # First, as the range of its pods is not always the next one.
        self.plane.api.call("POST", "/api/v1/nodes", {"metadata": {"name": self.name}})
        self._wait("range of pods", lambda: bool(self.subnets()))
        self._of.machine.join(self.machine)
        self._routes(self, self._of)
        self._routes(self._of, self)
        self._network()
        self._containerd()
        for archive in self._images:
            self.load(archive)

    def subnets(self) -> list[str]:
        """The ranges of its pods, as the controller manager has cut them; none yet: empty."""
        spec = self.plane.api.get(f"/api/v1/nodes/{self.name}").get("spec", {})
        return [str(each) for each in spec.get("podCIDRs", [])]

    def _routes(self, here: NodeCluster, other: NodeCluster) -> None:
        """Lets pods of one node reach those of the other."""
        for prefix in other.subnets():
            six = ":" in prefix
            via = other.machine.address6 if six else other.machine.address
            way = (prefix, "via", via, "dev", f"to{other.machine.index}", "onlink")
            here.machine.run("ip", "-6" if six else "-4", "route", "add", *way)

    def destroy(self) -> None:
        """Ends everything of this node."""
        self.machine.destroy()
        for child in self._children.values():
            child.kill()
        machine.remove_cgroups(self.cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)
