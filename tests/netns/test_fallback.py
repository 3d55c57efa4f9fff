"""Where no UDP passes, a tunnel of WireGuard's goes on in a websocket, and back when it does."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.netlink import NetlinkRefused
from liqod.network.dataplane.kernel.namespaces import inside
from liqod.network.gateway.gatewayobjects import reported_websocket
from liqod.plugins.network import endpointselection, fallback, redirect, rtnetlink
from liqod.plugins.network.machineprocess import MODULE
from liqod.plugins.network.wireguard import WIREGUARD
from liqod.resources.networking import GATEWAY_CLIENTS, GATEWAY_SERVERS, GatewayServer
from simulator.suites.tunnels import Gateways
from tests.netns import websockets
from tests.netns.flows import Flow
from tests.netns.flows import flowing as sent
from tests.netns.lab import run
from tests.netns.test_joined_clusters import Site, part, two
from tests.netns.test_tunnels import flowing
from tests.netns.websockets import drops
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.testbed.api import BUSY
from tests.testbed.netns import Networks, nft

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]
PORT = 443
LEFT = BUSY * 4.0
"""Seconds for which a client that goes by UDP again keeps its websocket, in place of a minute: its
server, which still sends by that, follows within two where the machine gives both their turns."""


def between(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Has a test run between two gateways with WireGuard."""
    return websockets.between(
        test, lambda given: websockets.suite(WIREGUARD, program=given["wireguard"], kernel=False)
    )


async def kept(
    both: Gateways,
    until: Callable[[], Awaitable[bool]],
    *,
    flow: Flow | None = None,
    server: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Keep both ends as their callers do, who send probes, until something is so."""
    heard, due = time.monotonic(), {"server": 0.0, "client": 0.0}
    with trio.fail_after(BUSY * 20):
        while True:
            now = time.monotonic()
            silent = now - (max(heard, flow.heard) if flow else heard)
            for gateway in both.both:
                if now >= due[gateway.side] or silent >= endpointselection.SILENCE:
                    tunnel = both.tunnels.get(gateway.side) or both.build(gateway)
                    changed = server if gateway.side == "server" else {}
                    spec = both.spec(gateway.side, **{"websocket": PORT, **changed})
                    again = await tunnel.up(spec, silent=silent if silent > 0.5 else 0.0)
                    await gateway.addresses()
                    due[gateway.side] = time.monotonic() + again
            if flow is not None:
                await trio.sleep(0.2)
            elif await both.echo(b"probe", seconds=0.3):
                heard = time.monotonic()
            if await until():
                return


def carriers(both: Gateways) -> list[int]:
    """Processes that carry packets in websockets, on both sides."""
    return [
        process
        for gateway in both.both
        for process, line in gateway.processes().items()
        if MODULE in line
    ]


def by(both: Gateways, wanted: str) -> Callable[[], Awaitable[bool]]:
    """Returns a check that both sides' tunnels are established, by the path `wanted`."""

    async def so() -> bool:
        found = [await tunnel.status() for tunnel in both.tunnels.values()]
        return all(
            each and each.handshake_age is not None and each.path == wanted for each in found
        )

    return so


@between
async def test_udp_is_blocked_under_traffic_and_let_through_again(
    both: Gateways, wireguard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "LEFT", LEFT)
    await kept(both, by(both, "userspace"))
    # A server is ready to; a client begins no process that it does not need.
    assert len(carriers(both)) == 1
    async with flowing(both) as flow:
        for gateway in both.both:
            drops(gateway, "iifname u0 meta l4proto udp")
        began = time.monotonic()

        async def goes_on() -> bool:
            return flow.heard > began + 1.0 and await by(both, "websocket")()

        await kept(both, goes_on, flow=flow)
        print(f"goes on in a websocket after {time.monotonic() - began:.1f} s")
        for gateway in both.both:
            nft(gateway.underlay, "delete table inet wall")
        let = time.monotonic()
        await kept(both, by(both, "userspace"), flow=flow)
        print(f"by UDP again {time.monotonic() - let:.1f} s after it passes")

        async def is_left() -> bool:
            return len(carriers(both)) == 1

        await kept(both, is_left, flow=flow)
        await flow.loses_none(let)


def until(seconds: float) -> Callable[[], Awaitable[bool]]:
    """Returns a check that so many seconds have passed."""
    over = trio.current_time() + seconds

    async def so() -> bool:
        return trio.current_time() >= over

    return so


@between
async def test_udp_that_passes_one_way_alone_is_not_gone_back_to(
    both: Gateways, wireguard: str
) -> None:
    await kept(both, by(both, "userspace"))
    async with flowing(both) as flow:
        drops(both.client, "iifname u0 meta l4proto udp")
        await kept(both, by(both, "websocket"), flow=flow)
        await trio.sleep(0.1)
        since = time.monotonic()
        await kept(both, until(12), flow=flow)
        assert await by(both, "websocket")()
        await flow.loses_none(since)


@between
async def test_a_daemon_that_begins_anew_loses_no_packet_in_a_websocket(
    both: Gateways, wireguard: str
) -> None:
    for gateway in both.both:
        drops(gateway, "iifname u0 meta l4proto udp")
    await kept(both, by(both, "websocket"))
    assert await both.echo(b"?")
    async with flowing(both) as flow:
        since = time.monotonic()
        for gateway in both.both:
            both.build(gateway)
        await kept(both, until(4), flow=flow)
        assert await by(both, "websocket")()
        for gateway in both.both:
            nft(gateway.underlay, "delete table inet wall")
        await kept(both, by(both, "userspace"), flow=flow)
        await flow.loses_none(since)


@between
async def test_a_process_that_is_killed_is_begun_anew(both: Gateways, wireguard: str) -> None:
    for gateway in both.both:
        drops(gateway, "iifname u0 meta l4proto udp")
    await kept(both, by(both, "websocket"))
    killed = carriers(both)
    async with flowing(both) as flow:
        for process in killed:
            os.kill(process, signal.SIGKILL)
        began = time.monotonic()

        async def goes_on() -> bool:
            return flow.heard > began + 1.0 and await by(both, "websocket")()

        await kept(both, goes_on, flow=flow)
        print(f"goes on {time.monotonic() - began:.1f} s after both processes were killed")
    assert not set(carriers(both)) & set(killed)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"websocket": 0}, "Connection refused"),
        ({"peer_public_key": bytes(range(1, 33))}, "hangs up on these keys"),
    ],
    ids=["nobody listens", "another is called"],
)
@between
async def test_why_no_websocket_stands_is_said(
    both: Gateways, wireguard: str, server: dict[str, Any], said: str
) -> None:
    for gateway in both.both:
        drops(gateway, "iifname u0 meta l4proto udp")

    async def is_said() -> bool:
        status = await both.tunnels["client"].status()
        return status is not None and "in a websocket: " in status.why and said in status.why

    await kept(both, is_said, server=server)


