"""Tunnels in a websocket: the contract, by proxies, and from one connection to the next."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.identity import tunnelkeys
from liqod.network.dataplane.kernel.namespaces import inside
from liqod.plugins.network.websocket import WEBSOCKET, WebsocketTunnel
from liqod.plugins.providers import Place
from simulator.suites import TunnelContract
from simulator.suites.gateways import ip
from simulator.suites.tunnels import Gateways
from tests.netns.middles import Proxy
from tests.netns.websockets import (
    SERVER,
    Suite,
    between,
    drops,
    flooding,
    joined,
    opened,
    resident,
    status_of,
    suite,
    why,
)
from tests.simulated.borrower import eventually
from tests.testbed.netns import inside as netns_inside
from tests.testbed.pki import Authority

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]


class TestWebSocket(TunnelContract):
    provider = WEBSOCKET


def only_by_proxy(both: Gateways) -> None:
    """Nothing comes to the server's gateway but to port 3128."""
    drops(both.server, "iifname u0 tcp dport != 3128", "iifname u0 meta l4proto udp")


def test_goes_through_a_proxy_that_wants_a_password():
    proxied = f"http://us%40er:pass@{SERVER}:3128"

    async def body(both: Gateways) -> None:
        only_by_proxy(both)
        proxy = Proxy(both.server.underlay, "us@er:pass")
        async with proxy.listening(3128):
            await both.join()
            assert await both.echo(bytes(1200))
            assert proxy.asked == [f"CONNECT {SERVER}:443 HTTP/1.1"]
        # With the proxy the connection goes, and with it comes back.
        assert not await both.echo(b"?", seconds=0.5)
        async with proxy.listening(3128):
            await joined(both, 20)
        for gateway in both.both:
            assert not any("us%40er" in line for line in gateway.processes().values())

    suite(proxy=proxied).run(body)


@between
async def test_a_proxy_is_found_in_the_environment_and_left_out_by_it(
    both: Gateways, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://{SERVER}:3128")
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    proxy = Proxy(both.server.underlay)
    async with proxy.listening(3128):
        await both.join()
        assert len(proxy.asked) == 1
        monkeypatch.setenv("NO_PROXY", "198.51.100.0/24")
        async with Suite()._nothing_lost(both):
            await both.up(both.client)
            await trio.sleep(1.0)
        # The direct way is another one: it has replaced the proxied one.
        assert len(proxy.asked) == 1
    assert await both.echo(b"?")


def test_a_proxy_that_refuses_is_named():
    async def body(both: Gateways) -> None:
        only_by_proxy(both)
        proxy = Proxy(both.server.underlay, "user:secret")
        async with proxy.listening(3128):
            await both.up(both.server)
            await both.up(both.client)
            said = await why(both, "client", "wants a user and a password")
            assert "wrong-word" not in said
            assert f"{SERVER}:3128" in said

    suite(proxy=f"http://user:wrong-word@{SERVER}:3128").run(body)


def test_goes_through_a_proxy_that_speaks_tls_itself(tmp_path: Path):
    authority = Authority("proxy", tmp_path)
    pair = authority.server("proxy", "proxy", [SERVER])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)

    async def body(both: Gateways) -> None:
        only_by_proxy(both)
        async with Proxy(both.server.underlay, tls=tls).listening(3128):
            await both.join()
            for size in (0, 1, 1000, 1312):
                assert await both.echo(bytes(size))

    url = f"https://{SERVER}:3128"
    suite(proxy=url, proxy_ca=str(authority.pair.certificate)).run(body)


@between
async def test_a_connection_that_brings_nothing_is_replaced_without_losing_any(
    both: Gateways,
) -> None:
    """Silence may be the other end's own: the old connection stays until the new one is up."""
    await both.join()
    before = await status_of(both, "server")
    async with Suite()._nothing_lost(both):
        await both.tunnels["client"].up(both.spec("client"), silent=1.5)
        with trio.fail_after(20):
            while True:
                now = await status_of(both, "server")
                if now.endpoint != before.endpoint:
                    break
                await trio.sleep(0.01)
        await trio.sleep(0.3)


@between
async def test_a_connection_that_a_firewall_has_forgotten_is_replaced_at_once(
    both: Gateways,
) -> None:
    await both.join()
    status = await status_of(both, "server")
    port = status.endpoint.rpartition(":")[2]
    drops(both.server, f"tcp sport {port}")
    assert not await both.echo(b"?", seconds=0.5)
    began = trio.current_time()
    await both.tunnels["client"].up(both.spec("client"), silent=1.5)
    await joined(both)
    assert trio.current_time() - began < 5.0, "by its silence it would be after 15 s"


