"""Attacks on a websocket: by strangers, by the peer itself, and by hosts on the path."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import pinned
from liqod.runtime.account import CALLERS, SHARED, SHARES, TUNNEL_SHARES
from liqod.tunnel.listening import PROVED_WITHIN
from liqod.tunnel.tunnelsession import ConnectionFailed, TunnelSession
from liqod.tunnel.tunneltls import context
from simulator.suites.gateways import Gateway
from simulator.suites.tunnels import Gateways
from tests.netns.middles import Interceptor, Relay, Spoiler
from tests.netns.websockets import (
    SERVER,
    between,
    dialled,
    files,
    flooding,
    joined,
    opened,
    pins,
    program_of,
    resident,
    speaking,
    status_of,
    why,
)
from tests.simulated.borrower import eventually
from tests.testbed.pki import Authority

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]


def _self_signed(folder: Path) -> ssl.SSLContext:
    """Another pair's certificate, that looks as ours do."""
    one, other = tunnelkeys.generate(), tunnelkeys.generate()
    found = pinned("server", one.private, one.public, other.public)
    path = folder / "identity.pem"
    path.write_text(found.identity)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    return tls


def _issued(folder: Path) -> ssl.SSLContext:
    pair = Authority("office", folder).server("proxy", "proxy", [SERVER])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    return tls


@pytest.mark.parametrize("tls_of", [_self_signed, _issued], ids=["its own", "issued"])
@between
async def test_who_ends_tls_on_the_way_gets_nothing_and_is_named(
    both: Gateways, tmp_path: Path, tls_of: Callable[[Path], ssl.SSLContext]
) -> None:
    await both.up(both.server)
    middle = Interceptor(both.server.underlay, (SERVER, 443), tls_of(tmp_path))
    async with middle.listening(8443):
        await both.up(both.client, endpoints=(f"{SERVER}:8443",))
        await why(both, "client", "something on the way ends TLS")
        assert not await both.echo(b"?", seconds=1.0)
        assert bytes(middle.read) == b""


@between
async def test_with_a_key_that_is_not_the_peers_nobody_comes_in(both: Gateways) -> None:
    stranger = tunnelkeys.generate()
    await both.up(both.server)
    await both.up(both.client, private_key=stranger.private, public_key=stranger.public)
    await why(both, "client", "hangs up on these keys")
    assert not await both.echo(b"?", seconds=0.5)
    # With the peer's key it does, from the same process.
    await both.up(both.client)
    await joined(both)


@between
async def test_who_has_only_seen_the_name_on_the_wire_is_refused(both: Gateways) -> None:
    """A name is no proof: without the key there is no certificate that the server takes."""
    await both.join()
    one, other = tunnelkeys.generate(), tunnelkeys.generate()
    forged = pinned("client", one.private, one.public, other.public).identity
    for identity in (forged, pins(both, "server").identity):
        with pytest.raises(ConnectionFailed, match="does not take this one's certificate"):
            await opened(both, identity)
    assert await both.echo(b"?")


@between
async def test_an_older_tls_is_not_spoken(both: Gateways) -> None:
    await both.up(both.server)
    mine = pins(both, "client")
    how = context("client", mine.identity, mine.peer)
    how.minimum_version = how.maximum_version = ssl.TLSVersion.TLSv1_2
    stream = await dialled(both)
    session = TunnelSession("client", how, f"{mine.name}.x", stream, stream.socket, "x")
    async with stream:
        with pytest.raises(ConnectionFailed, match="PROTOCOL"):
            await session.open()


@between
async def test_what_was_recorded_is_good_for_nothing(both: Gateways) -> None:
    relay = Relay(both.server.underlay, (SERVER, 443))
    async with relay.listening(8443):
        await both.up(both.server)
        await both.up(both.client, endpoints=(f"{SERVER}:8443",))
        await joined(both)
        assert await both.echo(bytes(1000))
        recorded = bytes(relay.came[0])
        before = await status_of(both, "server")
        stream = await dialled(both)
        await stream.send_all(recorded)
        with trio.fail_after(5):
            answer = b""
            while more := await stream.receive_some(1 << 16):
                answer += more
        await stream.aclose()
        assert b"HTTP" not in answer
        after = await status_of(both, "server")
        # It has gone on with the client's own.
        assert after.endpoint == before.endpoint
        assert await both.echo(b"?")


@between
async def test_a_browser_gets_nothing(both: Gateways) -> None:
    await both.up(both.server)
    for begin in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello"):
        stream = await dialled(both)
        await stream.send_all(begin)
        with trio.fail_after(5):
            with suppress(trio.BrokenResourceError):
                assert await stream.receive_some(100) == b""
        await stream.aclose()
    anybody = ssl.create_default_context()
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    for name in ("example.org", f"{'0' * 32}.example.org"):
        tls = trio.SSLStream(await dialled(both), anybody, server_hostname=name)
        with pytest.raises(trio.BrokenResourceError):
            await tls.do_handshake()
        await trio.aclose_forcefully(tls)


