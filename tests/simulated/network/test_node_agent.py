"""``liqod node`` beside an embedded API server, with a kernel that records its calls."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES
from liqod.errors import NetworkError
from liqod.install import noderights
from liqod.install.overlayremoval import overlay_down
from liqod.kube.cache.informers import Informers
from liqod.kube.client import Client
from liqod.kube.controller import report_failures
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.network.overlay.agent import NodeAgent
from liqod.network.overlay.ping import PingResult
from liqod.resources import INTERNAL_FABRICS, INTERNAL_NODES
from simulator import EmbeddedCluster
from tests.simulated.borrower import condition, eventually
from tests.simulated.prepared import installed
from tests.unit.network.kernels import NotedKernel

SPEC: dict[str, Any] = {
    "cluster": "rome",
    "gateway": {"node": "one", "index": 1, "address": "192.168.1.10", "epoch": 1, "holder": "me"},
    "aliases": [{"cidr": "10.71.0.0/16", "mtu": 1340}],
    "podCIDRs": ["10.244.0.0/16"],
    "mtu": 1450,
}


class Noting(NotedKernel):
    """A node's kernel, with a path to the gateway."""

    remover = ""

    def __init__(self) -> None:
        super().__init__()
        self.heard: Callable[[PingResult], None] | None = None
        self.counts = {"forged": 0}
        self.blind = False

    async def ping(self, address: str, heard: Callable[[PingResult], None]) -> NoReturn:
        self.heard = heard
        if self.blind:
            raise NetworkError("there is no echo")
        heard(PingResult(True, f"{address} answers", 0.0004))
        await trio.sleep_forever()
        raise AssertionError

    async def dropped(self) -> dict[str, int]:
        if self.blind:
            raise NetworkError("there is no counter")
        return self.counts


@dataclass
class Two:
    """The node ``two`` of rome, whose gateway is ``one``."""

    client: Client
    kernel: Noting
    agent: NodeAgent
    states: list[tuple[str, bool]]
    nursery: trio.Nursery
    elsewhere: list[bool] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)

    async def status(self) -> dict[str, Any]:
        return dict((await self.client.get(INTERNAL_NODES, "two")).get("status", {}))

    async def says(self, type_: str, reason: str) -> str:
        """The message of a condition, as soon as it has this reason."""
        found = await eventually(
            lambda: self.client.get(INTERNAL_NODES, "two"),
            lambda found: condition(found, type_).get("reason") == reason,
        )
        return str(condition(found, type_)["message"])

    async def applied(self, count: int) -> None:
        await eventually(lambda: len(self.kernel.plans) >= count)

    async def removed(self) -> None:
        """Waits until everything is taken away."""
        await eventually(lambda: self.kernel.removed >= 1)

    async def change(self, **spec: Any) -> None:
        await self.client.patch(INTERNAL_FABRICS, "gateway", {"spec": spec}, "liqo")


class Tunnels:
    """Those of a program that record what is asked of them.

    Args:
        ordered: True if a daemon has ordered some.
        busy: times that what is left does not go.

    Attributes:
        elsewhere: what was said of the gateway.
        asked: the clusters whose tunnels were to end.
    """

    def __init__(self, *, ordered: bool = False, busy: int = 0) -> None:
        self.ordered, self.busy = ordered, busy
        self.elsewhere: list[bool] = []
        self.asked: list[str] = []

    def see_gateway(self, elsewhere: bool) -> None:
        self.elsewhere.append(elsewhere)

    async def end_left(self, cluster: str) -> list[str]:
        self.asked.append(cluster)
        if len(self.asked) <= self.busy:
            raise NetworkError("it is busy")
        return ["link liqod-1 deleted"]


@dataclass(frozen=True)
class Host:
    informers: Informers

    def failures(self, topic: str) -> Callable[[object, Exception], None]:
        return report_failures(lambda key, reason: None, topic)


async def api_servers() -> tuple[str, ...]:
    return ("10.96.0.1",)


