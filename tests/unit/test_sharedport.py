"""One port for the daemon and for tunnels: each gets its own calls, whatever strangers do."""

import os
import socket
import ssl
import tempfile
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from liqod.errors import NetworkError
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import Pinned, pinned
from liqod.model.network.clienthello import MOST
from liqod.network import machinesocketdial
from liqod.network.machine import callrelay
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.framing import frame
from liqod.network.orders.greeting import CALLS, Admitted
from liqod.plugins.network.machineprocess import MachineProcess
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, HANDED, TAKEN, be_handed, read_reports
from liqod.tunnel import listening as tunnel_listening
from liqod.tunnel import wanted
from liqod.tunnel.__main__ import Process, listening
from liqod.tunnel.dialsockets import close_all
from liqod.tunnel.tunnelsession import TunnelSession
from liqod.tunnel.tunneltls import context
from liqod.tunnel.wanted import TunnelReport, Wanted
from simulator.trial import eventually
from tests.unit.handshake.listeners import EXPECTED, MILAN, FakeHost, dialler, greeter
from tests.unit.plugins.network.machines import Here

NOBODY = "0123456789abcdef" * 2


Take = Callable[[trio.socket.SocketType], Awaitable[None]]


def hello(name: str | None) -> bytes:
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


async def answers_as(whose: str, came: trio.socket.SocketType) -> None:
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
async def tunnels(folder: Path, callers: Account | None = None) -> AsyncIterator[None]:
    """The process of the tunnels, in this one, with all rights."""
    with listening(folder / "tunnels.socket") as control:
        callers = callers or account.derived(account.TUNNEL_SHARES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Process(control, 0, callers).run)
            yield
            nursery.cancel_scope.cancel()


def few(shared: int) -> Account:
    """An account with so many places for those who have called no name yet."""
    share = msgspec.structs.replace(account.TUNNEL_SHARES[account.SHARED], most=shared, divided=1)
    return Account(shares={**account.TUNNEL_SHARES, account.SHARED: share})


@asynccontextmanager
async def node(folder: Path, port: int) -> AsyncIterator[None]:
    """The part of `liqod node` that hands over calls, at its socket."""
    serve = partial(callrelay.serve, MachineProcess(Here(), folder), port=port)
    own = DaemonAccount(os.geteuid(), os.getegid())
    async with trio.open_nursery() as nursery:
        await nursery.start(MachineSocket(folder, own, {CALLS: serve}).run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def daemon(
    folder: Path, places: ConnectionLimiter | None = None, take: Take | None = None
) -> AsyncIterator[None]:
    """A daemon that takes its calls."""
    counted = ConnectionLimiter(8) if places is None else places
    taking = (take or partial(answers_as, "daemon"), counted)
    stream = await machinesocketdial.calls(folder)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(be_handed, stream, *taking, nursery)
        yield
        nursery.cancel_scope.cancel()


async def test_the_daemon_is_handed_its_calls_while_tunnels_are_served(folder: Path) -> None:
    port = free_port()
    served = Served(folder, port)
    async with tunnels(folder), node(folder, port):
        async with daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"
            assert await answer(port, f"{served.client.name}.milan.example") == ""
            await served.be()
            await served.reached()
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"
            assert await answer(port, "www.example.org") == ""
            assert await answer(port, f"{NOBODY}.milan.example") == ""
            # A standby serves nobody, and the daemon is called all the same.
            await served.be(quiet=True)
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"
            assert await answer(port, f"{served.client.name}.milan.example") == ""
            await served.be()
            await served.reached()
        # Without a daemon tunnels go on.
        await answers(port, f"{DAEMON}.milan.example", "")
        await served.reached()
        async with daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


async def test_nobody_listens_where_neither_tunnels_nor_a_daemon_are_called(folder: Path) -> None:
    port = free_port()
    async with tunnels(folder), node(folder, port):
        async with daemon(folder):
            assert await answer(port, "www.example.org") == ""

        async def closed() -> bool:
            try:
                await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
            except OSError:
                return True
            return False

        await eventually(closed, seconds=5)


async def test_no_connection_is_refused_while_tunnels_come_and_go(folder: Path) -> None:
    port = free_port()
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

    async with tunnels(folder), node(folder, port), daemon(folder):
        async with trio.open_nursery() as calling:
            calling.start_soon(call)
            await served.be()
            await trio.sleep(0.05)
            await served.be(quiet=True)
            await trio.sleep(0.05)
            over = True
        assert refused == 0


async def test_the_newest_daemon_is_handed_the_calls_and_one_before_it_no_more(
    folder: Path,
) -> None:
    port = free_port()
    async with tunnels(folder), node(folder, port):
        before = await machinesocketdial.calls(folder)
        async with before, daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


async def test_daemons_meet_at_a_port_that_tunnels_have(folder: Path) -> None:
    port = free_port()
    listener = PeerListener(MILAN, FakeHost(), {"api": greeter})
    served = Served(folder, port)
    async with tunnels(folder), node(folder, port), trio.open_nursery() as nursery:
        await served.be()
        nursery.start_soon(listener.share, await machinesocketdial.calls(folder), nursery)
        async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED) as met:
            await met.attach()
            assert await (await met.dial("", 0)).receive() == b"hello"
        await served.reached()
        nursery.cancel_scope.cancel()