@between
async def test_a_crowd_of_strangers_keeps_nobody_out(both: Gateways) -> None:
    """Connections that say nothing, or little and slowly, and a client that comes later."""
    await both.up(both.server)
    (process,) = both.server.processes()
    streams = [await dialled(both) for _ in range(300)]
    for number, stream in enumerate(streams):
        if number % 2:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(b"\x16\x03\x01\x02\x00\x01")
    await both.up(both.client)
    await joined(both, 5)
    assert resident(process) < 60
    assert files(process) < SHARES[SHARED].of_one + 40
    await eventually(lambda: files(process) < 20)
    for stream in streams:
        await trio.aclose_forcefully(stream)
    assert await both.echo(b"?")


def hello(both: Gateways) -> bytes:
    """How somebody begins who has seen the name on the wire, and has no key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=f"{pins(both, 'server').name}.x")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


@between
async def test_a_crowd_that_calls_the_right_name_keeps_nobody_out(both: Gateways) -> None:
    """They prove nothing: as many as one address may have are waited for, and no more."""
    await both.up(both.server)
    (process,) = both.server.processes()
    streams = [await dialled(both) for _ in range(100)]
    for stream in streams:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(hello(both))
    share = TUNNEL_SHARES[CALLERS]
    with trio.move_on_after(PROVED_WITHIN / 2):  # in which nobody's time is over
        while files(process) > share.of_one + 20:  # noqa: ASYNC110
            await trio.sleep(0.02)
    assert share.of_one < files(process) <= share.of_one + 20
    await both.up(both.client)
    await joined(both, 5)
    assert resident(process) < 60
    for stream in streams:
        await trio.aclose_forcefully(stream)
    assert await both.echo(b"?")


@pytest.mark.parametrize(
    "sent", [b"x" * 66000, "text", b"fragment"], ids=["too large", "text", "in fragments"]
)
@between
async def test_a_peer_that_sends_what_is_no_packet_is_hung_up_on(
    both: Gateways, sent: bytes | str
) -> None:
    await both.up(both.server)
    async with speaking(both) as speaker:
        if isinstance(sent, str):
            speaker.protocol.send_text(sent.encode())
        else:
            speaker.protocol.send_binary(sent, fin=len(sent) > 100)
        with trio.fail_after(5):
            await speaker.send()
            await speaker.left()
    # It was not the process that went.
    await both.up(both.client)
    await joined(both)


@between
async def test_a_peers_nonsense_is_refused_and_counted(both: Gateways) -> None:
    await both.up(both.server)
    async with speaking(both) as speaker:
        for size in range(1, 400):
            speaker.protocol.send_binary(os.urandom(size))
        await speaker.send()
        with trio.move_on_after(0.5) as patience:
            await speaker.left()
        assert patience.cancelled_caught
    found = await program_of(both.server).status()
    assert found is not None
    assert found.refused >= 380
    await both.up(both.client)
    await joined(both)


@between
async def test_a_peer_that_asks_without_reading_costs_little(both: Gateways) -> None:
    await both.up(both.server)
    (process,) = both.server.processes()
    async with speaking(both) as speaker:
        # It is left, sooner or later.
        with trio.move_on_after(30), suppress(trio.BrokenResourceError):
            for _ in range(60):
                for _ in range(1000):
                    speaker.protocol.send_ping(bytes(125))
                await speaker.send()
    assert resident(process) < 80
    await both.up(both.client)
    await joined(both)


@between
async def test_bytes_slipped_in_on_the_way_end_a_connection_and_no_more(both: Gateways) -> None:
    """While packets go in both directions all the time; the process stays, and makes another."""
    middle = Spoiler(both.server.underlay, (SERVER, 443))
    async with middle.listening(8443), trio.open_nursery() as nursery:
        await both.up(both.server)
        await both.up(both.client, endpoints=(f"{SERVER}:8443",))
        before = [gateway.processes() for gateway in both.both]
        await joined(both)

        async def flood(gateway: Gateway, to: str) -> None:
            with await flooding(gateway) as sock:
                while True:
                    with suppress(OSError):
                        await sock.sendto(bytes(1000), (to, 9))
                    await trio.sleep(0.0005)

        nursery.start_soon(flood, both.client, "169.254.18.1")
        nursery.start_soon(flood, both.server, "169.254.18.2")
        with trio.fail_after(15):
            while middle.spoiled < 4:  # noqa: ASYNC110
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert [gateway.processes() for gateway in both.both] == before
    await both.up(both.client)
    await joined(both)
