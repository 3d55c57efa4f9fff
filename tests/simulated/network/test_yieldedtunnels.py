"""A machine that was the gateway has no tunnels once the leader is at another, and only then."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.network import yieldedtunnels
from liqod.network.orders.tunnels import (
    EndTunnel,
    FindUnknown,
    MachineFacts,
    MachineRead,
    ReadMachine,
    SweepUnknown,
    TunnelEnded,
    UnknownFound,
    UnknownSwept,
)
from liqod.network.remotemachine import RemoteMachine
from liqod.network.yieldedtunnels import YieldedTunnels
from liqod.runtime.observable import Observable
from tests.simulated.borrower import eventually
from tests.simulated.network.test_overlay import fabric, two_nodes, written

LEADER = "leader"


class Machine:
    """A machine that carries out orders at once.

    Attributes:
        left: the networks on it, by the peers' names.
        fails: sweeps that fail before one does not.
        unknown: answers that nothing is known of it, before it is.
        orders: all that it was sent.
    """

    def __init__(self, *left: str) -> None:
        self.left, self.fails, self.orders = left, 0, list[Any]()
        self.unknown = 0
        self.remote = RemoteMachine(self._receive)

    def _receive(self, order: Any) -> None:
        self.orders.append(order)
        match order:
            case ReadMachine():
                self.unknown -= 1
                facts = MachineFacts(problem="busy", unknown=True)
                known = MachineFacts() if self.unknown < 0 else facts
                self.remote.receive(MachineRead(order.number, known))
            case FindUnknown():
                assert order.known == ()
                self.remote.receive(UnknownFound(order.number, self.left))
            case EndTunnel():
                self.remote.receive(TunnelEnded(order.number))
                self.left = tuple(each for each in self.left if each != order.peer)
            case SweepUnknown():
                assert order.known == ()
                self._sweep(order)

    def _sweep(self, order: SweepUnknown) -> None:
        if self.fails:
            self.fails -= 1
            self.remote.receive(UnknownSwept(order.number, (), "it is busy"))
            return
        gone = tuple(each for each in self.left if each in order.found)
        self.left = tuple(each for each in self.left if each not in gone)
        self.remote.receive(UnknownSwept(order.number, gone))

    @property
    def ended(self) -> list[str]:
        return [each.peer for each in self.orders if isinstance(each, EndTunnel)]


@dataclasses.dataclass
class Standby:
    """A daemon that stands by, and the machine that it is at."""

    machine: Machine
    leader: Observable[str]
    nursery: trio.Nursery

    async def asks(self, times: int) -> None:
        """Waits until the machine was asked so often what is there."""
        orders = self.machine.orders
        await eventually(lambda: sum(isinstance(each, FindUnknown) for each in orders) >= times)


@asynccontextmanager
async def standing_by(
    *left: str, node: str, leader: str = LEADER, address: str = ""
) -> AsyncIterator[Standby]:
    """A daemon at a node stands by, while one at the node ``one`` leads."""
    async with two_nodes() as made, written(made, LEADER):
        await eventually(lambda: fabric(made))
        config = made.context.config
        settings = msgspec.structs.replace(config.network, node=node)
        context = dataclasses.replace(
            made.context,
            config=msgspec.structs.replace(config, network=settings),
            node_address=address or made.context.node_address,
        )
        async with trio.open_nursery() as nursery:
            it = Standby(Machine(*left), Observable(leader), nursery)
            await nursery.start(YieldedTunnels(context, it.machine.remote, it.leader).run)
            yield it
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("node", "address"), [("two", ""), ("", "192.168.1.11")])
async def test_tunnels_end_where_the_leader_is_at_another_node(node: str, address: str):
    async with standing_by("milan", node=node, address=address) as it:
        await eventually(lambda: it.machine.ended == ["milan", "turin"])


@pytest.mark.parametrize(
    ("node", "address"), [("one", ""), ("", "192.168.1.10"), ("", "192.168.77.1")]
)
async def test_they_stand_at_the_leader_s_own_node_and_at_none(node: str, address: str):
    async with standing_by("milan", node=node, address=address) as it:
        await trio.sleep(0.5)
        assert it.machine.orders == []


async def test_they_stand_until_the_gateway_is_the_present_leader_s():
    async with standing_by("milan", node="two", leader="next") as it:
        await trio.sleep(0.5)
        assert it.machine.orders == []
        it.leader.set(LEADER)
        await it.asks(1)
        await eventually(lambda: it.machine.ended == ["milan", "turin"])


async def test_where_there_are_none_nothing_is_ordered():
    async with standing_by(node="two") as it:
        await it.asks(1)
        await trio.sleep(0.2)
        assert it.machine.ended == []


@pytest.mark.parametrize("fails", [0, 1])
async def test_those_of_peers_that_are_not_known_any_more_end_too(fails: int):
    async with standing_by("milan", "gone", node="two", leader="next") as it:
        it.machine.fails = fails
        it.leader.set(LEADER)
        await eventually(lambda: not it.machine.left)
        assert it.machine.ended[:2] == ["milan", "turin"]


async def test_it_is_asked_again_while_nothing_is_known_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(yieldedtunnels, "AGAIN", 0.05)
    async with standing_by("milan", "gone", node="two", leader="next") as it:
        it.machine.unknown = 2
        it.leader.set(LEADER)
        await eventually(lambda: not it.machine.left)
        asked = [each for each in it.machine.orders if isinstance(each, FindUnknown)]
        assert len(asked) == 1, "the kernel is asked no more than it has to be"
