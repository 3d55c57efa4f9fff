"""A gateway whose Node is cordoned gives way; candidates and the API server are as in daemons.

They run in this process, with the rights of the daemon's account, and ask each other on loopback;
the fence is noted, where it would be the kernel's.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NODES
from liqod.kube.leases import Lease
from liqod.network.failover.candidatemessages import key_of
from liqod.network.failover.election import DURATION, KERNEL, RENEW
from liqod.network.failover.fence import Fence
from liqod.network.failover.membership import Membership, follow_cordons
from liqod.network.failover.role import Role
from liqod.network.machine.candidateservice import CandidateService
from liqod.network.orders.candidacy import (
    Candidacy,
    CandidacyOrder,
    Claim,
    GatewayState,
    LeaseAnswer,
    LeaseFound,
    LeaseRecord,
    LocalCandidate,
    WriteLease,
)
from liqod.runtime.observable import Observable
from liqod.runtime.outliving import outliving
from tests.simulated.borrower import eventually
from tests.simulated.members import Member, members
from tests.testbed import virtualtime

BY_AGE = DURATION - 5.0
"""Seconds under which nobody has waited for a Lease that is not renewed."""


class NotedFence(Fence):
    """Notes what the kernel would hold."""

    def __init__(self) -> None:
        super().__init__("rome")
        self.held: list[float | None] = []

    async def hold(self, seconds: float | None) -> None:
        """Note it."""
        await trio.lowlevel.checkpoint()
        self.held.append(seconds)


@dataclass
class Standing:
    """One node, and its daemon's candidate."""

    name: str
    member: Member
    port: int
    address: str
    role: Role = field(default_factory=lambda: Role(GatewayState(active=None), others=True))
    known: Role = field(default_factory=lambda: Role(GatewayState(active=None), others=True))
    fence: NotedFence = field(default_factory=NotedFence)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    daemon: trio.CancelScope = field(default_factory=trio.CancelScope)
    again: trio.Event = field(default_factory=trio.Event)
    machine: trio.CancelScope = field(default_factory=trio.CancelScope)

    async def run(self) -> None:
        """Be a candidate, with one daemon after another; the first node begins."""
        with self.scope:
            async with outliving(self._run_machine):
                while True:
                    self._membership = self.made(lambda order: self._service.receive(order))
                    with self.daemon:
                        await self._membership.run()
                    await self.again.wait()
                    self.daemon, self.again = trio.CancelScope(), trio.Event()

    async def _run_machine(self) -> None:
        """One service after another, to which the daemon sends all anew."""
        while True:
            self._service = CandidateService(
                self.fence, self.role, lambda each: self._membership.receive(each), inside=_here
            )
            with self.machine:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._service.run)
                    await trio.lowlevel.checkpoint()
                    self._membership.tell()
            self.machine = trio.CancelScope()
            self.role = Role(GatewayState(active=None), others=True)

    def made(self, send: Callable[[CandidacyOrder], None]) -> Membership:
        """A daemon of this node, which sends its orders there."""
        context = self.member.context
        leads = Observable(self.name == "one")
        return Membership(context, self.me, self.known, leads, send)

    async def me(self) -> LocalCandidate:
        """On loopback, which is none of a Node's addresses."""
        await trio.lowlevel.checkpoint()
        key = key_of(b"s" * 32, "rome")
        return LocalCandidate(name=self.name, address=self.address, key=key, port=self.port)

    async def cordon(self, *, on: bool = True) -> None:
        """As ``kubectl cordon`` and ``uncordon`` do."""
        await self.member.admin.patch(NODES, self.name, {"spec": {"unschedulable": on}})

    async def is_gateway(self) -> bool:
        """True if it is, as it knows itself."""
        return bool(self.role.now.active)

    async def has_company(self) -> bool:
        """True if it is the gateway, and hears a standby."""
        return bool(self.role.now.active and self.role.standbys)


async def _here(make: Callable[[], socket.socket]) -> socket.socket:
    await trio.lowlevel.checkpoint()
    return make()


