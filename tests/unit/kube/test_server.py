"""The small HTTP server against well-behaved, broken and hostile clients."""

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from liqod.identity import certificates
from liqod.kube.http.httpserver import Drop, HttpRequest, HttpResponse, Limits, Silence, serve
from liqod.runtime.connectionlimit import ConnectionLimiter

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def echo(request: HttpRequest) -> HttpResponse:
    """Answers what was asked, as JSON."""
    return HttpResponse(
        body=msgspec.json.encode(request), headers={"content-type": "application/json"}
    )


@asynccontextmanager
async def running(handler=echo, limits=None, **more):
    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve, handler, limits=limits, **more))
        yield port
        nursery.cancel_scope.cancel()


async def dial(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", port)


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    parts = []
    try:
        while data := await stream.receive_some(65536):
            parts.append(bytes(data))
    except trio.BrokenResourceError:
        pass
    return b"".join(parts)


async def ask(port: int, data: bytes) -> bytes:
    """Send these bytes and return everything until the server closes."""
    async with await dial(port) as stream:
        await stream.send_all(data)
        return await read_all(stream)


def body(answer: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(answer.split(b"\r\n\r\n", 1)[1])
    return found


async def test_request_is_understood() -> None:
    async with running() as port:
        answer = await ask(
            port,
            b"POST /a%20b?x=1&x=2&empty= HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nX-One: 2\r\n"
            b"Connection: close\r\nContent-Length: 5\r\n\r\nhello",
        )
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    seen = body(answer)
    assert seen["method"] == "POST"
    assert seen["path"] == "/a b"
    assert seen["query"] == {"x": ["1", "2"], "empty": [""]}
    assert seen["headers"]["x-one"] == "1, 2"
    assert seen["body"] == "aGVsbG8="


async def test_chunked_request_body() -> None:
    async with running() as port:
        answer = await ask(
            port,
            b"PUT / HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        )
    assert body(answer)["body"] == "YWJjZGU="


async def test_keep_alive_and_pipelining() -> None:
    async with running() as port:
        last = GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
        answer = await ask(port, GET * 9 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 10
    assert answer.count(b"connection: close") == 1


async def test_byte_by_byte() -> None:
    async with running() as port, await dial(port) as stream:
        for byte in GET:
            await stream.send_all(bytes([byte]))
        assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 200")


async def test_http_1_0_closes() -> None:
    async with running() as port:
        answer = await ask(port, b"GET / HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer


async def test_head_has_no_body() -> None:
    async with running() as port:
        answer = await ask(port, b"HEAD / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"content-length: 0" not in answer


async def test_expect_continue() -> None:
    async with running() as port, await dial(port) as stream:
        await stream.send_all(
            b"POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
        assert await stream.receive_some(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"ok")
        assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http at all", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nhost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: h\r\ncontent-length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: h\r\ncontent-length: -1\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n"
            b"\r\n0\r\n\r\n",
            400,
        ),
        (b"GET /?" + b"&".join(b"a%d=1" % n for n in range(200)) + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbig: " + b"x" * 5000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nbig: " + b"x" * 5000, 431),
        (b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 60 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2000\r\n\r\n", 413),
        (
            b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"
            b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n",
            413,
        ),
    ],
)
async def test_nonsense_is_refused(sent: bytes, status: int) -> None:
    limits = Limits(head=4096, headers=50, body=1024)
    async with running(limits=limits) as port:
        with trio.fail_after(5):
            answer = await ask(port, sent)
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer
            assert (await ask_once(port)).startswith(b"HTTP/1.1 200")


async def ask_once(port: int) -> bytes:
    async with await dial(port) as stream:
        await stream.send_all(GET)
        return bytes(await stream.receive_some(65536))


async def test_slowloris_is_timed_out_and_others_are_served() -> None:
    async with (
        running(limits=Limits(request=0.2, idle=0.2)) as port,
        await dial(port) as slow,
        await dial(port) as silent,
    ):
        await slow.send_all(b"GET / HTTP/1.1\r\nx: ")
        assert (await ask_once(port)).startswith(b"HTTP/1.1 200")
        with trio.fail_after(2):
            assert (await read_all(slow)).startswith(b"HTTP/1.1 408")
            assert await read_all(silent) == b""


async def test_trickled_body_is_timed_out() -> None:
    async with running(limits=Limits(request=0.2)) as port, await dial(port) as slow:
        await slow.send_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n")
        with trio.fail_after(2):
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    while True:
                        await slow.send_all(b"x")
                        await trio.sleep(0.02)

                nursery.start_soon(trickle)
                assert (await slow.receive_some(4096)).startswith(b"HTTP/1.1 408")
                nursery.cancel_scope.cancel()


async def test_full_server_drops_the_longest_idle() -> None:
    async with running(places=ConnectionLimiter(2)) as port:
        first, second = await dial(port), await dial(port)
        async with first, second:
            for stream in (first, second):
                await stream.send_all(GET)
                await stream.receive_some(4096)
            assert (await ask_once(port)).startswith(b"HTTP/1.1 200")
            with trio.fail_after(2):
                assert await read_all(first) == b""


async def test_full_server_of_busy_clients_refuses() -> None:
    async def hold(request: HttpRequest) -> HttpResponse:
        raise Silence

    async with running(hold, places=ConnectionLimiter(1)) as port, await dial(port) as first:
        await first.send_all(GET)
        await trio.testing.wait_all_tasks_blocked(0.05)
        with trio.fail_after(2):
            assert await ask(port, GET) == b""


async def test_broken_handler_costs_its_request(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: HttpRequest) -> HttpResponse:
        if request.path == "/drop":
            raise Drop
        if request.path == "/bad":
            raise RuntimeError("oops")
        return HttpResponse()

    caplog.set_level(logging.CRITICAL)
    async with running(broken) as port, await dial(port) as stream:
        await stream.send_all(GET.replace(b"/ ", b"/bad ", 1))
        assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 500")
        await stream.send_all(GET)
        assert (await stream.receive_some(4096)).startswith(b"HTTP/1.1 200")
        assert await ask(port, GET.replace(b"/ ", b"/drop ", 1)) == b""


async def counting(closed: trio.Event) -> AsyncIterator[bytes]:
    try:
        for number in range(3):
            yield b"%d\n" % number
        await trio.sleep_forever()
    finally:
        closed.set()


async def test_streamed_answer_ends_when_the_client_leaves() -> None:
    closed = trio.Event()

    async def stream_numbers(request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=counting(closed))

    async with running(stream_numbers) as port:
        async with await dial(port) as stream:
            await stream.send_all(GET)
            seen = b""
            while b"2\n" not in seen:
                seen += await stream.receive_some(4096)
            assert b"transfer-encoding: chunked" in seen
        with trio.fail_after(2):
            await closed.wait()


async def test_streamed_answer_then_another_request() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b""
        yield b"two"

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=pieces()) if request.path == "/s" else HttpResponse(body=b"plain")

    async with running(handler) as port:
        last = GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
        answer = await ask(port, GET.replace(b"/ ", b"/s ", 1) + last)
    assert b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\nHTTP/1.1 200" in answer
    assert answer.endswith(b"plain")


async def test_reader_that_does_not_read_is_cut() -> None:
    closed = trio.Event()

    async def flood() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65536
        finally:
            closed.set()

    async def handler(request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=flood())

    async with running(handler, Limits(write=0.2)) as port, await dial(port) as stream:
        await stream.send_all(GET)
        with trio.fail_after(5):
            await closed.wait()


async def test_stop_lets_requests_finish_and_ends_streams() -> None:
    stop, entered, proceed = trio.Event(), trio.Event(), trio.Event()

    async def handler(request: HttpRequest) -> HttpResponse:
        if request.path == "/s":
            return HttpResponse(body=counting(trio.Event()))
        entered.set()
        await proceed.wait()
        return HttpResponse(body=b"done")

    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve, handler, stop=stop))
        async with await dial(port) as idle, await dial(port) as busy, await dial(port) as endless:
            await endless.send_all(GET.replace(b"/ ", b"/s ", 1))
            await endless.receive_some(4096)
            await busy.send_all(GET)
            await entered.wait()
            stop.set()
            with trio.fail_after(2):
                assert await read_all(idle) == b""
                await read_all(endless)
                proceed.set()
                assert (await read_all(busy)).endswith(b"done")


async def test_tls_and_client_certificates(tmp_path: Path) -> None:
    ca = certificates.make_ca("test")
    server = certificates.make_server(ca, ["127.0.0.1"])
    client = certificates.make_client(ca, "alice", ("one", "two"))

    def saved(name: str, pair: certificates.Pair) -> str:
        path = tmp_path / name
        path.write_bytes(pair.certificate + pair.key)
        return str(path)

    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(saved("server", server))
    serving.load_verify_locations(cadata=ca.certificate.decode())
    serving.verify_mode = ssl.CERT_OPTIONAL
    asking = ssl.create_default_context(cadata=ca.certificate.decode())

    async def once(port: int) -> dict[str, Any]:
        stream = await trio.open_ssl_over_tcp_stream(
            "127.0.0.1", port, ssl_context=asking, https_compatible=True
        )
        async with stream:
            await stream.send_all(GET)
            return body(bytes(await stream.receive_some(65536)))

    async with running(ssl_context=serving) as port:
        assert (await once(port))["peer_certificate"] is None
        asking.load_cert_chain(saved("client", client))
        seen = await once(port)
        assert await ask(port, GET) == b""  # plain text to the TLS port
    subject = [pair for part in seen["peer_certificate"]["subject"] for pair in part]
    assert ["commonName", "alice"] in subject
    assert ["organizationName", "two"] in subject
