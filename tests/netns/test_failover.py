"""One node's gateway goes, and another has its tunnels in less than a second: real packets.

milan has three nodes on one network, two of them candidates and one with a pod; rome has one.
Daemons' components run in this process against embedded API servers; the kernels' parts are real.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NODES
from liqod.errors import Unreachable
from liqod.kube.leases import Lease
from liqod.model import ids
from liqod.network import ipam
from liqod.network.dataplane import overlayplan
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.failover.election import DURATION, GRACE
from liqod.network.failover.fence import Fence
from liqod.network.failover.lease import record_of
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost
from liqod.network.joining import join
from liqod.network.machineconnection import MachineConnection
from liqod.network.orders.candidacy import GatewayState
from liqod.network.overlay.kernel import NodeKernel
from liqod.network.owngeneration import OwnGeneration
from liqod.peers.peer import Peer
from liqod.resources import CONFIGURATIONS, Configuration
from liqod.runtime.observable import Observable
from liqod.runtime.outliving import outliving
from tests.netns.flows import LATE, flowing
from tests.netns.grounds import ground
from tests.netns.lab import Cluster, Pod, bridge, packets, plug, run
from tests.netns.test_joined_clusters import SETTINGS, end_rooms, keeps_ranges, machine_of
from tests.simulated.borrower import eventually
from tests.simulated.localmachine import LocalMachine
from tests.simulated.members import Member, members
from tests.simulated.network.test_networking import join as joined
from tests.simulated.pairedmachine import PairedMachine
from tests.simulated.processes import sites

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

INTERNAL = {"type": "InternalIP"}
GATEWAYS = "example.io/gateway=yes"
BY_SILENCE = DURATION / 3
"""Seconds under which a fail-over is one by silence, which takes less than one on a machine that is
not busy: by its age, a Lease is taken after :data:`DURATION`."""


class Way:
    """A client whose way to the API server can be cut."""

    def __init__(self, client: Any) -> None:
        self._client, self._open = client, trio.Event()
        self._open.set()

    def cut(self) -> None:
        """Let nothing through."""
        self._open = trio.Event()

    def mend(self) -> None:
        """Let things through again."""
        self._open.set()

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._client, name)

        async def ask(*arguments: Any, **more: Any) -> Any:
            await self._pass()
            return await asked(*arguments, **more)

        return ask

    async def _pass(self) -> None:
        """Blocks requests under way while the path is cut; they fail once it is repaired."""
        if not self._open.is_set():
            await self._open.wait()
            raise Unreachable("it was cut")

    @asynccontextmanager
    async def watch(self, *arguments: Any, **more: Any) -> AsyncIterator[Any]:
        await self._pass()
        async with self._client.watch(*arguments, **more) as watching:
            following = watching.next

            async def next_(*seconds: float) -> Any:
                found = await following(*seconds)
                await self._pass()
                return found

            watching.next = next_
            yield watching


@dataclasses.dataclass
class Node:
    """One of milan's candidates: its namespace, and what its daemon runs.

    Attributes:
        name: of the Node, and of its namespace.
        index: its number.
        role: what its daemon knows.
    """

    name: str
    index: int
    site: Site
    machine: GatewayHost
    role: Role
    way: Way
    scope: trio.CancelScope = dataclasses.field(default_factory=trio.CancelScope)

    @property
    def address(self) -> str:
        return f"198.51.100.{10 + self.index}"

    @property
    def overlay(self) -> OverlayNode:
        return OverlayNode(name=self.name, address=self.address, index=self.index)

    def cut(self) -> None:
        """It is unplugged: from the nodes, from the peer and from the API server."""
        self.way.cut()
        run("ip", "-n", self.site.bridge, "link", "set", f"p{self.index}", "down")

    def mend(self) -> None:
        """It is plugged in again."""
        self.way.mend()
        run("ip", "-n", self.site.bridge, "link", "set", f"p{self.index}", "up")

    def fenced(self) -> int:
        """Packets of its tunnels that the fence has dropped."""
        table = Fence(self.site.milan.id).table
        with suppress(AssertionError):
            return packets(self.name, table, "fenced")
        return 0

    async def run(self) -> None:
        """Runs a daemon's part of this; the daemon with the number 1 leads."""
        milan = self.site.milan
        # A daemon of its own, as the other one's may be dead.
        context = milan.context_of(milan.admin, self.site.nursery)
        network = f'{milan.settings}candidates = "{GATEWAYS}"\nnode = "{self.name}"\n'
        context = dataclasses.replace(context, client=self.way, config=config.parse(network))  # type: ignore[arg-type]
        leads = Observable(self.index == 1)
        own = (leads, OwnGeneration())
        machine = PairedMachine(self.role, node=self.name)
        stand = MachineConnection(context, *own, machine.connect).run
        with trio.CancelScope() as self.scope:
            async with outliving(machine.run), trio.open_nursery() as nursery:
                nursery.start_soon(stand)
                if self.index != 1:
                    # Names on one machine are of both ids.
                    context = dataclasses.replace(
                        context, cluster_id=f"{context.cluster_id}2", client=milan.admin
                    )
                    local = LocalMachine(context.cluster_id, self.machine, self.role)
                    await nursery.start(local.run)
                    for leaf in self.site.leaves:
                        peer = Peer(leaf.id, context, ids.tenant_namespace(leaf.id))
                        nursery.start_soon(partial(join, peer, local.remote, leads=False))
                nursery.start_soon(self._lead_overlay)

    async def _lead_overlay(self) -> None:
        """As the daemon does: leads the nodes to this one while it is the gateway."""
        while True:
            if self.role.now.active and self.site.alias:
                await self.site.lead_to(self)
            await self.role.wait_changed()


