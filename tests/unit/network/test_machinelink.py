"""The connection between the daemon and the machine's side holds against daemons of all kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing

from liqod.errors import NetworkError
from liqod.network import framestream
from liqod.network.framestream import FrameStream
from liqod.network.machine import machineserver
from liqod.network.machine.machineserver import MachineServer
from liqod.network.machinelink import MachineLink
from liqod.network.orders import greeting, messages
from liqod.network.orders.candidacy import LeaseAnswer, LeaseFound, LetGo, LetGoDone
from liqod.network.orders.framing import LARGEST, frame
from liqod.network.orders.greeting import (
    ANSWERS,
    Admitted,
    Denied,
    Generation,
    Greeting,
)
from liqod.network.orders.messages import Order, OrderRefused, Report
from liqod.network.orders.overlay import ReadUplink, RemoveOverlay, Uplink
from liqod.network.overlay.remoteoverlay import RemoteOverlay
from liqod.runtime.observable import Observable
from tests.unit.network.ordering import admitted, hello


@dataclass
class Machine:
    """A machine's side that notes its orders, and answers none."""

    nursery: trio.Nursery
    orders: list[Order] = field(default_factory=list)
    came: trio.Event = field(default_factory=trio.Event)
    streams: list[trio.SocketStream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = MachineServer("rome", self._receive)

    def _receive(self, order: Order) -> None:
        self.orders.append(order)
        self.came.set()

    async def connect(self) -> trio.SocketStream:
        """A connection that has not greeted."""
        own, other = (trio.SocketStream(each) for each in trio.socket.socketpair())
        self.nursery.start_soon(self.server.serve, other)
        self.streams.append(own)
        return own

    async def admitted(self, greeting: Greeting) -> FrameStream:
        """A connection that may order."""
        return await admitted(await self.connect(), greeting)

    async def admitted_at_last(self, greeting: Greeting) -> FrameStream:
        """The same, of one that is denied until a later generation counts no more."""
        with trio.fail_after(20):
            while True:
                with suppress(NetworkError):
                    return await self.admitted(greeting)
                await trio.sleep(0.02)

    async def takes(self, connection: FrameStream, order: Order) -> None:
        """Asserts that an order of this connection comes."""
        self.came = trio.Event()
        await connection.deliver(order)
        with trio.fail_after(5):
            await self.came.wait()
        assert self.orders[-1] == order

    async def denies(self, greeting: Greeting) -> str:
        """Why it does."""
        connection = FrameStream(await self.connect())
        answer = messages.read(ANSWERS, await connection.greet(greeting))
        assert isinstance(answer, Denied)
        with pytest.raises(NetworkError, match="closed"):
            await connection.receive()
        return answer.problem


@asynccontextmanager
async def machine() -> AsyncIterator[Machine]:
    async with trio.open_nursery() as nursery:
        made = Machine(nursery)
        yield made
        for each in made.streams:
            await each.aclose()
        nursery.cancel_scope.cancel()


def linked(
    machine: Machine,
    own: Observable[Generation],
    receive: Callable[[Report], None] = lambda _: None,
) -> MachineLink:
    """A daemon's end, which orders one thing in all."""

    def tell() -> None:
        made.send(LeaseFound(None))

    made = MachineLink("rome", own, machine.connect, receive, tell)
    return made


async def ended(connection: FrameStream) -> None:
    """Waits until the other end has closed."""
    with trio.fail_after(10), pytest.raises(NetworkError, match="closed"):
        await drain(connection)


async def drain(connection: FrameStream, read: list[bytes] | None = None) -> None:
    """Reads all that comes."""
    while True:
        body = await connection.receive()
        if read is not None:
            read.append(body)


async def test_who_says_nothing_is_left_in_time():
    async with machine() as made:
        orders = await made.admitted(hello())
        stranger = await made.connect()
        began = trio.current_time()
        await ended(FrameStream(stranger))
        assert trio.current_time() - began < framestream.PATIENCE + 1
        await made.takes(orders, RemoveOverlay())


@pytest.mark.parametrize(
    "order",
    [
        frame(b"nonsense"),
        frame(b'{"type":"LeaseAnswer","number":"secret"}'),
        (LARGEST + 1).to_bytes(4, "big"),
    ],
)
async def test_an_order_without_sense_ends_the_connection_and_another_takes_its_place(
    order: bytes, caplog: pytest.LogCaptureFixture
):
    async with machine() as made:
        stream = await made.connect()
        orders = FrameStream(stream)
        await orders.greet(hello())
        await stream.send_all(order)
        await ended(orders)
        assert made.orders == []
        await made.takes(await made.admitted(hello()), RemoveOverlay())
    assert "the daemon's connection" in caplog.text
    assert "secret" not in caplog.text
    assert all(each.exc_info is None for each in caplog.records)


async def test_an_order_of_a_later_version_is_refused_by_name_and_others_go_on():
    async with machine() as made:
        stream = await made.connect()
        orders = await admitted(stream, hello())
        await stream.send_all(frame(b'{"type":"Levitate","how":"high"}'))
        answer = messages.REPLIES.decode(await orders.receive())
        assert answer == OrderRefused("Levitate")
        await made.takes(orders, RemoveOverlay())


async def test_what_cannot_be_carried_out_ends_the_connection_alone():
    def fail(order: Order) -> None:
        raise LookupError(order)

    async with machine() as made:
        made.server = MachineServer("rome", fail)
        orders = await made.admitted(hello())
        await orders.deliver(LetGo())
        await ended(orders)
        await made.admitted(hello())


@pytest.mark.parametrize(
    ("theirs", "problem"),
    [
        (hello(oldest=2, newest=3), "upgrade the older one"),
        (hello(oldest=0, newest=0), "upgrade the older one"),
        (hello(of="milan"), "of the cluster rome"),
        (hello(4), "was started later"),
    ],
)
async def test_another_version_cluster_or_an_older_generation_is_denied(
    theirs: Greeting, problem: str
):
    async with machine() as made:
        orders = await made.admitted(hello(5))
        assert problem in await made.denies(theirs)
        await made.takes(orders, RemoveOverlay())


def test_a_side_of_one_version_more_is_spoken_with():
    later = hello(oldest=greeting.VERSION, newest=greeting.VERSION + 1)
    assert greeting.answer(later, "rome", Generation()) == Admitted(greeting.VERSION)


@pytest.mark.parametrize("generation", [5, 6])
async def test_the_same_generation_and_a_later_one_replace_the_connection(generation: int):
    async with machine() as made:
        before = await made.admitted(hello(5))
        after = await made.admitted(hello(generation))
        await ended(before)
        await made.takes(after, RemoveOverlay())
        made.server.send(LetGoDone())
        assert messages.REPLIES.decode(await after.receive()) == LetGoDone()


async def test_who_was_replaced_by_a_later_one_does_not_come_back_nor_when_that_is_gone():
    async with machine() as made:
        before = await made.admitted(hello(5))
        stream = await made.connect()
        await FrameStream(stream).greet(hello(6))
        await ended(before)
        assert "was started later" in await made.denies(hello(5))
        await stream.aclose()
        assert "was started later" in await made.denies(hello(5))


async def test_a_generation_that_is_gone_for_long_denies_nobody(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(machineserver, "FENCED", 0.5)
    async with machine() as made:
        stream = await made.connect()
        await FrameStream(stream).greet(hello(6))
        await trio.sleep(0.7)
        assert "was started later" in await made.denies(hello(5))
        closed = trio.current_time()
        await stream.aclose()
        admitted = await made.admitted_at_last(hello(5))
        assert trio.current_time() - closed >= 0.5
        await made.takes(admitted, RemoveOverlay())


async def test_a_daemon_that_has_come_to_lead_says_so_and_who_led_before_is_denied():
    async with machine() as made:
        orders = await made.admitted(hello(5))
        await orders.deliver(Generation(term=4, leads=True, started=5))
        await made.takes(orders, RemoveOverlay())
        assert made.orders == [RemoveOverlay()]
        assert "leads" in await made.denies(hello(6))
        before = Generation(term=3, leads=True, started=9)
        assert "leads" in await made.denies(Greeting(1, 1, "rome", before))
        await orders.deliver(Generation(term=4, leads=False, started=5))
        await made.takes(orders, RemoveOverlay())
        assert "leads" in await made.denies(hello(6))


async def test_orders_without_end_are_taken_at_a_bounded_rate():
    async with machine() as made:
        orders = await made.admitted(hello())
        stop = trio.current_time() + 1.0
        with trio.move_on_at(stop):
            for number in range(1_000_000):
                await orders.deliver(LeaseAnswer(number))
        assert 0 < len(made.orders) <= 2.5 * machineserver.RATE


async def test_the_daemon_sends_all_anew_whenever_it_is_connected_again():
    send, receive = trio.open_memory_channel[Report](9)
    async with machine() as made:
        link = linked(made, Observable(Generation()), send.send_nowait)
        link.send(LetGo())  # not connected: it is lost
        made.nursery.start_soon(link.run)
        for times in range(1, 4):
            made.came = trio.Event()
            with trio.fail_after(20):
                await made.came.wait()
            assert made.orders == [LeaseFound(None)] * times
            made.server.send(LetGoDone())
            with trio.fail_after(5):
                assert await receive.receive() == LetGoDone()
            await made.streams[-1].aclose()


async def test_a_daemon_that_is_denied_orders_as_soon_as_it_leads(
    caplog: pytest.LogCaptureFixture,
):
    own = Observable(Generation(term=3, started=2))
    async with machine() as made:
        before = await made.admitted(Greeting(1, 1, "rome", Generation(term=3, leads=True)))
        link = linked(made, own)
        made.nursery.start_soon(link.run)
        with trio.fail_after(5):
            while "takes no orders" not in caplog.text:  # noqa: ASYNC110  # the log
                await trio.sleep(0.01)
        assert made.orders == []
        assert "was started later" in link.problem
        own.set(Generation(term=4, leads=True, started=2))
        with trio.fail_after(2):
            await made.came.wait()
        assert made.orders == [LeaseFound(None)]
        assert link.problem == ""
        await ended(before)


async def test_the_reason_why_there_is_no_connection_is_known_as_long_as_there_is_none():
    places = [NetworkError("no machine's side answers: start it")]
    async with machine() as made:

        async def connect() -> trio.abc.Stream:
            if places:
                raise places.pop()
            return await made.connect()

        link = MachineLink(
            "rome", Observable(Generation()), connect, lambda _: None, lambda: link.send(LetGo())
        )
        made.nursery.start_soon(link.run)
        await trio.testing.wait_all_tasks_blocked()
        assert link.problem == "no machine's side answers: start it"
        with trio.fail_after(5):
            await made.came.wait()
        assert link.problem == ""


async def test_a_connected_daemon_says_when_it_has_come_to_lead():
    own = Observable(Generation(term=3, started=2))
    async with machine() as made:
        link = linked(made, own)
        made.nursery.start_soon(link.run)
        with trio.fail_after(5):
            await made.came.wait()
        own.set(Generation(term=4, leads=True, started=2))
        made.came = trio.Event()
        link.send(LeaseFound(None))
        await made.came.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert "leads" in await made.denies(
            Greeting(1, 1, "rome", Generation(term=4, leads=False, started=3))
        )


async def test_a_request_that_no_connection_took_is_sent_once_there_is_one():
    sent: list[Order] = []
    overlay = RemoteOverlay(sent.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(overlay.mtu, "192.168.1.10")
        await trio.testing.wait_all_tasks_blocked()
        sent.clear()
        overlay.tell()
        assert sent == [ReadUplink("192.168.1.10")]
        overlay.receive(Uplink("192.168.1.10", 1500))
    sent.clear()
    overlay.tell()
    assert sent == []
