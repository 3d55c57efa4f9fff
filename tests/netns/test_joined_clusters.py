"""Two daemons' components join two clusters for real: objects, WireGuard, namespaces, and pods.

The API servers are embedded; all else is as in a daemon.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.network import ipam
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import ALIASES_TABLE, PeerNames
from liqod.network.gatewayhost import GatewayHost
from liqod.network.orders.tunnels import Listening, MachineFacts
from liqod.network.probing.conncheck import Prober
from liqod.network.probing.pathprobe import KernelPathProbe
from liqod.network.timings import ORDINARY, NetworkTimings
from liqod.plugins.loader import Plugins
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.network.vxlan import VXLAN
from liqod.plugins.network.websocket import WEBSOCKET
from liqod.plugins.network.wireguard import WIREGUARD
from liqod.plugins.providers import Place, Tunnel, TunnelProvider, TunnelServices
from liqod.procedures.timings import PeeringTimings
from liqod.resources import CONFIGURATIONS, NETWORKS, Configuration, Network
from liqod.resources.networking import GATEWAY_SERVERS, GatewayServer
from tests.netns.flows import flowing
from tests.netns.grounds import ground
from tests.netns.lab import Pod, ping, run, set_up, wire
from tests.netns.nodeprogram import NodeProgram
from tests.simulated.addressed import pod_alias
from tests.simulated.borrower import eventually
from tests.simulated.members import Dial, Member, members
from tests.simulated.network.test_networking import join
from tests.testbed.netns import nft

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("networks")]

SETTINGS = """
[webhook]
enabled = false
[cluster]
pod_cidrs = ["10.244.0.0/16"]
"""


PLUGINS = Plugins(network=(WIREGUARD,))


class Site:
    """One cluster: its API server and components, the namespace of its node, and a pod there."""

    def __init__(self, member: Member, node: str, pod: Pod, peer: str) -> None:
        self.member = member
        self.node = node
        self.pod = pod
        self.names = PeerNames(member.id, peer)

    async def reaches(self, last: int, *, times: int = 3) -> int:
        """How many of some echo requests from the pod to the peer's pod are answered."""
        alias = await self.alias(last)
        answered = 0
        for _ in range(times):
            there = partial(ping, self.pod.namespace, alias, timeout=3)
            try:
                said = await trio.to_thread.run_sync(there)
            except OSError:
                continue
            answered += said == f"reply from {alias}"
        return answered

    async def alias(self, last: int) -> str:
        """The address under which a pod of the peer's is seen here."""
        return await pod_alias(self.member.admin, self.names.peer_id, last)

    def left(self) -> str:
        """Returns the peer's namespace, links, routes and tables on this machine."""
        found = [
            each for each in run("ip", "netns", "list").split() if each == self.names.namespace
        ]
        links = run("ip", "-o", "-n", self.node, "link").splitlines()
        found += [each for each in links if self.names.hash in each]
        every = ("ip", "-n", self.node, "route", "show", "table", str(ALIASES_TABLE))
        metrics = tuple(f" metric {each} " for each in self.names.metrics)
        routes = run(*every, check=False).splitlines()
        found += [each for each in routes if any(metric in each for metric in metrics)]
        tables = run("nft", "list", "tables", namespace=self.node).splitlines()
        return "\n".join([*found, *(each for each in tables if self.names.hash in each)])


async def part(rome: Site, milan: Site) -> None:
    """Unpeers them on both sides; then neither machine has anything of the other."""
    await rome.member.unpeer(milan.member)
    await milan.member.unpeer(rome.member)
    await eventually(lambda: not rome.left() and not milan.left(), seconds=15)


def machine_of(
    own: str,
    node: str,
    address: str,
    program: str,
    folder: Path,
    *,
    timings: NetworkTimings = ORDINARY,
    prober: Callable[..., Prober] = Prober,
) -> GatewayHost:
    """Returns the facts that a daemon in that node's namespace finds about its machine."""
    kernel = KernelDatapath(own, node)
    process = MachineProcess(kernel, folder, node)
    folder.mkdir()
    services = TunnelServices(cluster_id=own, host=kernel, folder=str(folder))
    wanted = {"program": program, "kernel": False}
    settings = msgspec.convert(wanted, WIREGUARD.config_type)

    def build(provider: TunnelProvider, settings: object, names: PeerNames) -> Tunnel:
        place = Place(interface=names.tunnel, namespace=names.namespace, underlay=node)
        return provider.build(settings, services, place)

    backends = {
        "wireguard": Listening(carried=True),
        "vxlan": Listening(port=VXLAN.port),
        "websocket": Listening(transport="TCP", port=WEBSOCKET.port, shared=True),
    }
    return GatewayHost(
        facts=MachineFacts(addresses=(address,), backends=backends),
        providers=PLUGINS.network,
        tunnels={
            "wireguard": partial(build, WIREGUARD, settings),
            "websocket": partial(build, WEBSOCKET, WEBSOCKET.config_type()),
            "vxlan": partial(build, VXLAN, VXLAN.config_type()),
        },
        datapath=kernel,
        prober=partial(prober, process),
        path_probe=KernelPathProbe(kernel, process),
        timings=timings,
    )


