"""One HTTP/1.1 exchange: framing, bounds, and what a broken server looks like."""

import pytest
import trio
import trio.testing

from liqod.errors import ProtocolError, Unreachable
from liqod.kube.failures import TooLarge
from liqod.kube.http.connection import MAX_HEAD, ConnectionClosed, HttpConnection
from tests.unit.kube.peers import MemoryWire

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def answered(data: bytes, *, step: int = 0) -> HttpConnection:
    """A connection whose server says this, byte by byte if asked, and closes."""
    ours, theirs = trio.testing.memory_stream_pair()
    parts = [data[i : i + step] for i in range(0, len(data), step)] if step else [data]

    class Stepwise(MemoryWire):
        async def receive(self) -> bytes:
            if parts:
                return parts.pop(0)
            return await super().receive()

    await theirs.send_stream.aclose()
    return HttpConnection(Stepwise(ours))


@pytest.mark.parametrize("step", [0, 1, 7])
async def test_content_length(step: int) -> None:
    connection = await answered(
        b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello", step=step
    )
    head = await connection.exchange(REQUEST)
    assert (head.status, head.headers["x-a"]) == (201, "1, 2")
    assert await connection.body(100) == b"hello"
    assert connection.reusable


@pytest.mark.parametrize("step", [0, 1, 7])
async def test_chunked_after_an_interim_answer(step: int) -> None:
    connection = await answered(
        b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        step=step,
    )
    head = await connection.exchange(REQUEST)
    assert (head.status, "x-early" in head.headers) == (200, False)
    assert await connection.body(100) == b"abcde"
    assert await connection.chunk() == b""
    assert connection.reusable


async def test_body_that_ends_with_the_connection() -> None:
    connection = await answered(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    await connection.exchange(REQUEST)
    assert await connection.body(100) == b"all of it"
    assert not connection.reusable


async def test_no_body() -> None:
    connection = await answered(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert (await connection.exchange(REQUEST)).status == 204
    assert await connection.body(100) == b""
    assert connection.reusable


async def test_connection_close_is_honoured() -> None:
    connection = await answered(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    await connection.exchange(REQUEST)
    assert await connection.body(0) == b""
    assert not connection.reusable


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
async def test_a_truncated_body_is_no_body(data: bytes) -> None:
    connection = await answered(data)
    await connection.exchange(REQUEST)
    with pytest.raises(Unreachable, match="in the middle"):
        await connection.body(100)
    assert not connection.reusable


async def test_nothing_at_all_is_told_apart() -> None:
    connection = await answered(b"")
    with pytest.raises(ConnectionClosed) as caught:
        await connection.exchange(REQUEST)
    assert caught.value.sent


async def test_a_truncated_head_is_not_nothing() -> None:
    connection = await answered(b"HTTP/1.1 200 OK\r\nContent-")
    with pytest.raises(Unreachable) as caught:
        await connection.exchange(REQUEST)
    assert not isinstance(caught.value, ConnectionClosed)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nraw",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * (MAX_HEAD + 10),
    ],
)
async def test_nonsense(data: bytes) -> None:
    connection = await answered(data, step=50000)
    with pytest.raises(ProtocolError):
        await connection.exchange(REQUEST)


async def test_a_second_answer_that_nobody_asked_for():
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none"
    second = b"HTTP/1.1 500 OK\r\nContent-Length: 3\r\nX-Evil: 1\r\n\r\ntwo"
    connection = await answered(first + second)
    head = await connection.exchange(REQUEST)
    assert (head.status, "x-evil" in head.headers) == (200, False)
    assert await connection.body(100) == b"one"
    assert not connection.reusable


async def test_trailers_are_not_headers():
    connection = await answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Late: 1\r\n\r\n"
    )
    head = await connection.exchange(REQUEST)
    assert await connection.body(100) == b"a"
    assert "x-late" not in head.headers
    assert connection.reusable


async def test_a_body_over_the_limit_is_refused_unread() -> None:
    connection = await answered(b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n")
    await connection.exchange(REQUEST)
    with pytest.raises(TooLarge):
        await connection.body(100)


async def test_a_body_over_the_limit_is_not_read_on() -> None:
    chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
    connection = await answered(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 5, step=107
    )
    await connection.exchange(REQUEST)
    with pytest.raises(TooLarge):
        await connection.body(150)
    assert connection.bytes_in < 500
