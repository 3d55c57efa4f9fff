"""One port for the daemon and for tunnels: whichever holds it, each gets its own calls."""

import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from liqod.handshake.transport.peerlistener import PeerListener
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, SharedPort
from tests.unit.handshake.listeners import EXPECTED, MILAN, FakeHost, dialler, greeter

TUNNEL = "0123456789abcdef" * 2


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


async def test_each_gets_what_calls_it_and_another_has_the_port_when_one_ends(
    folder: Path,
) -> None:
    port = free_port()
    async with trio.open_nursery() as nursery:
        scopes = []
        for name, holder in ((DAEMON, "daemon"), (TUNNEL, "liqod0")):
            shared = SharedPort(
                name, port, folder, holder, 0, partial(take, holder), ConnectionLimiter(8)
            )
            scope = trio.CancelScope()

            async def run(
                task_status: trio.TaskStatus[None],
                shared: SharedPort = shared,
                scope: trio.CancelScope = scope,
            ) -> None:
                with scope:
                    await shared.run(task_status)

            await nursery.start(run)
            scopes.append(scope)
        await answers(port, f"{DAEMON}.milan.example", "daemon")
        await answers(port, f"{TUNNEL}.milan.example", "liqod0")
        assert await answer(port, "www.example.org") == ""
        assert await answer(port, f"{TUNNEL[::-1]}.milan.example") == ""
        scopes[0].cancel()
        await answers(port, f"{TUNNEL}.milan.example", "liqod0")
        assert await answer(port, f"{DAEMON}.milan.example") == ""
        nursery.cancel_scope.cancel()


async def test_daemons_meet_at_a_port_that_a_tunnel_has(folder: Path) -> None:
    port = free_port()
    listener = PeerListener(MILAN, FakeHost(), {"api": greeter})
    async with trio.open_nursery() as nursery:
        tunnel = SharedPort(
            TUNNEL, port, folder, "liqod0", 0, partial(take, "tunnel"), ConnectionLimiter(8)
        )
        await nursery.start(tunnel.run)
        await nursery.start(listener.share, port, folder)
        async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED) as met:
            await met.attach()
            assert await (await met.dial("", 0)).receive() == b"hello"
        await answers(port, f"{TUNNEL}.milan.example", "tunnel")
        nursery.cancel_scope.cancel()


async def test_a_crowd_at_the_shared_port_keeps_out_nobody_from_elsewhere(folder: Path) -> None:
    """Connections that call no name, from one address, more of them than there are places."""
    port, places = free_port(), ConnectionLimiter(16)
    shared = SharedPort(TUNNEL, port, folder, "liqod0", 0, partial(take, "tunnel"), places)
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
                said = hello(f"{TUNNEL}.milan.example")
                await slow.send_all(said[:9])
                for _ in range(10):
                    crowd(20)
                    await trio.testing.wait_all_tasks_blocked(0.001)
                assert len(places) == places.most
                await slow.send_all(said[9:])
                with trio.fail_after(20):
                    assert bytes(await slow.receive_some()) == b"tunnel"
        nursery.cancel_scope.cancel()
