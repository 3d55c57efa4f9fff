"""One port for the daemon and for tunnels: whichever listens, each gets its own calls."""

import os
import socket
import ssl
import tempfile
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from liqod.handshake.transport.peerlistener import PeerListener
from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import Pinned, pinned
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.runtime import account
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, HANDED, SharedPort, read_reports
from liqod.tunnel.__main__ import Process, listening
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.tunnelsession import TunnelSession
from liqod.tunnel.tunneltls import context
from liqod.tunnel.wanted import Wanted
from simulator.trial import eventually
from tests.unit.handshake.listeners import EXPECTED, MILAN, FakeHost, dialler, greeter
from tests.unit.plugins.network.machines import Here

NOBODY = "0123456789abcdef" * 2


def hello(name: str) -> bytes:
    """The ClientHello of a client that calls a name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    said = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def answer(port: int, name: str) -> str:
    """The server that takes a connection to a name; empty where it is closed."""
    with trio.fail_after(20):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(hello(name))
            try:
                return bytes(await stream.receive_some()).decode()
            except trio.BrokenResourceError:
                return ""


async def answers(port: int, name: str, whose: str) -> None:
    """Wait until it is theirs who take it: who is slow to call a name is hung up on."""
    with trio.fail_after(60):
        while True:
            with suppress(OSError, trio.TooSlowError):
                if await answer(port, name) == whose:
                    return
            await trio.sleep(0.01)


async def take(whose: str, came: trio.socket.SocketType) -> None:
    """Say whose it is."""
    with came:
        await came.recv(1 << 16)
        await came.send(whose.encode())


def free_port() -> int:
    """One that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        yield Path(made)


