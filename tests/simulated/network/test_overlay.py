"""Objects of the overlay between nodes that the leader writes, beside an embedded API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NODES
from liqod.network.failover.role import Role
from liqod.network.machine.overlayservice import OverlayService
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.overlay import LeadOverlay, OverlayOrder, ReleaseOverlay
from liqod.network.orders.tunnels import MachineFacts
from liqod.network.overlay.kernel import NodeKernel
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.network.overlay.takeover import Takeover
from liqod.network.overlay.writer import OverlayWriter
from liqod.network.remotemachine import RemoteMachine
from liqod.procedures import networkstatus
from liqod.resources import INTERNAL_FABRICS, INTERNAL_NODES
from liqod.resources.networking import GATEWAY_SERVERS
from tests.simulated.addressed import MILAN, Rome, node, rome
from tests.simulated.borrower import eventually
from tests.unit.network.kernels import NotedKernel

FABRICS = (INTERNAL_FABRICS, "gateway", "liqo")


def machine_at(*addresses: str) -> RemoteMachine:
    """A machine that takes no orders, with these addresses."""
    return RemoteMachine(lambda order: None, facts=MachineFacts(addresses=addresses))


class Noting(NotedKernel):
    """A node's kernel, and the machine that it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = machine_at()


@asynccontextmanager
async def written(made: Rome, holder: str = "me") -> AsyncIterator[Noting]:
    """The leader's writer at work on the node ``one``."""
    kernel = Noting()
    kernel.machine = machine = machine_at("192.168.1.10")
    async with trio.open_nursery() as nursery:
        own = ordered(nursery, kernel)
        await nursery.start(OverlayWriter(made.context, machine, machine.role, own, holder).run)
        yield kernel
        nursery.cancel_scope.cancel()


def ordered(nursery: trio.Nursery, kernel: NodeKernel) -> RemoteOverlay:
    """The overlay of a machine with that kernel, as its daemon has it."""
    own = RemoteOverlay(lambda order: service.receive(order))
    service = OverlayService("rome", kernel, own.receive)
    nursery.start_soon(service.run)
    return own


@asynccontextmanager
async def two_nodes(*, peer: bool = True) -> AsyncIterator[Rome]:
    """rome with a second node, joined with milan."""
    async with rome() as made, made.kept():
        await made.client.create(NODES, node("two", "10.244.1.0/24", "192.168.1.11"))
        if peer:
            await made.configured("milan", ["10.244.0.0/16"])
            await made.seen("milan")
            await gateway(made)
        yield made


async def gateway(made: Rome) -> None:
    spec = {"endpoint": {"port": 51840}, "mtu": 1400}
    await made.client.create(GATEWAY_SERVERS, {"metadata": {"name": "milan"}, "spec": spec}, MILAN)


async def fabric(made: Rome) -> dict[str, Any]:
    return dict((await eventually(lambda: made.client.find(*FABRICS)))["spec"])


async def nodes(made: Rome) -> dict[str, Any]:
    found = await made.client.list(INTERNAL_NODES)
    return {each["metadata"]["name"]: each["spec"] for each in found}


async def gone(made: Rome) -> None:
    async def look() -> bool | None:
        left = await made.client.find(*FABRICS) is not None or await nodes(made)
        return None if left else True

    await eventually(look)


async def test_nodes_and_gateway_are_written():
    async with two_nodes() as made, written(made) as kernel:
        said = await fabric(made)
        alias = (await made.seen("milan"))["pod"][0]
        assert said["gateway"] == {
            "node": "one", "index": 1, "address": "192.168.1.10", "epoch": 1, "holder": "me",
        }  # fmt: skip
        assert said["aliases"] == [{"cidr": alias, "mtu": 1400}]
        assert (said["mtu"], said["cluster"]) == (1450, "rome")
        assert await nodes(made) == {
            "one": {"index": 1, "address": "192.168.1.10", "podCIDRs": ["10.244.0.0/24"]},
            "two": {"index": 2, "address": "192.168.1.11", "podCIDRs": ["10.244.1.0/24"]},
        }
        assert not [each for each in made.failures if "forbidden" in each]
        await eventually(lambda: bool(kernel.plans))
        assert kernel.plans[-1].forwarding[0].to == "192.168.1.11"


