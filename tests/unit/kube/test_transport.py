"""How a request fares: pool, dead connections, retries, deadlines, credentials."""

import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import CONFIG_MAPS, LEASES, PODS
from liqod.errors import Overloaded, Unauthorized, Unreachable
from liqod.kube.credentials.credentials import Credentials, ExecPlugin
from liqod.kube.credentials.source import IssuedCredentials
from liqod.kube.failures import EvictionBlocked, TooLarge
from tests.unit.kube.peers import Asked, peer, pod

MAP = {"metadata": {"name": "m", "namespace": "a"}}


async def ok(asked: Asked) -> None:
    await asked.reply(200, pod("p"))


async def test_connections_are_used_again():
    async with peer(ok) as (server, client):
        for _ in range(5):
            await client.get(PODS, "p", "a")
    assert len(server.conns) == 1
    assert client.stats.requests["get", "pods"] == 5
    assert client.stats.connections == 1
    assert client.stats.bytes_in > 5 * 100
    assert client.stats.bytes_out > 5 * 50


async def test_bytes_are_counted_once():
    total = 0

    async def refuse(asked: Asked) -> None:
        nonlocal total
        before = asked.conn.sent
        if "watch" in asked.query:
            await asked.begin()
            await asked.chunk(b"x" * 100)
        else:
            await asked.refuse(404)
        total += asked.conn.sent - before

    async with peer(refuse) as (_, client):
        for _n in range(3):
            assert await client.find(PODS, "p", "a") is None
        async with client.watch(PODS) as watch:
            await watch.stream.receive()
    assert client.stats.bytes_in == total


async def test_the_pool_is_bounded(autojump_clock):
    busy = most = 0

    async def slow(asked: Asked) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await trio.sleep(1)
        busy -= 1
        await ok(asked)

    async with peer(slow, connections=3) as (server, client):
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(client.get, PODS, "p", "a")
        assert trio.current_time() == pytest.approx(3, abs=0.1)
    assert (most, len(server.conns)) == (3, 3)


async def test_a_lease_does_not_wait_behind_others(autojump_clock):
    async def slow(asked: Asked) -> None:
        if "/leases/" not in asked.path:
            await trio.sleep(10)
        await ok(asked)

    async with peer(slow, connections=2) as (_, client), trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(client.get, PODS, "p", "a")
        await trio.testing.wait_all_tasks_blocked()
        assert client.busy() == (2, 18, 0)
        began = trio.current_time()
        for _ in range(3):
            await client.patch(LEASES, "liqod", {"spec": {}}, "liqo")
        assert trio.current_time() - began < 1
        nursery.cancel_scope.cancel()


async def test_a_cancelled_request_takes_its_connection_along(autojump_clock):
    async def never(asked: Asked) -> None:
        if len(server.asked) == 1:
            await trio.sleep_forever()
        await ok(asked)

    async with peer(never) as (server, client):
        with trio.move_on_after(1):
            await client.get(PODS, "p", "a")
        assert server.conns[0].wire.closed
        await client.get(PODS, "p", "a")
    assert len(server.conns) == 2


async def test_a_dead_idle_connection_is_noticed_before_a_write():
    async with peer(ok) as (server, client):
        await client.create(CONFIG_MAPS, MAP)
        server.conns[0].close()
        await client.create(CONFIG_MAPS, MAP)
    assert [asked.method for asked in server.asked] == ["POST", "POST"]
    assert len(server.conns) == 2


async def close_second(asked: Asked) -> None:
    """Answers a connection's first request and hangs up at its second, having read it."""
    if asked.conn.wire.setting is None:
        asked.conn.wire.setting = object()  # type: ignore[assignment]
        await ok(asked)
    else:
        asked.conn.drop()


async def test_a_connection_that_dies_under_a_read_costs_nothing():
    async with peer(close_second) as (server, client):
        await client.get(PODS, "p", "a")
        await client.get(PODS, "p", "a")
    assert len(server.conns) == 2
    assert len(server.asked) == 3


async def test_a_connection_that_dies_under_a_create_may_have_done_it():
    async with peer(close_second) as (server, client):
        await client.create(CONFIG_MAPS, MAP)
        with pytest.raises(Unreachable, match=r"http://api\.test:8080"):
            await client.create(CONFIG_MAPS, MAP)
    assert len(server.asked) == 2