@asynccontextmanager
async def two(*, made: bool = True, tunnels: Tunnels | None = None) -> AsyncIterator[Two]:
    async with (
        EmbeddedCluster("rome", state=await installed("rome")) as server,
        Client(from_kubeconfig(server.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        if made:
            await make(client)
        # As the ServiceAccount, with its rights and no others.
        text = server.kubeconfig_for(f"system:serviceaccount:liqo:{noderights.ACCOUNT}")
        async with Client(from_kubeconfig(text)) as own:
            kernel = Noting()
            states: list[tuple[str, bool]] = []
            host = Host(Informers(own, nursery))
            tunnels = tunnels or Tunnels()
            told = (lambda *now: states.append(now), tunnels)
            agent = NodeAgent(host, own, "two", "liqo", kernel, api_servers, *told)
            await nursery.start(agent.run)
            yield Two(client, kernel, agent, states, nursery, tunnels.elsewhere)
            nursery.cancel_scope.cancel()


async def make(client: Client, **more: Any) -> None:
    for name, index in (("one", 1), ("two", 2)):
        spec = {"index": index, "address": f"192.168.1.1{index - 1}"}
        await client.create(INTERNAL_NODES, {"metadata": {"name": name}, "spec": spec})
    await client.create(
        INTERNAL_FABRICS, {"metadata": {"name": "gateway"}, "spec": {**SPEC, **more}}, "liqo"
    )


async def test_a_node_applies_what_is_said_and_says_so():
    async with two() as node:
        await node.says("Applied", "Applied")
        plan = node.kernel.plans[0]
        assert {route.to for route in plan.routes} == {"10.71.0.0/16"}
        await node.says("GatewayReachable", "Answers")
        status = await node.status()
        assert (status["observedGeneration"], status["fabricGeneration"]) == (1, 1)
        assert status["latency"] == "0.40ms"
        assert node.states[-1] == ("node of the gateway one", True)


async def test_at_rest_nothing_is_written_or_applied():
    async with two() as node:
        await node.says("GatewayReachable", "Answers")
        await trio.sleep(0.2)
        version = (await node.client.get(INTERNAL_NODES, "two"))["metadata"]["resourceVersion"]
        applied = len(node.kernel.plans)
        assert node.kernel.heard is not None
        for latency in (0.0004, 0.0009, 0.002):
            node.kernel.heard(PingResult(True, "169.254.32.1 answers", latency))
        await trio.sleep(0.3)
        found = (await node.client.get(INTERNAL_NODES, "two"))["metadata"]["resourceVersion"]
        assert found == version
        assert len(node.kernel.plans) == applied


async def test_another_gateway_and_another_peer_are_followed():
    async with two() as node:
        await node.says("GatewayReachable", "Answers")
        await node.says("Applied", "Applied")
        gateway = {"node": "three", "index": 3, "address": "192.168.1.12", "epoch": 2}
        alias = {"cidr": "10.72.0.0/16", "mtu": 1400}
        await node.change(gateway=gateway, aliases=[*SPEC["aliases"], alias])
        await eventually(
            lambda: node.kernel.plans[-1],
            lambda plan: (
                plan.forwarding[0].to == "192.168.1.12"
                and {route.to for route in plan.routes} == {"10.71.0.0/16", "10.72.0.0/16"}
            ),
        )


async def test_on_the_gateway_it_stands_back():
    async with two() as node:
        await node.says("GatewayReachable", "Answers")
        await node.says("Applied", "Applied")
        applied = len(node.kernel.plans)
        await node.change(gateway={"node": "two", "index": 2, "address": "192.168.1.11"})
        await eventually(lambda: "its daemon sets it up" in node.states[-1][0])
        assert (len(node.kernel.plans), node.kernel.removed) == (applied, 0)
        await node.change(gateway=SPEC["gateway"])
        await node.applied(applied + 1)


async def test_what_makes_no_sense_is_named_and_what_was_sound_stays():
    async with two() as node:
        await node.says("GatewayReachable", "Answers")
        await node.says("Applied", "Applied")
        evil = {"cidr": "10.96.0.0/16", "mtu": 1340}
        await node.change(aliases=[evil, *SPEC["aliases"]])
        assert "API server" in await node.says("Applied", "AliasRefused")
        assert {route.to for route in node.kernel.plans[-1].routes} == {"10.71.0.0/16"}
        applied = len(node.kernel.plans)
        await node.change(gateway={**SPEC["gateway"], "address": "127.0.0.1"})
        assert "no address of a node" in await node.says("Applied", "Refused")
        assert (len(node.kernel.plans), node.kernel.removed) == (applied, 0)
        assert node.states[-1][1] is False
        await node.change(gateway=SPEC["gateway"], aliases=SPEC["aliases"])
        await node.says("Applied", "Applied")
        assert node.states[-1][1] is True


@pytest.mark.long
async def test_what_the_kernel_refuses_is_said_and_tried_again():
    async with two(made=False) as node:
        node.kernel.refuses = "the interface lqx is of liqod milan"
        await make(node.client)
        assert "is of liqod milan" in await node.says("Applied", "NotApplied")
        # What its readiness says; its liveness asks for nothing of it.
        assert node.states[-1] == (f"not as wanted: {node.kernel.refuses}", False)
        node.kernel.refuses = ""
        await node.says("Applied", "Applied")
        assert node.states[-1] == ("node of the gateway one", True)


async def test_dropped_packets_and_a_silent_gateway_are_said():
    async with two() as node:
        await node.says("GatewayReachable", "Answers")
        node.kernel.counts = {"forged": 3}
        assert node.kernel.heard is not None
        node.kernel.heard(PingResult(False, "169.254.32.1 does not answer over the overlay"))
        assert "does not answer" in await node.says("GatewayReachable", "Silent")
        node.agent.dropped = node.kernel.counts
        node.kernel.heard(PingResult(True, "169.254.32.1 answers", 0.001))
        await node.says("GatewayReachable", "Answers")
        assert (await node.status())["dropped"] == {"forged": 3}


async def test_what_cannot_be_looked_at_hinders_nothing():
    async with two(made=False) as node:
        node.kernel.blind = True
        await make(node.client)
        await node.says("Applied", "Applied")
        assert "there is no echo" in await node.says("GatewayReachable", "Silent")
        gateway = {"node": "three", "index": 3, "address": "192.168.1.12", "epoch": 2}
        applied = len(node.kernel.plans)
        await node.change(gateway=gateway)
        await node.applied(applied + 1)


async def test_with_the_fabric_or_the_own_object_everything_goes():
    for kind, name, place in ((INTERNAL_FABRICS, "gateway", "liqo"), (INTERNAL_NODES, "two", None)):
        async with two() as node:
            await node.says("Applied", "Applied")
            await node.client.delete(kind, name, place)
            await node.removed()
            assert node.states[-1] == ("there is no overlay", True)
            if kind is INTERNAL_FABRICS:
                await node.says("Applied", "Removed")


async def test_with_the_definitions_nothing_goes():
    """Deleting a definition deletes all objects, and seldom means each of them."""
    async with two() as node:
        await node.says("Applied", "Applied")
        await node.client.delete(CUSTOM_RESOURCES, "internalfabrics.networking.liqo.io")
        await trio.sleep(0.5)
        assert node.kernel.removed == 0


async def test_what_an_earlier_one_left_goes_where_there_is_no_overlay():
    async with two(made=False) as node:
        await node.removed()
        assert node.states[-1] == ("there is no overlay", True)
        await make(node.client)
        await node.says("Applied", "Applied")


async def test_uninstalling_waits_for_nodes_and_names_those_that_do_not_answer():
    async with two() as node:
        await node.says("Applied", "Applied")
        told: list[str] = []
        assert await overlay_down(node.client, told.append) == []
        assert node.kernel.removed == 1
        assert await node.client.find(INTERNAL_FABRICS, "gateway", "liqo") is None
    async with two() as node:
        await node.says("Applied", "Applied")
        node.nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            silent = await overlay_down(node.client, told.append)
        assert silent == ["two"]
        assert "waiting for two" in told[-1]


async def test_uninstalling_without_an_overlay_waits_for_nothing():
    async with two(made=False) as node:
        began = trio.current_time()
        assert await overlay_down(node.client, lambda _: None) == []
        assert trio.current_time() - began < 2


async def test_it_notifies_where_the_gateway_is_once_that_is_certain():
    async with two(made=False) as node:

        async def last(elsewhere: bool) -> None:
            await eventually(lambda: node.elsewhere[-1:] == [elsewhere])

        await last(False)
        await node.client.create(
            INTERNAL_FABRICS, {"metadata": {"name": "gateway"}, "spec": SPEC}, "liqo"
        )
        await trio.sleep(0.2)
        assert not any(node.elsewhere), "it may have a wrong name: there is no such node"
        spec = {"index": 2, "address": "192.168.1.11"}
        await node.client.create(INTERNAL_NODES, {"metadata": {"name": "two"}, "spec": spec})
        await last(True)
        gateway = {"node": "two", "index": 2, "address": "192.168.1.11", "epoch": 2}
        await node.change(gateway=gateway)
        await last(False)