@between
async def test_without_a_word_from_the_probes_it_is_replaced_as_well(both: Gateways) -> None:
    await both.join()
    status = await status_of(both, "server")
    port = status.endpoint.rpartition(":")[2]
    drops(both.server, f"tcp sport {port}")
    await joined(both, 15)


@between
async def test_the_servers_of_two_peers_share_a_port(both: Gateways) -> None:
    await both.join()
    ours, theirs = tunnelkeys.generate(), tunnelkeys.generate()
    names = {gateway.side: f"{gateway.inside}2" for gateway in both.both}
    made: list[WebsocketTunnel] = []
    try:
        for gateway in both.both:
            ip("netns", "add", names[gateway.side])
            own, other = (ours, theirs) if gateway.side == "server" else (theirs, ours)
            place = Place(
                interface=f"{gateway.place.interface}2",
                namespace=names[gateway.side],
                underlay=gateway.underlay,
            )
            tunnel = WEBSOCKET.build(WEBSOCKET.config_type(), gateway.services, place)
            assert isinstance(tunnel, WebsocketTunnel)
            made.append(tunnel)
            changed = {"private_key": own.private, "public_key": own.public}
            await tunnel.up(both.spec(gateway.side, peer_public_key=other.public, **changed))
        for tunnel in made:
            await eventually(partial(stands, tunnel))
        # They have one port: each connection gets to its own all the same.
        for _ in range(12):
            session = await opened(both)
            session.discard()
        # One process has both, and takes both with it: each is made anew by who keeps it.
        (first,) = both.server.processes()
        os.kill(first, signal.SIGKILL)
        await eventually(partial(is_gone, made[0]))
        await both.up(both.server)
        await joined(both)
        changed = {"private_key": ours.private, "public_key": ours.public}
        await made[0].up(both.spec("server", peer_public_key=theirs.public, **changed))
        await eventually(partial(stands, made[0]))
        (second,) = both.server.processes()
        assert second != first
        # What ends one tunnel leaves the other alone, and so does one whose interface goes.
        await made[0].down()
        assert list(both.server.processes()) == [second]
        assert await both.echo(b"?")
    finally:
        with trio.CancelScope(shield=True):
            for tunnel in made:
                await tunnel.down()
            for name in names.values():
                ip("netns", "delete", name)


@pytest.mark.parametrize("shares", [False, True], ids=["alone", "with whoever wants"])
@between
async def test_a_port_that_another_program_has_is_named(both: Gateways, shares: bool) -> None:
    """Also of one that would share it: half of what comes for that one would come here."""
    listen = partial(socket.create_server, ("", 443), reuse_port=shares)
    other = await inside(both.server.underlay, listen)
    with other, pytest.raises(Exception, match="TCP port 443: another program has that"):
        await both.up(both.server)
    await both.up(both.server)
    await both.up(both.client)
    await joined(both)


@between
async def test_where_more_is_sent_than_goes_through_what_arrives_is_young(both: Gateways) -> None:
    """A probe's answer is not behind seconds of a download: 20 Mbit/s, and a flood of packets."""
    await both.join()
    shape = ["tbf", "rate", "20mbit", "burst", "32kb", "latency", "50ms"]
    netns_inside(both.client.underlay, " ".join(["tc qdisc add dev u0 root", *shape]))
    over = False
    async with trio.open_nursery() as nursery:

        async def flood() -> None:
            with await flooding(both.client) as sock:
                while not over:
                    for _ in range(20):
                        await sock.sendto(bytes(1200), ("169.254.18.1", 9))
                    await trio.sleep(0.002)

        nursery.start_soon(flood)
        await trio.sleep(1.5)
        took = []
        for _ in range(10):
            began = trio.current_time()
            if await both.echo(b"?", seconds=1.0):
                took.append(trio.current_time() - began)
        over = True
    assert took, "no answer came"
    assert min(took) < 0.5
    (process,) = both.client.processes()
    assert resident(process) < 60


async def is_gone(tunnel: WebsocketTunnel) -> bool:
    return await tunnel.status() is None


async def stands(tunnel: WebsocketTunnel) -> bool:
    status = await tunnel.status()
    return status is not None and status.handshake_age is not None
