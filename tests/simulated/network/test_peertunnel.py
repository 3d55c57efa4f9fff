"""A peer's network from objects to a data path, with a machine that only records its calls."""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import permutations

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, SECRETS
from liqod.identity import tunnelkeys
from liqod.model.network.ranges import ClusterCidrs
from liqod.network.gateway.connections import Connections
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import EndTunnel
from liqod.network.remotemachine import RemoteMachine
from liqod.network.tunnelcontroller import TunnelController
from liqod.plugins.checks.network import tunnel, underlay
from liqod.plugins.diagnosis import ClusterFacts, Finding, PeerFacts
from liqod.plugins.providers import TunnelStatus
from liqod.resources.networking import (
    CONFIGURATIONS,
    CONNECTIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)
from liqod.runtime.observable import Observable
from liqod.telemetry.events import TunnelChanged
from liqod.tunnel.probes.messages import PeerHello, ProbeResult
from tests.simulated.borrower import Json, eventually
from tests.simulated.lender import TENANT
from tests.simulated.network.noting import ALIAS, Joined, joined, stand
from tests.simulated.network.test_gateways import THEIRS, client, key, server


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
        heard = await site.listens()
        assert site.lender.peer.network.connected is None, "nobody has judged it yet"
        assert site.machine.tells().seen_as == (ALIAS, "10.72.0.0/16")
        heard(ProbeResult(True, 0.001))
        await site.shows("Connected")
        assert site.lender.peer.network.connected
        heard(ProbeResult(False, why="nobody answers"))
        await site.shows("Connecting")
        assert site.lender.peer.network.connected is False


async def remote(site: Joined) -> Json:
    """The peer's ranges as its Configuration has them."""
    found = await site.lender.admin.get(CONFIGURATIONS, "rome", TENANT)
    cidr: Json = found["spec"]["remote"]["cidr"]
    return cidr