async def test_one_node_and_no_peer_need_none_of_it():
    async with rome() as made, made.kept(), written(made) as kernel:
        await made.configured("milan", ["10.244.0.0/16"])
        await made.seen("milan")
        await gateway(made)
        await trio.sleep(0.3)
        assert await made.client.find(*FABRICS) is None
        assert await nodes(made) == {}
        assert (kernel.plans, kernel.removed) == ([], 1)
    async with two_nodes(peer=False) as made, written(made) as kernel:
        await trio.sleep(0.3)
        assert await made.client.find(*FABRICS) is None
        assert kernel.plans == []


async def test_it_is_written_once():
    async with two_nodes() as made:
        async with written(made) as kernel:
            await eventually(lambda: bool(kernel.plans))
            before = await versions(made)
        async with written(made) as kernel:
            await eventually(lambda: bool(kernel.plans))
            await made.client.patch(NODES, "two", {"metadata": {"labels": {"some": "one"}}})
            await trio.sleep(0.2)
            assert await versions(made) == before
            assert len(kernel.plans) == 1


async def versions(made: Rome) -> list[str]:
    found = [*await made.client.list(INTERNAL_NODES), await made.client.get(*FABRICS)]
    return [each["metadata"]["resourceVersion"] for each in found]


async def test_a_standby_leads_the_overlay_to_itself_when_it_takes_over():
    async with two_nodes() as made:
        async with written(made) as kernel:
            await eventually(lambda: bool(kernel.plans))
        role, kernel = Role(GatewayState(active=False), others=True), Noting()
        role.gateway = "one"
        async with trio.open_nursery() as nursery:
            own = ordered(nursery, kernel)
            await nursery.start(Takeover(made.context, role, own, "second").run)
            await trio.sleep(0.2)
            assert (await fabric(made))["gateway"]["node"] == "one"
            assert kernel.plans == []
            role.gateway = "two"
            role.set(GatewayState(active=True))
            await eventually(lambda: bool(kernel.plans))
            said = (await fabric(made))["gateway"]
            assert (said["node"], said["epoch"], said["holder"]) == ("two", 2, "second")
            assert kernel.plans[-1].forwarding[0].to == "192.168.1.10"
            nursery.cancel_scope.cancel()


async def test_a_gateway_of_a_standby_puts_back_no_overlay_that_the_cluster_has_no_more():
    async with two_nodes() as made:
        async with written(made) as kernel:
            await eventually(lambda: bool(kernel.plans))
        role, orders = Role(GatewayState(), others=True), list[OverlayOrder]()
        role.gateway = "one"
        async with trio.open_nursery() as nursery:
            own = RemoteOverlay(orders.append)
            await nursery.start(Takeover(made.context, role, own, "second").run)
            await eventually(lambda: bool(orders))
            assert isinstance(orders[-1], LeadOverlay)
            kind, name, place = FABRICS
            await made.client.delete(kind, name, place)
            await eventually(lambda: isinstance(orders[-1], ReleaseOverlay))
            nursery.cancel_scope.cancel()


async def test_a_kernel_that_refuses_is_a_failure_until_it_has_it():
    async with two_nodes() as made, trio.open_nursery() as nursery:
        kernel = Noting()
        kernel.refuses = "no lqx here"
        own = ordered(nursery, kernel)
        machine = machine_at("192.168.1.10")
        await nursery.start(OverlayWriter(made.context, machine, machine.role, own, "me").run)
        assert "no lqx here" in await made.failed("no lqx here")
        kernel.refuses = ""
        await eventually(lambda: bool(kernel.plans))
        nursery.cancel_scope.cancel()


