"""Rome with three nodes on a network of their own, and `liqod node` as a process on each.

The leader's writer of the overlay works beside an embedded API server, on the node that is asked
for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES
from liqod.cluster.context import ApiEndpoint, ClusterContext
from liqod.cluster.tenancy import tenant_namespace
from liqod.install import noderights
from liqod.kube.cache.informers import Informers
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.network.dataplane import names
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.machine.overlayservice import OverlayService
from liqod.network.orders.tunnels import MachineFacts
from liqod.network.overlay.kernel import NodeKernel
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.network.overlay.writer import OverlayWriter
from liqod.network.remotemachine import RemoteMachine
from liqod.resources import CONFIGURATIONS, INTERNAL_NODES, NETWORKS
from liqod.resources.networking import GATEWAY_SERVERS
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster
from tests.netns import lab as labs
from tests.netns.lab import Lab, bridge, plug, run
from tests.simulated.addressed import node as node_object
from tests.simulated.prepared import installed
from tests.testbed import former
from tests.testbed.processes import Child, tail

MILAN = "liqo-tenant-milan"
NAMES = ("first", "second", "third")
"""In the order of the alphabet, in which they get their numbers in the overlay."""
Json = dict[str, Any]


def address(number: int) -> str:
    """Of a node on their network; the first is the gateway's."""
    return f"172.30.0.{number + 1}"


class Nodes:
    """Three nodes in namespaces, of which the first has the tunnel to milan."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.lan = f"{lab.rome.node}-lan"
        self.places = [lab.rome.node, f"{lab.rome.node}-2", f"{lab.rome.node}-3"]
        lab.make(self.lan)
        bridge(self.lan)
        for number in range(3):
            if number:
                lab.make(self.places[number])
            self.plug_in(number)

    def plug_in(self, number: int) -> None:
        """Joins a node to the network, as its machine and its CNI do."""
        place = self.places[number]
        plug(self.lan, f"port{number}", place, "net0", f"{address(number)}/24")
        for each in ("ipv4.ip_forward", "ipv6.conf.all.forwarding"):
            run("sysctl", "-qw", f"net.{each}=1", namespace=place)
        for other in range(3):
            if other != number:
                way = f"route add 10.244.{other}.0/24 via {address(other)}"
                run("ip", "-n", place, *way.split())

    def reboot(self, number: int) -> None:
        """The machine goes and comes again with nothing of ours; its pods are gone, too."""
        place = self.places[number]
        run("ip", "netns", "del", place)
        run("ip", "-n", self.lan, "link", "delete", f"port{number}", check=False)
        labs.make(place)
        self.plug_in(number)

    def move(self, number: int) -> None:
        """Another node has milan's tunnel from now on, as the next leader would see to."""
        rome = self.lab.rome
        was = next(each for each in self.places if has(each, rome.names.veth))
        run("ip", "-n", was, "link", "delete", rome.names.veth)
        nothing = partial(change, type(rome.plan.node)(), rome.plan.node_owned)
        enter(was, nothing)
        here = self.places[number]
        enter(here, partial(change, rome.plan.node, rome.plan.node_owned))
        inside = partial(change, rome.plan.inside, rome.plan.inside_owned)
        enter(rome.names.namespace, inside)

    def traces(self, number: int) -> list[str]:
        """Returns the overlay's links, rules, routes and tables that are left on a node."""
        place = self.places[number]
        found = [each for each in run("ip", "-n", place, "-o", "link").split() if "lqx" in each]
        found += [
            line
            for family in ("-4", "-6")
            for line in run("ip", "-n", place, family, "rule").splitlines()
            if line.startswith(("18720:", "18730:")) and "lqv" not in line
        ]
        for family in ("-4", "-6"):
            show = ("ip", "-n", place, family, "route", "show", "table")
            for table in (names.PODS_TABLE, names.FORMER_GATEWAY_TABLE):
                found += run(*show, str(table), check=False).splitlines()
            shared = run(*show, str(names.ALIASES_TABLE), check=False).splitlines()
            metrics = [f" metric {each} " for each in names.OVERLAY_METRICS]
            # On the gateway there are the peer's as well, and their rule.
            found += [line for line in shared if any(each in f"{line} " for each in metrics)]
            rules = run("ip", "-n", place, family, "rule").splitlines()
            alone = f"{names.ALIASES_PRIORITY}:" if not shared else "none"
            found += [line for line in rules if line.startswith(alone)]
        tables = run("nft", "list", "tables", namespace=place)
        return [*found, *(line for line in tables.splitlines() if "overlay" in line)]