async def test_a_server_that_always_hangs_up_is_not_asked_for_ever():
    async def hang_up(asked: Asked) -> None:
        asked.conn.drop()

    async with peer(hang_up) as (server, client):
        with pytest.raises(Unreachable):
            await client.get(PODS, "p", "a")
    assert len(server.asked) == 2


async def test_refused_connections_are_not_tried_again():
    async with peer(ok) as (server, client):
        server.refusing = True
        with pytest.raises(Unreachable, match="Connection refused"):
            await client.get(PODS, "p", "a")
    assert not server.conns


def failing(times: int, code: int, **headers: str):
    async def answer(asked: Asked) -> None:
        nonlocal times
        times -= 1
        if times >= 0:
            await asked.refuse(code, message="busy", headers=headers)
        else:
            await ok(asked)

    return answer


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_reads_are_tried_again(autojump_clock, code):
    async with peer(failing(2, code)) as (server, client):
        await client.get(PODS, "p", "a")
    assert len(server.asked) == 3
    assert client.stats.retries == 2


async def test_retries_are_bounded(autojump_clock):
    async with peer(failing(99, 503)) as (server, client):
        with pytest.raises(Overloaded, match="busy") as caught:
            await client.get(PODS, "p", "a")
    assert caught.value.status == 503
    assert len(server.asked) == 4


async def test_the_server_says_when(autojump_clock):
    async with peer(failing(1, 429, retry_after="5")) as (server, client):
        await client.create(CONFIG_MAPS, MAP)
        assert 5 <= trio.current_time() <= 7.6
    assert len(server.asked) == 2


async def test_a_wait_beyond_the_deadline_is_not_begun(autojump_clock):
    async with peer(failing(1, 429, retry_after="50")) as (_, client):
        with pytest.raises(Overloaded) as caught:
            await client.get(PODS, "p", "a")
        assert trio.current_time() < 1
    assert caught.value.retry_after == 50


@pytest.mark.parametrize("code", [500, 503])
async def test_a_create_that_failed_inside_the_server_is_not_repeated(autojump_clock, code):
    async with peer(failing(1, code)) as (server, client):
        with pytest.raises(Overloaded):
            await client.create(CONFIG_MAPS, MAP)
    assert len(server.asked) == 1


async def test_patches_and_deletes_are_repeated(autojump_clock):
    async with peer(failing(1, 500)) as (server, client):
        await client.patch(CONFIG_MAPS, "m", {"data": {}}, "a")
        assert len(server.asked) == 2
        assert await client.delete(CONFIG_MAPS, "m", "a")


async def test_an_eviction_that_a_budget_forbids_is_said_at_once(autojump_clock):
    async def blocked(asked: Asked) -> None:
        details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 2"}]}
        await asked.refuse(429, "TooManyRequests", "Cannot evict pod", details=details)

    async with peer(blocked) as (server, client):
        with pytest.raises(EvictionBlocked, match="Cannot evict"):
            await client.create_subresource(PODS, "p", "a", "eviction", MAP, decode=dict)
    assert len(server.asked) == 1


async def test_deadline(autojump_clock):
    async def never(asked: Asked) -> None:
        await trio.sleep_forever()

    async with peer(never, deadline=7) as (server, client):
        with pytest.raises(
            Unreachable, match=r"api\.test:8080: no answer to GET .*/pods/p within 7 s"
        ):
            await client.get(PODS, "p", "a")
        assert trio.current_time() == pytest.approx(7, abs=0.01)
        assert server.conns[0].wire.closed
        with pytest.raises(Unreachable, match="within 2 s"):
            await client.raw("GET", "/version", deadline=2)


async def test_a_trickling_answer_meets_the_deadline_too(autojump_clock):
    async def trickle(asked: Asked) -> None:
        await asked.begin()
        while True:
            await asked.chunk(b" ")
            await trio.sleep(1)

    async with peer(trickle) as (_, client):
        with pytest.raises(Unreachable):
            await client.get(PODS, "p", "a")
        assert trio.current_time() == pytest.approx(30, abs=0.01)


async def test_too_large_an_answer_closes_its_connection():
    async def large(asked: Asked) -> None:
        await asked.reply(200, b"x" * (3 << 20))

    async with peer(large) as (server, client):
        with pytest.raises(TooLarge):
            await client.get(PODS, "p", "a")
        assert server.conns[0].wire.closed


