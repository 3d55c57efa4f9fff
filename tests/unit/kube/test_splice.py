"""Two connections made into one: what is held, what each end's end means, and whose fault it is."""

import socket
import ssl
import sys
from collections.abc import Callable

import pytest
import trio
import trio.testing

from liqod.identity import certificates
from liqod.kube.http import tls
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.http.splice import splice
from liqod.kube.http.wire import SocketWire, StreamWire, TlsWire, Wire
from liqod.runtime.splice import PIECE, Broken, Silent

LARGE = 64 * PIECE


class Counted(StreamWire):
    """A wire that counts what was read of it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self.read = self.largest = 0

    async def receive(self) -> bytes:
        data = await super().receive()
        self.read += len(data)
        self.largest = max(self.largest, len(data))
        return data


class Recalled(SocketWire):
    """A wire that remembers what it has handed over."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.handed: list[bytes] = []

    @classmethod
    def pair(cls) -> tuple[trio.SocketStream, "Recalled"]:
        ours, theirs = socket.socketpair()
        return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), cls(theirs)

    async def receive(self) -> bytes:
        data = await super().receive()
        self.handed.append(data)
        return data


async def everything(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([bytes(data) async for data in stream])


async def test_each_side_ends_by_itself() -> None:
    near, a = trio.testing.memory_stream_pair()
    far, b = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(splice, StreamWire(a), StreamWire(b))
        await near.send_all(bytes(3 * PIECE))
        await near.send_eof()
        assert len(await everything(far)) == 3 * PIECE
        await far.send_all(b"still speaking")
        await far.send_eof()
        assert await everything(near) == b"still speaking"


@pytest.mark.parametrize("forth", [True, False])
async def test_who_does_not_read_is_waited_for(forth: bool) -> None:
    near, a = trio.testing.lockstep_stream_pair()
    far, b = trio.testing.lockstep_stream_pair()
    one, other = Counted(a), Counted(b)
    source, sink, counted = (near, far, one) if forth else (far, near, other)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(splice, one, other)
        nursery.start_soon(source.send_all, bytes(LARGE))
        await trio.testing.wait_all_tasks_blocked()
        assert counted.read == counted.largest
        taken = 0
        while taken < LARGE // 2:
            taken += len(await sink.receive_some(1000))
            await trio.testing.wait_all_tasks_blocked()
            assert counted.read <= taken + counted.largest
        nursery.cancel_scope.cancel()


async def test_no_piece_is_larger_than_is_said() -> None:
    near, a = socket.socketpair()
    far, b = socket.socketpair()
    one = SocketWire(a)
    sizes = []
    with near, far:
        near.setblocking(False)
        other = SocketWire(b)
        send = other.send

        async def sent(data: bytes) -> None:
            sizes.append(len(data))
            await send(data)

        other.send = sent  # type: ignore[method-assign]
        total = near.send(bytes(4 * PIECE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(splice, one, other)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        one.close()
        other.close()
    assert sum(sizes) == total > PIECE == max(sizes)


async def test_it_says_who_broke() -> None:
    for first in (True, False):
        _near, a = trio.testing.memory_stream_pair()
        _far, b = trio.testing.memory_stream_pair()
        await (a if first else b).aclose()
        with pytest.raises(Broken, match="connection broken") as caught:
            await splice(StreamWire(a), StreamWire(b))
        assert caught.value.first is first
    # One that is found out by writing to it.
    near, a = trio.testing.memory_stream_pair()
    far, b = trio.testing.memory_stream_pair()
    await far.receive_stream.aclose()
    await near.send_all(b"x")
    with pytest.raises(Broken) as caught:
        await splice(StreamWire(a), StreamWire(b))
    assert not caught.value.first


async def test_silence_has_an_end(autojump_clock: trio.testing.MockClock) -> None:
    near, a = trio.testing.memory_stream_pair()
    _far, b = trio.testing.memory_stream_pair()
    began = trio.current_time()

    async def speak() -> None:
        for _ in range(3):
            await trio.sleep(90)
            await near.send_all(b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak)
        with pytest.raises(Silent):
            await splice(StreamWire(a), StreamWire(b), idle=100, lingering=7)
    assert trio.current_time() - began == 370
    await near.send_eof()
    with pytest.raises(Silent):
        await splice(StreamWire(a), StreamWire(b), idle=100, lingering=7)
    assert trio.current_time() - began == 377


async def test_the_time_is_somebodys() -> None:
    spent = []

    class Bearing(CpuBudget):
        async def spend(self, used: float, *, backlog: bool = False) -> None:
            spent.append((used, backlog))

    near, a = trio.testing.memory_stream_pair()
    far, b = trio.testing.memory_stream_pair()
    await near.send_all(b"x")
    await near.send_eof()
    await far.send_eof()
    await splice(StreamWire(a), StreamWire(b), budget=Bearing())
    assert len(spent) >= 2
    assert all(used > 0 and backlog for used, backlog in spent)


async def test_nothing_is_held_of_what_has_passed() -> None:
    """The fewest references are the list's, the loop's and that of the call itself."""
    near, a = Recalled.pair()
    far, b = Recalled.pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(splice, a, b)
        for sending, taking in ((near, far), (far, near)):
            await sending.send_all(bytes(PIECE))
            got = 0
            while got < PIECE:
                got += len(await taking.receive_some())
        await trio.testing.wait_all_tasks_blocked()
        for wire in (a, b):
            assert wire.handed
            assert [sys.getrefcount(each) for each in wire.handed] == [3] * len(wire.handed)
        nursery.cancel_scope.cancel()
    for wire in (a, b):
        wire.close()
    await near.aclose()
    await far.aclose()


async def test_tls_holds_nothing_of_what_it_has_decrypted() -> None:
    near, far = await secured(Recalled)
    below = near.wire
    assert isinstance(below, Recalled)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(far.send, bytes(LARGE))
        got = 0
        while got < LARGE:
            got += len(await near.receive())
    assert len(below.handed) > 2
    assert [sys.getrefcount(each) for each in below.handed] == [3] * len(below.handed)
    for wire in (near, far):
        wire.close()


async def secured(below: Callable[[socket.socket], Wire] = SocketWire) -> tuple[TlsWire, TlsWire]:
    """Two that have greeted each other, the server first; the first goes over ``below``."""
    authority = certificates.make_ca("x")
    pair = certificates.make_server(authority, ["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_chain(server, pair.certificate, pair.key)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    ours, theirs = socket.socketpair()
    one = TlsWire(below(ours), server, None)
    other = TlsWire(SocketWire(theirs), client, "127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.handshake)
        nursery.start_soon(other.handshake)
    return one, other


async def test_tls_ends_one_way_and_goes_on_the_other() -> None:
    async def rest(wire: TlsWire) -> bytes:
        parts = []
        while data := await wire.receive():
            parts.append(data)
        return b"".join(parts)

    a, near = await secured()
    b, far = await secured()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(splice, a, b)
        nursery.start_soon(near.send, bytes(LARGE))
        got = 0
        while got < LARGE:
            got += len(await far.receive())
        await near.finish()
        with trio.fail_after(5):
            assert await far.receive() == b""
        nursery.start_soon(far.send, bytes(LARGE))
        got = 0
        while got < LARGE:
            got += len(await near.receive())
        await far.finish()
        assert await rest(near) == b""
    for wire in (near, a, b, far):
        wire.close()