async def test_ranges_that_come_later_are_taken_up_and_nothing_else(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        heard = await site.listens()
        # Room for all of a pool, nonsense, one that has a node in it: what was there stays.
        node = {"addresses": [{"type": "InternalIP", "address": "10.249.0.9"}]}
        await site.lender.admin.create(NODES, {"metadata": {"name": "one"}, "status": node})
        first = ("10.244.0.0/16",)
        for each in ("10.0.0.0/8", "10.247.0.1/16", "x/9", "10.249.0.0/16", "10.244.7.0/24"):
            heard(ProbeResult(True, 0.001, hello=PeerHello(own=ClusterCidrs((*first, each)))))
            await site.lender.settled()
        assert await remote(site) == {"pod": list(first), "external": ["10.70.0.0/16"]}
        # Whatever order they are told in, aliases stand in the order of those that are known.
        later = ClusterCidrs(("10.243.0.0/16", *first), ("10.70.0.0/16",))
        heard(ProbeResult(True, 0.001, hello=PeerHello(own=later)))
        known = [*first, "10.243.0.0/16"]
        await eventually(lambda: remote(site), lambda found: found["pod"] == known)
        # None is taken back by being told no more.
        heard(ProbeResult(True, 0.001, hello=PeerHello(own=ClusterCidrs(first))))
        await site.lender.settled()
        assert (await remote(site))["pod"] == known


async def test_a_peer_that_does_not_know_all_ranges_is_named(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        heard = await site.listens()

        async def said() -> str:
            found = await site.lender.admin.find(CONNECTIONS, "gw-rome", TENANT)
            return str((found or {}).get("metadata", {}).get("annotations", {}).get(labels.PODS))

        problem = "rome does not know all of 10.244.0.0/16"
        heard(ProbeResult(True, 0.001, hello=PeerHello(seen_as=("10.66.0.0/16",))))
        found = await eventually(said, lambda found: problem in found)
        assert found.startswith("failed")
        heard(ProbeResult(True, 0.001, hello=PeerHello(seen_as=("10.66.0.0/16", "10.67.0.0/16"))))
        await eventually(said, lambda found: problem not in found)


@pytest.mark.parametrize("kind", [GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS], ids=str)
async def test_it_is_taken_down_when_one_of_them_goes(monkeypatch, kind):
    async with joined(monkeypatch) as site:
        await stand(site)
        await site.lender.admin.delete(kind, "rome", TENANT)
        await site.machine.until("down", "remove")
        # Who makes it anew goes on with the key that the peer knows.
        assert await _kept(site, True)
        assert site.machine.heard is None


async def test_an_end_that_fails_is_said_and_tried_again_and_the_key_stays_until_then(monkeypatch):
    async with joined(monkeypatch) as site:
        await stand(site)
        site.machine.stuck = "the namespace is busy"
        for kind in (GATEWAY_SERVERS, PUBLIC_KEYS, CONFIGURATIONS):
            await site.lender.admin.delete(kind, "rome", TENANT)
        await eventually(lambda: site.lender.peer.network.why == "the namespace is busy")
        await trio.sleep(3.0)
        assert await _kept(site, True)
        tries = sum(isinstance(each, EndTunnel) for each in site.local.sent)
        assert tries <= 6, "each time after a longer pause"
        site.machine.stuck = ""
        assert await eventually(partial(_kept, site, False))
        assert site.machine.did[-1] == "remove"


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


async def test_a_tunnel_that_goes_another_way_says_so_once(monkeypatch):
    async with joined(monkeypatch) as site:

        def told() -> list[tuple[str, str]]:
            seen = (each.payload for each in site.lender.peer.context.hub.history)
            found = (each for each in seen if isinstance(each, TunnelChanged))
            return [(each.path, each.endpoint) for each in found if each.path]

        site.machine.stands = TunnelStatus(path="kernel", endpoint="192.0.2.1:51840")
        await stand(site)

        async def looked() -> bool:
            site.lender.peer.network.nudge()
            return site.machine.looks > before

        before = site.machine.looks
        await eventually(looked)
        assert told() == []
        site.machine.stands = TunnelStatus(path="websocket", endpoint="192.0.2.1:443")
        for _ in range(2):
            before = site.machine.looks
            await eventually(looked)
        assert told() == [("websocket", "192.0.2.1:443")]


async def test_what_the_machine_refuses_is_said_and_tried_again(monkeypatch):
    async with joined(monkeypatch) as site:
        site.machine.refuses = "no room for a route"
        await site.begin()
        await site.shows("Error")
        assert site.lender.peer.network.why == "no room for a route"
        site.machine.refuses = ""
        await site.shows("Connecting")


def ladder(site: Joined) -> dict[str, Finding | None]:
    """Returns the doctor's findings in the layers that a broken tunnel concerns, in their order."""
    network, cluster = site.lender.peer.network.facts(), ClusterFacts(now=1.0)
    facts = PeerFacts(now=1.0, peer="rome", cluster=cluster, network=network)
    return {"underlay": underlay(facts), "tunnel": tunnel(facts)}


@pytest.mark.parametrize("function", ["up", "status"])
async def test_a_backend_that_breaks_is_named_before_the_firewall(monkeypatch, function: str):
    async with joined(monkeypatch) as site:
        site.machine.broken = function
        await site.begin()

        async def is_named() -> bool:
            found = ladder(site)
            said = found["tunnel"]
            named = said is not None and "the network rope raised ValueError: boom" in said.evidence
            return named and found["underlay"] is None

        await eventually(is_named)
        assert "ValueError: boom" in site.machine.calls.troubles()["the network rope"]
        site.machine.broken = ""
        await eventually(lambda: not site.machine.calls.troubles())


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


async def test_what_is_told_while_it_starts_is_not_missed(monkeypatch):
    async with joined(monkeypatch) as site:
        await site.crash()
        peer = site.lender.peer
        for _ in range(20):  # which task runs first differs
            ends, machine = Observable(TunnelEndpoints()), RemoteMachine(lambda order: None)
            connections = Connections(peer, ends, machine.role)

            async def tell(ends: Observable[TunnelEndpoints] = ends) -> None:
                await trio.lowlevel.checkpoint()
                ends.set(TunnelEndpoints(waits="told", refused=True, looked=True))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    TunnelController(peer, machine, ends, connections, lambda: "").run
                )
                nursery.start_soon(tell)

                async def heard(connections: Connections = connections) -> bool:
                    return connections.state.why == "told"

                await eventually(heard)
                nursery.cancel_scope.cancel()