async def test_packets_are_redirected_to_what_has_the_name_now(networks: Networks):
    place = networks.make("place")

    def redirected() -> None:
        rtnetlink.make("one", "bridge")
        rtnetlink.make("other", "bridge")
        redirect.leave("one", "sent")
        assert redirect.target("one", "sent") is None
        for _ in range(2):
            redirect.lead("one", "sent", "other")
            redirect.lead("other", "received", "one")
        found, index = rtnetlink.find("other"), redirect.target("one", "sent")
        assert found is not None
        assert found.index == index
        rtnetlink.delete("other")
        assert redirect.target("one", "sent") == 0
        rtnetlink.make("other", "bridge")
        redirect.lead("one", "sent", "other")
        found = rtnetlink.find("other")
        assert found is not None
        assert redirect.target("one", "sent") == found.index
        assert redirect.target("one", "received") is None
        for _ in range(2):
            redirect.leave("one", "sent")
        assert redirect.target("one", "sent") is None
        with pytest.raises(NetlinkRefused, match="one is gone"):
            redirect.lead("one", "sent", "a third")

    await inside(place, redirected)


async def redirected(site: Site) -> bool:
    """True if what a site sends goes by the websocket."""
    look = partial(redirect.target, site.names.tunnel, "sent")
    return await inside(site.names.namespace, look) is not None


async def test_joined_clusters_go_over_to_what_the_server_offers_and_back(
    wireguard: str, tmp_path: Path
):
    async with two(wireguard, tmp_path, "[network]\nwebsocket = true\n") as (rome, milan):
        for site in (rome, milan):
            hook, rule = "type filter hook input priority 0", "iifname wan meta l4proto udp drop"
            nft(site.node, f"table inet wall {{\nchain c {{\n{hook}\n{rule}\n}}\n}}\n")
        began = time.monotonic()
        assert (await join(rome.member, milan.member)).without == ""
        print(f"joined after {time.monotonic() - began:.1f} s")
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
        assert all([await redirected(site) for site in (rome, milan)])
        place = ids.tenant_namespace(rome.names.peer_id)
        (client,) = await rome.member.admin.list(GATEWAY_CLIENTS, Selection(place))
        assert client["metadata"]["annotations"][labels.WEBSOCKET] == "443"
        async with sent(rome.pod, await rome.alias(6)) as flow:
            began = time.monotonic()
            for site in (rome, milan):
                nft(site.node, "delete table inet wall")

            async def by_udp() -> bool:
                return not any([await redirected(site) for site in (rome, milan)])

            await eventually(by_udp, seconds=30)
            await trio.sleep(1.0)
            assert flow.lost(began, time.monotonic() - 0.5) == 0
        await part(rome, milan)


async def test_a_server_that_does_not_offer_one_is_not_asked_for_it(
    wireguard: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nobody else's word opens a port: not even an annotation that a peer has written."""
    async with two(wireguard, tmp_path) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        place = ids.tenant_namespace(milan.names.peer_id)
        (server,) = await milan.member.admin.list(
            GATEWAY_SERVERS, Selection(place), decode=GatewayServer
        )
        note = {"metadata": {"annotations": {labels.WEBSOCKET: "443"}}}
        await milan.member.admin.patch(GATEWAY_SERVERS, server.name, note, place)
        await trio.sleep(0.5)
        assert not run("ss", "-tlnH", "sport = :443", namespace=milan.node)
        assert reported_websocket(server) == 0