class Site:
    """Milan and its peers."""

    def __init__(self, word: str, rome: Member, milan: Member, *others: Member) -> None:
        self.word, self.rome, self.milan = word, rome, milan
        self.leaves = (rome, *others)
        self.bridge = f"{word}-lan"
        self.nodes: list[Node] = []
        self.worker = OverlayNode(
            name=f"{word}-m3", address="198.51.100.13", index=3, pods=("10.244.3.0/24",)
        )
        self.pod: Pod
        self.pods: tuple[Pod, Pod]
        self.alias = self.target = ""
        self.nursery: trio.Nursery

    async def tells_of_peers(self) -> bool:
        """True if the Lease has the endpoints at which peers are observed, as the next gateway
        needs them."""
        found = await self.milan.admin.get(LEASES, labels.GATEWAY_LEASE, "liqo", decode=Lease)
        return {each.id for each in self.leaves} <= {*record_of(found).endpoints}

    async def is_gateway(self, index: int) -> bool:
        """True if that candidate, and no other, is the gateway."""
        return self.active() == [index]

    def active(self) -> list[int]:
        """The candidates that are the gateway, as they say."""
        return [each.index for each in self.nodes if each.role.now.active]

    async def cordon(self, node: Node, *, on: bool = True) -> None:
        """As ``kubectl cordon`` and ``uncordon`` do."""
        await self.milan.admin.patch(NODES, node.name, {"spec": {"unschedulable": on}})

    async def epoch(self) -> int:
        """How often the gateway was taken."""
        found = await self.milan.admin.get(LEASES, labels.GATEWAY_LEASE, "liqo", decode=Lease)
        return found.spec.lease_transitions or 0

    def deafen(self) -> None:
        """Candidates do not see each other any more, and all else goes on."""
        rule = "udp dport 12346 drop; udp sport 12346 drop"
        hook = "type filter hook forward priority 0"
        text = f"table bridge deaf {{ chain f {{ {hook}; {rule}; }} ; }}".replace("; }", ";\n}")
        run("nft", "-f", "-", stdin=text.replace("{ chain", "{\nchain"), namespace=self.bridge)

    def hearing(self) -> None:
        run("nft", "delete", "table", "bridge", "deaf", namespace=self.bridge)

    async def lead_to(self, gateway: Node) -> None:
        """Applies the node plans as `liqod node` does when the InternalFabric names another
        gateway."""
        every = [self.worker, *(each.overlay for each in self.nodes)]
        overlay = Overlay(pods=("10.244.0.0/16",), aliases={self.alias: 1340})
        for each in every:
            plan = overlayplan.plan(each, gateway.overlay, every, overlay)
            await NodeKernel(each.name).apply(self.milan.id, plan)


