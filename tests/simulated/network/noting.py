"""A peer's network on a machine that only records its calls, and the hands of a test on it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, cast

import pytest
import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import NetworkError
from liqod.network.backends import LoadedBackend
from liqod.network.dataplane import peerplan
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames, Side
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import KernelChange, Namespace
from liqod.network.gatewayhost import GatewayHost
from liqod.network.joining import join
from liqod.network.orders.tunnels import Listening, MachineFacts
from liqod.plugins.callguard import CallGuards
from liqod.plugins.providers import TunnelProvider, TunnelServices, TunnelSpec, TunnelStatus
from liqod.resources.networking import (
    CONFIGURATIONS,
    CONNECTIONS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.lender import TENANT, Lender, installed_lender
from tests.simulated.localmachine import LocalMachine
from tests.simulated.network.test_gateways import MARKS, client, key, server

NOBODY: Any = None
ALIAS = "10.71.0.0/16"


@dataclass
class Noting:
    """A machine that records its calls, and a tunnel of it."""

    did: list[str] = field(default_factory=list)
    specs: list[TunnelSpec] = field(default_factory=list)
    silent: float = 0.0
    refuses: str = ""
    lacks: str = ""
    stuck: str = ""
    """Why nothing can be taken away."""
    disturbed: trio.Event = field(default_factory=trio.Event)
    heard: Callable[[ProbeResult], None] | None = None
    tells: Callable[[], PeerHello] = PeerHello
    says: ProbeResult | None = None
    broken: str = ""
    """The function of the tunnel that raises what it should not."""
    stands: TunnelStatus | None = None
    looks: int = 0
    calls: CallGuards = field(default_factory=CallGuards)
    folder: str = ""
    carries: bool = False
    """True if it makes websockets, too, in which the tunnel's packets can go."""

    async def prepare(self, names: PeerNames, backend: str = "") -> None:
        self.did.append("begin")

    async def makers(self, names: PeerNames) -> frozenset[str] | None:
        return None

    async def apply(self, plan: PeerPlan) -> list[KernelChange]:
        if self.refuses:
            raise NetworkError(self.refuses)
        self.did.append("apply")
        return []

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    async def wait_disturbed(self, names: PeerNames) -> None:
        disturbed = self.disturbed
        await disturbed.wait()
        self.disturbed = trio.Event()

    async def remove(self, names: PeerNames) -> list[str]:
        if self.stuck:
            raise NetworkError(self.stuck)
        self.did.append("remove")
        return []

    async def problem(self) -> str | None:
        return self.lacks or None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        self._breaks("up")
        self.did.append("up")
        self.specs.append(spec)
        self.silent = silent
        return float("inf")

    async def status(self) -> TunnelStatus | None:
        self._breaks("status")
        self.looks += 1
        return self.stands

    async def down(self) -> None:
        self.did.append("down")

    def _breaks(self, function: str) -> None:
        if function == self.broken:
            raise ValueError("boom")

    def machine(self) -> GatewayHost:
        made = TunnelProvider(name="rope", build=lambda *_: self, encrypted=True, overhead=80)
        services = TunnelServices(cluster_id="milan", host=NOBODY, folder=self.folder)
        rope = LoadedBackend(made, None, self.calls.of("network", "rope")).tunnels(services)
        also = Listening(transport="TCP", port=443, shared=True)
        backends = {"wireguard": Listening(carried=self.carries)}
        if self.carries:
            backends["websocket"] = also
        return GatewayHost(
            facts=MachineFacts(addresses=("192.0.2.5",), backends=backends),
            tunnels=dict.fromkeys(backends, rope),
            datapath=cast("KernelDatapath", self),
            prober=partial(NotedProber, self),
        )

    async def until(self, *did: str) -> None:
        """Until exactly that was done since asked last."""
        try:
            await eventually(lambda: self.did == list(did), seconds=10)
        except trio.TooSlowError:
            assert self.did == list(did)
        self.did.clear()