async def test_a_meeting_goes_on_where_nothing_is_handed_over_any_more(folder: Path) -> None:
    port = free_port()
    listener = PeerListener(MILAN, FakeHost(), {"api": greeter})
    over = trio.Event()

    async def machine(task_status: trio.TaskStatus[None]) -> None:
        async with tunnels(folder), node(folder, port):
            task_status.started()
            await over.wait()
        ended.set()

    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(machine)
        nursery.start_soon(listener.share, await machinesocketdial.calls(folder), nursery)
        async with dialler().meet([f"127.0.0.1:{port}"], EXPECTED) as met:
            await met.attach()
            over.set()
            await ended.wait()
            assert await (await met.dial("", 0)).receive() == b"hello"
        nursery.cancel_scope.cancel()


async def test_the_daemon_learns_why_nothing_is_handed_over(folder: Path) -> None:
    with pytest.raises(NetworkError, match=r"no liqod node answers at .*calls\.sock"):
        await machinesocketdial.calls(folder)
    port = free_port()
    async with tunnels(folder), node(folder, port):
        with (
            socket.create_server(("", port)),
            pytest.raises(NetworkError, match=f"TCP port {port}: {TAKEN}"),
        ):
            await machinesocketdial.calls(folder)
        async with daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


@asynccontextmanager
async def somebody(folder: Path, *said: bytes) -> AsyncIterator[None]:
    """A program in the place of `liqod node` that says something at once."""

    async def serve(stream: trio.SocketStream) -> None:
        for each in said:
            await stream.send_all(each)

    own = DaemonAccount(os.geteuid(), os.getegid())
    async with trio.open_nursery() as nursery:
        await nursery.start(MachineSocket(folder, own, {CALLS: serve}).run)
        yield
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "has said nothing|closed"),
        (b"x" * 4000, "gives no answer: a message of"),
        (frame(b"nonsense"), "gives no answer: no sound message"),
        (frame(msgspec.json.encode(Admitted(1))), "gives another answer"),
    ],
)
async def test_what_is_no_agreement_is_none(folder: Path, said: bytes, why: str) -> None:
    async with somebody(folder, said):
        with pytest.raises(NetworkError, match=why):
            await machinesocketdial.calls(folder)


# Attacks.


async def closes(port: int, *said: bytes, between: float = 0.0) -> float:
    """Seconds until a connection that says this is closed, to which nothing was said."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        began = trio.current_time()
        with trio.fail_after(10):
            try:
                for each in said:
                    await stream.send_all(each)
                    await trio.sleep(between)
                assert await stream.receive_some() == b""
            except trio.BrokenResourceError:
                pass  # what it has not read counts as a reset
        return trio.current_time() - began


async def test_a_hello_that_comes_slowly_is_left_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel_listening, "NAMED_WITHIN", 0.3)
    port, said = free_port(), hello(f"{DAEMON}.milan.example")
    async with tunnels(folder), node(folder, port), daemon(folder):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(closes, port)
            nursery.start_soon(closes, port, said[:-1])
            took = await closes(port, *(said[at : at + 1] for at in range(30)), between=0.02)
        assert took < 2.0
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
async def test_what_is_no_hello_of_ours_is_closed_without_a_word(folder: Path, said: bytes) -> None:
    port = free_port()
    async with tunnels(folder), node(folder, port), daemon(folder):
        assert await closes(port, said) < 2.0
        assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


async def test_a_crowd_at_the_shared_port_keeps_out_nobody_from_elsewhere(folder: Path) -> None:
    """Connections that call no name, from one address, more of them than there are places."""
    port = free_port()
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
                with trio.fail_after(20):
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
    port, many = free_port(), 1500
    served = Served(folder, port)
    async with tunnels(folder), node(folder, port):
        frozen = await machinesocketdial.calls(folder)
        await served.be()
        with ExitStack() as stack:
            waiting: list[socket.socket] = []
            for _ in range(many // 50):
                waiting += await calling(stack, port, 50)
            await trio.sleep(1.5)
            left = [each for each in waiting if not is_over(each)]
            # Those that the kernel holds, in the buffers of two sockets.
            assert len(left) < 800
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
    port = free_port()
    async with tunnels(folder), node(folder, port):
        async with await machinesocketdial.calls(folder) as stream:
            await stream.send_all(b"x" * 100)
            with trio.fail_after(5), suppress(trio.BrokenResourceError):
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
    port, taken, over = free_port(), list[int](), trio.Event()

    async def note(came: trio.socket.SocketType) -> None:
        with came:
            taken.append(came.type)
        over.set()

    async def hand(stream: trio.SocketStream) -> None:
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
            others = node(folder, port)
            if handed_by == "daemon":
                own = DaemonAccount(os.geteuid(), os.getegid())
                at = MachineSocket(folder, own, {CALLS: hand})
                await nursery.start(at.run)
                others = nullcontext()
            async with others:
                before = files()
                async with daemon(folder, take=note):
                    with trio.fail_after(10):
                        await over.wait()
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    assert taken == [socket.SOCK_STREAM]
                    # Its own, and those that it is connected by.
                    assert files() <= before + 4
                nursery.cancel_scope.cancel()


async def test_the_daemon_shows_who_is_refused_where_the_tunnels_have_the_port(
    folder: Path,
) -> None:
    port, places = free_port(), ConnectionLimiter(16)
    async with tunnels(folder), node(folder, port), daemon(folder, places):
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
