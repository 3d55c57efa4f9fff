"""A daemon and its machine's side that begin anew, alone and with messages that take their time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from liqod.network.failover.role import Role
from liqod.network.gatewayhost import Look
from liqod.network.hostcapabilities import lacking
from liqod.network.joining import join
from liqod.network.orders.candidacy import GatewayState
from liqod.network.orders.tunnels import (
    EndTunnel,
    MachineFacts,
    ReadMachine,
    ReleaseTunnels,
    TunnelOrder,
    TunnelReport,
)
from liqod.resources.networking import CONNECTIONS, GATEWAY_SERVERS, PUBLIC_KEYS
from liqod.tunnel.probes.messages import ProbeResult
from tests.simulated.borrower import eventually
from tests.simulated.lender import TENANT
from tests.simulated.localmachine import LocalMachine
from tests.simulated.network.noting import Joined, joined, stand
from tests.simulated.network.test_gateways import key, server

DONE = ("begin", "up", "apply")


class Apart:
    """The two sides of a site, which begin and end each by itself."""

    def __init__(self, site: Joined, nursery: trio.Nursery) -> None:
        self.site, self._nursery = site, nursery
        self.local = LocalMachine("milan", site.machine.machine())
        self._daemon = trio.CancelScope()

    async def begin(self) -> None:
        await self._nursery.start(self.local.run)
        self.start_daemon()

    def start_daemon(self) -> None:
        """Begin a daemon's part, for the same peer."""
        self._daemon = trio.CancelScope()

        async def run(scope: trio.CancelScope) -> None:
            with scope:
                await join(self.site.lender.peer, self.local.remote)

        self._nursery.start_soon(run, self._daemon)

    async def begin_anew(self, look: Look) -> None:
        """Begin both sides anew: neither knows anything of the other, nor of the machine."""
        self.local = LocalMachine("milan")
        self.local.look = look
        await self.begin()

    async def kill_daemon(self) -> None:
        self._daemon.cancel()
        await trio.testing.wait_all_tasks_blocked()

    async def restart_machine(self) -> None:
        """End the machine's side, and begin one that has no order."""
        await self.local.end()
        await self.local.begin()

    async def stand(self) -> None:
        await stand(self.site)
        await self.site.listens()

    async def connect(self) -> None:
        await self.stand()
        await self.site.connect()

    def hear(self, *, alive: bool = True) -> None:
        """The probes come to a verdict."""
        assert self.site.machine.heard is not None
        self.site.machine.heard(ProbeResult(alive, 0.001 if alive else None))

    def count(self, kind: type[Any]) -> int:
        """Returns how many messages of a kind there were so far."""
        return sum(isinstance(each, kind) for each in self.local.sent)


@asynccontextmanager
async def apart(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Apart]:
    async with joined(monkeypatch) as site:
        await site.crash()
        async with trio.open_nursery() as nursery:
            made = Apart(site, nursery)
            await made.begin()
            yield made
            nursery.cancel_scope.cancel()