def standing_by(host: GatewayHost) -> GatewayHost:
    """The same machine, as one of several."""
    facts = msgspec.structs.replace(host.facts, stands_by=frozenset(("wireguard",)))
    return msgspec.structs.replace(host, facts=facts)


def node_object(name: str, number: int) -> dict[str, Any]:
    """A Node; the first two are labelled as those that can be the gateway."""
    marks = {"example.io/gateway": "yes"} if number < 3 else {}
    address = INTERNAL | {"address": f"198.51.100.{10 + number}"}
    return {"metadata": {"name": name, "labels": marks}, "status": {"addresses": [address]}}


@asynccontextmanager
async def site(
    program: str, folder: Path, side: str = "server", network: str = "", *, beside: bool = False
) -> AsyncIterator[Site]:
    """Joined, with the first of milan's candidates as the gateway.

    Args:
        side: milan's.
        network: settings of `[network]`, in which ``{r}`` and ``{t}`` are ids.
        beside: with turin as another peer of milan's, whose pod is like rome's.
    """
    async with ground(folder, "rmt" if beside else "rm", "m2") as laid:
        word, lab, names, short = laid.word, laid.lab, laid.ids, laid.short
        text = f"{SETTINGS}[network]\n{network.format(r=names[0], t=names[-1])}"
        spaces = [f"{word}-lan", lab.rome.node, *(f"{word}-m{i}" for i in (1, 2, 3))]
        turin = Cluster(lab, f"{word}-turin", names[1], "client")
        spaces += [turin.node] if beside else []
        for each in spaces:
            lab.make(each)
        bridge(spaces[0])
        for number, each in enumerate(spaces[1:]):
            own = f"198.51.100.{10 + number}/24"
            plug(spaces[0], f"p{number}", each, "wan", own, via="198.51.100.99")
        rome_pod = lab.rome.pod("pod", 5)
        milan_pod = lab.milan.pod("pod", 6, node=spaces[4], network=3)
        turin_pod = turin.pod("pod", 7) if beside else rome_pod

        def machine(own: str, node: str, last: int) -> GatewayHost:
            return machine_of(own, node, f"198.51.100.{last}", program, short / own)

        both = [
            standing_by(machine(names[1] + "2" * (index - 1), spaces[1 + index], 10 + index))
            for index in (1, 2)
        ]
        machines = {names[0]: machine(names[0], spaces[1], 10), names[1]: both[0]}
        if beside:
            machines[names[2]] = machine(names[2], turin.node, 14)
        roles = [Role(GatewayState(active=None), others=True) for _ in (1, 2)]
        async with (
            members(
                *names, machines=machines, roles={names[1]: roles[0]}, settings=text
            ) as clusters,
            trio.open_nursery() as nursery,
        ):
            rome, milan, *others = clusters
            made = Site(word, rome, milan, *others)
            made.nursery, made.pod, made.pods = nursery, milan_pod, (rome_pod, turin_pod)
            for member in clusters:
                nursery.start_soon(ipam.run, member.context)
                await eventually(partial(keeps_ranges, member))
            for index, (host, role) in enumerate(zip(both, roles, strict=True), 1):
                made.nodes.append(
                    Node(f"{word}-m{index}", index, made, host, role, Way(milan.admin))
                )
            for number in (1, 2, 3):
                await milan.admin.create(NODES, node_object(f"{word}-m{number}", number))
            for node in made.nodes:
                nursery.start_soon(node.run)
            await eventually(partial(made.is_gateway, 1))
            for leaf in made.leaves:
                joining = await joined(*((leaf, milan) if side == "client" else (milan, leaf)))
                assert joining.without == ""
            made.alias = await alias_of(milan, names[0])
            made.target = str(ipaddress.ip_network(made.alias)[5])
            assert rome_pod.address == "10.244.0.5"
            await made.lead_to(made.nodes[0])
            try:
                yield made
            finally:
                for node in made.nodes:
                    node.scope.cancel()
                await end_rooms(clusters)
                nursery.cancel_scope.cancel()


