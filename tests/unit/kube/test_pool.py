"""Connections that nobody uses any more are not kept."""

import trio

from liqod.apimachinery.kinds import PODS
from liqod.kube.http.pool import MAX_IDLE
from tests.unit.kube.peers import Asked, peer, pod


async def ok(asked: Asked) -> None:
    await asked.reply(200, pod("p"))


async def test_idle_connections_grow_old(autojump_clock):
    async with peer(ok) as (server, client):
        await client.get(PODS, "p", "a")
        await trio.sleep(MAX_IDLE + 1)
        await client.get(PODS, "p", "a")
    assert len(server.conns) == 2
    assert server.conns[0].wire.closed


async def test_what_a_burst_has_left_is_closed_without_another_request(autojump_clock):
    async def slow(asked: Asked) -> None:
        await trio.sleep(1)
        await ok(asked)

    async with peer(slow, connections=5) as (server, client):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.get, PODS, "p", "a")
        client.tidy()
        assert not any(each.wire.closed for each in server.conns)
        await trio.sleep(MAX_IDLE + 1)
        client.tidy()
        assert [each.wire.closed for each in server.conns] == [True] * 5