class Served:
    """A server of a tunnel in a process that is this one.

    Attributes:
        wanted: the request for it.
        client: its peer's certificates.
        process: its part in the process.
    """

    def __init__(self, folder: Path, port: int, name: str = "liqod0", mark: int = 0) -> None:
        ours, theirs = tunnelkeys.generate(), tunnelkeys.generate()
        pins = pinned("server", ours.private, ours.public, theirs.public)
        self.client: Pinned = pinned("client", theirs.private, theirs.public, ours.public)
        self.wanted = Wanted("server", pins.name, pins.identity, pins.peer, port, mark=mark)
        services = TunnelServices(cluster_id="rome", host=Here(), folder=str(folder))
        self.process = TunnelProcess(services, Place(interface=name, namespace=""), name)

    async def be(self, **changed: object) -> None:
        """Have it be as wanted."""
        found = await self.process.be(msgspec.structs.replace(self.wanted, **changed), _device)
        assert not found.error

    async def reached(self) -> None:
        """Have its peer open a session with it."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.wanted.port)
        how = context("client", self.client.identity, self.client.peer)
        named = f"{self.client.name}.milan.example"
        session = TunnelSession("client", how, named, stream, stream.socket, "x")
        with trio.fail_after(10):
            await session.open()
        session.discard()


async def _device() -> int:
    here, there = socket.socketpair(type=socket.SOCK_DGRAM)
    here.setblocking(False)
    there.detach()  # as long as the process
    return here.detach()


@asynccontextmanager
async def tunnels(folder: Path) -> AsyncIterator[None]:
    """The process of the tunnels, in this one, with all rights."""
    with listening(folder / "tunnels.socket") as control:
        process = Process(control, 0, account.derived(account.TUNNEL_SHARES))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.run)
            yield
            nursery.cancel_scope.cancel()


async def test_the_daemon_gives_the_port_to_tunnels_and_has_it_again_after_them(
    folder: Path,
) -> None:
    port = free_port()
    shared = SharedPort(port, folder, partial(take, "daemon"), ConnectionLimiter(8))
    served = Served(folder, port)
    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run)
        await answers(port, f"{DAEMON}.milan.example", "daemon")
        assert await answer(port, f"{served.client.name}.milan.example") == ""
        async with tunnels(folder):
            await served.be()
            await served.reached()
            await answers(port, f"{DAEMON}.milan.example", "daemon")
            assert await answer(port, "www.example.org") == ""
            assert await answer(port, f"{NOBODY}.milan.example") == ""
            # A standby serves nobody, and the daemon has the port.
            await served.be(quiet=True)
            await answers(port, f"{DAEMON}.milan.example", "daemon")
            assert await answer(port, f"{served.client.name}.milan.example") == ""
            await served.be()
            await served.reached()
        await answers(port, f"{DAEMON}.milan.example", "daemon")
        nursery.cancel_scope.cancel()


async def test_no_connection_is_refused_while_the_port_changes_hands(folder: Path) -> None:
    port = free_port()
    shared = SharedPort(port, folder, partial(take, "daemon"), ConnectionLimiter(64))
    served = Served(folder, port)
    refused, over = 0, False

    async def call() -> None:
        nonlocal refused
        while not over:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            except OSError:
                refused += 1
            await trio.sleep(0.001)

    async with tunnels(folder), trio.open_nursery() as nursery:
        await nursery.start(shared.run)
        async with trio.open_nursery() as calling:
            calling.start_soon(call)
            await trio.sleep(0.05)
            await served.be()
            await trio.sleep(0.05)
            over = True
        assert refused == 0
        nursery.cancel_scope.cancel()


async def test_daemons_meet_at_a_port_that_tunnels_have(folder: Path) -> None:
    port = free_port()
    listener = PeerListener(MILAN, FakeHost(), {"api": greeter})
    served = Served(folder, port)
    async with tunnels(folder), trio.open_nursery() as nursery:
        await served.be()
        await nursery.start(listener.share, port, folder)
        async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED) as met:
            await met.attach()
            assert await (await met.dial("", 0)).receive() == b"hello"
        await served.reached()
        nursery.cancel_scope.cancel()


async def test_what_is_handed_over_as_a_call_and_is_none_is_closed(folder: Path) -> None:
    """By a process of the tunnels that somebody has taken over."""
    port, taken, over = free_port(), list[int](), trio.Event()

    async def note(came: trio.socket.SocketType) -> None:
        with came:
            taken.append(came.type)
        over.set()

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(1 << 10)
        await stream.send_all(HANDED)
        one, other = socket.socketpair()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        pipe = os.pipe()
        with one, other, datagrams, socket.socket() as connection:
            for each in (one.fileno(), datagrams.fileno(), *pipe, connection.fileno()):
                beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [each]))]
                await stream.socket.sendmsg([HANDED], beside)
            close_all(pipe)
            await trio.testing.wait_all_tasks_blocked(0.01)
        # Whoever has the port keeps it from the daemon.
        await trio.sleep_forever()

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with listening(folder / "tunnels.socket") as made, socket.create_server(("", port)):
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, [listener])
            await nursery.start(SharedPort(port, folder, note, ConnectionLimiter(8)).run)
            before = files()
            with trio.fail_after(10):
                await over.wait()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert taken == [socket.SOCK_STREAM]
            assert files() <= before
            nursery.cancel_scope.cancel()


async def test_a_crowd_at_the_shared_port_keeps_out_nobody_from_elsewhere(folder: Path) -> None:
    """Connections that call no name, from one address, more of them than there are places."""
    port, places = free_port(), ConnectionLimiter(16)
    shared = SharedPort(port, folder, partial(take, "daemon"), places)
    async with trio.open_nursery() as nursery:
        await nursery.start(shared.run)
        with ExitStack() as stack:

            def crowd(many: int) -> None:
                for _ in range(many):
                    made = stack.enter_context(socket.socket())
                    made.bind(("127.9.9.9", 0))
                    made.setblocking(False)
                    made.connect_ex(("127.0.0.1", port))

            async with await trio.open_tcp_stream("127.0.0.1", port) as slow:
                # A flood comes between what it says first and the rest.
                said = hello(f"{DAEMON}.milan.example")
                await slow.send_all(said[:9])
                for _ in range(10):
                    crowd(20)
                    await trio.testing.wait_all_tasks_blocked(0.001)
                assert len(places) == places.most
                await slow.send_all(said[9:])
                with trio.fail_after(20):
                    assert bytes(await slow.receive_some()) == b"daemon"
        nursery.cancel_scope.cancel()


async def test_the_daemon_shows_who_is_refused_where_the_tunnels_have_the_port(
    folder: Path,
) -> None:
    port, places = free_port(), ConnectionLimiter(16)
    shared = SharedPort(port, folder, partial(take, "daemon"), places)
    served = Served(folder, port)
    async with tunnels(folder), trio.open_nursery() as nursery:
        await nursery.start(shared.run)
        await served.be()
        await answers(port, f"{DAEMON}.milan.example", "daemon")
        of_one = account.derived(account.TUNNEL_SHARES)[account.SHARED].of_one
        with ExitStack() as stack:
            for _ in range(of_one + 5):
                made = stack.enter_context(socket.socket())
                made.setblocking(False)
                made.connect_ex(("127.0.0.1", port))

            async def refused() -> bool:
                return places.refused["loopback", "source"] >= 5

            await eventually(refused, seconds=10)
            assert places.elsewhere.taken == of_one
            assert len(places) == 0
            shown = dict(places.refused)
            await trio.sleep(1.2)
            assert places.refused == shown, "nothing is counted twice"
        nursery.cancel_scope.cancel()
    assert places.elsewhere.taken == 0


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b'{"taken": -1}\n',
        b'{"refused": [["somewhere", "full", 1]]}\n',
        b'{"refused": [["public", "a whim", 1]]}\n',
        b"x" * 9000,
    ],
)
def test_nonsense_of_the_process_of_the_tunnels_is_counted_nowhere(line: bytes) -> None:
    places = ConnectionLimiter(16)
    with pytest.raises(ValueError, match=r"JSON|Expected|Invalid|no end"):
        read_reports(places, line)
    assert not places.refused
