"""A channel's tasks: wires over it, turns, ends, and a peer that breaks the rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from liqod.errors import ProtocolError, Unconnected, Unreachable
from liqod.handshake.protocol.mux import STREAMS, WINDOW, FrameKind
from liqod.handshake.transport.channel import (
    FULL,
    OPENS,
    Channel,
    ChannelStream,
    StreamBackend,
    StreamLimits,
)
from liqod.kube.http.wire import KeepAlive, StreamWire, Wire
from liqod.runtime.connectionlimit import ConnectionLimiter


class Echo:
    """A door behind which everything comes back, or, while it is deaf, nothing is read; it counts
    who came through."""

    def __init__(self) -> None:
        self.came = 0
        self.deaf = False

    async def __call__(self) -> Wire:
        self.came += 1
        if self.deaf:
            return StreamWire(trio.testing.lockstep_stream_pair()[0])
        near, far = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.echo, far)
        return StreamWire(near)

    nursery: trio.Nursery

    async def echo(self, stream: trio.abc.Stream) -> None:
        async with stream:
            try:
                while data := await stream.receive_some(65536):
                    await stream.send_all(data)
                await stream.send_eof()  # type: ignore[attr-defined]
                await trio.sleep_forever()
            except trio.BrokenResourceError:
                pass


@asynccontextmanager
async def channels(
    doors: dict[str, StreamBackend], opens: int = OPENS, bounds: StreamLimits | None = None
) -> AsyncIterator[tuple[Channel, Channel]]:
    """The channel of the one that dialled, and of the one that listens."""
    near = Channel("peer milan", dialler=True, opens=opens)
    far = Channel("peer rome", dialler=False, doors=doors, opens=opens, bounds=bounds, source="r")
    async with trio.open_nursery() as nursery:
        for source, sink in ((near, far), (far, near)):
            send, receive = trio.open_memory_channel[bytes](1)

            async def pump(
                sink: Channel = sink, receive: trio.MemoryReceiveChannel[bytes] = receive
            ) -> None:
                async for message in receive:
                    sink.receive(message)

            nursery.start_soon(pump)
            nursery.start_soon(source.run, send.send)
        yield near, far
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def echoing(
    opens: int = OPENS, bounds: StreamLimits | None = None
) -> AsyncIterator[tuple[Channel, Channel, Echo]]:
    """Channels with an echo behind the door."""
    echo = Echo()
    async with trio.open_nursery() as nursery:
        echo.nursery = nursery
        async with channels({"api": echo}, opens, bounds) as (near, far):
            yield near, far, echo
        nursery.cancel_scope.cancel()


async def everything(wire: Wire) -> bytes:
    """All that comes until the end."""
    found = b""
    while data := await wire.receive():
        found += data
    return found


async def test_a_stream_is_a_wire_with_half_close() -> None:
    async with echoing() as (near, far, _):
        stream = await near.open("api")
        data = bytes(range(256)) * 2048
        async with trio.open_nursery() as nursery:

            async def say() -> None:
                await stream.send(data)
                await stream.finish()

            nursery.start_soon(say)
            assert await everything(stream) == data
        assert stream.stale()
        with pytest.raises(Unreachable, match="finished on this side"):
            await stream.send(b"more")
        stream.close()
        await trio.testing.wait_all_tasks_blocked()
        assert near.open_streams == far.open_streams == 0
        assert near.bytes_out > len(data)


async def test_only_what_has_a_door_is_reached_and_a_door_that_fails_says_little() -> None:
    async def nothing() -> Wire:
        raise Unreachable("10.0.0.1:6443: connection refused")

    async with channels({"api": nothing}) as (near, _):
        with pytest.raises(Unconnected, match="peer milan: nothing of that name"):
            await near.open("10.0.0.1:22")
        with pytest.raises(Unconnected, match="peer milan: there is no answer") as told:
            await near.open("api")
        assert "10.0.0.1" not in str(told.value)
        assert near.open_streams == 0


async def test_one_stream_that_nobody_reads_holds_up_no_other() -> None:
    async with echoing() as (near, _, _echo):
        stuck = await near.open("api")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stuck.send, bytes(8 * WINDOW))  # its echo is never read
            await trio.testing.wait_all_tasks_blocked()
            other = await near.open("api")
            await other.send(b"quick")
            assert await other.receive() == b"quick"
            nursery.cancel_scope.cancel()


async def test_the_end_of_the_channel_ends_every_stream_and_names_the_peer() -> None:
    async with echoing() as (near, _, _echo):
        streams = [await near.open("api") for _ in range(3)]
        told: list[str] = []

        async def wait(stream: ChannelStream) -> None:
            with pytest.raises(Unreachable) as error:
                await stream.receive()
            told.append(str(error.value))

        async with trio.open_nursery() as nursery:
            for each in streams:
                nursery.start_soon(wait, each)
            await trio.testing.wait_all_tasks_blocked()
            near.end("nothing came for 60 s")
        assert told == ["peer milan: nothing came for 60 s"] * 3
        assert streams[0].stale()
        with pytest.raises(Unconnected, match="peer milan: nothing came"):
            await near.open("api")


async def test_who_breaks_off_is_told_to_the_door() -> None:
    async with echoing() as (near, far, echo):
        stream = await near.open("api")
        await stream.send(b"x")
        stream.close()
        with pytest.raises(Unreachable, match="closed on this side"):
            await stream.receive()
        await trio.testing.wait_all_tasks_blocked()
        assert echo.came == 1
        assert far.open_streams == 0


async def test_what_cannot_be_sent_any_more_ends_the_channel() -> None:
    async def broken(message: bytes) -> None:
        raise Unreachable("connection broken")

    channel = Channel("peer milan", dialler=True)
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(Unreachable, match="connection broken"):
                await channel.run(broken)

        nursery.start_soon(run)
        with pytest.raises(Unconnected, match="peer milan: connection broken"):
            await channel.open("api")


async def test_a_send_that_is_cancelled_breaks_its_stream_alone() -> None:
    async with echoing() as (near, _, echo):
        echo.deaf = True
        stream = await near.open("api")
        await trio.testing.wait_all_tasks_blocked()
        echo.deaf = False
        other = await near.open("api")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send, bytes(16 * WINDOW))
            await trio.testing.wait_all_tasks_blocked()  # a part has gone
            nursery.cancel_scope.cancel()
        with pytest.raises(Unreachable):
            await stream.send(b"behind a part")
        await other.send(b"still")
        assert await other.receive() == b"still"


async def test_an_idle_stream_that_says_something_unasked_is_stale() -> None:
    async with echoing() as (near, _, _echo):
        stream = await near.open("api")
        assert not stream.stale()
        await stream.send(b"x")
        await trio.testing.wait_all_tasks_blocked()
        assert stream.stale()


async def test_a_flood_of_opens_is_cut_off_and_a_crowd_of_our_own_waits(
    autojump_clock: trio.testing.MockClock,
) -> None:
    far = Channel("peer rome", dialler=False, doors={"api": Echo()})

    def flood() -> None:
        for number in range(1, 4 * STREAMS, 2):
            far.receive(bytes([FrameKind.OPEN]) + number.to_bytes(4, "big") + b"api")
            far.receive(bytes([FrameKind.RESET]) + number.to_bytes(4, "big"))

    with pytest.raises(ProtocolError, match="without end"):
        flood()
    began = trio.current_time()
    async with echoing(opens=4) as (near, _, echo):
        for _ in range(4 + 20):
            (await near.open("api")).close()
        assert echo.came == 4 + 20
        assert trio.current_time() - began > 0.3


async def test_a_stream_that_says_nothing_ends(autojump_clock: trio.testing.MockClock) -> None:
    places = ConnectionLimiter(4)
    async with echoing(bounds=StreamLimits(places, idle=3600.0)) as (near, _, _):
        silent, thinks = await near.open("api"), await near.open("api")
        for _ in range(5):
            await trio.sleep(3000.0)
            await thinks.send(b"?")
            assert await thinks.receive() == b"?"
        with pytest.raises(Unreachable):
            await silent.receive()
        assert len(places) == 1


async def test_a_peer_has_so_many_streams_over_all_its_channels() -> None:
    bounds = StreamLimits(ConnectionLimiter(4, of_one=2))
    async with echoing(bounds=bounds) as (first, _, _), echoing(bounds=bounds) as (second, _, _):
        held = await first.open("api")
        await second.open("api")
        for each in (first, second):
            with pytest.raises(Unconnected, match=FULL):
                await each.open("api")
        held.close()
        await trio.testing.wait_all_tasks_blocked()
        await second.open("api")


async def test_keep_alive_is_asked_of_what_is_below() -> None:
    asked: list[KeepAlive] = []
    channel = Channel("x", dialler=True, keep_alive=asked.append)
    ChannelStream(channel, channel.mux.open("api")).keep_alive(KeepAlive(idle=3))
    assert asked == [KeepAlive(idle=3)]


async def test_what_comes_before_the_channel_runs_is_served_then() -> None:
    echo = Echo()
    far = Channel("peer rome", dialler=False, doors={"api": echo})
    far.receive(bytes([FrameKind.OPEN]) + (1).to_bytes(4, "big") + b"api")
    said: list[bytes] = []

    async def send(message: bytes) -> None:
        said.append(message)

    async with trio.open_nursery() as nursery:
        echo.nursery = nursery
        nursery.start_soon(far.run, send)
        await trio.testing.wait_all_tasks_blocked()
        assert said == [bytes([FrameKind.OPENED, 0, 0, 0, 1])]
        nursery.cancel_scope.cancel()