def has(place: str, link: str) -> bool:
    """True if a namespace has a link."""
    return link in run("ip", "-n", place, "-o", "link")


@dataclass
class Running:
    """An API server with the objects of a joined peer, a writer, and processes.

    Attributes:
        nodes: their kernels.
        client: an administrator's.
        agents: the processes of ``liqod node``, by the node's number.
    """

    nodes: Nodes
    client: Client
    kubeconfig: Path
    context: ClusterContext
    nursery: trio.Nursery
    agents: dict[int, Child] = field(default_factory=dict)
    leading: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def lead(self, number: int) -> None:
        """Have the leader on a node; the one before it is gone."""
        self.leading.cancel()
        self.leading = scope = trio.CancelScope()

        async def run_it(*, task_status: trio.TaskStatus[None]) -> None:
            kernel = NodeKernel(self.nodes.places[number])
            facts = MachineFacts(addresses=(address(number),))
            machine = RemoteMachine(lambda order: None, facts=facts)
            own = RemoteOverlay(lambda order: service.receive(order))
            service = OverlayService(self.context.cluster_id, kernel, own.receive)
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.run)
                    writer = OverlayWriter(
                        *(self.context, machine, machine.role, own), f"daemon-{number}"
                    )
                    await nursery.start(writer.run)
                    task_status.started()
                    await trio.sleep_forever()

        await self.nursery.start(run_it)

    def start(
        self,
        number: int,
        *options: str,
        enter: tuple[str, ...] = (),
        packages: Path | None = None,
    ) -> Child:
        """Begins ``liqod node`` on a node.

        Args:
            number: of the node.
            options: of its command line.
            enter: what starts it where it is to be; it enters the namespace itself without.
            packages: the folder in which another version is.
        """
        folder = self.nodes.lab.folder
        log, settings = folder / f"node-{number}.log", folder / f"node-{number}.toml"
        # Each is a machine of its own.
        settings.write_text(f'[network]\nmachine = "{folder}/machine-{number}"\n')
        environment = {
            **former.environment(packages or former.ROOT),
            "LIQOD_KUBECONFIG": str(self.kubeconfig),
        }
        if not enter and packages is None:
            environment["LIQOD_CONFIG"] = str(settings)
        words: tuple[str, ...] = ("--health-port", "0")
        if not enter:
            words = (*words, "--network-namespace", self.nodes.places[number])
        command = [
            *enter,
            sys.executable,
            *former.PROGRAM,
            "node",
            "--name",
            NAMES[number],
            *words,
            *options,
        ]
        made = Child(f"node {NAMES[number]}", command, log, environment=environment)
        self.agents[number] = made
        return made

    @property
    def port(self) -> int:
        """The API server's port on this machine."""
        return urlsplit(self.client.server).port or 443

    async def status(self, number: int) -> Json:
        """Returns the status that a node reports in its InternalNode."""
        found = await self.client.find(INTERNAL_NODES, NAMES[number])
        return dict((found or {}).get("status", {}))

    async def says(self, number: int, condition: str, status: str = "True") -> None:
        """Waits until a node says so."""

        async def so() -> bool:
            every = (await self.status(number)).get("conditions", [])
            return any((each["type"], each["status"]) == (condition, status) for each in every)

        await self.until(so)

    async def until(self, happens: Callable[[], Awaitable[bool]], seconds: float = 45.0) -> float:
        """Waits until something is so; the seconds that it took."""
        began = time.monotonic()
        with trio.move_on_after(seconds) as scope:
            while not await happens():  # noqa: ASYNC110  # of other processes' doing
                await trio.sleep(0.01)
        logs = "\n".join(f"{each.name}: {tail(each.log, 20)}" for each in self.agents.values())
        assert not scope.cancelled_caught, logs
        return time.monotonic() - began

    async def heals(self, works: Callable[[], bool], seconds: float = 45.0) -> float:
        """Waits until a look at the kernel is good; the seconds that it took."""
        return await self.until(lambda: trio.to_thread.run_sync(works), seconds)


