"""Hostile and broken clients: each costs itself its connection, and nobody else anything."""

import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from trio_websocket import ConnectionClosed
from trio_websocket import wrap_client_stream as greet

from liqod.inspect import inspectorserver, protocol
from liqod.inspect.protocol import GetTasks, RequestDone, RequestRefused, Subscribe
from liqod.inspect.timings import InspectorTimings
from liqod.runtime.account import PARTS, Account
from tests.unit.inspect.serving import GREETING, PATH, eventually, responds, serving
from tests.unit.lingering import LINGERS, hand, lingering
from tests.unit.model.states import peer, state


async def closed(stream: trio.SocketStream, seconds: float = 3.0) -> bytes:
    """The bytes that came until the server closed, which it must do in time."""
    said = b""
    with trio.fail_after(seconds):
        try:
            while data := await stream.receive_some(65536):
                said += data
        except trio.BrokenResourceError:
            pass
    return said


async def shake(stream: trio.SocketStream) -> None:
    """The client's part of the handshake."""
    await stream.send_all(GREETING)
    said = b""
    while b"\r\n\r\n" not in said:
        said += await stream.receive_some(4096)


def frame(payload: bytes, opcode: int = 1, size: int | None = None) -> bytes:
    """A masked frame that claims to be ``size`` bytes long."""
    length = len(payload) if size is None else size
    if length < 126:
        head = bytes((0x80 | opcode, 0x80 | length))
    elif length < 65536:
        head = bytes((0x80 | opcode, 0x80 | 126)) + length.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + length.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /v1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        b"\0" * 100_000,
        b"GET /v1 HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 50_000,
        b"\r\n" * 1000 + b"\xff" * 1000,
    ],
    ids=["tls", "plain", "post", "zeros", "headers", "noise"],
)
async def test_garbage_instead_of_a_handshake(tmp_path: Path, said: bytes):
    async with serving(tmp_path, timings=InspectorTimings(greeting=0.5)) as served:
        stream = await served.raw()
        with trio.move_on_after(2):
            with suppress(trio.BrokenResourceError):
                await stream.send_all(said)
        await closed(stream)
        await responds(served)


async def test_another_path_is_refused(tmp_path: Path):
    async with serving(tmp_path) as served:
        stream = await served.raw()
        await stream.send_all(GREETING.replace(b"/v1", b"/v2"))
        assert (await closed(stream)).startswith(b"HTTP/1.1 404 ")


async def test_a_slow_handshake_is_cut_off_and_holds_up_nobody(tmp_path: Path):
    async with serving(tmp_path, timings=InspectorTimings(greeting=2.0)) as served:
        streams = [await served.raw() for _ in range(20)]
        for stream in streams:
            await stream.send_all(GREETING[:-10])
        await responds(served)
        for stream in streams:
            await closed(stream)


async def test_a_thousand_connections(tmp_path: Path):
    async with (
        serving(tmp_path, timings=InspectorTimings(greeting=2.0)) as served,
        served.look() as early,
    ):
        await early.snapshot()
        with trio.fail_after(20):
            taken = [await served.raw() for _ in range(1000)]
        served.publish(state(peer(), peer("oslo")))
        with trio.fail_after(2):
            await early.receive()  # who was there before goes on
        for stream in taken:
            await stream.aclose()
        await eventually(lambda: True)
        await responds(served)


async def test_more_clients_than_there_is_room_for(tmp_path: Path):
    three = Account(files=3 * 2 * PARTS)
    async with serving(tmp_path, three) as served, trio.open_nursery() as nursery:
        codes = []
        for _ in range(5):
            client = await greet(nursery, await served.raw(), "x", PATH)
            try:
                await client.get_message()
            except ConnectionClosed as error:
                codes.append(error.reason.code if error.reason else 0)
        assert codes == [protocol.FULL] * 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"x" * 200_000),
        frame(b"x" * 1000, size=1 << 40),
        frame(b"\xff\xfe", 1),
        frame(b"", 7),
        b"\x81\x05hello",
    ],
    ids=["huge", "claims a terabyte", "no text", "unknown opcode", "not masked"],
)
async def test_broken_frames(tmp_path: Path, sent: bytes):
    async with serving(tmp_path) as served:
        stream = await served.raw()
        await shake(stream)
        with trio.move_on_after(2):
            with suppress(trio.BrokenResourceError):
                await stream.send_all(sent)
        if sent[:10] == frame(b"", size=1 << 40)[:10]:
            for _ in range(100):  # it is not believed, and not waited for with memory
                try:
                    await stream.send_all(b"x" * 4096)
                except trio.BrokenResourceError:
                    break
        await closed(stream)
        await responds(served)


