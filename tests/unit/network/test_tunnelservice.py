"""Many peers' tunnels on one machine: a failure is one peer's, and ends are answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from math import inf
from typing import Any, NoReturn, cast

import pytest
import trio
from msgspec.structs import replace
from trio.testing import wait_all_tasks_blocked

from liqod.errors import NetworkError
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import KernelChange
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost
from liqod.network.machine import tunnelservice
from liqod.network.machine.orderchecks import MOST_KNOWN, ReservedAddresses
from liqod.network.machine.tunnelservice import TunnelService
from liqod.network.orders.tunnels import (
    EndTunnel,
    FindUnknown,
    MachineFacts,
    MachineRead,
    MeasureTunnel,
    ReadMachine,
    ReleaseTunnels,
    Surroundings,
    SweepUnknown,
    TunnelEnded,
    TunnelMessage,
    TunnelNews,
    TunnelReport,
    UnknownFound,
    UnknownSwept,
)
from liqod.plugins.providers import Tunnel, TunnelSpec, TunnelStatus
from tests.unit.network.tunnels import ACTIVE, GATEWAY, LENDS, ORDER, STANDBY, UNKNOWN

OSLO = replace(ORDER, peer="oslo")
FACTS = MachineFacts(addresses=("192.0.2.5",))


@dataclass
class Machine:
    """A machine that records what is done, by peer."""

    did: list[tuple[str, str]] = field(default_factory=list)
    refuses: dict[str, Exception] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    namespaces: dict[str, frozenset[str] | None] = field(default_factory=dict)
    """The records of peers' namespaces; None for one that has none."""
    watched: int = 0
    held: trio.Event | None = None
    news: list[TunnelNews] = field(default_factory=list)
    role: Role = field(default_factory=Role)
    facts: MachineFacts = FACTS

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        self.watched += 1
        await trio.sleep_forever()
        raise AssertionError

    async def prepare(self, names: PeerNames, backend: str = "") -> None:
        await trio.lowlevel.checkpoint()
        noted = self.namespaces.get(names.peer_id) or frozenset()
        self.namespaces[names.peer_id] = noted | ({backend} if backend else set())

    async def makers(self, names: PeerNames) -> frozenset[str] | None:
        await trio.lowlevel.checkpoint()
        return self.namespaces.get(names.peer_id, frozenset())

    async def apply(self, plan: PeerPlan) -> list[KernelChange]:
        self._do("apply", plan.names.peer_id)
        return []

    async def wait_disturbed(self, names: PeerNames) -> None:
        await trio.sleep_forever()

    async def remove(self, names: PeerNames) -> list[str]:
        if self.held is not None:
            await self.held.wait()
        self._do("remove", names.peer_id or names.hash)
        self.namespaces.pop(names.peer_id, None)
        return []

    async def leftovers(self, known: list[PeerNames]) -> list[PeerNames]:
        kept = {names.hash for names in known}
        every = [PeerNames("rome", each) for each in self.left]
        return [names for names in every if names.hash not in kept]

    def build(self, names: PeerNames) -> Tunnel:
        return Rope(self, names.peer_id)

    def _do(self, what: str, peer: str) -> None:
        if peer in self.refuses:
            raise self.refuses[peer]
        self.did.append((what, peer))

    def told(self, peer: str) -> list[str]:
        """Returns the states that were reported of a peer, without repetitions in a row."""
        found = [
            each.state.state
            for each in self.news
            if isinstance(each, TunnelReport) and each.peer == peer
        ]
        return [each for at, each in enumerate(found) if at == 0 or found[at - 1] != each]

    def answers(self) -> list[Any]:
        return [each for each in self.news if not isinstance(each, TunnelReport)]

    async def look(self, around: Surroundings) -> GatewayHost:
        return GatewayHost(
            facts=self.facts,
            tunnels={"wireguard": self.build},
            datapath=cast("KernelDatapath", self),
        )


@dataclass
class Rope:
    machine: Machine
    peer: str

    async def problem(self) -> str | None:
        return None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        self.machine.did.append(("up", self.peer))
        return inf

    async def status(self) -> TunnelStatus | None:
        return None

    async def down(self) -> None:
        self.machine.did.append(("down", self.peer))


@asynccontextmanager
async def serving(
    machine: Machine | None = None, *, looks: bool = True
) -> AsyncIterator[tuple[Machine, TunnelService]]:
    machine = machine or Machine()
    service = TunnelService("rome", machine.role, machine.news.append, machine.look)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        if looks:
            await carried_out(service, ReadMachine(1))
            assert machine.answers() == [MachineRead(1, FACTS)]
            machine.news.clear()
        yield machine, service
        nursery.cancel_scope.cancel()


