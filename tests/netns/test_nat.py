"""Through address translation and to other addresses: what joined networks lose by it.

Between the two gateways is a router with nftables' masquerade, which forgets a flow of UDP
after two seconds of silence. Its own address, and the gateways', change under traffic.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.netns.flows import flowing
from tests.netns.lab import make, run, set_up, wire
from tests.netns.test_joined_clusters import Site, two
from tests.simulated.network.test_networking import join

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

FORGETS: Final = 2
"""Seconds after which the router forgets a flow that says nothing."""
BY_ITSELF: Final = 5.0
"""Seconds under which a packet has shown where its sender is: agreeing on keys anew takes 15."""
PUBLIC, ANOTHER, MILAN = "198.51.100.1", "198.51.100.3", "198.51.100.2"
INSIDE: Final = "192.168.7.2"
"""Of rome's gateway, behind the router."""


class Router:
    """Between rome's gateway and the rest of the world; `forward` lets UDP in to rome's."""

    def __init__(self, *, forward: bool = False) -> None:
        self.name = f"n{secrets.token_hex(3)}-nat"
        self._forward = forward

    def put(self, rome: Site, milan: Site) -> None:
        """Takes the place of the cable between the two."""
        make(self.name)
        run("ip", "-n", rome.node, "link", "delete", "wan")
        for node, own, link, router in (
            (rome.node, INSIDE, "lan", "192.168.7.1"),
            (milan.node, MILAN, "wan", PUBLIC),
        ):
            wire(self.name, link, node, "wan")
            set_up(self.name, link, f"{router}/24")
            set_up(node, "wan", f"{own}/24", via=router)
        for key, value in (
            ("ipv4.ip_forward", 1),
            ("netfilter.nf_conntrack_udp_timeout", FORGETS),
            ("netfilter.nf_conntrack_udp_timeout_stream", FORGETS),
        ):
            run("sysctl", "-q", "-w", f"net.{key}={value}", namespace=self.name)
        into = f"iifname wan udp dport 1024-65535 dnat ip to {INSIDE}" if self._forward else ""
        text = (
            "table inet nat {\nchain post {\ntype nat hook postrouting priority srcnat\n"
            "oifname wan masquerade random\n}\n"
            f"chain pre {{\ntype nat hook prerouting priority dstnat\n{into}\n}}\n"
            # What nobody behind it has asked for is not let in, as by any router.
            "chain pass {\ntype filter hook forward priority filter\n"
            f"iifname wan ct state new {'accept' if self._forward else 'drop'}\n}}\n}}\n"
        )
        run("nft", "-f", "-", stdin=text, namespace=self.name)

    def move(self) -> None:
        """A new lease: the router has another address, and knows no flow any more."""
        # In this order: the second address of a network goes with its first.
        run("ip", "-n", self.name, "addr", "delete", f"{PUBLIC}/24", "dev", "wan")
        run("ip", "-n", self.name, "addr", "add", f"{ANOTHER}/24", "dev", "wan")

    def remove(self) -> None:
        run("ip", "netns", "delete", self.name, check=False)


@asynccontextmanager
async def behind(
    program: str, folder: Path, *, server_at: str = "Provider", forward: bool = False
) -> AsyncIterator[tuple[Site, Site, Router]]:
    """rome behind a router, joined with milan."""
    router = Router(forward=forward)
    try:
        async with two(program, folder) as (rome, milan):
            router.put(rome, milan)
            joining = await join(rome.member, milan.member, server_at=server_at)
            assert joining.without == ""
            yield rome, milan, router
    finally:
        router.remove()


async def test_a_client_behind_a_router_is_reached_after_a_silence(wireguard: str, tmp_path: Path):
    """Longer than the router remembers: the keepalive of a second holds the way open."""
    async with behind(wireguard, tmp_path) as (_, milan, _router):
        assert await milan.reaches(5) == 3
        await trio.sleep(4 * FORGETS)
        assert await milan.reaches(5, times=1) == 1


@pytest.mark.parametrize("sender", ["client", "server"])
async def test_a_router_that_gets_another_address_under_traffic(
    wireguard: str, tmp_path: Path, sender: str
):
    async with behind(wireguard, tmp_path) as (rome, milan, router):
        one, last = (rome, 6) if sender == "client" else (milan, 5)
        async with flowing(one.pod, await one.alias(last)) as flow:
            moved = time.monotonic()
            router.move()
            gap = await flow.gets_well(moved)
            print(f"the client's router has another address, {sender} sends: {gap * 1000:.0f} ms")
            # Where only the server speaks, the client's next keepalive shows where it is.
            assert gap < BY_ITSELF


async def test_a_server_behind_a_router_that_lets_its_port_in(wireguard: str, tmp_path: Path):
    async with behind(wireguard, tmp_path, server_at="Consumer", forward=True) as sites:
        rome, milan, router = sites
        assert await milan.reaches(5) == 3
        assert await rome.reaches(6) == 3
        # It moves: what the server itself says next shows its client where it is now.
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            moved = time.monotonic()
            router.move()
            gap = await flow.gets_well(moved)
            print(f"the server's router has another address: {gap * 1000:.0f} ms")
            assert gap < BY_ITSELF


@pytest.mark.parametrize("moves", ["client", "server"])
async def test_a_gateway_that_gets_another_address_under_traffic(
    wireguard: str, tmp_path: Path, moves: str
):
    async with two(wireguard, tmp_path) as (rome, milan):
        at = "Provider" if moves == "client" else "Consumer"
        assert (await join(rome.member, milan.member, server_at=at)).without == ""
        async with flowing(rome.pod, await rome.alias(6)) as flow:
            moved = time.monotonic()
            run("ip", "-n", rome.node, "addr", "delete", f"{PUBLIC}/24", "dev", "wan")
            run("ip", "-n", rome.node, "addr", "add", f"{ANOTHER}/24", "dev", "wan")
            run(*f"ip -n {rome.node} route replace default via {MILAN}".split())
            gap = await flow.gets_well(moved)
            print(f"the {moves} has another address: {gap * 1000:.0f} ms")
            assert gap < BY_ITSELF
