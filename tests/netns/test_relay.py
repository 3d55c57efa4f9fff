"""Two clusters behind NATs, whose tunnel goes by a peer of both, which cannot read it."""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.kube.client import Client
from liqod.model import ids
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import INSIDE_TABLE, PeerNames
from liqod.peers.peer import Peer
from liqod.resources import CONFIGURATIONS
from liqod.resources.networking import (
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    GatewayClient,
    GatewayServer,
)
from tests.netns.lab import ask, echo, packets, run
from tests.netns.natted import NATS, Natted, captured, natted
from tests.netns.test_joined_clusters import Site
from tests.simulated.borrower import eventually

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

RELAYED = """
[network]
relay = ["{r}", "{m}"]
relay_rate = 8
relayed_by = ["{h}"]
"""
PORT = 8000
WIREGUARD_DATA = b"\x04\x00\x00\x00"
"""How WireGuard's messages that carry packets begin."""


async def external(site: Site, peer: str) -> str:
    """How the aliases of a peer's external range begin, to the last dot."""
    place = ids.tenant_namespace(peer)
    found = await site.member.admin.get(CONFIGURATIONS, peer, place)
    return str(found["status"]["remote"]["cidr"]["external"][0]).rpartition(".")[0]


async def relayed_at(three: Natted) -> tuple[str, int]:
    """Where rome dials milan by the hub: the last of its endpoints."""
    milan = three.milan.member.id
    place = ids.tenant_namespace(milan)
    admin: Client = three.rome.member.admin
    found = await admin.get(GATEWAY_CLIENTS, milan, place, decode=GatewayClient)
    assert found.spec.endpoint is not None
    assert found.spec.endpoint.port is not None
    return found.spec.endpoint.addresses[-1], found.spec.endpoint.port


async def test_two_behind_nats_reach_each_other_by_a_peer_that_cannot_read_it(
    wireguard: str, tmp_path: Path
) -> None:
    async with natted(wireguard, tmp_path, RELAYED) as three:
        rome, milan, hub = three.rome, three.milan, three.hub
        for leaf in (rome, milan):
            joining = await three.join(leaf, hub)
            assert joining.without == ""
        joining = await three.join(rome, milan, relayed=True)
        assert joining.without == ""
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        await it_is_told(three, relayed=True)
        await nothing_is_read(three)
        await nothing_else_is_let_through(three)
        await the_relays_daemon_is_not_needed(three)
        await a_relay_comes_back(three)
        await a_flood_is_cut(three)
        await a_better_way_is_taken(three)


async def it_is_told(three: Natted, *, relayed: bool) -> None:
    """`liqod network status` of both ends names the relay, as long as it is one."""
    said = f"userspace, relayed by {three.hub.member.id}" if relayed else "userspace"

    async def told() -> bool:
        for site in (three.rome, three.milan):
            peer = peer_of(site)
            peer.network.nudge()
            known = peer.network.facts()
            if known is None or known.path != said:
                return False
        return True

    await eventually(told)


def peer_of(site: Site) -> Peer:
    """The first peer of a cluster, as its daemon knows it."""
    return site.member.components.peers[site.names.peer_id]


async def nothing_is_read(three: Natted) -> None:
    """A pod's data is nowhere on the relay; in its own clusters it is, which proves the search."""
    secret = os.urandom(16).hex().encode()
    alias = await three.rome.alias(6)
    at_home = (PeerNames(three.milan.member.id, three.rome.member.id).namespace,)

    def say() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            for _ in range(20):
                made.sendto(secret * 4, (alias, PORT))

    with captured(*three.at_hub) as seen, captured(*at_home) as context:
        await trio.to_thread.run_sync(enter, three.rome.pod.namespace, say)
        await trio.sleep(0.5)
    assert any(secret in packet for packet in context)
    assert sum(WIREGUARD_DATA in packet for packet in seen) >= 20 * len(three.at_hub)
    assert not any(secret in packet for packet in seen)