async def alias_of(member: Member, peer: str) -> str:
    place = ids.tenant_namespace(peer)
    found = await member.admin.get(CONFIGURATIONS, peer, place, decode=Configuration)
    assert found.status.remote is not None
    return found.status.remote.cidr.pod[0]


@pytest.mark.parametrize("side", ["server", "client"])
async def test_a_gateway_that_is_unplugged_is_followed_by_its_silence(
    wireguard: str, tmp_path: Path, side: str
):
    async with site(wireguard, tmp_path, side) as made, flowing(made.pod, made.target) as flow:
        one, two = made.nodes
        await eventually(made.tells_of_peers)
        gone = time.monotonic()
        one.cut()
        await eventually(partial(made.is_gateway, 2))
        gap = await flow.gets_well(gone)
        print(f"unplugged under traffic, milan is the {side}: {gap * 1000:.0f} ms")
        # It comes back, and stands by; nothing moves.
        one.mend()
        back = time.monotonic()
        await trio.sleep(3.0)
        assert made.active() == [2]
        assert await made.epoch() == 2
        await flow.gets_well(back)
        # And the other way round.
        gone = time.monotonic()
        two.cut()
        await eventually(partial(made.is_gateway, 1))
        again = await flow.gets_well(gone)
        print(f"unplugged once more, milan is the {side}: {again * 1000:.0f} ms")
        # One that wrote the Lease in its last moment, unheard, is followed by the Lease's age.
        assert min(gap, again) < BY_SILENCE


async def test_a_gateway_whose_node_is_cordoned_gives_way(wireguard: str, tmp_path: Path):
    async with site(wireguard, tmp_path) as made, flowing(made.pod, made.target) as flow:
        one, two = made.nodes
        await eventually(made.tells_of_peers)
        began = time.monotonic()
        await made.cordon(one)
        await eventually(partial(made.is_gateway, 2))
        took, epoch = time.monotonic() - began, await made.epoch()
        gap = await flow.gets_well(began)
        lost = flow.lost(began, time.monotonic() - LATE)
        print(
            f"its node cordoned: followed after {took:.2f} s, {lost} lost, {gap * 1000:.0f} ms gap"
        )
        assert gap < BY_SILENCE
        # Nothing moves back, and nothing moves where both are cordoned.
        await made.cordon(one, on=False)
        await trio.sleep(2.0)
        for each in (one, two):
            await made.cordon(each)
        await trio.sleep(2.0)
        assert made.active() == [2]
        assert await made.epoch() == epoch == 2


async def test_a_daemon_that_is_killed_alone_loses_nothing_and_is_not_followed(
    wireguard: str, tmp_path: Path
):
    async with site(wireguard, tmp_path) as made, flowing(made.pod, made.target) as flow:
        one = made.nodes[0]
        killed = time.monotonic()
        one.scope.cancel()
        await made.milan.stop()
        await trio.sleep(4.0)
        await made.milan.start()
        one.role.set(GatewayState(active=None))  # a process that has just begun
        made.nursery.start_soon(one.run)
        await eventually(partial(made.is_gateway, 1))
        await trio.sleep(2.0)
        assert await made.epoch() == 1
        await flow.loses_none(killed)


async def test_one_that_is_dead_for_long_is_fenced_by_its_kernel_and_then_followed(
    wireguard: str, tmp_path: Path
):
    async with site(wireguard, tmp_path) as made, flowing(made.pod, made.target) as flow:
        one, two = made.nodes
        killed = time.monotonic()
        one.scope.cancel()
        await made.milan.stop()
        one.role.set(GatewayState(active=False))
        dropped: list[int] = []

        async def followed() -> bool:
            if two.role.now.active:
                dropped.append(one.fenced())
            return bool(dropped)

        await eventually(followed, seconds=60)
        took = time.monotonic() - killed
        assert dropped[0] > 0, "it is followed before its kernel has fenced it"
        gap = await flow.gets_well(killed)
        print(f"its daemon dead for good: followed after {took:.1f} s, {gap:.1f} s gap")
        assert took > 3 * GRACE, "its silence is no reason, as its packets go on"
        # Which is what an uninstall takes away.
        fence = Fence(made.milan.id, one.name)
        assert await fence.remove() == [f"table {fence.table} deleted"]
        assert fence.table not in run("nft", "list", "tables", namespace=one.name)
        assert await fence.remove() == []


