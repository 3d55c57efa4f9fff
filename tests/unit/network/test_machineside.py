"""The machine's side is of the cluster that greets first, and goes on without a daemon."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from liqod.errors import NetworkError
from liqod.network.failover.role import UNKNOWN, Role
from liqod.network.framestream import FrameStream
from liqod.network.gatewayhost import Look
from liqod.network.machine import machineside
from liqod.network.machine.machineside import MachineSide
from liqod.network.orders import messages
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.messages import Order
from liqod.network.orders.tunnels import (
    BackendTrouble,
    BackendTroubles,
    MachineRead,
    ReadMachine,
    Surroundings,
    TunnelReport,
)
from tests.unit.network.ordering import admitted, hello, reply
from tests.unit.network.test_tunnelservice import Machine as Kernel
from tests.unit.network.tunnels import ORDER


@dataclass
class Host:
    """A machine, and its daemons."""

    nursery: trio.Nursery
    kernel: Kernel
    side: MachineSide
    equipped: list[str]
    role: Role

    @asynccontextmanager
    async def daemon(
        self, generation: int = 1, cluster: str = "rome"
    ) -> AsyncIterator[FrameStream]:
        """A connection that has greeted."""
        own, other = (trio.SocketStream(each) for each in trio.socket.socketpair())
        self.nursery.start_soon(self.side.serve, other)
        async with own:
            yield await admitted(own, hello(generation, of=cluster))

    async def order(self, daemon: FrameStream, *orders: Order) -> None:
        for each in orders:
            await daemon.deliver(each)
        await trio.sleep(0.05)
        await wait_all_tasks_blocked(0.01)


@asynccontextmanager
async def machine(
    troubles: Callable[[], Mapping[str, BackendTrouble]] = dict,
) -> AsyncIterator[Host]:
    kernel, equipped, role = Kernel(), list[str](), Role(UNKNOWN, others=True)

    def equip(cluster: str) -> Look:
        equipped.append(cluster)
        return kernel.look

    kernel.role = role
    async with trio.open_nursery() as nursery:
        side = MachineSide(equip, role, troubles)
        nursery.start_soon(side.run)
        yield Host(nursery, kernel, side, equipped, role)
        nursery.cancel_scope.cancel()


async def test_it_is_of_the_cluster_whose_daemon_greets_first():
    async with machine() as made:
        for wrong in ("", "Rome", "a/b", "x" * 200):
            with pytest.raises(NetworkError, match="a cluster id"):
                async with made.daemon(cluster=wrong):
                    pass
        assert made.side.cluster == ""
        async with made.daemon() as one:
            await made.order(one, ReadMachine(1))
        assert (made.side.cluster, made.equipped) == ("rome", ["rome"])
        with pytest.raises(NetworkError, match="is of the cluster rome"):
            async with made.daemon(9, "milan"):
                pass
        async with made.daemon(2) as two:
            await made.order(two, ReadMachine(2))
        assert made.equipped == ["rome"], "it is the same machine for the next one"


async def test_it_keeps_what_is_ordered_without_a_daemon_and_the_next_one_adopts_it():
    async with machine() as made:
        async with made.daemon() as one:
            await made.order(one, ReadMachine(1), ORDER)
        assert made.kernel.did == [("up", "milan"), ("apply", "milan")]
        await trio.sleep(0.1)
        assert made.kernel.did[2:] == [], "nothing ends with the daemon"
        async with made.daemon(2) as two:
            await made.order(two, ReadMachine(1), ORDER)
            assert ("down", "milan") not in made.kernel.did
            read = list[type]()
            with trio.fail_after(5):
                while not {MachineRead, TunnelReport} <= {*read}:
                    read.append(type(messages.REPLIES.decode(await two.receive())))


async def test_its_role_is_not_known_until_a_daemon_says_whether_there_are_others():
    async with machine() as made, made.daemon() as one:
        await made.order(one, ORDER)
        assert made.role.now == UNKNOWN
        await made.order(one, ReadMachine(1, Surroundings(others=True)))
        assert made.role.now == UNKNOWN, "the election decides"
        assert made.kernel.did == []
        await made.order(one, ReadMachine(2))
        assert made.role.now == GatewayState(), "it is alone"
        assert ("up", "milan") in made.kernel.did


async def test_without_a_daemon_it_gives_up_its_tunnels_once_the_gateway_is_elsewhere():
    async with machine() as made:
        async with made.daemon() as one:
            await made.order(one, ReadMachine(1), ORDER)
            made.side.see_gateway(elsewhere=True)
            await wait_all_tasks_blocked(0.01)
            assert ("down", "milan") not in made.kernel.did, "its daemon decides"
            made.side.see_gateway(elsewhere=False)
        await trio.sleep(0.1)
        assert ("down", "milan") not in made.kernel.did, "nobody else is"
        made.side.see_gateway(elsewhere=True)
        await wait_all_tasks_blocked(0.01)
        assert made.kernel.did[-1] == ("remove", "milan")
        made.kernel.did.clear()
        async with made.daemon(2) as two:
            await made.order(two, ReadMachine(2), ORDER)
            assert ("up", "milan") in made.kernel.did, "what a daemon orders counts"
        with trio.fail_after(5):
            while made.kernel.did[-1] != ("remove", "milan"):  # noqa: ASYNC110  # of another task
                await trio.sleep(0.01)


async def test_among_candidates_the_election_decides_where_tunnels_are():
    async with machine() as made:
        async with made.daemon() as one:
            await made.order(one, ReadMachine(1, Surroundings(others=True)), ORDER)
        made.side.see_gateway(elsewhere=True)
        await wait_all_tasks_blocked(0.01)
        assert made.kernel.did == []


async def test_a_backends_fault_is_told_to_each_daemon_until_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(machineside, "TROUBLES_EVERY", 0.02)
    troubles = {"wireguard": BackendTrouble("does not end")}
    async with machine(lambda: troubles) as made:
        for generation in (1, 2):
            async with made.daemon(generation) as daemon:
                await made.order(daemon, ReadMachine(generation))
                assert await told(daemon) == troubles
        async with made.daemon(3) as daemon:
            await told(daemon)
            troubles = {}
            with trio.fail_after(5):
                while await told(daemon):
                    pass


async def told(daemon: FrameStream) -> Mapping[str, BackendTrouble]:
    """The next faults of backends that are told."""
    with trio.fail_after(5):
        return (await reply(daemon, BackendTroubles)).troubles