async def settled() -> None:
    await wait_all_tasks_blocked(0.01)


async def carried_out(service: TunnelService, *orders: TunnelMessage) -> None:
    """Orders something, and waits until all is done that can be."""
    for order in orders:
        service.receive(order)
    await settled()


async def test_orders_wait_until_the_machine_was_looked_at_and_the_kernel_is_watched_then():
    async with serving(looks=False) as (machine, service):
        await carried_out(service, ORDER)
        assert (machine.did, machine.watched) == ([], 0)
        await carried_out(service, ReadMachine(7))
        assert machine.did == [("up", "milan"), ("apply", "milan")]
        assert machine.watched == 1
        assert MachineRead(7, FACTS) in machine.news


async def test_what_comes_before_it_runs_is_carried_out_then():
    machine = Machine()
    service = TunnelService("rome", machine.role, machine.news.append, machine.look)
    service.receive(ReadMachine(1))
    service.receive(ORDER)
    service.receive(EndTunnel(2, "oslo"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        await settled()
        nursery.cancel_scope.cancel()
    assert ("apply", "milan") in machine.did
    assert TunnelEnded(2) in machine.news


async def test_the_same_order_again_is_reported_and_nothing_is_done():
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        done, reports = list(machine.did), len(machine.news)
        await carried_out(service, ORDER)
        assert machine.did == done
        assert len(machine.news) == reports + 1, "a daemon that has begun anew knows how it is"
        await carried_out(service, LENDS)
        assert machine.did == [*done, ("up", "milan"), ("apply", "milan")]


async def test_nobody_looks_and_nothing_is_sent(autojump_clock):
    async with serving() as (machine, service):
        service.receive(ORDER)
        await trio.sleep(5.0)
        machine.news.clear()
        service.receive(MeasureTunnel("milan"))
        service.receive(MeasureTunnel("nobody"))
        await trio.sleep(0.5)
        (report,) = machine.news
        assert isinstance(report, TunnelReport)
        assert report.peer == "milan"


@pytest.mark.parametrize("error", [NetworkError("no room"), KeyError("a bug")], ids=type)
async def test_a_failure_is_one_peers_and_is_told(error: Exception, autojump_clock):
    async with serving() as (machine, service):
        machine.refuses["oslo"] = error
        for each in (OSLO, ORDER):
            service.receive(each)
        await trio.sleep(0.1)
        assert ("apply", "milan") in machine.did
        assert machine.told("milan") == ["Connecting"]
        assert machine.told("oslo") == ["Error"]
        del machine.refuses["oslo"]
        await trio.sleep(60.0)
        assert ("apply", "oslo") in machine.did
        assert machine.told("oslo") == ["Error", "Connecting"]


async def test_an_order_that_cannot_be_is_refused_and_the_one_before_it_stands():
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        machine.did.clear()
        await carried_out(service, replace(ORDER, gateway=replace(GATEWAY, mtu=68)))
        assert machine.did == []
        report = machine.news[-1]
        assert isinstance(report, TunnelReport)
        assert "the MTU 68" in report.state.why
        await carried_out(service, ORDER)
        assert machine.told("milan")[-1] == "Connecting"


async def test_an_end_is_answered_when_all_is_gone():
    async with serving() as (machine, service):
        await carried_out(service, ORDER, OSLO)
        machine.did.clear()
        machine.held = trio.Event()
        await carried_out(service, EndTunnel(5, "milan"))
        assert machine.answers() == []
        machine.held.set()
        await settled()
        assert machine.did == [("down", "milan"), ("remove", "milan")]
        assert machine.answers() == [TunnelEnded(5)]
        await carried_out(service, ORDER)
        assert machine.did[2:] == [("up", "milan"), ("apply", "milan")]


async def test_what_is_ordered_during_an_end_comes_after_it():
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        machine.did.clear()
        machine.held = trio.Event()
        await carried_out(service, EndTunnel(5, "milan"))
        await carried_out(service, LENDS)
        machine.held.set()
        await settled()
        assert [what for what, _ in machine.did] == ["down", "remove", "up", "apply"]
        assert machine.answers() == [TunnelEnded(5)]


async def test_ends_come_before_what_is_ordered_in_the_same_breath():
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        machine.did.clear()
        await carried_out(service, EndTunnel(5, "milan"), EndTunnel(6, "milan"), ORDER)
        assert [what for what, _ in machine.did] == ["down", "remove", "up", "apply"]
        assert machine.answers() == [TunnelEnded(5), TunnelEnded(6)]


async def test_an_end_that_fails_says_why_and_may_be_ordered_again():
    async with serving() as (machine, service):
        machine.refuses["milan"] = NetworkError("busy")
        await carried_out(service, EndTunnel(5, "milan"))
        machine.refuses["milan"] = ValueError("a bug")
        await carried_out(service, EndTunnel(6, "milan"))
        machine.refuses.clear()
        await carried_out(service, EndTunnel(7, "milan"))
        assert machine.answers() == [
            TunnelEnded(5, "busy"),
            TunnelEnded(6, "a bug"),
            TunnelEnded(7),
        ]


async def test_a_standby_whose_tunnel_cannot_be_quiet_has_nothing_until_it_takes_over():
    async with serving() as (machine, service):
        machine.role.others = True
        machine.role.set(UNKNOWN)
        await carried_out(service, ORDER)
        assert machine.did == [], "which machine is the gateway will be known in a moment"
        machine.role.set(STANDBY)
        await settled()
        assert machine.did == [("down", "milan"), ("remove", "milan")]
        machine.role.set(ACTIVE)
        await settled()
        assert machine.did[2:] == [("up", "milan"), ("apply", "milan")]


async def test_only_what_is_unknown_is_found_and_swept():
    async with serving() as (machine, service):
        machine.left = ["milan", "oslo", "forgotten", "late"]
        await carried_out(service, ORDER)
        await carried_out(service, FindUnknown(3, ("oslo", "milan")))
        found = machine.answers()[-1]
        wanted = tuple(PeerNames("rome", each).hash for each in ("forgotten", "late"))
        assert found == UnknownFound(3, wanted)
        machine.did.clear()
        await carried_out(service, SweepUnknown(4, found.found, ("oslo", "milan", "late")))
        assert machine.answers()[-1] == UnknownSwept(4, ("liqod rome/forgotten",))
        assert [what for what, _ in machine.did] == ["down", "remove"]
        machine.refuses["forgotten"] = NetworkError("busy")
        await carried_out(service, SweepUnknown(5, found.found, ()))
        assert machine.answers()[-1] == UnknownSwept(5, (), "busy")


async def test_one_that_an_earlier_daemon_ordered_is_swept_as_well_and_attended_no_more():
    async with serving() as (machine, service):
        machine.left = ["milan"]
        await carried_out(service, ORDER)
        machine.did.clear()
        digits = PeerNames("rome", "milan").hash
        await carried_out(service, SweepUnknown(4, (digits,), ("oslo",)))
        assert UnknownSwept(4, ("liqod rome/milan",)) in machine.news
        assert machine.did == [("down", "milan"), ("remove", "milan")]
        machine.role.set(STANDBY)
        machine.role.set(ACTIVE)
        await settled()
        assert len(machine.did) == 2


async def test_what_is_released_stays_and_nobody_attends_it():
    async with serving() as (machine, service):
        await carried_out(service, ORDER, OSLO)
        machine.did.clear()
        machine.held = trio.Event()
        service.receive(EndTunnel(5, "oslo"))
        await carried_out(service, ReleaseTunnels())
        machine.role.set(STANDBY)
        machine.held.set()
        await settled()
        assert machine.did == [("down", "oslo"), ("remove", "oslo")], "but for an end"
        assert TunnelEnded(5) in machine.news
        machine.role.set(ACTIVE)
        await carried_out(service, ORDER)
        assert machine.did[2:] == [("up", "milan"), ("apply", "milan")]


async def test_the_machines_programs_are_watched_as_long_as_it_is():
    machine, watched = Machine(), list[float]()

    async def watch() -> NoReturn:
        watched.append(trio.current_time())
        await trio.sleep_forever()
        raise AssertionError

    async def look(around: Surroundings) -> GatewayHost:
        return replace(await machine.look(around), watch=watch)

    service = TunnelService("rome", machine.role, machine.news.append, look)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        await settled()
        assert not watched, "it is not known yet what it has"
        for number in (1, 2):
            await carried_out(service, ReadMachine(number))
        assert (len(watched), machine.watched) == (1, 1)
        nursery.cancel_scope.cancel()


async def test_a_tunnel_that_would_take_the_way_to_the_api_server_is_ended_and_none_is_made():
    [alias, *_] = ORDER.ranges.seen.pod
    reserved = ReservedAddresses(api_servers=(str(ip_network(alias)[5]),))
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        machine.did.clear()
        service.reserve(reserved)
        await settled()
        assert ("down", "milan") in machine.did
        machine.did.clear()
        await carried_out(service, ORDER)
        assert machine.did == []
        said = [each.state.why for each in machine.news if isinstance(each, TunnelReport)]
        assert any("API server in it" in each for each in said), said


async def test_peers_without_end_are_refused_and_those_before_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tunnelservice, "MOST_PEERS", 2)
    async with serving() as (machine, service):
        await carried_out(service, ORDER, OSLO)
        machine.did.clear()
        await carried_out(service, replace(ORDER, peer="turin"), EndTunnel(1, "turin"), OSLO)
        assert machine.did == []
        assert machine.answers() == [TunnelEnded(1, tunnelservice.MANY_PEERS)]
        assert machine.told("turin") == ["Error"]
        await carried_out(service, EndTunnel(2, "oslo"))
        await carried_out(service, replace(ORDER, peer="turin"))
        assert ("apply", "turin") in machine.did, "where one has ended another has room"


async def test_requests_without_end_are_refused_and_the_open_ones_are_answered():
    async with serving(looks=False) as (machine, service):
        many = tunnelservice.AT_ONCE
        await carried_out(service, *(FindUnknown(each, ()) for each in range(many + 1)))
        await carried_out(service, *(SweepUnknown(each, (), ()) for each in range(many + 1)))
        why = tunnelservice.MANY_REQUESTS
        refused = [UnknownFound(many, problem=why), UnknownSwept(many, problem=why)]
        assert machine.answers() == refused
        # By which the others, which wait for it, are answered.
        await carried_out(service, ReadMachine(7))
        answers = machine.answers()[2:]
        assert len(answers) == 2 * many + 1
        others = [each for each in answers if not isinstance(each, MachineRead)]
        assert len(others) == 2 * many
        assert not any(each.problem for each in others)


async def test_looks_without_end_are_refused():
    machine, held = Machine(), trio.Event()

    async def look(around: Surroundings) -> GatewayHost:
        await held.wait()
        return await machine.look(around)

    service, many = TunnelService("rome", machine.role, machine.news.append, look), 64
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        await carried_out(service, *(ReadMachine(each) for each in range(many + 1)))
        facts = MachineFacts(problem=tunnelservice.MANY_REQUESTS, unknown=True)
        assert machine.answers() == [MachineRead(many, facts)]
        held.set()
        await settled()
        assert len(machine.answers()) == many + 1
        nursery.cancel_scope.cancel()


async def test_ends_of_one_peer_without_end_are_refused():
    async with serving() as (machine, service):
        await carried_out(service, ORDER)
        machine.held = trio.Event()
        await carried_out(service, *(EndTunnel(each, "milan") for each in range(66)))
        assert machine.answers() == [
            TunnelEnded(each, tunnelservice.MANY_REQUESTS) for each in (64, 65)
        ]
        machine.held.set()
        await settled()
        assert len(machine.answers()) == 66


async def test_a_machine_looks_at_no_kernel_by_surroundings_that_cannot_be():
    async with serving() as (machine, service):
        await carried_out(service, ReadMachine(2, Surroundings(reached="gopher://a")))
        (answer,) = machine.answers()
        assert (answer.number, answer.facts.unknown) == (2, True)
        assert "no URL of an API server" in answer.facts.problem
        await carried_out(service, ORDER)
        assert ("up", "milan") in machine.did, "what it knew before stands"


MANY = tuple(f"peer-{number}" for number in range(MOST_KNOWN + 1))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (FindUnknown(7, MANY), "16384 peers"),
        (FindUnknown(7, ("x" * 1000,)), "characters"),
        (SweepUnknown(7, MANY, ()), "16384 peers"),
        (SweepUnknown(7, (), MANY), "16384 peers"),
        (SweepUnknown(7, MANY[:9000], MANY[9000:]), "16384 peers"),
        (EndTunnel(7, "x" * 1000), "51 characters"),
        (EndTunnel(7, "a; reboot"), "hyphens"),
    ],
    ids=lambda found: repr(found)[:60],
)
async def test_a_request_with_more_than_a_machine_looks_at_is_refused_at_once(
    request_: FindUnknown | SweepUnknown | EndTunnel, said: str
):
    async with serving() as (machine, service):
        machine.left = ["forgotten"]
        service.receive(request_)
        (answer,) = machine.answers()
        assert answer.number == 7
        assert said in answer.problem
        await settled()
        assert machine.did == []


async def test_the_orders_of_all_peers_have_so_many_addresses_and_those_before_stay(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(tunnelservice, "MOST_ADDRESSES", 3)
    lent = {f"10.70.0.{number}": "192.0.2.5" for number in range(2)}
    wide = replace(OSLO, ranges=replace(OSLO.ranges, lent=lent))
    async with serving() as (machine, service):
        await carried_out(service, replace(LENDS, peer="turin"), wide, LENDS)
        assert machine.told("milan") == ["Error"]
        assert ("apply", "milan") not in machine.did
        # It makes room for another by its own, and its own counts once.
        await carried_out(service, replace(wide, ranges=OSLO.ranges), LENDS, LENDS)
        assert machine.told("milan")[-1] == "Connecting"
