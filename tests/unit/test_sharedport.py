"""One port for the daemon and for tunnels: each gets its own calls."""

import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from liqod.errors import NetworkError
from liqod.handshake.transport.peerlistener import PeerListener
from liqod.network import machinesocketdial
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.framing import frame
from liqod.network.orders.greeting import CALLS, Admitted
from liqod.runtime import account
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, TAKEN
from simulator.waiting import eventually
from tests.testbed.processes import free_ports
from tests.unit.handshake.listeners import EXPECTED, MILAN, FakeHost, dialler, greeter
from tests.unit.sharedports import (
    NOBODY,
    Served,
    answer,
    answers,
    answers_as,
    daemon,
    free,
    node,
    tunnels,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, as sockets want it."""
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        yield Path(made)


async def test_the_daemon_is_handed_its_calls_while_tunnels_are_served(folder: Path) -> None:
    [port] = free_ports(1)
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
    [port] = free_ports(1)
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
    [port] = free_ports(1)
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
    [port] = free_ports(1)
    async with tunnels(folder), node(folder, port):
        before = await machinesocketdial.calls(folder)
        async with before, daemon(folder):
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"


async def test_another_cluster_s_daemon_is_told_why_and_is_handed_them_when_they_are_free(
    folder: Path,
) -> None:
    [port] = free_ports(1)
    refused = rf"TCP port {port}: the daemon of the cluster 'rome' is called there: .*\[handshake\]"
    async with (
        tunnels(folder),
        node(folder, port),
        node(folder, port, cluster="oslo", at="oslo"),
    ):
        async with daemon(folder):
            with pytest.raises(NetworkError, match=refused):
                await machinesocketdial.calls(folder / "oslo")
            assert await answer(port, f"{DAEMON}.milan.example") == "daemon"
        await free(port)
        async with daemon(folder / "oslo", take=partial(answers_as, "oslo")):
            assert await answer(port, f"{DAEMON}.milan.example") == "oslo"


async def test_daemons_meet_at_a_port_that_tunnels_have(folder: Path) -> None:
    [port] = free_ports(1)
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
    [port] = free_ports(1)
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
    [port] = free_ports(1)
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

    async def serve(stream: trio.abc.Stream) -> None:
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


async def test_a_folder_that_is_not_for_the_daemon_yet_is_said_and_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`liqod node` makes it, and gives it to the daemon's group a moment later."""

    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", denied)
    with pytest.raises(NetworkError, match="start liqod node"):
        await machinesocketdial.calls(folder)


async def test_the_daemon_shows_who_is_refused_where_the_tunnels_have_the_port(
    folder: Path,
) -> None:
    [port], places = free_ports(1), ConnectionLimiter(16)
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