async def test_a_hand_edit_is_put_right():
    async with two_nodes() as made, written(made):
        before = await fabric(made)
        evil = {"aliases": [{"cidr": "0.0.0.0/0", "mtu": 1400}]}
        await made.client.patch(INTERNAL_FABRICS, "gateway", {"spec": evil}, "liqo")
        await eventually(lambda: fabric(made), before.__eq__)
        await made.client.patch(INTERNAL_NODES, "two", {"spec": {"address": "192.168.1.10"}})
        await eventually(
            lambda: nodes(made), lambda found: found["two"]["address"] == "192.168.1.11"
        )


async def test_with_the_second_node_it_goes_and_a_third_gets_the_free_number():
    async with two_nodes() as made, written(made):
        await fabric(made)
        await made.client.create(NODES, node("three", "10.244.2.0/24", "192.168.1.12"))
        await eventually(
            lambda: nodes(made), lambda found: found.get("three", {}).get("index") == 3
        )
        await made.client.delete(NODES, "two")
        await eventually(lambda: nodes(made), lambda found: found.keys() == {"one", "three"})
        await made.client.create(NODES, node("four", "10.244.3.0/24", "192.168.1.13"))
        await eventually(lambda: nodes(made), lambda found: found.get("four", {}).get("index") == 2)
        for name in ("three", "four"):
            await made.client.delete(NODES, name)
        await gone(made)


async def test_a_daemon_on_none_of_the_nodes_takes_nothing_away():
    async with two_nodes() as made:
        async with written(made):
            before = await fabric(made)
        kernel = Noting()
        async with trio.open_nursery() as nursery:
            elsewhere = machine_at("203.0.113.9")
            own = ordered(nursery, kernel)
            await nursery.start(
                OverlayWriter(made.context, elsewhere, elsewhere.role, own, "me").run
            )
            assert "none of the cluster's 2 nodes" in await made.failed("none of the cluster's")
            nursery.cancel_scope.cancel()
        assert await fabric(made) == before
        assert (kernel.plans, kernel.removed) == ([], 0)


async def test_what_a_node_says_of_itself_changes_nothing():
    async with two_nodes() as made, written(made) as kernel:
        await eventually(lambda: bool(kernel.plans))
        before, count = await versions(made), len(kernel.plans)
        status = {"status": {"fabricGeneration": 7}}
        await made.client.patch(INTERNAL_NODES, "two", status, subresource="status")
        await trio.sleep(0.2)
        assert len(kernel.plans) == count
        assert (await versions(made))[0] == before[0]


async def test_how_each_node_fares_is_known_to_those_who_show_it():
    async with two_nodes() as made, written(made) as kernel:
        await eventually(lambda: bool(kernel.plans))
        await eventually(lambda: bool(kernel.machine.nodes))
        (way,) = kernel.machine.nodes
        assert (way.name, way.told, way.problem) == ("two", None, "")
        said = {"type": "Applied", "status": "False", "reason": "NotApplied", "message": "no lqx"}
        dated = {**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"status": {"conditions": [dated]}}
        await made.client.patch(INTERNAL_NODES, "two", status, subresource="status")
        await eventually(lambda: kernel.machine.nodes[0].problem == "no lqx")


async def test_what_liqo_left_under_a_nodes_name_is_taken_over():
    """Objects of its own that are older than our definitions have none of our fields."""
    async with two_nodes() as made:
        theirs = {"interface": {"gateway": {"name": "liqo.1"}, "node": {"ip": "10.80.0.2"}}}
        body = {"metadata": {"name": "two"}, "spec": theirs}
        definition = await made.client.get(CUSTOM_RESOURCES, "internalnodes.networking.liqo.io")
        loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        (version,) = definition["spec"]["versions"]
        schema = {"type": "object", "properties": {"spec": loose, "status": loose}}
        kept = {**version, "schema": {"openAPIV3Schema": schema}}
        versions = {"spec": {"versions": [kept]}}
        await made.client.patch(CUSTOM_RESOURCES, definition["metadata"]["name"], versions)
        await made.client.create(INTERNAL_NODES, body)
        assert await networkstatus.nodes(made.client) == ()
        async with written(made) as kernel:
            await eventually(lambda: bool(kernel.plans))
            found = (await nodes(made))["two"]
            assert (found["index"], found["address"]) == (2, "192.168.1.11")