@dataclass
class Pair:
    """Two nodes of one cluster."""

    member: Member
    one: Standing
    two: Standing
    nursery: trio.Nursery

    async def begin(self) -> None:
        """Has the first be the gateway, and then the second stand by."""
        self.nursery.start_soon(self.one.run)
        await eventually(self.one.is_gateway)
        self.nursery.start_soon(self.two.run)
        await eventually(self.one.has_company)

    async def lease(self) -> tuple[str, int]:
        """The gateway, and how often it was taken."""
        found = await self.member.admin.get(LEASES, labels.GATEWAY_LEASE, "liqo", decode=Lease)
        return found.spec.holder_identity or "", found.spec.lease_transitions or 0

    async def stays(self, name: str, epoch: int) -> None:
        """Nothing moves for longer than a yielding takes."""
        await trio.sleep(2.0)
        assert await self.lease() == (name, epoch)


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """Two nodes, on which nothing runs yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        probing.bind(("127.0.0.1", 0))
        port = probing.getsockname()[1]
    # Threads answer, and go by a clock of their own.
    with virtualtime.real():
        async with members("rome") as (rome,), trio.open_nursery() as nursery:
            yield await _pair(rome, port, nursery)
            nursery.cancel_scope.cancel()


async def _pair(rome: Member, port: int, nursery: trio.Nursery) -> Pair:
    one = Standing("one", rome, port, "127.0.0.11")
    two = Standing("two", rome, port, "127.0.0.12")
    for each in (one, two):
        await rome.admin.create(NODES, {"metadata": {"name": each.name}})
    return Pair(rome, one, two, nursery)


async def test_a_daemon_that_ends_on_a_cordoned_node_lets_the_gateway_go_first():
    """As when its pod is evicted at once: nobody waits for the Lease to grow old."""
    async with pair() as nodes:
        await nodes.begin()
        seen = trio.Event()

        async def watch() -> None:
            await follow_cordons(
                nodes.member.context.informers, lambda names: seen.set() if names else None
            )

        nodes.nursery.start_soon(watch)
        await nodes.one.cordon()
        await seen.wait()
        began = trio.current_time()
        nodes.one.scope.cancel()
        await eventually(nodes.two.is_gateway)
        assert trio.current_time() - began < BY_AGE
        assert nodes.one.fence.held[-1] == 0.0
        assert await nodes.lease() == ("two", 2)


async def test_a_daemon_that_ends_on_another_node_changes_nothing():
    async with pair() as nodes:
        await nodes.begin()
        nodes.one.scope.cancel()
        await trio.sleep(1.0)
        assert await nodes.lease() == ("one", 1)
        assert nodes.one.fence.held[-1] != 0.0


@pytest.mark.long
async def test_a_machine_without_a_daemon_stays_the_gateway_and_the_next_daemon_goes_on():
    async with pair() as nodes:
        await nodes.begin()
        nodes.one.daemon.cancel()
        await trio.sleep(RENEW + 2.0)
        assert await nodes.one.is_gateway()
        assert not await nodes.two.is_gateway()
        assert nodes.one.fence.held[-1] == KERNEL
        nodes.one.again.set()
        await nodes.stays("one", 1)
        await nodes.one.cordon()
        await eventually(nodes.two.is_gateway)
        assert await nodes.lease() == ("two", 2)


async def test_a_machine_writes_no_lease_for_another():
    async with pair() as nodes:
        sent: list[CandidacyOrder] = []
        leads = Observable(True)
        daemon = Membership(
            *(nodes.member.context, nodes.one.me, nodes.one.known), leads, sent.append
        )
        nodes.nursery.start_soon(daemon.run)
        daemon.receive(WriteLease(7, LeaseRecord(Claim("two", 1, "")), taken=True))
        await eventually(lambda: any(isinstance(each, LeaseAnswer) for each in sent))
        (answer,) = (each for each in sent if isinstance(each, LeaseAnswer))
        assert answer == LeaseAnswer(7, error="two is not the candidate of this daemon")
        assert await nodes.member.admin.find(LEASES, labels.GATEWAY_LEASE, "liqo") is None


async def test_a_machine_that_begins_anew_gets_all_from_the_same_daemon():
    async with pair() as nodes:
        sent: list[CandidacyOrder] = []
        daemon = nodes.one.made(sent.append)
        nodes.nursery.start_soon(daemon.run)
        await nodes.one.cordon()

        async def known() -> bool:
            cordoned = any(isinstance(each, Candidacy) and each.cordoned for each in sent)
            return cordoned and LeaseFound(None) in sent

        await eventually(known)
        sent.clear()
        daemon.tell()
        me = await nodes.one.me()
        assert sent == [Candidacy(me, True, frozenset({"one"})), LeaseFound(None)]


@pytest.mark.long
async def test_a_gateway_whose_machine_begins_anew_is_the_gateway_again():
    async with pair() as nodes:
        await nodes.begin()
        before = nodes.one.role
        nodes.one.machine.cancel()
        await eventually(nodes.one.has_company)
        await nodes.stays("one", 1)
        assert nodes.one.role is not before
        assert await nodes.one.has_company()
        assert not await nodes.two.is_gateway()
        await nodes.one.cordon()
        await eventually(nodes.two.is_gateway)


async def test_the_daemon_knows_the_role_of_its_machine():
    async with pair() as nodes:
        await nodes.begin()
        one, two = nodes.one.known, nodes.two.known
        assert (one.now, one.gateway, one.standbys) == (nodes.one.role.now, "one", ("two",))
        assert (two.now, two.gateway) == (nodes.two.role.now, "one")


async def test_a_machine_without_a_daemon_is_fenced_once_its_standby_falls_silent():
    """Nobody renews the Lease for it, and the standby may take that unheard."""
    async with pair() as nodes:
        await nodes.begin()
        nodes.one.daemon.cancel()
        nodes.two.scope.cancel()
        await eventually(
            lambda: nodes.one.fence.held[-1] == 0.0 and nodes.one.role.now.active is False
        )
        nodes.one.again.set()
        await eventually(nodes.one.is_gateway)
        assert await nodes.lease() == ("one", 1)
