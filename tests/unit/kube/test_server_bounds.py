"""Bounds of the cost of all strangers to a server: memory, places, and lines of the log."""

import logging
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
import pytest
import trio

from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.healthz import LIMITS as HEALTH
from liqod.healthz import HealthServer
from liqod.kube.http.cpubudget import ASKERS_SHARE, SourceBudgets
from liqod.kube.http.httpserver import Handler, HttpRequest, HttpResponse, Limits
from liqod.kube.http.parser import RequestParser
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionLimiter
from tests.unit.kube.test_server import GET, ask, dial, read_all, running

MIB = 1 << 20


async def send_half(port: int, data: bytes) -> None:
    """Send a request that is not finished, and wait."""
    async with await dial(port) as stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data)
            await read_all(stream)


async def test_unfinished_requests_hold_so_much_together():
    body = b"x" * 100_000
    half = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" + body
    tracemalloc.start()
    try:
        async with (
            running(places=ConnectionLimiter(4096, max_buffered=MIB)) as port,
            trio.open_nursery() as nursery,
        ):
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(100):
                nursery.start_soon(send_half, port, half)
            await trio.testing.wait_all_tasks_blocked(0.3)  # all have sent, and been weighed
            held = tracemalloc.get_traced_memory()[0] - before
            served = await ask(port, GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
            nursery.cancel_scope.cancel()
    finally:
        tracemalloc.stop()
    assert served.startswith(b"HTTP/1.1 200")
    assert held < 4 * MIB


def busy(status: int) -> Handler:
    """A handler that works for two milliseconds on each request, then answers with this status."""

    async def work(request: HttpRequest) -> HttpResponse:
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return HttpResponse(status)

    return work


async def test_an_address_that_asks_without_end_has_its_share_of_the_time():
    async def without_end(port: int) -> None:
        while True:
            async with await dial(port) as stream:
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(GET * 20)
                    await stream.receive_some(65536)
            await trio.sleep(0.01)

    async with (
        running(busy(404), Limits(paced=True), budgets=SourceBudgets(credit=0.0)) as port,
        trio.open_nursery() as nursery,
    ):
        for _ in range(4):
            nursery.start_soon(without_end, port)
        before = time.process_time()
        await trio.sleep(1.5)
        used = time.process_time() - before
        nursery.cancel_scope.cancel()
    assert used < ASKERS_SHARE * 1.5 + 0.5


async def test_ordinary_questions_that_are_answered_wait_for_nothing():
    async with (
        running(busy(200), Limits(paced=True), budgets=SourceBudgets(credit=0.0)) as port,
        await dial(port) as stream,
    ):
        with trio.fail_after(30):
            for _ in range(500):  # a second of work, a share of which would take a minute
                await stream.send_all(GET)
                await stream.receive_some(65536)


async def test_a_burst_of_ordinary_questions_uses_up_no_credit():
    little = SourceBudgets(credit=0.005, share=1e-6)  # nothing comes back by waiting

    async def answer(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200)

    async with running(answer, Limits(paced=True), budgets=little) as port:
        with trio.fail_after(30):
            async with await dial(port) as stream:
                for _ in range(1000):
                    await stream.send_all(GET)
                    await stream.receive_some(65536)
            async with await dial(port) as stream:  # one without credit is closed at once
                await stream.send_all(GET)
                assert await stream.receive_some(65536)


async def test_those_who_say_nothing_take_no_place_of_who_was_answered():
    strangers, known = ConnectionLimiter(4), ConnectionLimiter(2)
    async with running(places=strangers, answered=known) as port, await dial(port) as kept:
        await kept.send_all(GET)
        await kept.receive_some(65536)
        assert (len(strangers), len(known)) == (0, 1)
        silent = [await dial(port) for _ in range(20)]
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert (len(strangers), len(known)) == (4, 1)
        await kept.send_all(GET)
        assert (await kept.receive_some(65536)).startswith(b"HTTP/1.1 200")
        for each in silent:
            await each.aclose()


async def test_who_is_refused_stays_a_stranger():
    strangers, known = ConnectionLimiter(4), ConnectionLimiter(2)
    async with (
        running(busy(401), places=strangers, answered=known) as port,
        await dial(port) as stream,
    ):
        await stream.send_all(GET)
        await stream.receive_some(65536)
        assert (len(strangers), len(known)) == (1, 0)


async def test_where_all_that_were_answered_are_busy_one_more_is_refused():
    async def endless(request: HttpRequest) -> HttpResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"x"
            await trio.sleep_forever()

        return HttpResponse(200, body())

    async with running(endless, places=ConnectionLimiter(4), answered=ConnectionLimiter(1)) as port:
        first, second = await dial(port), await dial(port)
        async with first, second:
            await first.send_all(GET)
            assert (await first.receive_some(65536)).startswith(b"HTTP/1.1 200")
            await second.send_all(GET)
            assert (await second.receive_some(65536)).startswith(b"HTTP/1.1 503")


async def test_requests_ahead_of_their_answers_count():
    inbox = RequestParser(Limits())
    inbox.feed(b"GET / HTTP/1.1\r\n\r\n" * 500)
    assert len(inbox.ready) == 500
    assert inbox.buffered > 500 * 1000


async def test_nothing_of_an_answered_request_is_kept():
    inbox = RequestParser(Limits())
    inbox.feed(b"POST / HTTP/1.1\r\ncontent-length: 100000\r\n\r\n" + b"x" * 100_000)
    inbox.ready.clear()
    assert inbox.buffered == 0


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx",
        b"POST /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
    ],
)
async def test_a_probe_has_no_body(sent: bytes):
    async with running(HealthServer().answer, HEALTH) as port:
        assert (await ask(port, sent)).startswith(b"HTTP/1.1 413")
        own = b"GET /healthz HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        assert (await ask(port, own)).startswith(b"HTTP/1.1 200")


async def test_the_same_fault_is_told_now_and_then(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    class Fault(Exception):
        pass

    async def broken(request: HttpRequest) -> HttpResponse:
        raise Fault(request.path)

    async with running(broken) as port:
        for number in range(50):
            path = b"/%d " % number
            last = GET.replace(b"/ ", path, 1).replace(b"host", b"connection: close\r\nhost")
            assert (await ask(port, last)).startswith(b"HTTP/1.1 500")
    told = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert len(told) == 1


def odd_reviews() -> list[bytes]:
    """Bodies that are no review, and reviews of what is no pod."""
    request = {"uid": "1", "namespace": "shop"}
    pods: list[object] = [{"metadata": []}, {"metadata": {"labels": "x"}}, {"metadata": 3}]
    reviews = [msgspec.json.encode({"request": {**request, "object": pod}}) for pod in pods]
    return [b"", b"[]", b"{", b"\xff", b"[" * 100_000, *reviews]


async def test_a_malformed_review_is_refused_in_one_line_now_and_then(
    caplog: pytest.LogCaptureFixture,
):
    served = PodWebhook(None, Account())  # type: ignore[arg-type]  # it asks nothing of this cluster
    for body in odd_reviews() * 3:
        request = HttpRequest("POST", "/mutate-pod", {}, {}, body=body)
        assert (await served.answer(request)).status == 400
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info is None