async def test_renewed_credentials_get_new_connections():
    async with peer(ok, credentials=Credentials("http://api.test:8080", token="old")) as (
        server,
        client,
    ):
        await client.get(PODS, "p", "a")
        client.renew(Credentials("http://api.test:8080", token="new"))
        await client.get(PODS, "p", "a")
        assert len(server.conns) == 1  # a token is not the connection's
        client.renew(Credentials("http://api.test:8080", client_cert=b"c", client_key=b"k"))
        await client.get(PODS, "p", "a")
    assert server.conns[0].wire.closed
    tokens = [asked.headers.get("authorization") for asked in server.asked]
    assert tokens == ["Bearer old", "Bearer new", None]
    assert len(server.conns) == 2


async def test_connections_in_use_when_renewed_drain():
    gate = trio.Event()

    async def gated(asked: Asked) -> None:
        await gate.wait()
        await ok(asked)

    async with peer(gated) as (server, client):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.get, PODS, "p", "a")
            await trio.testing.wait_all_tasks_blocked()
            client.renew(Credentials("http://api.test:8080", client_cert=b"c", client_key=b"k"))
            nursery.start_soon(client.get, PODS, "p", "a")
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        assert [conn.wire.closed for conn in server.conns] == [True, False]


async def test_refused_credentials_without_others_are_an_error():
    async def refuse(asked: Asked) -> None:
        await asked.refuse(401, "Unauthorized", "Unauthorized")

    async with peer(refuse) as (server, client):
        with pytest.raises(Unauthorized):
            await client.get(PODS, "p", "a")
    assert len(server.asked) == 1


async def test_a_token_read_from_a_file_is_read_again_when_refused(tmp_path):
    token = tmp_path / "token"
    token.write_text("one\n")

    async def check(asked: Asked) -> None:
        if asked.headers["authorization"] != f"Bearer {token.read_text().strip()}":
            await asked.refuse(401, "Unauthorized", "Unauthorized")
        elif "watch" in asked.query:
            await asked.begin()
        else:
            await ok(asked)

    given = Credentials("http://api.test:8080", token_file=str(token))
    async with peer(check, credentials=given) as (server, client):
        await client.get(PODS, "p", "a")
        token.write_text("two, longer\n")
        await client.get(PODS, "p", "a")
        token.write_text("three")
        async with client.watch(PODS):
            pass
    assert len(server.asked) == 5


async def test_a_token_that_would_break_the_request_is_refused():
    from liqod.errors import ConfigError

    async with peer(ok, credentials=Credentials("http://api.test:8080", token="a\r\nX: b")) as (
        server,
        client,
    ):
        with pytest.raises(ConfigError):
            await client.get(PODS, "p", "a")
    assert not server.asked


async def test_streams_have_connections_of_their_own(autojump_clock):
    async def logs(asked: Asked) -> None:
        if asked.path.endswith("/log"):
            await asked.begin()
            for line in (b"one\n", b"two\n"):
                await asked.chunk(line)
                await trio.sleep(100)
            await asked.end()
        else:
            await ok(asked)

    async with peer(logs, connections=1) as (server, client):
        path = PODS.path("a", "p", "log")
        async with client.stream("GET", path, query={"follow": "true"}) as stream:
            assert await stream.receive() == b"one\n"
            await client.get(PODS, "p", "a")
            assert [chunk async for chunk in stream] == [b"two\n"]
        assert server.conns[0].wire.closed
    assert server.asked[0].headers["accept"] == "*/*"


async def test_a_stream_that_is_refused_or_late(autojump_clock):
    async def answer(asked: Asked) -> None:
        if asked.path == "/late":
            await trio.sleep_forever()
        await asked.refuse(403, "Forbidden", "no logs for you")

    from liqod.errors import Forbidden

    async with peer(answer) as (server, client):
        with pytest.raises(Forbidden, match="no logs"):
            async with client.stream("GET", "/x"):
                pass
        with pytest.raises(Unreachable):
            async with client.stream("GET", "/late", deadline=3):
                pass
        assert all(conn.wire.closed for conn in server.conns)
    assert trio.current_time() == pytest.approx(3, abs=0.01)


def test_credentials_do_not_show_secrets():
    secret = Credentials("https://x", token="hunter2", client_key=b"hunter2")
    plugin = ExecPlugin("aws", '{"token": "hunter2"}', "")
    shown = [
        repr(secret),
        repr(plugin),
        repr(IssuedCredentials("hunter2")),
        str(secret.__rich_repr__()),
    ]
    assert "hunter2" not in "".join(shown)
