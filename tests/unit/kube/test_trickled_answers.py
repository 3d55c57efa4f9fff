"""A server that answers without end, and with next to nothing each time.

On the real clock: what is measured is how much of its own time the daemon spends on it.
"""

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
import trio

from liqod.kube.http.connection import HttpConnection
from liqod.kube.http.cpubudget import LASTING_SHARE, CpuBudget, Metered
from liqod.kube.http.transport import ApiStream, ClientStats
from liqod.kube.watch import WatchStream

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WINDOW = 1.0
OTHERS = 0.1
"""Seconds of a window that go to the beats of the test, and to what makes the first debt."""
TURN = 0.06
"""Seconds that others may wait for one turn: what the longest takes, and as much again twice."""
SMALL = (
    b'{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod",'
    b'"metadata":{"name":"web","resourceVersion":"7"}}}\n'
)
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n'
DULL = b" " * 60_000


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def again(data: bytes) -> Callable[[], Iterator[bytes]]:
    """The same for ever, in as much as a socket gives at once."""
    return lambda: itertools.repeat(data * max(1, 200_000 // len(data)))


def barely() -> Iterator[bytes]:
    """An event at a time, each in full before the next has come."""
    wide = SMALL.replace(b'"name":"web"', b'"name":"web","note":"' + b"x" * 50_000 + b'"')
    return itertools.repeat(chunk(wide))


SENT: dict[str, Callable[[], Iterator[bytes]]] = {
    "empty lines": again(chunk(b"\n" * 200_000)),
    "chunks of one byte": again(chunk(b" ")),
    "trailers without end": lambda: itertools.chain([b"0\r\n"], again(b"x: y\r\n")()),
    "bookmarks": again(chunk(BOOKMARK * 1000)),
    "small events": again(chunk(SMALL * 1000)),
    "one event at a time": barely,
    "a line without end": again(chunk(DULL)),
}


class Tap:
    """A wire that always has more."""

    def __init__(self, data: Iterator[bytes]) -> None:
        self._data = itertools.chain([HEAD], data)

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return next(self._data)

    def stale(self) -> bool:
        return False

    def keep_alive(self, setting: object) -> None:
        pass

    async def finish(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        pass


async def follow(data: Iterator[bytes], budget: CpuBudget) -> None:
    """Watch, as long as the server sends what can be watched."""
    connection = HttpConnection(Tap(data), budget)
    head = await connection.exchange(b"GET / HTTP/1.1\r\n\r\n")
    watch = WatchStream(ApiStream(head, connection, ClientStats()), budget)
    while await watch.next(60.0) is not None:
        pass


async def spent(data: Iterator[bytes], seconds: float, budget: CpuBudget) -> tuple[float, float]:
    """The part of the time that following takes, and the longest that another task waited for it.

    Both in time of the processor: how much of it others on this machine leave does not count.
    """
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await trio.sleep(0.01)
            longest = max(longest, time.thread_time() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        nursery.start_soon(follow, data, budget)
        before = time.process_time()
        began = time.perf_counter()
        await trio.sleep(seconds)
        share = (time.process_time() - before) / (time.perf_counter() - began)
        nursery.cancel_scope.cancel()
    return share, longest


@pytest.mark.parametrize("sent", SENT)
async def test_it_takes_no_more_than_a_twentieth_of_the_time(sent: str):
    share, longest = await spent(SENT[sent](), WINDOW, CpuBudget(credit=0.0))
    assert share * WINDOW < LASTING_SHARE * WINDOW + OTHERS
    assert longest < TURN


@pytest.mark.parametrize("sent", ["empty lines", "chunks of one byte"])
async def test_others_have_most_of_the_time_while_there_is_credit(sent: str):
    share, _ = await spent(SENT[sent](), 0.5, CpuBudget())
    assert share < 0.75


async def test_credit_comes_back():
    budget = CpuBudget(credit=0.01)
    began = trio.current_time()
    await budget.spend(0.015)
    assert trio.current_time() - began > 0.2
    began = trio.current_time()
    await budget.spend(0.001)
    assert trio.current_time() - began < 0.1


async def test_only_what_works_is_measured():
    async def work() -> str:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        await trio.sleep(0.2)
        return "done"

    metered = Metered(work())
    assert await metered == "done"
    assert 0.02 <= metered.used < 0.1


async def test_a_cancellation_reaches_what_is_measured():
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await trio.sleep_forever()
        finally:
            ended = True

    with trio.move_on_after(0.01):
        await Metered(work())
    assert ended