async def test_a_second_gateway_that_believes_it_leads_is_fenced(wireguard: str, tmp_path: Path):
    """It reaches the peer, and neither the other candidate nor the API server."""
    async with site(wireguard, tmp_path) as made, flowing(made.pod, made.target) as flow:
        one, two = made.nodes
        cut = time.monotonic()
        one.way.cut()
        made.deafen()
        await eventually(partial(made.is_gateway, 2))
        fenced = time.monotonic() - cut
        gap = await flow.gets_well(cut)
        print(f"a second gateway is fenced after {fenced:.2f} s: {gap * 1000:.0f} ms gap")
        assert two.role.now.active
        assert await made.epoch() == 2
        # It hears that another is the gateway, and stays what it is now.
        one.way.mend()
        made.hearing()
        await trio.sleep(2.0)
        assert made.active() == [2]


async def test_one_that_is_not_among_the_candidates_follows_and_never_leads(
    wireguard: str, tmp_path: Path
):
    async with site(wireguard, tmp_path) as made:
        third = Node(
            f"{made.word}-m3",
            3,
            made,
            made.nodes[0].machine,
            Role(GatewayState(active=None), others=True),
            Way(made.milan.admin),
        )
        text = f'{SETTINGS}[network]\ncandidates = "{GATEWAYS}"\nnode = "{third.name}"\n'
        context = made.milan.context_of(made.milan.admin, made.nursery)
        context = dataclasses.replace(context, config=config.parse(text))
        own = (Observable(True), OwnGeneration())
        machine = PairedMachine(third.role, node=third.name)
        made.nursery.start_soon(machine.run)
        made.nursery.start_soon(MachineConnection(context, *own, machine.connect).run)
        await eventually(
            lambda: third.role.now.active is False and third.role.gateway == made.nodes[0].name
        )
        for each in made.nodes:
            each.cut()
        await trio.sleep(3.0)
        assert third.role.now.active is False


async def test_a_daemon_is_a_candidate_by_its_configuration(tmp_path: Path):
    """The process itself, with its own rights at the API server, in this machine's namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 9))  # sends nothing
        own = asking.getsockname()[0]
    node = {"metadata": {"name": "one"}, "status": {"addresses": [INTERNAL | {"address": own}]}}
    async with sites(tmp_path, "rome") as (rome,):
        await rome.admin.create(NODES, node)
        wanted = {"enabled": True, "candidates": "all", "node": "one", "candidate_port": 12399}
        rome.daemon.settings["network"] = wanted
        await rome.start()
        await eventually(
            lambda: rome.admin.find(LEASES, labels.GATEWAY_LEASE, "liqo", decode=Lease),
            lambda found: found is not None and found.spec.holder_identity == "one",
            seconds=60,
        )
        # Alone it writes no more, and it has no fence.
        first = await rome.admin.get(LEASES, labels.GATEWAY_LEASE, "liqo")
        await trio.sleep(5.0)
        assert await rome.admin.get(LEASES, labels.GATEWAY_LEASE, "liqo") == first
        assert Fence("rome").table not in run("nft", "list", "tables")


async def test_candidates_that_do_not_hear_each_other_change_nothing(
    wireguard: str, tmp_path: Path
):
    async with site(wireguard, tmp_path) as made, flowing(made.pod, made.target) as flow:
        deaf = time.monotonic()
        made.deafen()
        await trio.sleep(6.0)
        # Where the machine is so busy that no write goes through in time, it is fenced until then.
        await eventually(partial(made.is_gateway, 1))
        assert await made.epoch() == 1
        gap = await flow.gets_well(deaf)
        lost = flow.lost(deaf, time.monotonic() - LATE)
        print(f"candidates that do not hear each other: {lost} lost, {gap * 1000:.0f} ms gap")
        assert gap < BY_SILENCE
