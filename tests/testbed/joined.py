"""Two clusters with real nodes on a cable of their own, and a daemon inside each machine.

Both use the same pod CIDR, so that their pods have the same addresses. Each daemon is wholly in its
machine: its network, its `/run`, its processes, as on the only node of a small cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.testbed import evidence, programs
from tests.testbed.api import wait_until
from tests.testbed.clusters import DAEMONS_OWN
from tests.testbed.federation import Federation, Member
from tests.testbed.inventory import Item
from tests.testbed.node import NodeCluster

OWN = 4
"""Networks that a daemon makes of its own ranges: of pods, Services, other hosts and its own."""
SETTINGS: Mapping[str, Any] = {
    "cluster": {"pod_cidrs": ["10.244.0.0/16"]},
    "peer_defaults": {"pod_network": "tunnel"},
}


class Joined(Federation):
    """Clusters with a node each, joined to each other.

    Args:
        names: of the clusters.
        settings: tables of the daemons' configuration.

    Attributes:
        clusters: by name.
        before: what was in each, where a test took note of that.
    """

    def __init__(self, *names: str, settings: Mapping[str, Any] = SETTINGS) -> None:
        super().__init__()
        self._settings = settings
        self.clusters: dict[str, NodeCluster] = {}
        self.before: dict[str, set[Item]] = {}
        try:
            for name in names:
                self.clusters[name] = NodeCluster(name)
        except BaseException:
            self.destroy()
            raise

    def start(self) -> None:
        """Starts all of it, side by side. Raises `TestbedError` with logs."""
        made = list(self.clusters.values())
        try:
            with ThreadPoolExecutor(len(made)) as pool:
                list(pool.map(self._start_one, made))
            for number, one in enumerate(made):
                for other in made[number + 1 :]:
                    one.machine.join(other.machine)
            with ThreadPoolExecutor(len(made)) as pool:
                list(pool.map(self._settle, made))
        except BaseException:
            self.destroy()
            raise

    def _start_one(self, cluster: NodeCluster) -> None:
        evidence.add(cluster.name, cluster.logs)
        cluster.start()

    def _settle(self, cluster: NodeCluster) -> None:
        address = cluster.machine.address
        program = str(programs.find_wireguard())
        own = {
            "network": {"advertise": [address]},
            "plugins": {"settings": {"wireguard": {"program": program}}},
        }
        member = Member(cluster.plane, {**self._settings, **own})
        member.daemon.enter = cluster.machine.inside
        self.members[cluster.name] = member
        member.install()
        member.daemon.start()
        for path in DAEMONS_OWN:
            wait_until(f"{path} at {cluster.name}", partial(member.api.exists, path), 60)
        networks = "/apis/ipam.liqo.io/v1alpha1/namespaces/liqo/networks"
        wait_until(f"own ranges of {cluster.name}", lambda: len(member.names(networks)) >= OWN, 30)

    def inside(self, name: str, *command: str) -> str:
        """The output of a command on a cluster's node; raises `TestbedError` on failure."""
        return self.clusters[name].machine.run(*command)

    def destroy(self) -> None:
        """Ends everything."""
        self.close()
        for cluster in self.clusters.values():
            evidence.remove(cluster.name, cluster.logs)
            cluster.destroy()
        self.clusters.clear()
