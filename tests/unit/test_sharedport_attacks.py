"""What strangers, a daemon, and a process of the tunnels may try at the port that they share."""

import os
import socket
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from liqod.kube.http.wire import READ_SIZE, wire_of
from liqod.model.network.clienthello import MOST
from liqod.network import machinesocketdial
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.greeting import CALLS
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, HANDED, UnixStream, read_reports
from liqod.tunnel import listening as tunnel_listening
from liqod.tunnel import wanted
from liqod.tunnel.__main__ import listening
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.wanted import TunnelReport
from simulator.waiting import eventually
from tests.testbed.processes import free_ports
from tests.unit.sharedports import (
    NOBODY,
    Served,
    answer,
    answers,
    daemon,
    few,
    hello,
    node,
    tunnels,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        yield Path(made)


LONG = 600.0
"""Seconds that no caller here is waited for: what is closed before is closed for what it says."""


async def closes(port: int, *said: bytes, between: float = 0.0) -> None:
    """Wait until a connection that says this is closed, to which nothing was said."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with trio.fail_after(60):
            try:
                for each in said:
                    await stream.send_all(each)
                    await trio.sleep(between)
                assert await stream.receive_some() == b""
            except trio.BrokenResourceError:
                pass  # what it has not read counts as a reset


async def test_a_hello_that_comes_slowly_is_left_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", 0.3)
    [port], said = free_ports(1), hello(f"{DAEMON}.milan.example")
    async with tunnels(folder), node(folder, port), daemon(folder):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(closes, port)
            nursery.start_soon(closes, port, said[:-1])
            # All of it: who is waited for from each byte on would be answered at the end.
            each = (said[at : at + 1] for at in range(len(said)))
            nursery.start_soon(partial(closes, between=0.01), port, *each)
        monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", LONG)
        assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


HELLO = hello(f"{DAEMON}.milan.example")
NAMELESS = hello(None)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(1 << 20),
        HELLO[:3] + (MOST + 1).to_bytes(2, "big") + HELLO[5:],
        # In many records, of which the first has no whole hello.
        b"".join(HELLO[:3] + b"\0\x2a" + HELLO[at : at + 42] for at in range(5, 200, 42)),
        NAMELESS,
        hello("www.example.org"),
        hello(f"{NOBODY}.milan.example"),
        hello(f"{DAEMON}x.milan.example"),
        hello(DAEMON),
    ],
    ids=[
        *("http", "megabyte", "too-large", "records", "nameless", "elsewhere", "nobody", "almost"),
        "bare",
    ],
)
async def test_what_is_no_hello_of_ours_is_closed_without_a_word(
    folder: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", LONG)
    [port] = free_ports(1)
    async with tunnels(folder), node(folder, port), daemon(folder):
        await closes(port, said)
        assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


async def test_a_crowd_at_the_shared_port_keeps_out_nobody_from_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that call no name, from one address, more of them than there are places."""
    monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", LONG)
    [port] = free_ports(1)
    async with tunnels(folder, few(16)), node(folder, port), daemon(folder):
        with ExitStack() as stack:
            async with await trio.open_tcp_stream("127.0.0.1", port) as slow:
                # A flood comes between what it says first and the rest.
                said = hello(f"{DAEMON}.milan.example")
                await slow.send_all(said[:9])
                for _ in range(10):
                    crowd(stack, port, 20)
                    await trio.testing.wait_all_tasks_blocked(0.001)
                await slow.send_all(said[9:])
                with trio.fail_after(60):
                    assert bytes(await slow.receive_some()) == b"daemon"


def crowd(stack: ExitStack, port: int, many: int) -> list[socket.socket]:
    """So many connections from an address of their own."""
    made = [stack.enter_context(socket.socket()) for _ in range(many)]
    for each in made:
        each.bind(("127.9.9.9", 0))
        each.setblocking(False)
        each.connect_ex(("127.0.0.1", port))
    return made


async def calling(stack: ExitStack, port: int, many: int) -> list[socket.socket]:
    """The same, which call the daemon."""
    made = crowd(stack, port, many)
    await trio.sleep(0.05)
    for each in made:
        with suppress(OSError):
            each.send(HELLO)
    return made


@pytest.mark.long
async def test_a_crowd_that_calls_a_frozen_daemon_is_bounded_and_tunnels_go_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", 0.5)
    [port], many = free_ports(1), 1500
    served = Served(folder, port)
    async with tunnels(folder), node(folder, port):
        frozen = await machinesocketdial.calls(folder)
        await served.be()
        with ExitStack() as stack:
            waiting: list[socket.socket] = []
            for _ in range(many // 50):
                waiting += await calling(stack, port, 50)
            # Those that the kernel holds, in the buffers of two sockets.
            await eventually(lambda: sum(not is_over(each) for each in waiting) < 800, seconds=60)
            monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", LONG)
            await served.reached()
        await frozen.aclose()
        async with daemon(folder):
            await answers(port, f"{DAEMON}.milan.example", "daemon")


def is_over(connection: socket.socket) -> bool:
    """True if the other end has closed it."""
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def test_a_daemon_that_says_something_is_handed_nothing_more(folder: Path) -> None:
    [port] = free_ports(1)
    async with tunnels(folder), node(folder, port):
        async with await machinesocketdial.calls(folder) as stream:
            await stream.send_all(b"x" * 100)
            with trio.fail_after(60), suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass
        async with daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


@pytest.fixture(params=["daemon", "node"])
def handed_by(request: pytest.FixtureRequest) -> str:
    """To whom the process of the tunnels hands what is no call."""
    return str(request.param)


async def test_what_is_handed_over_as_a_call_and_is_none_is_closed(
    folder: Path, handed_by: str
) -> None:
    """By a process of the tunnels that somebody has taken over."""
    [port], taken, over = free_ports(1), list[int](), trio.Event()
    dialling = list[int]()

    async def note(came: trio.socket.SocketType) -> None:
        with came:
            taken.append(came.getsockname()[1])
        if taken[-1] == port:
            over.set()

    async def hand(stream: UnixStream) -> None:
        await stream.send_all(HANDED)
        one, other = socket.socketpair()
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        pipe = os.pipe()
        with ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", port)))
            dialled = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            accepted = stack.enter_context(listener.accept()[0])
            made = (stack.enter_context(each) for each in (one, datagrams, listener, dialled))
            for each in (*(each.fileno() for each in made), *pipe, accepted.fileno()):
                beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [each]))]
                await stream.socket.sendmsg([HANDED], beside)
            close_all(pipe)
            other.close()
            dialling.append(dialled.getsockname()[1])
            await trio.testing.wait_all_tasks_blocked(0.01)
        await trio.sleep_forever()

    async def serve(stream: trio.SocketStream) -> None:
        request = wanted.decoded(bytes(await stream.receive_some(1 << 10)))
        if request.do == wanted.STATUS:
            await stream.send_all(wanted.encoded(TunnelReport(wanted.VERSION, ports=(port,))))
        else:
            await hand(stream)

    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    async with trio.open_nursery() as nursery:
        with listening(folder / "tunnels.socket") as made:
            control = trio.SocketListener(trio.socket.from_stdlib_socket(made))
            nursery.start_soon(trio.serve_listeners, serve, [control])
            others: AbstractAsyncContextManager[None] = node(folder, port)
            if handed_by == "daemon":
                own = DaemonAccount(os.geteuid(), os.getegid())
                at = MachineSocket(folder, own, {CALLS: hand})
                await nursery.start(at.run)
                others = nullcontext()
            async with others:
                before = files()
                async with daemon(folder, take=note):
                    with trio.fail_after(60):
                        await over.wait()
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    # What was dialled has a mark that may have to stay: that ends at the machine's
                    # side, and a daemon has no right to take one off.
                    known = [port] if handed_by == "node" else [*dialling, port]
                    assert taken == known
                    # Its own, and those that it is connected by.
                    assert files() <= before + 4
                nursery.cancel_scope.cancel()


@pytest.mark.parametrize("what", ["send", "receive"])
async def test_who_keeps_a_copy_of_a_call_cannot_freeze_the_daemon_by_it(what: str) -> None:
    """A process of the tunnels that somebody has taken over: both have the flags of one socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.dup() as kept:
        wire = wire_of(trio.SocketStream(trio.socket.from_stdlib_socket(ours.dup())))
        kept.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                kept.send(bytes(1 << 16))
        # One piece, and nothing after it: more is looked for.
        theirs.sendall(bytes(READ_SIZE))
        kept.setblocking(True)
        # Else this test would hang where the daemon would.
        thaw = threading.Timer(5.0, theirs.shutdown, [socket.SHUT_RDWR])
        thaw.start()
        began = time.monotonic()
        with trio.move_on_after(0.2):
            await (wire.send(bytes(1 << 20)) if what == "send" else wire.receive())
        assert time.monotonic() - began < 4.0
        thaw.cancel()
        thaw.join()
        wire.close()


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