class NotedProber:
    """A prober that sends nothing: a test says by the machine what it heard."""

    def __init__(
        self,
        machine: Noting,
        names: PeerNames,
        side: Side,
        heard: Callable[[ProbeResult], None],
        tells: Callable[[], PeerHello],
    ) -> None:
        self.machine, self._heard, self._tells = machine, heard, tells

    async def stand_by(self) -> NoReturn:
        await trio.sleep_forever()
        raise AssertionError

    async def run(self) -> NoReturn:
        self.machine.heard, self.machine.tells = self._heard, self._tells
        if self.machine.says is not None:
            self._heard(self.machine.says)
        try:
            await trio.sleep_forever()
        finally:
            self.machine.heard = None
        raise AssertionError


@dataclass
class Joined:
    lender: Lender
    machine: Noting
    nursery: trio.Nursery
    running: trio.CancelScope
    local: LocalMachine = field(default_factory=lambda: LocalMachine("milan"))

    async def make(self, kind: Any, spec: Json) -> None:
        metadata = {"name": "rome", "labels": MARKS}
        await self.lender.admin.create(kind, {"metadata": metadata, "spec": spec}, TENANT)

    async def configure(self) -> None:
        """Be the controller of Configurations."""
        theirs = {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.70.0.0/16"]}}
        ours = {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.60.0.0/16"]}}
        await self.make(CONFIGURATIONS, {"remote": theirs, "local": ours})
        seen = {"cidr": {"pod": [ALIAS], "external": ["10.72.0.0/16"]}}
        status = {"status": {"remote": seen}}
        admin = self.lender.admin
        await admin.patch(CONFIGURATIONS, "rome", status, TENANT, subresource="status")

    async def begin(self, gateway: Kind = GATEWAY_SERVERS) -> None:
        """Make all that a tunnel needs."""
        await self.make(gateway, server() if gateway is GATEWAY_SERVERS else client())
        await self.make(PUBLIC_KEYS, key())
        await self.configure()

    async def listens(self) -> Callable[[ProbeResult], None]:
        """Wait until the tunnel is probed; tells it what the probes have found."""
        return cast("Callable[[ProbeResult], None]", await eventually(lambda: self.machine.heard))

    async def connect(self) -> None:
        """Have the probes find the other side alive."""
        (await self.listens())(ProbeResult(True, 0.001))
        await self.shows("Connected")

    async def refused(self, why: str) -> None:
        """Wait until the server's gateway says why it is not accepted."""
        await eventually(
            lambda: self.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT),
            lambda found: why in condition(found, "Accepted").get("message", ""),
        )

    async def shows(self, value: str) -> None:
        await eventually(partial(self._is, value))

    async def hears(self, result: ProbeResult, value: str) -> bool:
        """Hear it as probes go on, and say if the Connection has this value then."""
        if self.machine.heard is not None:  # a tunnel that changes is probed anew
            self.machine.heard(result)
        await self.lender.settled()
        return await self._is(value)

    async def _is(self, value: str) -> bool:
        found = await self.lender.admin.find(CONNECTIONS, "gw-rome", TENANT)
        return bool((found or {}).get("status", {}).get("value") == value)

    async def start(self) -> None:
        self.running = trio.CancelScope()

        async def run(scope: trio.CancelScope) -> None:
            with scope:
                async with trio.open_nursery() as nursery:
                    self.local = LocalMachine("milan", self.machine.machine())
                    await nursery.start(self.local.run)
                    await join(self.lender.peer, self.local.remote)

        self.nursery.start_soon(run, self.running)

    async def crash(self) -> None:
        self.running.cancel()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def joined(
    monkeypatch: pytest.MonkeyPatch, *, carries: bool = False
) -> AsyncIterator[Joined]:
    def plan(names: PeerNames, *_: object, **__: object) -> PeerPlan:
        return PeerPlan(names, Namespace(), Namespace())

    monkeypatch.setattr(peerplan, "plan", plan)
    with TemporaryDirectory() as folder:
        async with installed_lender() as (milan, nursery):
            site = Joined(
                milan, Noting(folder=folder, carries=carries), nursery, trio.CancelScope()
            )
            await site.start()
            yield site


async def stand(site: Joined, gateway: Kind = GATEWAY_SERVERS) -> None:
    await site.begin(gateway)
    await site.machine.until("begin", "up", "apply")