async def test_a_machines_side_that_begins_anew_is_ordered_anew(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.connect()
        await both.restart_machine()
        await both.site.machine.until(*DONE)
        assert both.count(ReadMachine) == 2
        await both.site.listens()
        both.hear(alive=False)
        await both.site.shows("Connecting")


async def test_without_a_daemon_it_is_watched_and_healed(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.stand()
        await both.kill_daemon()
        both.site.machine.disturbed.set()
        await both.site.machine.until(*DONE)
        both.hear(alive=False)
        await both.site.machine.until(*DONE)
        assert both.site.machine.silent > 1.0, "and the tunnel is told of silence"


async def test_a_daemon_that_begins_anew_disturbs_nothing_and_knows_how_it_is(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.connect()
        await both.kill_daemon()
        network = both.site.lender.peer.network
        network.set_connected(None, "nobody looks")
        orders = both.count(TunnelOrder)
        both.start_daemon()
        await eventually(lambda: network.connected is True)
        assert both.count(TunnelOrder) == orders + 1
        assert both.site.machine.did == []


async def test_what_ended_while_the_machines_side_was_not_there_ends_when_it_is(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.stand()
        await both.local.end()
        await both.site.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await eventually(lambda: both.count(EndTunnel) == 1)
        assert both.site.machine.did == []
        await both.local.begin()
        await both.site.machine.until("down", "remove")
        assert both.count(EndTunnel) == 2, "the one request, sent again"


@pytest.mark.parametrize("late", [0.05, 0.3])
async def test_messages_may_take_their_time(monkeypatch, late: float):
    async with apart(monkeypatch) as both:
        both.local.late = late
        await both.connect()
        site = both.site
        await site.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await site.machine.until("down", "remove")
        await site.make(GATEWAY_SERVERS, server())
        await site.machine.until(*DONE)
        await site.connect()


async def test_one_that_is_made_anew_while_it_ends_stands_in_the_end(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.stand()
        both.local.late = 0.2
        admin = both.site.lender.admin
        await admin.delete(PUBLIC_KEYS, "rome", TENANT)
        await eventually(lambda: both.count(EndTunnel) == 1)
        await both.site.make(PUBLIC_KEYS, key())
        await both.site.listens()
        await eventually(lambda: both.site.machine.did[-2:] == ["up", "apply"])


async def test_at_rest_nothing_is_sent_each_second_and_who_looks_gets_figures(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.connect()
        await trio.sleep(2.0)  # until what the verdict has turned is measured
        before = len(both.local.sent)
        await trio.sleep(10.0)
        assert len(both.local.sent) == before
        network = both.site.lender.peer.network
        reports = both.count(TunnelReport)
        network.nudge()
        await eventually(lambda: both.count(TunnelReport) > reports)
        facts = network.facts()
        assert facts is not None
        assert (facts.echo, facts.answers) == (0.0, True)


async def test_what_the_machine_can_do_from_now_on_is_taken_up(monkeypatch):
    async with apart(monkeypatch) as both:
        site, can = both.site, both.local.host
        both.local.host = lacking("missing: CAP_NET_ADMIN")
        assert (await both.local.remote.look()).problem
        await site.make(GATEWAY_SERVERS, server())
        await site.refused("CAP_NET_ADMIN")
        both.local.host = can
        assert not (await both.local.remote.look()).problem
        await site.make(PUBLIC_KEYS, key())
        await site.configure()
        await site.machine.until(*DONE)


async def test_a_daemon_that_does_not_know_its_machine_takes_nothing_down(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.connect()
        site = both.site
        await both.kill_daemon()
        before = await site.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
        can = both.local.remote.facts.now
        both.local.remote.facts.set(MachineFacts(problem="it has not answered", unknown=True))
        both.start_daemon()
        await trio.sleep(1.0)
        await site.lender.settled()
        assert await site.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT) == before
        assert both.count(EndTunnel) == 0
        assert site.machine.did == []
        facts = site.lender.peer.network.facts()
        assert facts is not None
        assert facts.problem == "it has not answered"
        orders = both.count(TunnelOrder)
        both.local.remote.facts.set(can)
        await eventually(lambda: both.count(TunnelOrder) > orders)
        assert both.count(EndTunnel) == 0


async def test_a_report_from_before_the_daemon_knew_its_role_counts_when_it_does(monkeypatch):
    async with joined(monkeypatch) as site:
        await site.crash()
        theirs = Role(others=True)
        local = LocalMachine("milan", site.machine.machine(), theirs)
        ours = local.remote.role = Role(GatewayState(active=False), others=True)
        async with trio.open_nursery() as nursery:
            await nursery.start(local.run)
            nursery.start_soon(partial(join, site.lender.peer, local.remote))
            await stand(site)
            (await site.listens())(ProbeResult(True, 0.001))
            await site.lender.settled()
            assert not await site.lender.admin.list(CONNECTIONS)
            ours.set(GatewayState())
            await site.shows("Connected")
            nursery.cancel_scope.cancel()


async def test_what_was_released_while_the_connection_was_lost_is_released_then(monkeypatch):
    async with apart(monkeypatch) as both:
        await both.stand()
        await both.kill_daemon()
        both.local.remote.release()
        before = both.count(ReleaseTunnels)
        both.local.remote.tell()
        await trio.testing.wait_all_tasks_blocked()
        assert both.count(ReleaseTunnels) == before + 1
        assert both.site.machine.heard is None
        assert both.site.machine.did == [], "and everything stands"
        both.start_daemon()
        await both.site.machine.until(*DONE)
