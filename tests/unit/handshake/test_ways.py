"""Channels that are kept as ways to API servers: shared, tried again, released; and their URLs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from liqod.errors import ConfigError, Unauthorized, Unconnected, Unreachable
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport.channelmanager import ChannelManager
from liqod.kube.http import proxies
from liqod.kube.http.wire import Wire
from liqod.runtime.account import TENANTS
from tests.unit.handshake.listeners import MILAN, TURIN, Milan, dialler, greeter, milan, print_of

KEY = "0" * 64


def url_of(there: Milan, key: str = "") -> str:
    return proxies.listener_url(key or print_of(MILAN), [there.address])


async def connected(channels: ChannelManager, there: Milan) -> Wire:
    """A connection; a channel that is just being released is none."""
    with trio.fail_after(20):
        while True:
            try:
                return await channels(url_of(there))
            except Unreachable:
                await trio.sleep(0.01)


@asynccontextmanager
async def kept(timings: HandshakeTimings = ORDINARY, **who: Any) -> AsyncIterator[ChannelManager]:
    """Rome's channels."""
    made = ChannelManager(dialler(**who).meet, timings=timings)
    async with trio.open_nursery() as nursery:
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()


async def test_all_share_one_channel_which_is_opened_again_when_it_breaks() -> None:
    async with milan({"api": greeter}) as there, kept() as channels:
        proxies.CHANNELS.set(channels)
        dial = proxies.through(greeter, url_of(there))  # type: ignore[arg-type]
        wires = [await dial("10.0.0.1", 6443) for _ in range(3)]
        assert [await wire.receive() for wire in wires] == [b"hello"] * 3
        assert len(there.listener.account[TENANTS]) == 1
        there.host.ended.set()
        with pytest.raises(Unreachable, match="it was revoked"):
            await wires[0].receive()
        there.host.ended = trio.Event()
        with trio.fail_after(20):
            while True:
                try:
                    again = await dial("10.0.0.1", 6443)
                    break
                except (Unauthorized, Unconnected):
                    await trio.sleep(0.05)
        assert await again.receive() == b"hello"


async def test_who_wants_it_while_there_is_none_is_told_why_at_once() -> None:
    async with milan({"api": greeter}) as there, kept(own=TURIN) as channels:
        for _ in range(3):
            with pytest.raises(Unauthorized, match=rf"liqod://{there.address}: this is no tenant"):
                await channels(url_of(there))
        other = url_of(there, KEY)
        with pytest.raises(Unconnected, match=r"and 0{64} was expected"):
            await channels(other)
        assert len(channels) == 2


async def test_who_was_let_in_anew_does_not_wait_for_the_next_try() -> None:
    async with milan({"api": greeter}) as there, kept(own=TURIN) as channels:
        there.host.again = 600
        with pytest.raises(Unauthorized, match="this is no tenant"):
            await channels(url_of(there))
        there.host.tenants.add(print_of(TURIN))
        channels.renew(KEY)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Unauthorized, match="this is no tenant"):
            await channels(url_of(there))
        channels.renew(print_of(MILAN))
        assert await (await connected(channels, there)).receive() == b"hello"


async def test_what_nobody_uses_is_let_go() -> None:
    soon = HandshakeTimings(channel_idle=0.05, channel_check=0.02)
    async with milan({"api": greeter}) as there, kept(soon) as channels:
        wire = await connected(channels, there)
        await trio.sleep(0.15)
        assert await wire.receive() == b"hello"
        wire.close()
        with trio.fail_after(20):
            while len(channels):  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert await (await connected(channels, there)).receive() == b"hello"


async def test_where_nobody_keeps_channels_it_is_said() -> None:
    dial = proxies.through(greeter, f"liqod://{KEY}@milan.example:6446")  # type: ignore[arg-type]
    with pytest.raises(Unconnected, match="is a daemon's listener, and no channels"):
        await dial("x", 1)
    stopped = ChannelManager(dialler().meet)
    with pytest.raises(Unconnected, match="no channels are kept now"):
        await stopped(f"liqod://{KEY}@milan.example:6446")


async def test_who_dials_this_cluster_is_reached_by_its_own_connection_alone() -> None:
    asked: list[str] = []

    async def by_lender(key: str) -> Wire:
        asked.append(key)
        return await greeter()

    async with trio.open_nursery() as nursery:
        channels = ChannelManager(dialler().meet, by_lender)
        await nursery.start(channels.run)
        assert await (await channels(proxies.listener_url(KEY, ()))).receive() == b"hello"
        assert (asked, len(channels)) == ([KEY], 0)
        nursery.cancel_scope.cancel()
    with pytest.raises(Unconnected, match="no command goes that way"):
        await ChannelManager(dialler().meet)(proxies.listener_url(KEY, ()))


def test_the_url_of_who_dials_this_cluster() -> None:
    url = proxies.listener_url(KEY, ())
    proxies.check(url, "cluster 'milan'", channels=True)
    assert proxies.listener_of(url) == (KEY, ())
    assert proxies.shown(url) == "liqod://0000000000000000…@"
    with pytest.raises(ConfigError, match="not supported"):
        proxies.check(url, "handshake.proxy")


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("liqod://milan.example:6446", True),
        (f"liqod://{KEY}@milan.example:6446,[fd00::1]:6446/", True),
        ("liqod://milan.example", False),
        ("liqod://", False),
        ("liqod://@", False),
        ("liqod://user:password@milan.example:6446", False),
        ("liqod://milan.example:6446/#v1.secret", False),
        ("liqod://milan.example:6446\n", False),
    ],
)
def test_a_listeners_url_in_a_kubeconfig(url: str, fits: bool) -> None:
    if fits:
        proxies.check(url, "cluster 'milan'", channels=True)
        assert proxies.shown(url) == url.replace(f"{KEY}@", "").rstrip("/")
    else:
        with pytest.raises(ConfigError, match="cluster 'milan': proxy-url must be"):
            proxies.check(url, "cluster 'milan'", channels=True)
    with pytest.raises(ConfigError, match=r"not supported|must be"):
        proxies.check(url, "handshake.proxy")