async def keeps_ranges(member: Member) -> bool:
    """True if a cluster reports its own ranges."""
    found = await member.admin.list(NETWORKS, Selection("liqo"), decode=Network)
    told = {each.metadata.labels.get(labels.NETWORK_TYPE) for each in found if each.status.cidr}
    return {labels.POD_CIDR, labels.EXTERNAL_CIDR} <= told


async def end_rooms(both: Iterable[Member]) -> None:
    """Ends daemons before the kernels that they have: no watch is opened after those closed."""
    for member in both:
        if member.running is not None:
            member.running.cancel()
    with trio.move_on_after(1.0, shield=True):
        await trio.testing.wait_all_tasks_blocked(0.1)


@asynccontextmanager
async def two(
    program: str,
    folder: Path,
    settings: str = "",
    *,
    address: str = "198.51.100.%d",
    pod_cidr: str = "10.244.0.0/16",
    timings: NetworkTimings = ORDINARY,
    prober: Callable[..., Prober] = Prober,
    programs: dict[str, NodeProgram] | None = None,
) -> AsyncIterator[tuple[Site, Site]]:
    """rome and milan, their nodes on one network, each with a pod; not joined.

    Args:
        programs: filled with those that have the tunnels, in the place of this process, by names
            of the sites.
    """
    of_machine = partial(machine_of, timings=timings, prober=prober)
    text = SETTINGS.replace("10.244.0.0/16", pod_cidr) + settings
    length = "/64" if ":" in address else "/24"
    async with ground(folder, "rm") as made:
        clusters, names = (made.lab.rome, made.lab.milan), made.ids
        one, other = nodes = tuple(cluster.node for cluster in clusters)
        for node in nodes:
            made.lab.make(node)
        wire(one, "wan", other, "wan")
        for number, node in enumerate(nodes, 1):
            set_up(node, "wan", f"{address % number}{length}", via=address % (3 - number))
        pods = [cluster.pod("pod", last) for last, cluster in enumerate(clusters, 5)]
        machines = {
            own: of_machine(own, node, address % number, program, made.short / own)
            for number, (own, node) in enumerate(zip(names, nodes, strict=True), 1)
        }
        dials: dict[str, Dial] = {}
        begun = programs if programs is not None else {}
        try:
            for number, site in enumerate(("rome", "milan") if programs is not None else (), 1):
                at = (nodes[number - 1], address % number)
                begun[site] = NodeProgram(*at, program, made.short / f"{site}-node")
                dials[names[number - 1]] = begun[site].dial
                begun[site].start()
            known = {"machines": machines, "dials": dials, "settings": text, "plugins": PLUGINS}
            async with members(*names, **known) as both, trio.open_nursery() as nursery:
                for own in names:
                    member = next(each for each in both if each.id == own)
                    nursery.start_soon(ipam.run, member.context)
                    await eventually(partial(keeps_ranges, member))
                rome = Site(both[0], one, pods[0], names[1])
                milan = Site(both[1], other, pods[1], names[0])
                try:
                    yield rome, milan
                finally:
                    await end_rooms(both)
                    nursery.cancel_scope.cancel()
        finally:
            for each in begun.values():
                await each.close()


