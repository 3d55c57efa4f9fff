"""A new machine's side that cannot be looked at for once, or one backend of it: tunnels stay."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from liqod.errors import NetworkError
from liqod.network.backends import LoadedBackend
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.gatewayhost import GatewayHost
from liqod.network.hostcapabilities import HostCapabilities, HostSettings
from liqod.network.orders.tunnels import EndTunnel, Surroundings
from liqod.network.remotemachine import AGAIN
from liqod.plugins.callguard import CallGuards
from liqod.plugins.providers import TunnelProvider
from liqod.resources.networking import GATEWAY_SERVERS
from liqod.runtime.account import NODE_SHARES, PROXY, Account
from tests.simulated.borrower import condition, eventually
from tests.simulated.lender import TENANT
from tests.simulated.network.noting import Noting
from tests.simulated.network.test_machine_anew import DONE, Apart, apart

Fault = Callable[[], Awaitable[None]]
NAMES = ("wireguard", "websocket")
SILENT = "the kernel has not answered for 5 s"


async def raises() -> None:
    raise KeyError("a bug")


async def refuses() -> None:
    raise NetworkError(SILENT)


class Rope:
    """A tunnel of a machine that records its calls, whose backend cannot be asked at times.

    Args:
        faults: what happens each time that it is asked what it lacks, until there are none.
        lacks: what it lacks.
    """

    def __init__(self, machine: Noting, faults: list[Fault], lacks: str | None) -> None:
        self._faults, self._lacks = faults, lacks
        self.up, self.status, self.down = machine.up, machine.status, machine.down

    async def problem(self) -> str | None:
        if self._faults:
            await self._faults.pop()()
        return self._lacks


def program(machine: Noting, name: str = "", *faults: Fault, lacks: str | None = None) -> Any:
    """How a new program of the machine's looks at it, with a backend that has faults at first."""
    guards, backends = CallGuards(), list[LoadedBackend]()
    for order, each in enumerate(NAMES):
        mine = each == name
        rope = Rope(machine, list(faults) if mine else [], lacks if mine else None)
        made = TunnelProvider(
            name=each, build=lambda *_, rope=rope: rope, encrypted=True, overhead=80, order=order
        )
        backends.append(LoadedBackend(made, None, guards.of("network", each)))
    account = Account(shares=NODE_SHARES)[PROXY]
    can = HostCapabilities("milan", HostSettings(), backends, account, folder=machine.folder)

    async def look(around: Surroundings) -> GatewayHost:
        found = await can.look(replace(around, address="192.0.2.5"))
        noting = machine.machine()
        return replace(
            found, datapath=noting.datapath, prober=noting.prober, path_probe=None, proxy=None
        )

    return look


@asynccontextmanager
async def standing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Apart]:
    """A tunnel by the first of two backends, both of which work."""

    async def able(_: object) -> str | None:
        return None

    monkeypatch.setattr(KernelDatapath, "problem", able)
    async with apart(monkeypatch) as both:
        both.local.look = program(both.site.machine)
        await both.local.remote.look()
        await both.connect()
        yield both


async def stays(both: Apart) -> None:
    """Nothing of the tunnel is taken away, and its gateway counts as before."""
    await both.site.lender.settled()
    found = await both.site.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
    assert condition(found, "Accepted")["status"] == "True"
    assert both.count(EndTunnel) == 0
    assert not {"down", "remove"} & set(both.site.machine.did)


async def attended(both: Apart, within: float) -> None:
    """Until the tunnel is attended by the program that was begun last."""
    machine = both.site.machine
    await eventually(
        lambda: tuple(machine.did[-3:]) == DONE and machine.heard is not None, seconds=within
    )
    await stays(both)


@pytest.mark.parametrize("fault", [raises, refuses, trio.sleep_forever])
async def test_a_new_program_that_cannot_look_at_first_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, fault: Fault
):
    async with standing(monkeypatch) as both:
        look, faults = program(both.site.machine), [fault]

        async def unlucky(around: Surroundings) -> GatewayHost:
            if faults:
                await faults.pop()()
            found: GatewayHost = await look(around)
            return found

        both.local.look = unlucky
        await both.restart_machine()
        await attended(both, AGAIN.first + 1.0)


async def test_a_look_that_fails_again_and_again_is_repeated_until_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
):
    async with standing(monkeypatch) as both:
        look, broken = program(both.site.machine), True

        async def unlucky(around: Surroundings) -> GatewayHost:
            if broken:
                raise KeyError("a bug")
            found: GatewayHost = await look(around)
            return found

        both.local.look = unlucky
        await both.restart_machine()
        await trio.sleep(10 * AGAIN.last)
        await stays(both)
        assert both.site.machine.did == []
        broken = False
        await attended(both, AGAIN.last + 1.0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", [raises, refuses, trio.sleep_forever])
async def test_a_backend_that_cannot_be_asked_by_a_new_program_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: Fault
):
    async with standing(monkeypatch) as both:
        both.local.look = program(both.site.machine, name, fault)
        before = both.local.remote.facts.now
        await both.restart_machine()
        await trio.sleep(1.0)
        await stays(both)
        assert both.local.remote.facts.now == before
        # The limit of a call that does not come back, and of its end.
        await attended(both, 7.0 + AGAIN.first + 1.0)


@pytest.mark.parametrize("name", NAMES)
async def test_a_new_daemon_waits_for_a_backend_that_a_new_program_cannot_ask(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    async with standing(monkeypatch) as both:
        await both.kill_daemon()
        await both.local.end()
        look = program(both.site.machine, name, refuses)
        await both.begin_anew(look)
        await trio.sleep(1.0)
        await stays(both)
        if name == "wireguard":
            facts = both.site.lender.peer.network.facts()
            assert facts is not None
            assert SILENT in facts.waits
            assert not both.site.machine.did, "it is not known whether it can be had"
        await attended(both, AGAIN.first + 1.0)
        await eventually(
            lambda: set(both.local.remote.facts.now.backends) == set(NAMES),
            seconds=AGAIN.first + 1.0,
        )
        await stays(both)


async def test_a_backend_that_was_asked_and_lacks_something_is_refused(
    monkeypatch: pytest.MonkeyPatch,
):
    async with standing(monkeypatch) as both:
        look = program(both.site.machine, "wireguard", refuses, lacks="no module")
        both.local.look = look
        await both.restart_machine()
        await trio.sleep(1.0)
        await stays(both)

        async def refused() -> bool:
            admin = both.site.lender.admin
            found = await admin.get(GATEWAY_SERVERS, "rome", TENANT)
            return bool(condition(found, "Accepted").get("reason") == "BackendNotAllowed")

        await eventually(refused, seconds=AGAIN.first + 5.0)
        # The next program cannot ask it: what was known of it goes on counting.
        both.local.look = program(both.site.machine, "wireguard", refuses)
        await both.restart_machine()
        await trio.sleep(1.0)
        assert await refused()