@asynccontextmanager
async def running(nodes: Nodes) -> AsyncIterator[Running]:
    """All of it for the length of the block; nothing of the overlay is left after it."""
    async with (
        EmbeddedCluster("rome", state=await installed("rome")) as server,
        Client(from_kubeconfig(server.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        await objects(client)
        kubeconfig = nodes.lab.folder / "node.kubeconfig"
        user = f"system:serviceaccount:liqo:{noderights.ACCOUNT}"
        kubeconfig.write_text(server.kubeconfig_for(user))
        context = ClusterContext(
            nodes.lab.rome.names.own_id,
            client,
            Informers(client, nursery),
            config.parse(""),
            Hub(),
            ApiEndpoint("https://198.51.100.1:6443", b""),
        )
        made = Running(nodes, client, kubeconfig, context, nursery)
        try:
            yield made
        finally:
            for child in made.agents.values():
                child.kill()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                for place in nodes.places:
                    await NodeKernel(place).remove()


async def objects(client: Client) -> None:
    """Three Nodes, and what a peer's network consists of."""
    for number, name in enumerate(NAMES):
        await client.create(NODES, node_object(name, f"10.244.{number}.0/24", address(number)))
        both = [f"10.244.{number}.0/24", f"fd00:10:244:0:{number}::/80"]
        await client.patch(NODES, name, {"spec": {"podCIDRs": both}})
    await client.create(NAMESPACES, tenant_namespace("milan"))
    for number, prefix in enumerate(labs.PODS):
        name, marks = f"pods-{number}", {labels.NETWORK_TYPE: labels.POD_CIDR}
        made: Json = {"metadata": {"name": name, "labels": marks}, "spec": {"cidr": prefix}}
        await client.create(NETWORKS, made, "liqo")
        told: Json = {"status": {"cidr": prefix}}
        await client.patch(NETWORKS, name, told, "liqo", subresource="status")
    theirs = {"pod": list(labs.PODS), "external": list(labs.EXTERNAL)}
    marks = {labels.REMOTE_CLUSTER_ID: "milan"}
    made = {"metadata": {"name": "milan", "labels": marks}, "spec": {"remote": {"cidr": theirs}}}
    await client.create(CONFIGURATIONS, made, MILAN)
    seen = {"pod": list(labs.SEEN.pod), "external": list(labs.SEEN.external)}
    told = {"status": {"remote": {"cidr": seen}}}
    await client.patch(CONFIGURATIONS, "milan", told, MILAN, subresource="status")
    spec = {"endpoint": {"port": 51840}, "mtu": labs.MTU}
    await client.create(GATEWAY_SERVERS, {"metadata": {"name": "milan"}, "spec": spec}, MILAN)


class Pinging:
    """Asks a pod for an echo every few milliseconds, and counts those that are not answered."""

    EVERY = 0.02

    def __init__(self, namespace: str, to: str) -> None:
        self.sent = self.answered = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(namespace, to), daemon=True)
        self._thread.start()

    def _run(self, namespace: str, to: str) -> None:
        while not self._over.wait(self.EVERY):
            self.sent += 1
            self.answered += labs.ping(namespace, to, timeout=1.0).startswith("reply")

    def end(self) -> int:
        """How many were lost."""
        self._over.set()
        self._thread.join()
        return self.sent - self.answered