async def nothing_else_is_let_through(three: Natted) -> None:
    """By the relay's address another gateway is reached, and nothing else of anybody."""
    rome, milan, hub = three.rome, three.milan, three.hub
    relay, port = await relayed_at(three)
    at_hub = PeerNames(hub.member.id, rome.member.id).namespace
    at_milan = PeerNames(milan.member.id, hub.member.id).namespace

    async def tries(place: str, address: str, to: int, kind: str) -> None:
        with pytest.raises(TimeoutError):
            await trio.to_thread.run_sync(partial(ask, place, address, to, kind, timeout=0.5))

    with echo(milan.node, PORT), echo(milan.node, PORT, "udp"), echo(hub.node, PORT, "udp"):
        # Other protocols end at the relay, other ports at the end.
        before = packets(at_hub, INSIDE_TABLE, "strangers")
        await tries(rome.node, relay, PORT, "tcp")
        await tries(rome.pod.namespace, relay, PORT, "tcp")
        assert packets(at_hub, INSIDE_TABLE, "strangers") > before
        before = packets(at_milan, INSIDE_TABLE, "strangers")
        for place in (rome.node, rome.pod.namespace):
            await tries(place, relay, PORT, "udp")
        gateway = await external(hub, milan.member.id)
        for to, kind in ((PORT, "udp"), (port, "tcp"), (PORT, "tcp")):
            await tries(hub.node, f"{gateway}.0", to, kind)
        assert packets(at_milan, INSIDE_TABLE, "strangers") >= before + 5
        # Rome's gateway dials, so that nothing is let in there.
        at_rome = PeerNames(rome.member.id, hub.member.id).namespace
        before = packets(at_rome, INSIDE_TABLE, "strangers")
        await tries(hub.node, f"{await external(hub, rome.member.id)}.0", 12345, "udp")
        assert packets(at_rome, INSIDE_TABLE, "strangers") > before


async def the_relays_daemon_is_not_needed(three: Natted) -> None:
    """The kernel carries: a daemon that is killed and started again loses nothing."""
    answered: list[int] = []

    async def under_way() -> None:
        answered.append(await three.rome.reaches(6, times=200))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(under_way)
        await three.hub.member.stop()
        await three.hub.member.start()
    assert answered == [200]


async def a_relay_comes_back(three: Natted) -> None:
    """The machine is cut off: both ends say so, and go on by themselves when it is there again."""
    run("ip", "-n", three.hub.node, "link", "set", "wan", "down")
    assert await three.rome.reaches(6, times=1) == 0
    await trio.sleep(1.5)
    run("ip", "-n", three.hub.node, "link", "set", "wan", "up")
    began = trio.current_time()
    await eventually(lambda: three.rome.reaches(6, times=1), lambda found: found == 1)
    print(f"back {trio.current_time() - began:.1f} s after the relay")


async def a_flood_is_cut(three: Natted) -> None:
    """One who sends more than was agreed loses it there, and no other peer of the relay's does."""
    relay, port = await relayed_at(three)
    at_hub = PeerNames(three.hub.member.id, three.rome.member.id).namespace
    before = packets(at_hub, INSIDE_TABLE, "flooded")

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            # Five times what may pass, in pieces that the tunnel to the relay takes.
            for _ in range(200):
                for _ in range(50):
                    made.sendto(bytes(1200), (relay, port))
                time.sleep(0.01)

    await trio.to_thread.run_sync(enter, three.rome.node, flood)
    assert packets(at_hub, INSIDE_TABLE, "flooded") > before + 100
    assert packets(at_hub, INSIDE_TABLE, "relayed") > 0
    await eventually(lambda: three.rome.reaches(6, times=1), lambda found: found == 1)


async def a_better_way_is_taken(three: Natted) -> None:
    """Somebody forwards the port at milan's NAT: what is preferred is tried, and taken."""
    rome, milan = three.rome, three.milan
    _, port = await relayed_at(three)
    place = ids.tenant_namespace(rome.member.id)
    server = await milan.member.admin.get(
        GATEWAY_SERVERS, rome.member.id, place, decode=GatewayServer
    )
    assert server.status.endpoint is not None
    [direct] = server.status.endpoint.addresses
    run("ip", "-n", three.nats["r"], "route", "add", f"{direct}/32", "via", NATS["m"])
    rule = f"insert rule ip nat through ip daddr {direct} udp dport {port} accept"
    run("nft", *rule.split(), namespace=three.nats["m"])

    at_hub = PeerNames(three.hub.member.id, rome.member.id).namespace

    async def taken() -> bool:
        counted = packets(at_hub, INSIDE_TABLE, "relayed")
        assert await rome.reaches(6, times=3) == 3
        return packets(at_hub, INSIDE_TABLE, "relayed") == counted

    await eventually(taken, seconds=60)
    await it_is_told(three, relayed=False)
