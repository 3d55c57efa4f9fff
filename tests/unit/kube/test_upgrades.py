"""Another protocol on a connection: asked for by the client, taken over at the server."""

import gc
from functools import partial

import pytest
import trio
import trio.testing

from liqod.errors import Forbidden, ProtocolError, Unreachable
from liqod.kube.http.httpserver import HttpRequest, HttpResponse, Limits, serve
from liqod.kube.http.wire import Wire
from tests.unit.kube.peers import Asked, peer

HEADERS = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"))
ASKING = b"POST /x HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n"
SWITCHES = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n"


async def test_what_comes_behind_the_answer_is_kept() -> None:
    async def switch(asked: Asked) -> None:
        assert asked.headers["upgrade"] == "SPDY/3.1"
        assert asked.query == {"command": "a b"}
        await asked.conn.send(SWITCHES + b"early")

    async with peer(switch) as (server, client):
        query = {"command": ["a b"]}
        for _ in range(2):
            found = await client.upgrade(
                "POST", "/x", query=query, headers=HEADERS, label=("create", "x")
            )
            assert found.headers["upgrade"] == "SPDY/3.1"
            assert found.early == b"early"
            await found.wire.send(b"more")
            found.wire.close()
    assert len(server.conns) == 2, "each has a connection of its own"


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ProtocolError, "does not switch"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ProtocolError, "does not switch"),
        (b"HTTP/1.1 403 x\r\ncontent-length: 2\r\n\r\nno", Forbidden, "no"),
        (b"HTTP/1.1 101 x\r\n\r\n" + b"GARBAGE" * 9, ProtocolError, "not HTTP"),
        (b"HTTP/1.1 101 x\r\n" + b"a: b\r\n" * 20000, ProtocolError, "too large"),
    ],
)
async def test_what_does_not_switch_is_an_error(answer: bytes, error: type, words: str) -> None:
    async def reply(asked: Asked) -> None:
        await asked.conn.send(answer)

    async with peer(reply) as (server, client):
        with pytest.raises(error, match=words):
            await client.upgrade("GET", "/x", query={}, headers=HEADERS, label=("get", "x"))
        assert server.conns[0].wire.closed


async def test_nobody_switches_unasked() -> None:
    async def switch(asked: Asked) -> None:
        await asked.conn.send(SWITCHES)

    async with peer(switch) as (_, client):
        with pytest.raises(ProtocolError, match="nobody asked for"):
            await client.raw("GET", "/version")


class Echo:
    """Says what it receives, and what came before it was there."""

    def __init__(self) -> None:
        self.closed = 0

    async def run(self, wire: Wire, early: bytes, /) -> None:
        await wire.send(b"<" + early + b">")
        while data := await wire.receive():
            if data == b"break":
                raise Unreachable("broken")
            await wire.send(data)

    def close(self) -> None:
        self.closed += 1


async def talk(limits: Limits, *said: bytes) -> tuple[bytes, Echo]:
    """The answer of a server that switches protocols."""
    echo = Echo()

    async def switch(request: HttpRequest) -> HttpResponse:
        if not request.upgrade:
            return HttpResponse(200, b"plain")
        return HttpResponse(101, headers={"connection": "Upgrade", "upgrade": "x"}, takeover=echo)

    found = b""
    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve, switch, limits=limits))
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            for each in said:
                await stream.send_all(each)
                await trio.testing.wait_all_tasks_blocked()
            await stream.send_eof()
            async for data in stream:
                found += data
        nursery.cancel_scope.cancel()
    return found, echo


async def test_a_connection_is_handed_over_with_what_came_already() -> None:
    found, echo = await talk(Limits(), ASKING + b"early", b"hear")
    head, _, rest = found.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols")
    assert rest == b"<early>hear"
    assert echo.closed == 1
    found, echo = await talk(Limits(), ASKING, b"break")
    assert found.endswith(b"<>")
    assert echo.closed == 1


async def test_nothing_of_the_request_is_held_meanwhile() -> None:
    held: list[object] = []

    class Looking(Echo):
        async def run(self, wire: Wire, early: bytes, /) -> None:
            gc.collect()
            kept = (
                each for each in gc.get_objects() if isinstance(each, HttpRequest | HttpResponse)
            )
            held.extend(each for each in kept if "x-ours" in each.headers)
            await super().run(wire, early)

    async def switch(request: HttpRequest) -> HttpResponse:
        assert request.headers["x-ours"] == "1"
        return HttpResponse(101, headers={"x-ours": "2"}, takeover=Looking())

    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve, switch))
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(ASKING.replace(b"host", b"x-ours: 1\r\nhost"))
            found = b""
            while b"<>" not in found:
                found += await stream.receive_some()
        nursery.cancel_scope.cancel()
    assert held == []


async def test_what_comes_behind_is_bounded_and_is_no_second_request() -> None:
    second = b"GET /y HTTP/1.1\r\nhost: x\r\n\r\n"
    found, _ = await talk(Limits(), ASKING + second)
    assert found.count(b"HTTP/1.1 ") == 1, "one answer, and the request as it came"
    assert found.endswith(b"<" + second + b">")
    found, _ = await talk(Limits(), b"GET /y HTTP/1.1\r\nhost: x\r\n\r\n" + ASKING + b"early")
    assert found.startswith(b"HTTP/1.1 200")
    assert found.endswith(b"<early>")
    found, echo = await talk(Limits(head=1024), ASKING + bytes(1025))
    assert (found, echo.closed) == (b"", 1)
    # Without the header `Connection` nobody asks for another protocol.
    plain = ASKING.replace(b"connection: Upgrade\r\n", b"")
    found, echo = await talk(Limits(), plain)
    assert found.startswith(b"HTTP/1.1 200")
    assert echo.closed == 0
