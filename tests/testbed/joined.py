"""Clusters with real nodes on a cable of their own, and a daemon inside each machine.

All use the same pod CIDRs, one of each family, so that their pods have the same addresses. Each
daemon is wholly in its machine: its network, its `/run`, its processes, as on the only node of a
small cluster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.testbed import evidence, programs
from tests.testbed.agent import Agent
from tests.testbed.api import wait_until
from tests.testbed.clusters import DAEMONS_OWN
from tests.testbed.controlplane import Settings
from tests.testbed.daemon import Daemon
from tests.testbed.federation import Federation, Member
from tests.testbed.inventory import Item
from tests.testbed.machine import run
from tests.testbed.netns import Networks
from tests.testbed.node import NodeCluster
from tests.testbed.worker import Worker

DUAL = Settings(pod_cidr6="fd00:10:244::/56", service_cidr6="fd00:10:96::/112")
"""Both families, in all clusters the same."""
OUTSIDE = {"IPv4": "203.0.113.9", "IPv6": "fd00:203::9"}
"""Addresses of a machine that is in no cluster; the node beside it ends with 1."""
SETTINGS: Mapping[str, Any] = {
    "cluster": {"pod_cidrs": [DUAL.pod_cidr, DUAL.pod_cidr6]},
}


class Joined(Federation):
    """Clusters with a node each, joined to each other.

    Args:
        names: of the clusters.
        settings: tables of the daemons' configuration.
        planes: of the control planes.

    Attributes:
        clusters: by name.
        workers: second nodes, by the cluster's name.
        agents: `liqod node`, by the node's name.
        standbys: further daemons of a cluster, by the node's name.
        before: what was in each, where a test took note of that.
    """

    def __init__(
        self,
        *names: str,
        settings: Mapping[str, Any] = SETTINGS,
        planes: Settings = DUAL,
    ) -> None:
        super().__init__()
        self._settings = settings
        self.workers: dict[str, Worker] = {}
        self.agents: dict[str, Agent] = {}
        self.standbys: dict[str, Daemon] = {}
        self._images: list[Path] = []
        self._networks = Networks()
        self.clusters: dict[str, NodeCluster] = {}
        self.before: dict[str, set[Item]] = {}
        try:
            for name in names:
                self.clusters[name] = NodeCluster(name, planes)
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

    @property
    def nodes(self) -> list[NodeCluster]:
        """All nodes of all clusters."""
        return [*self.clusters.values(), *self.workers.values()]

    def add_worker(self, name: str) -> Worker:
        """Gives a cluster a second node, which has a cable to every machine."""
        worker = self.workers[name] = Worker(self.clusters[name], self._images)
        evidence.add(worker.name, worker.logs)
        for other, cluster in self.clusters.items():
            if other != name:
                worker.machine.join(cluster.machine)
        worker.start()
        return worker

    def add_agent(self, name: str, node: NodeCluster) -> Agent:
        """Starts `liqod node` on a node of a cluster, with a kubeconfig of that node's own."""
        kubeconfig = node.folder / "liqod-node.kubeconfig"
        words = ("generate", "node", node.name, "--output", str(kubeconfig))
        member = self.members[name]
        member.liqod(*words)
        tables = self._tables(node)
        tables.pop("cluster", None)
        folder = node.folder / "machine"
        if member.daemon.name == node.name:
            folder = member.daemon.folder / "machine"
            member.daemon.leave_machine(folder)
        tables["network"]["machine"] = str(folder)
        agent = Agent(node.name, node.machine, node.folder, kubeconfig, tables)
        self.agents[node.name] = agent
        agent.start()
        return agent

    def add_standby(self, name: str, **network: str) -> Daemon:
        """A further `liqod run` of a cluster, on its second node; not started.

        Args:
            name: of the cluster.
            network: further settings of the network.
        """
        worker, member = self.workers[name], self.members[name]
        folder = worker.folder / "liqod"
        folder.mkdir()
        made = Daemon(worker.name, member.kubeconfig, folder, self._tables(worker, **network))
        made.enter = worker.machine.inside
        if worker.name in self.agents:
            made.leave_machine(worker.folder / "machine")
        # It may come to lead, and the API server is on another machine than it.
        made.settings["webhook"] = {"host": worker.machine.address}
        self.standbys[worker.name] = made
        return made

    def _tables(self, at: NodeCluster, /, **network: str) -> dict[str, Any]:
        """The configuration of a daemon on a node."""
        program = str(programs.find_wireguard())
        common = self._settings.get("network", {})
        return {
            **self._settings,
            "network": {**common, "advertise": [at.machine.address], **network},
            "plugins": {"settings": {"wireguard": {"program": program}}},
        }

    def _settle(self, cluster: NodeCluster) -> None:
        member = Member(cluster.plane, self._tables(cluster))
        member.daemon.enter = cluster.machine.inside
        self.members[cluster.name] = member
        member.install()
        member.daemon.start()
        for path in DAEMONS_OWN:
            wait_until(f"{path} at {cluster.name}", partial(member.api.exists, path), 60)
        networks = "/apis/ipam.liqo.io/v1alpha1/namespaces/liqo/networks"
        last = "external-cidr-fd18-6c71-70---112"
        wait_until(f"own ranges of {cluster.name}", lambda: last in member.names(networks), 30)

    def neighbour(self, name: str) -> str:
        """Another machine on the network of a cluster's node, which is its way to anywhere.

        Its addresses are :data:`OUTSIDE`. The name of its network namespace.
        """
        made, machine = self._networks.make("outside"), self.clusters[name].machine
        run(*f"ip -n {made} link add up0 type veth peer name lan0 netns {machine.pid}".split())
        for family, address in OUTSIDE.items():
            length = 24 if family == "IPv4" else 64
            node = f"{address.removesuffix('9')}1"
            known = ("nodad",) if family == "IPv6" else ()
            machine.run("ip", "address", "add", f"{node}/{length}", "dev", "lan0", *known)
            run("ip", "-n", made, "address", "add", f"{address}/{length}", "dev", "up0", *known)
        machine.run("ip", "link", "set", "lan0", "up")
        run("ip", "-n", made, "link", "set", "up0", "up")
        for address in OUTSIDE.values():
            node = f"{address.removesuffix('9')}1"
            run("ip", "-n", made, "route", "add", "default", "via", node)
        return made

    def inside(self, name: str, *command: str) -> str:
        """The output of a command on a cluster's node; raises `TestbedError` on failure."""
        return self.clusters[name].machine.run(*command)

    def destroy(self) -> None:
        """Ends everything."""
        self.close()
        for daemon in self.standbys.values():
            daemon.close()
        for agent in self.agents.values():
            agent.kill()
        for worker in self.workers.values():
            evidence.remove(worker.name, worker.logs)
            worker.destroy()
        self.workers.clear()
        self._networks.destroy()
        for cluster in self.clusters.values():
            evidence.remove(cluster.name, cluster.logs)
            cluster.destroy()
        self.clusters.clear()


def traces(clusters: Joined, name: str) -> list[str]:
    """Lists garbage of joined networks on a cluster's nodes: namespaces, links, rules, programs."""
    workers = [clusters.workers[name]] if name in clusters.workers else []
    found: list[str] = []
    for node in (clusters.clusters[name], *workers):
        run = node.machine.run
        found += re.findall(r"^liqod-\w+", run("ip", "netns"), re.MULTILINE)
        found += re.findall(r"lq[vtx]\w*", run("ip", "-o", "link"))
        found += re.findall(r"^187\d\d:.*", run("ip", "rule"), re.MULTILINE)
        found += re.findall(r"table \w+ liqod\S*", run("nft", "list", "tables"))
        found += re.findall(r"\S*wireguard\S* -f \S+", run("ps", "-ef"))
    return found
