"""When the direct way is taken in the place of a channel, and when not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from liqod.consumer.channelfallback import (
    BETWEEN,
    GOOD,
    LEAST,
    ChannelFallback,
    replaceable,
    without,
)
from liqod.consumer.happyeyeballs import AGAIN
from liqod.errors import Unconnected, Untrusted
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http import proxies
from liqod.kube.http.wire import StreamWire, Wire
from liqod.runtime.observable import Notifier

URL = proxies.listener_url("ab" * 32, ["milan.example:6446"])
MILAN = Credentials(server="https://192.0.2.1:443", ca=b"PEM", proxy=URL)
AT = ("192.0.2.1", 443)


class Closed(StreamWire):
    """A wire to nowhere."""

    def __init__(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""


class Peer:
    """A peer whose API server may be reached in two ways, as a test says."""

    def __init__(self) -> None:
        self.accepts = self.proves = False
        self.channel = True
        self.used: list[str] = []
        self.tried: list[float] = []
        self.asked: list[Credentials] = []
        self.up = True
        self.renewed = 0
        self.news = Notifier()
        self.dial = ChannelFallback(self.direct, self.renew)

    def renew(self) -> None:
        self.renewed += 1

    async def direct(self, host: str, port: int, /) -> Wire:
        await trio.lowlevel.checkpoint()
        if not self.accepts:
            raise Unconnected(f"{host} refuses")
        self.used.append("direct")
        return Closed()

    async def by_channel(self, url: str) -> Wire:
        await trio.lowlevel.checkpoint()
        if not self.channel:
            raise Unconnected("no channel")
        self.used.append("channel")
        return Closed()

    async def prove(self, credentials: Credentials) -> None:
        self.tried.append(trio.current_time())
        self.asked.append(credentials)
        await trio.lowlevel.checkpoint()
        if not self.proves:
            raise Untrusted("another's certificate")

    async def follow(self) -> None:
        await self.dial.follow(lambda: MILAN, lambda: self.up, self.news.wait, self.prove)

    async def connect(self) -> str:
        await self.dial.connect(URL, *AT)
        return self.used[-1]


@pytest.fixture
def peer() -> Iterator[Peer]:
    # A fixture that is not async runs in the context of all tests: what is set here is taken back.
    before = proxies.CHANNELS.set(None)
    made = Peer()
    proxies.CHANNELS.set(made.by_channel)
    yield made
    proxies.CHANNELS.reset(before)


async def test_another_host_at_the_address_is_never_gone_to(
    peer: Peer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    peer.accepts = True
    nursery.start_soon(peer.follow)
    await trio.sleep(3 * 3600)
    assert await peer.connect() == "channel"
    assert "direct" not in peer.used
    # Ever more seldom, and with the channel left out.
    assert 18 <= len(peer.tried) <= 45
    assert peer.asked[0] == without(MILAN)
    nursery.cancel_scope.cancel()


async def test_direct_is_taken_when_it_stays_good_and_left_when_it_does_not(
    peer: Peer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(peer.follow)
    peer.accepts = peer.proves = True
    await trio.sleep(AGAIN.first + (GOOD - 2) * BETWEEN + 1)
    assert (await peer.connect(), peer.renewed) == ("channel", 0)
    peer.proves = False
    await trio.sleep(600)
    peer.proves = True
    await trio.sleep(1800)
    assert (await peer.connect(), peer.renewed) == ("direct", 1)
    peer.accepts = False
    assert (await peer.connect(), peer.renewed) == ("channel", 2)
    nursery.cancel_scope.cancel()


async def test_one_try_does_where_the_channel_leads_nowhere_and_it_is_made_at_once(
    peer: Peer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(peer.follow)
    await trio.sleep(LEAST + 1)
    peer.accepts = peer.proves = True
    peer.up = peer.channel = False
    peer.news.notify()
    await trio.sleep(0.1)
    assert await peer.connect() == "direct"
    nursery.cancel_scope.cancel()


async def test_a_direct_way_that_answers_no_more_behind_its_port_is_left(
    peer: Peer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    peer.accepts = True
    peer.dial.take("direct")
    nursery.start_soon(peer.follow)
    await trio.sleep(3 * BETWEEN)
    assert await peer.connect() == "direct"
    peer.up = False
    peer.news.notify()
    await trio.sleep(0.1)
    assert await peer.connect() == "channel"
    nursery.cancel_scope.cancel()


async def test_news_without_end_makes_few_tries(
    peer: Peer, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    nursery.start_soon(peer.follow)
    for _ in range(600):
        await trio.sleep(0.1)
        peer.news.notify()
    assert 10 <= len(peer.tried) <= 60 / LEAST
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "other",
    [
        Credentials(server=MILAN.server, ca=b"PEM"),
        Credentials(server=MILAN.server, ca=b"PEM", proxy="http://192.0.2.9:3128"),
        Credentials(server=MILAN.server, ca=b"PEM", proxy="liqod://milan.example:6446"),
        Credentials(server=MILAN.server, proxy=URL),
        Credentials(server=MILAN.server, ca=b"PEM", insecure=True, proxy=URL),
        Credentials(server="http://192.0.2.1", ca=b"PEM", proxy=URL),
    ],
)
def test_only_a_channel_that_was_found_and_a_server_that_proves_itself_have_two_ways(
    other: Credentials,
) -> None:
    assert replaceable(MILAN) == URL
    assert replaceable(other) == ""
