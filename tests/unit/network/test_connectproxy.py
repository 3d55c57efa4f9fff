"""The proxy by which peers that run Liqo reach the API server: there, and nowhere else."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import pytest
import trio

from liqod.kube.http import proxies
from liqod.kube.http.wire import SocketWire, Wire
from liqod.model.network.apiaddress import place_of
from liqod.network.connectproxy import ConnectProxy, ProxyTimings, VethListeners
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.tunnel.leading import WANTED, lead
from liqod.tunnel.wanted import TunnelRequest
from tests.unit.network.attending import Process

R = TypeVar("R")

SERVER = "https://milan.example:6443"
OPEN = b"CONNECT milan.example:6443 HTTP/1.1\r\nHost: milan.example:6443\r\n\r\n"


PATIENT = ProxyTimings(idle=900.0)


class Leading(Process):
    """The tunnels' process, which leads callers."""

    async def work(self, far: trio.SocketStream, request: TunnelRequest, files: list[int]) -> None:
        assert request.lead is not None
        async with far:
            await lead(request.lead, socket.socket(fileno=files[0]), far)


class Milan:
    """An API server that says everything twice, and its proxy."""

    def __init__(self, timings: ProxyTimings = PATIENT) -> None:
        self.refuses = False
        self.connections = 0
        self.servers: list[SocketWire] = []
        self.wires: list[SocketWire] = []
        self.proxy = self.proxy_of(timings)

    def proxy_of(
        self,
        timings: ProxyTimings,
        places: ConnectionLimiter | None = None,
        listeners: VethListeners | None = None,
    ) -> ConnectProxy:
        places = ConnectionLimiter(4) if places is None else places
        known = (SERVER, self.dial, Leading(), Here("milan"))
        return ConnectProxy(*known, places, timings, listeners)

    def pair(self) -> tuple[SocketWire, trio.SocketStream]:
        one, other = socket.socketpair()
        self.wires.append(SocketWire(one))
        return self.wires[-1], trio.SocketStream(trio.socket.from_stdlib_socket(other))

    async def dial(self) -> trio.SocketStream:
        if self.refuses:
            raise ConnectionRefusedError("nobody is there")
        self.connections += 1
        one, other = self.pair()
        self.servers.append(one)
        return other

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[SocketWire]:
        """A connection of a peer's, which the proxy serves."""
        ours, theirs = self.pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.proxy.lead, theirs)
            yield ours
            nursery.cancel_scope.cancel()

    async def answer(self, *pieces: bytes) -> bytes:
        """All that the proxy says to a request."""
        async with self.asked() as wire:
            for piece in pieces:
                await wire.send(piece)
            return await rest(wire)


class Here(KernelDatapath):
    """The kernel of a node in whose namespace the test itself is."""

    async def within(self, namespace: str, function: Callable[[], R], /) -> R:
        return function()


async def rest(wire: SocketWire) -> bytes:
    said = b""
    while data := await wire.receive():
        said += data
    return said


@pytest.fixture
async def milan() -> AsyncIterator[Milan]:
    made = Milan()
    yield made
    for each in made.wires:
        each.close()


async def test_the_api_server_is_led_to_and_bytes_go_both_ways(milan: Milan) -> None:
    async with milan.asked() as wire:

        async def dial(host: str, port: int) -> Wire:
            assert (host, port) == ("10.72.0.1", 8118)
            return wire

        way = proxies.through(dial, "http://10.72.0.1:8118")
        led = await way("milan.example", 6443)
        [server] = milan.servers
        large = bytes(range(256)) * 8192
        async with trio.open_nursery() as nursery:
            nursery.start_soon(led.send, large)
            got = b""
            while len(got) < len(large):
                got += await server.receive()
            assert got == large
        await server.send(b"an answer")
        assert await led.receive() == b"an answer"
        # Each side may end what it says, and hear the rest of the other's.
        await led.finish()
        assert await server.receive() == b""
        await server.send(b"and the last of it")
        server.close()
        assert await rest(wire) == b"and the last of it"


async def test_what_comes_behind_the_request_is_not_lost(milan: Milan) -> None:
    async with milan.asked() as wire:
        await wire.send(OPEN + b"hello")
        assert b" 200 " in await wire.receive()
        assert await milan.servers[0].receive() == b"hello"


@pytest.mark.parametrize(
    "target",
    [
        "milan.example:22",
        "milan.example",
        "milan.example:6443@evil.example:6443",
        "user@milan.example:6443",
        "evil.example:6443",
        "127.0.0.1:6443",
        "169.254.169.254:80",
        "10.96.0.1:443",
        "[::1]:6443",
        "milan.example:6443/x",
        "milan.example:6443?x",
        "milan.example:99999",
        "milan.example:-1",
        "*",
        "[",
    ],
)
async def test_it_is_no_open_relay(milan: Milan, target: str) -> None:
    answer = await milan.answer(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert milan.connections == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET http://milan.example:6443/ HTTP/1.1\r\n\r\n", 405),
        (b"GET / HTTP/1.1\r\nHost: milan.example:6443\r\n\r\n", 405),
        (b"connect milan.example:6443 HTTP/1.1\r\n\r\n", 405),
        (b"CONNECT milan.example:6443\r\n\r\n", 400),
        (b"CONNECT milan.example:6443 SPDY/3\r\n\r\n", 400),
        (b"CONNECT  milan.example:6443 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT m\xffilan.example:6443 HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"CONNECT milan.example:6443 HTTP/1.1\r\nA: " + b"a" * 9000 + b"\r\n\r\n", 400),
        (b"A" * 20000, 400),
    ],
    ids=range(10),
)
async def test_nonsense_is_refused(milan: Milan, request_: bytes, status: int) -> None:
    answer = await milan.answer(request_)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert milan.connections == 0