async def test_pods_of_two_clusters_reach_each_other_until_they_part(
    wireguard: str, tmp_path: Path
):
    async with two(wireguard, tmp_path) as (rome, milan):
        joining = await join(rome.member, milan.member)
        assert joining.without == ""
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        # Who peers the other way, too, keeps the tunnel that is there.
        joining = await join(milan.member, rome.member)
        assert joining.without == ""
        assert await rome.reaches(6) == 3
        # A range that comes later (nodes of another pool) is known to the other side by itself.
        marks = {labels.NETWORK_TYPE: labels.POD_CIDR}
        later = {"metadata": {"name": "pods-later", "labels": marks}}
        spec = {"spec": {"cidr": "10.246.0.0/16"}}
        await rome.member.admin.create(NETWORKS, {**later, **spec}, "liqo")

        async def is_known() -> bool:
            place = ids.tenant_namespace(rome.member.id)
            get = milan.member.admin.get
            found = await get(CONFIGURATIONS, rome.member.id, place, decode=Configuration)
            seen = found.status.remote
            known = "10.246.0.0/16" in found.spec.remote.cidr.pod
            return known and seen is not None and len(seen.cidr.pod) == 2

        await eventually(is_known, seconds=40)
        assert await milan.reaches(5) == 3
        # A daemon that is killed and started again disturbs nothing.
        answered: list[int] = []

        async def under_way() -> None:
            answered.append(await rome.reaches(6, times=200))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(under_way)
            await rome.member.stop()
            await rome.member.start()
        assert answered == [200]
        await part(rome, milan)


def path(site: Site) -> tuple[str, str]:
    """Returns the path that carries a site's packets, and its endpoint."""
    facts = site.member.components.peers[site.names.peer_id].network.facts()
    assert facts is not None
    return facts.path, facts.endpoint


async def known_path(site: Site) -> tuple[str, str]:
    """Wait until a daemon has measured its path, which it does after it has begun."""

    async def look() -> bool:
        peer = site.member.components.peers.get(site.names.peer_id)
        facts = peer.network.facts() if peer is not None else None
        return facts is not None and bool(facts.path)

    await eventually(look)
    return path(site)


def goes_by(site: Site, before: tuple[str, str]) -> bool:
    """True if its tunnel is connected by the path that it had."""
    network = site.member.components.peers[site.names.peer_id].network
    return path(site) == before and network.connected is True


@pytest.mark.network
@pytest.mark.parametrize(
    ("backend", "settings"),
    [
        ("wireguard", ""),
        ("wireguard", "[network]\nwebsocket = true\n"),
        ("websocket", ""),
        ("vxlan", '[network]\nbackends = ["wireguard", "vxlan", "websocket"]\n'),
    ],
    ids=["wireguard", "wireguard with a websocket", "websocket", "vxlan"],
)
async def test_a_dead_control_plane_costs_no_packet(
    wireguard: str, tmp_path: Path, backend: str, settings: str
):
    """The daemon, and then the API server, too: as it dies, while it is dead, and as it comes back,
    of either side."""
    async with two(wireguard, tmp_path, settings) as (rome, milan):
        assert (await join(rome.member, milan.member, backend=backend)).without == ""
        sides = ((milan, rome), (rome, milan))
        for whole, (dead, lives) in itertools.product((False, True), sides):
            async with flowing(lives.pod, await lives.alias(6 if lives is rome else 5)) as flow:
                began, before = time.monotonic(), await known_path(lives)
                if whole:
                    await dead.member.cluster.stop()
                    await trio.sleep(1.0)
                await dead.member.stop()
                # In a websocket a client goes over after 3 s, and keys are agreed on anew sooner.
                await trio.sleep(4.5)
                # Both daemons run in this process: where it has not had its turn, they have not
                # looked at what came meanwhile.
                await eventually(partial(goes_by, lives, before))
                if whole:
                    await dead.member.cluster.start()
                await dead.member.start()
                await trio.sleep(1.0)
                await flow.loses_none(began)


async def test_where_no_udp_passes_it_is_said_and_a_websocket_does(wireguard: str, tmp_path: Path):
    soon = PeeringTimings(connected_within=3.0)
    async with two(wireguard, tmp_path) as (rome, milan):
        rule = "iifname wan meta l4proto udp drop"
        for site in (rome, milan):
            hook = "type filter hook input priority 0"
            nft(site.node, f"table inet wall {{\nchain c {{\n{hook}\n{rule}\n}}\n}}\n")
        with pytest.raises(ConfigError, match=r"UDP port let through.*--tunnel websocket"):
            await join(rome.member, milan.member, timings=soon)
        for one, other in ((rome, milan), (milan, rome)):
            await one.member.unpeer(other.member)
        joining = await join(rome.member, milan.member, backend="websocket")
        assert joining.without == ""
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        place = ids.tenant_namespace(milan.names.peer_id)
        (server,) = await milan.member.admin.list(
            GATEWAY_SERVERS, Selection(place), decode=GatewayServer
        )
        told = server.status.endpoint
        assert told is not None
        assert (told.port, told.protocol) == (443, "TCP")
