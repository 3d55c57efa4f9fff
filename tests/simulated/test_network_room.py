"""A peer's network from objects to a data path, with a machine that only notes what it is told."""

from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any, NoReturn

import msgspec
import pytest
import trio

from liqod.errors import NetworkError
from liqod.identity import tunnelkeys
from liqod.kube.kinds import SECRETS
from liqod.latest import Latest
from liqod.network import peerplan
from liqod.network.connections import Connections
from liqod.network.ends import Ends
from liqod.network.joining import join
from liqod.network.machine import Heard, Machine, Told
from liqod.network.names import Names, Side
from liqod.network.peerplan import PeerPlan
from liqod.network.room import Room
from liqod.network.values import Namespace
from liqod.plugins.providers import TunnelSpec, TunnelStatus
from liqod.resources.networking import (
    CONFIGURATIONS,
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.lender import TENANT, Lender, installed_lender
from tests.simulated.test_gateways import MARKS, THEIRS, client, key, server

ALIAS = "10.71.0.0/16"


@dataclass
class Noting:
    """A machine that does what it is told, and a tunnel of it."""

    did: list[str] = field(default_factory=list)
    specs: list[TunnelSpec] = field(default_factory=list)
    silent: float = 0.0
    refuses: str = ""
    lacks: str = ""
    disturbed: trio.Event = field(default_factory=trio.Event)
    heard: Callable[[Heard], None] | None = None
    says: Heard | None = None

    async def begin(self, names: Names) -> None:
        self.did.append("begin")

    async def apply(self, plan: PeerPlan) -> list[str]:
        if self.refuses:
            raise NetworkError(self.refuses)
        self.did.append("apply")
        return []

    async def wait_disturbed(self, names: Names) -> None:
        disturbed = self.disturbed
        await disturbed.wait()
        self.disturbed = trio.Event()

    async def remove(self, names: Names) -> list[str]:
        self.did.append("remove")
        return []

    async def probe(
        self, names: Names, side: Side, heard: Callable[[Heard], None], tells: Callable[[], Told], /
    ) -> NoReturn:
        self.heard, self.tells = heard, tells
        if self.says is not None:
            heard(self.says)
        try:
            await trio.sleep_forever()
        finally:
            self.heard = None
        raise AssertionError

    async def listens(self) -> bool:
        return self.heard is not None

    async def problem(self) -> str | None:
        return self.lacks or None

    async def up(self, spec: TunnelSpec, /, *, silent: float = 0.0) -> float:
        self.did.append("up")
        self.specs.append(spec)
        self.silent = silent
        return float("inf")

    async def status(self) -> TunnelStatus | None:
        return None

    async def down(self) -> None:
        self.did.append("down")

    def machine(self) -> Machine:
        return Machine(
            addresses=("192.0.2.5",),
            tunnels={"wireguard": lambda names: self},
            datapath=self,
            probes=self.probe,
        )

    async def until(self, *did: str) -> None:
        """Until exactly that was done since asked last."""

        async def so() -> bool:
            return self.did == list(did)

        try:
            await eventually(so, seconds=10)
        except trio.TooSlowError:
            assert self.did == list(did)
        self.did.clear()


@dataclass
class Joined:
    lender: Lender
    machine: Noting
    nursery: trio.Nursery
    running: trio.CancelScope

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

    async def shows(self, value: str) -> None:
        async def look() -> bool:
            found = await self.lender.admin.find(CONNECTIONS, "gw-rome", TENANT)
            return bool((found or {}).get("status", {}).get("value") == value)

        await eventually(look)

    async def start(self) -> None:
        self.running = trio.CancelScope()

        async def run(scope: trio.CancelScope) -> None:
            with scope:
                await join(self.lender.peer, self.machine.machine())

        self.nursery.start_soon(run, self.running)

    async def crash(self) -> None:
        self.running.cancel()
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def joined(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Joined]:
    def plan(names: Names, *_: object, **__: object) -> PeerPlan:
        return PeerPlan(names, Namespace(), Namespace())

    monkeypatch.setattr(peerplan, "plan", plan)
    async with installed_lender() as (milan, nursery):
        site = Joined(milan, Noting(), nursery, trio.CancelScope())
        await site.start()
        yield site


@pytest.mark.parametrize("gateway", [GATEWAY_SERVERS, GATEWAY_CLIENTS], ids=str)
@pytest.mark.parametrize("order", ["".join(each) for each in permutations("gck")])
async def test_it_stands_in_whichever_order_the_objects_come(monkeypatch, gateway, order: str):
    async with joined(monkeypatch) as site:
        steps: dict[str, Callable[[], Awaitable[None]]] = {
            "g": partial(site.make, gateway, server() if gateway is GATEWAY_SERVERS else client()),
            "k": partial(site.make, PUBLIC_KEYS, key()),
            "c": site.configure,
        }
        for step in order:
            await steps[step]()
        await site.machine.until("begin", "up", "apply")
        (spec,) = site.machine.specs
        assert spec.peer_public_key == THEIRS.public
        assert spec.side == ("server" if gateway is GATEWAY_SERVERS else "client")
        await site.shows("Connecting")
        await eventually(site.machine.listens)
        heard = site.machine.heard
        assert heard is not None
        assert site.machine.tells().seen_as == (ALIAS, "10.72.0.0/16")
        heard(Heard(True, 0.001))
        await site.shows("Connected")
        assert site.lender.peer.network.stands
        heard(Heard(False, why="nobody answers"))
        await site.shows("Connecting")
        assert site.lender.peer.network.stands is False


async def stand(site: Joined) -> None:
    await site.make(GATEWAY_SERVERS, server())
    await site.make(PUBLIC_KEYS, key())
    await site.configure()
    await site.machine.until("begin", "up", "apply")


@pytest.mark.parametrize("kind", [GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS], ids=str)
async def test_it_is_taken_down_when_one_of_them_goes(monkeypatch, kind):
    async with joined(monkeypatch) as site:
        await stand(site)
        await site.lender.admin.delete(kind, "rome", TENANT)
        await site.machine.until("down", "remove")
        # Who makes it anew goes on with the key that the peer knows.
        assert await _kept(site, True)
        assert site.machine.heard is None


async def test_the_private_key_goes_with_the_last_of_them(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        await site.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await site.machine.until("down", "remove")
        await site.lender.settled()
        assert await _kept(site, True)
        for kind in (PUBLIC_KEYS, CONFIGURATIONS):
            await site.lender.admin.delete(kind, "rome", TENANT)
        assert await eventually(partial(_kept, site, False))


async def _kept(site: Joined, wanted: bool) -> bool:
    found = await site.lender.admin.find(SECRETS, "gw-rome", "liqo")
    return (found is not None) == wanted


async def test_a_restart_takes_nothing_down(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        await site.crash()
        assert site.machine.did == []
        await site.start()
        await site.machine.until("begin", "up", "apply")


async def test_what_went_while_nobody_looked_is_taken_down_at_the_start(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        await site.crash()
        await site.lender.admin.delete(GATEWAY_SERVERS, "rome", TENANT)
        await site.start()
        await site.machine.until("down", "remove")
        assert await _kept(site, True)


async def test_nothing_is_asked_of_a_machine_where_nothing_is_wanted(monkeypatch):
    async with joined(monkeypatch) as site:
        await site.lender.settled()
        assert site.machine.did == []


async def test_what_others_disturb_is_applied_again(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        site.machine.disturbed.set()
        await site.machine.until("begin", "up", "apply")


async def test_what_is_lent_meanwhile_says_nothing_of_a_tunnel_that_stands(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        await eventually(site.machine.listens)
        assert site.machine.heard is not None
        site.machine.heard(Heard(True, latency=0.001))
        await site.shows("Connected")
        network = site.lender.peer.network
        before = network.ranges
        assert before is not None
        network.know(msgspec.structs.replace(before, lent={"10.60.0.5": "192.0.2.5"}))
        await site.machine.until("begin", "up", "apply")
        assert network.stands
        network.know(before)
        await site.machine.until("begin", "up", "apply")
        assert network.stands


async def test_in_silence_the_tunnel_is_told_at_once_and_once(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        await eventually(site.machine.listens)
        hear = site.machine.heard
        assert hear is not None
        hear(Heard(False))
        hear(Heard(False))
        await site.machine.until("begin", "up", "apply")
        assert site.machine.silent > 1.0
        hear(Heard(True, latency=0.001))
        await site.shows("Connected")
        site.machine.disturbed.set()
        await site.machine.until("begin", "up", "apply")
        assert site.machine.silent == 0.0


async def test_what_the_machine_refuses_is_said_and_tried_again(monkeypatch):
    async with joined(monkeypatch) as site:
        site.machine.refuses = "no room for a route"
        await site.make(GATEWAY_SERVERS, server())
        await site.make(PUBLIC_KEYS, key())
        await site.configure()
        await site.shows("Error")
        assert site.lender.peer.network.why == "no room for a route"
        site.machine.refuses = ""
        await site.shows("Connecting")


async def test_a_key_that_cannot_be_any_more_ends_it(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        bad = {"spec": {"publicKey": b64encode(b"x" * 31).decode()}}
        await site.lender.admin.patch(PUBLIC_KEYS, "rome", bad, TENANT)
        await site.machine.until("down", "remove")
        await site.shows("Error")
        again = {"spec": {"publicKey": b64encode(tunnelkeys.generate().public).decode()}}
        await site.lender.admin.patch(PUBLIC_KEYS, "rome", again, TENANT)
        await site.machine.until("begin", "up", "apply")


async def test_where_no_network_can_be_the_gateway_says_which_part_is_missing(monkeypatch):
    async with joined(monkeypatch) as site:
        await site.crash()
        site.machine.machine = lambda: Machine(problem="missing: CAP_NET_ADMIN")  # type: ignore[method-assign]
        await site.start()
        await site.make(GATEWAY_SERVERS, server())

        async def told() -> str | None:
            found = await site.lender.admin.get(GATEWAY_SERVERS, "rome", TENANT)
            return condition(found, "Accepted").get("message") or None

        assert "CAP_NET_ADMIN" in await eventually(told)
        assert site.machine.did == []


async def test_what_is_told_while_it_starts_is_not_missed(monkeypatch):
    async with joined(monkeypatch) as site:
        await site.crash()
        peer = site.lender.peer
        for _ in range(20):  # which task runs first differs
            ends, machine = Latest(Ends()), site.machine.machine()
            connections = Connections(peer, ends, machine.role)

            async def tell(ends: Latest[Ends] = ends) -> None:
                await trio.lowlevel.checkpoint()
                ends.know(Ends(waits="told", refused=True, looked=True))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(Room(peer, machine, ends, connections).run)
                nursery.start_soon(tell)

                async def heard(connections: Connections = connections) -> bool:
                    return connections.way.why == "told"

                await eventually(heard)
                nursery.cancel_scope.cancel()