async def test_messages_that_cannot_be_read_are_refused_one_by_one(tmp_path: Path):
    async with serving(tmp_path) as served, trio.open_nursery() as nursery:
        client = await greet(nursery, await served.raw(), "x", PATH)
        await client.get_message()
        for text in ("", "[]", "[" * 50_000, '{"type":"dance"}', '{"type":"tasks"}', "\0"):
            await client.send_message(text)
            message = protocol.read_server(await client.get_message())
            assert isinstance(message, RequestRefused)
            assert message.id == -1
        await client.send_message(b'{"type":"tasks","id":1}')
        assert isinstance(protocol.read_server(await client.get_message()), RequestDone)
        nursery.cancel_scope.cancel()


async def test_too_many_messages_close_the_connection(tmp_path: Path):
    async with serving(tmp_path) as served, trio.open_nursery() as nursery:
        client = await greet(nursery, await served.raw(), "x", PATH, message_queue_size=1000)

        async def flood() -> None:
            for number in range(10_000):
                await client.send_message(protocol.encode(GetTasks(id=number)).decode())

        with trio.fail_after(5), pytest.raises(ConnectionClosed) as caught:
            await flood()
        assert caught.value.reason is not None
        assert caught.value.reason.code == protocol.ABUSE
        await responds(served)
        nursery.cancel_scope.cancel()


async def test_a_flood_of_pings_is_not_read_faster_than_allowed(tmp_path: Path):
    async with serving(tmp_path) as served:
        stream = await served.raw()
        await shake(stream)
        flood, sent = frame(b"", 9) * 1000, 0
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        with trio.move_on_after(1.5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(closed, stream, 10)
                while True:
                    await stream.send_all(flood)
                    sent += len(flood)
        assert sent < 2 * inspectorserver.READ_BURST
        await responds(served)


async def test_one_that_never_reads_is_cut_off_and_the_others_follow(tmp_path: Path):
    async with (
        serving(tmp_path, timings=InspectorTimings(write=0.5)) as served,
        served.look() as keen,
    ):
        stream = await served.raw()
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await shake(stream)
        await stream.send_all(frame(protocol.encode(Subscribe())))
        await keen.snapshot()
        await eventually(lambda: len(served.stream) == 2)
        received = 0
        with trio.fail_after(15):
            for number in range(2 * protocol.BEHIND):
                many = [peer(f"p{n}", pods_out=number) for n in range(100)]
                served.publish(state(*many))
                await keen.receive()
                received += 1
        assert received == 2 * protocol.BEHIND
        await eventually(lambda: len(served.stream) == 1, seconds=10)
        await stream.aclose()
        await responds(served, 5)


async def test_one_that_vanishes_leaves_nothing_behind(tmp_path: Path):
    async with serving(tmp_path) as served:
        for _ in range(10):
            stream = await served.raw()
            await shake(stream)
            await stream.send_all(frame(protocol.encode(Subscribe())))
            await eventually(lambda: len(served.stream) == 1)
            await stream.aclose()
            await eventually(lambda: len(served.stream) == 0)
        await responds(served)


@pytest.mark.parametrize("unread", [False, True])
async def test_descriptors_that_come_along_keep_no_viewer_waiting(
    tmp_path: Path, unread: bool
) -> None:
    async with serving(tmp_path) as served:
        with socket.socket(socket.AF_UNIX) as hostile, lingering() as connection:
            hostile.connect(str(served.path))
            if unread:
                # It ends with this one, and what is behind it is never received.
                hand(hostile, hostile.fileno())
            hand(hostile, connection.fileno())
            connection.close()
            began = time.monotonic()
            await responds(served, LINGERS)
            assert time.monotonic() - began < LINGERS / 2


async def test_a_connection_has_its_place_until_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspectorserver, "MOST_LOCAL", 1)
    async with serving(tmp_path) as served:
        with lingering() as connection:
            with socket.socket(socket.AF_UNIX) as hostile:
                hostile.connect(str(served.path))
                hand(hostile, hostile.fileno())
                hand(hostile, connection.fileno())
                connection.close()
            with pytest.raises(trio.TooSlowError):
                await responds(served, 1)
        await responds(served)
