"""When it is said that nothing gets through to a peer, and when that it does again."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import trio

from liqod import reachability
from liqod.config import PeerSettings
from liqod.consumer.link import ProviderPeer
from liqod.model.peering.reach import SERVER, TUNNEL
from simulator.trial import Switch


@asynccontextmanager
async def followed(way="tunnel"):
    """A peer of which nothing is known yet, while it is followed."""
    own = PeerSettings("milan", pod_network=way)
    context = SimpleNamespace(config=SimpleNamespace(peer=lambda id: own))
    peer = ProviderPeer(
        "milan", cast("Any", context), "liqo-tenant-milan", link=cast("Any", Switch())
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reachability.follow_reachability, peer)
        await trio.testing.wait_all_tasks_blocked()
        yield peer
        nursery.cancel_scope.cancel()


async def said(peer):
    await trio.testing.wait_all_tasks_blocked()
    return peer.reach.now


async def test_a_start_says_nothing_until_it_knows(autojump_clock):
    async with followed() as peer:
        assert await said(peer) is None  # the networks may be joined
        peer.network.set_ranges(cast("Any", "ranges"))
        peer.network.set_connected(False, "the peer has not answered yet")
        assert await said(peer) is None
        peer.network.set_connected(True)
        assert await said(peer) == ""
    async with followed() as peer:
        peer.network.set_ranges(cast("Any", "ranges"))
        peer.network.set_connected(False, "the peer has not answered yet")
        await trio.sleep(reachability.SETTLE - 0.1)
        assert await said(peer) is None
        await trio.sleep(0.2)
        assert await said(peer) == TUNNEL


async def test_the_api_server_counts_only_where_no_tunnel_is():
    async with followed() as peer:
        peer.network.set_ranges(cast("Any", "ranges"))
        peer.network.set_connected(True)
        cast("Any", peer.link).set(False, "frozen")
        assert await said(peer) == ""
        peer.network.set_connected(False)
        cast("Any", peer.link).set(True, "well")
        assert await said(peer) == TUNNEL
        peer.network.set_ranges(None, "nothing is joined any more")
        assert await said(peer) == ""
    async with followed("routed") as peer:
        assert await said(peer) == ""
        cast("Any", peer.link).set(False, "gone")
        assert await said(peer) == SERVER


async def test_a_loss_counts_at_once_and_what_comes_and_goes_must_last(autojump_clock):
    async with followed() as peer:
        peer.network.set_ranges(cast("Any", "ranges"))
        peer.network.set_connected(True)
        turned = 0
        assert await said(peer) == ""
        for number in range(20):
            peer.network.set_connected(False)
            assert await said(peer) == TUNNEL
            peer.network.set_connected(True)
            turned += await said(peer) == ""
            assert number or turned  # the first time it comes back at once
            await trio.sleep(1.0)
        assert turned <= 3
        await trio.sleep(reachability.LASTS.last)
        assert await said(peer) == ""
        await trio.sleep(reachability.WITHIN)
        peer.network.set_connected(False)
        assert await said(peer) == TUNNEL
        peer.network.set_connected(True)
        assert await said(peer) == ""


async def test_one_that_comes_and_goes_every_20_seconds_for_an_hour_turns_a_few_times(
    autojump_clock,
):
    async with followed() as peer:
        peer.network.set_ranges(cast("Any", "ranges"))
        peer.network.set_connected(True)
        turns, before = 0, await said(peer)
        for _ in range(180):
            for connected in (False, True):
                peer.network.set_connected(connected)
                await trio.sleep(10)
                turns += await said(peer) != before
                before = await said(peer)
        assert 2 <= turns <= 12
        await trio.sleep(reachability.LASTS.last)
        assert await said(peer) == ""