async def test_a_request_in_crumbs_is_one(milan: Milan) -> None:
    async with milan.asked() as wire:
        for at in range(len(OPEN)):
            await wire.send(OPEN[at : at + 1])
        assert b" 200 " in await wire.receive()


async def test_a_request_that_does_not_come_is_not_waited_for(milan: Milan) -> None:
    soon = ProxyTimings(idle=900.0, head_within=0.05)
    milan.proxy = milan.proxy_of(soon)
    assert (await milan.answer(OPEN[:-2])).startswith(b"HTTP/1.1 408 ")
    assert milan.connections == 0


async def test_an_api_server_that_is_not_there_is_said_to_be_so(milan: Milan) -> None:
    milan.refuses = True
    assert (await milan.answer(OPEN)).startswith(b"HTTP/1.1 502 ")


async def test_a_connection_that_says_nothing_ends(milan: Milan) -> None:
    milan.proxy = milan.proxy_of(ProxyTimings(idle=0.1))
    with trio.fail_after(2):
        answer = await milan.answer(OPEN)
    assert b" 200 " in answer
    assert await rest(milan.servers[0]) == b""


async def test_one_that_breaks_off_takes_its_other_half_along(milan: Milan) -> None:
    async with milan.asked() as wire:
        await wire.send(OPEN)
        await wire.receive()
        wire.close()
        with trio.fail_after(2):
            assert await rest(milan.servers[0]) == b""


async def test_one_peer_has_so_many_connections_and_others_theirs(
    milan: Milan,
) -> None:
    sockets: dict[str, socket.socket] = {}
    callers: list[trio.SocketStream] = []

    class Listeners(VethListeners):
        def listen(self, veth: str) -> tuple[socket.socket, int]:
            made = sockets[veth] = socket.create_server(("127.0.0.1", 0))
            made.setblocking(False)
            return made, self.index(veth)

        def index(self, veth: str) -> int:
            return 1

    places, soon = ConnectionLimiter(9, of_one=3), ProxyTimings(idle=900.0, half_idle=0.05)
    milan.proxy = milan.proxy_of(soon, places, Listeners())
    names = [PeerNames("milan", peer) for peer in ("rome", "turin")]

    async def opened(peer: PeerNames) -> trio.SocketStream:
        port = sockets[peer.veth].getsockname()[1]
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(OPEN)
        callers.append(stream)
        return stream

    async with trio.open_nursery() as nursery:
        for each in names:
            nursery.start_soon(milan.proxy.run, each, trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked(0.01)
        held = [await opened(names[0]) for _ in range(3)]
        for stream in held:
            assert b" 200 " in await stream.receive_some()
        refused = await opened(names[0])
        with suppress(trio.BrokenResourceError):
            assert await refused.receive_some() == b""
        assert b" 200 " in await (await opened(names[1])).receive_some()
        # One that ends makes room.
        await held.pop().aclose()
        with trio.fail_after(2):
            while True:
                stream = await opened(names[0])
                try:
                    if b" 200 " in await stream.receive_some():
                        break
                except trio.BrokenResourceError:
                    await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    for stream in callers:
        await stream.aclose()


async def test_a_listener_is_made_anew_when_the_interface_is_another(
    milan: Milan,
) -> None:
    index, made = [1], list[socket.socket]()

    class Listeners(VethListeners):
        def listen(self, veth: str) -> tuple[socket.socket, int]:
            if len(made) == 1:
                made.append(made[0])
                raise OSError(19, "No such device")
            made.append(socket.create_server(("127.0.0.1", 0)))
            made[-1].setblocking(False)
            return made[-1], index[0]

        def index(self, veth: str) -> int:
            return index[0]

    places, soon = ConnectionLimiter(4), ProxyTimings(idle=900.0, retry=0.01)
    milan.proxy = milan.proxy_of(soon, places, Listeners())
    heal = trio.Event()

    async def healed() -> None:
        await heal.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(milan.proxy.run, PeerNames("milan", "rome"), healed)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(made) == 1
        index[0] = 2
        heal.set()
        heal = trio.Event()
        with trio.fail_after(2):
            while len(made) < 3:  # noqa: ASYNC110 - nobody tells
                await trio.sleep(0.01)
        assert made[0].fileno() == -1
        nursery.cancel_scope.cancel()


async def test_whoever_takes_the_process_over_gets_one_connection_for_a_caller() -> None:
    async def greedy(far: trio.SocketStream) -> None:
        """Wants the API server again and again."""
        await far.send_all(WANTED * 9)
        await trio.sleep_forever()

    milan, process = Milan(), Process(greedy)
    known = (SERVER, milan.dial, process, Here("milan"), ConnectionLimiter(4), PATIENT)
    _, theirs = milan.pair()
    with trio.fail_after(2):
        await ConnectProxy(*known).lead(theirs)
    assert milan.connections == 1
    for each in milan.wires:
        each.close()


def test_the_place_is_what_peers_are_told() -> None:
    assert place_of("https://milan.example") == ("milan.example", 443)
    assert place_of("https://[fd00::1]:6443/x") == ("fd00::1", 6443)
