"""Real processes at the socket of the machine's side: daemons, strangers, and bad daemons."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from liqod.errors import NetworkError
from liqod.network import machinesocketdial
from liqod.network.framestream import FrameStream
from liqod.network.machine import machinesocket
from liqod.network.machine.machinesocket import MachineSocket
from liqod.network.orders import messages
from liqod.network.orders.candidacy import LeaseAnswer
from liqod.network.orders.framing import LARGEST_GREETING, frame
from liqod.network.orders.greeting import (
    ANSWERS,
    CALLS,
    SOCKET,
    Admitted,
    Denied,
    Generation,
    Greeting,
)
from liqod.network.orders.overlay import LeadOverlay
from liqod.sharedport import HANDED
from tests.netns.machineprogram import CLUSTER
from tests.netns.socketmachine import DAEMON, LEAD, ONE, TWO, Machine, lead
from tests.testbed.api import wait_until
from tests.testbed.netns import Networks, inside, state

pytestmark = [pytest.mark.netns, pytest.mark.network]

STRANGER = 64713
ADMITTED = messages.encode(Admitted(1)).decode()
GROWN = 64 << 20
"""Bytes by which its memory may grow: what waits for a reader, four times."""
HELLO = frame(messages.encode(Greeting(1, 1, CLUSTER, Generation(started=5))))
LISTENS = """
import os, socket
os.setgroups([]); os.setgid({user}); os.setuid({user})
made = [socket.socket(socket.AF_UNIX) for _ in {paths}]
for each, path in zip(made, {paths}):
    each.bind(path); each.listen()
print("ready", flush=True)
while True:
    made[0].accept()[0].sendall({says})
"""
GREETS = """
import os, socket, struct, sys
path, group, user = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
said = sys.stdin.buffer.read()
os.setgroups([]); os.setgid(group); os.setuid(user)
try:
    made = socket.socket(socket.AF_UNIX); made.settimeout(10); made.connect(path)
    try:
        made.sendall(said)
    except OSError:
        pass
    print(made.recv(65536)[int(sys.argv[4]):].decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Below /run, as others pass through no folder of pytest's."""
    made = Path(f"/run/liqod-test-{os.urandom(4).hex()}")
    yield made
    subprocess.run(["rm", "-rf", str(made)], check=True)


@pytest.fixture
def machine(networks: Networks, folder: Path) -> Iterator[Machine]:
    made = Machine(networks, folder)
    yield made
    made.end()


def said_to(
    machine: Machine, user: int, group: int, data: bytes = HELLO, name: str = SOCKET
) -> str:
    """The answer to a process of a user at a socket, without what frames it."""
    head = 4 if name == SOCKET else 0
    words = map(str, (machine.folder / name, group, user, head))
    done = subprocess.run(
        [sys.executable, "-c", GREETS, *words], input=data, capture_output=True, timeout=30
    )
    return done.stdout.decode().strip() or done.stderr.decode()


def refusal(connection_said: str) -> str:
    answer = messages.read(ANSWERS, connection_said.encode())
    assert isinstance(answer, Denied)
    return answer.problem


def test_root_and_the_daemon_s_user_order_and_nobody_else(machine: Machine):
    assert said_to(machine, DAEMON.user, DAEMON.group) == ADMITTED
    assert said_to(machine, 0, 0) == ADMITTED
    assert said_to(machine, STRANGER, STRANGER) == "PermissionError"


def test_another_user_is_refused_where_the_modes_let_it_through(machine: Machine):
    place = machine.folder / SOCKET
    machine.folder.chmod(0o755)
    place.chmod(0o666)
    for data in (HELLO, b"\0" * 65536, b"\xff" * 64):
        why = refusal(said_to(machine, STRANGER, STRANGER, data))
        assert why == f"user {STRANGER} may not order this machine: root and user {DAEMON.user} may"
    assert said_to(machine, DAEMON.user, DAEMON.group) == ADMITTED


def test_folder_and_socket_are_root_s_with_the_daemon_s_group(machine: Machine):
    place, kept = machine.folder / SOCKET, machine.folder.stat()
    assert (kept.st_uid, kept.st_gid, stat.S_IMODE(kept.st_mode)) == (0, DAEMON.group, 0o750)
    for found in (place.stat(), (machine.folder / CALLS).stat()):
        assert (found.st_uid, found.st_gid) == tuple(DAEMON)
        assert stat.S_IMODE(found.st_mode) == 0o660
    there = sorted(each.name for each in machine.folder.iterdir())
    assert there == [CALLS, "machine.lock", SOCKET]


def test_calls_are_handed_to_root_and_the_daemon_s_user_and_to_nobody_else(machine: Machine):
    def handed_to(user: int, group: int) -> str:
        return said_to(machine, user, group, b"", CALLS)

    assert handed_to(*DAEMON) == HANDED.decode()
    assert handed_to(0, 0) == HANDED.decode()
    assert handed_to(STRANGER, STRANGER) == "PermissionError"
    machine.folder.chmod(0o755)
    (machine.folder / CALLS).chmod(0o666)
    assert "may not order this machine" in handed_to(STRANGER, STRANGER)


@pytest.fixture
def usurped(folder: Path) -> Iterator[Path]:
    """A folder in which a stranger's process listens in the place of `liqod node`, and agrees."""
    folder.mkdir()
    folder.chmod(0o777)
    paths = [str(folder / name) for name in (CALLS, SOCKET)]
    text = LISTENS.format(user=STRANGER, paths=paths, says=HANDED)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        yield folder
        program.kill()


async def test_a_daemon_takes_no_calls_of_another_user_s_program(usurped: Path):
    with pytest.raises(NetworkError, match=f"user {STRANGER} listens at"):
        await machinesocketdial.calls(usurped)


async def test_a_daemon_tells_nothing_to_another_user_s_program(usurped: Path):
    with pytest.raises(NetworkError, match=f"user {STRANGER} listens at .*, and not root"):
        await machinesocketdial.dial(usurped)


async def started(folder: Path) -> None:
    """Has another program listen there, which serves nobody."""

    async def serve(stream: trio.abc.Stream) -> None:
        await stream.aclose()

    with trio.move_on_after(2):
        await MachineSocket(folder, DAEMON, {SOCKET: serve}).run()


async def test_the_socket_of_a_living_program_is_never_taken(machine: Machine):
    before = (machine.folder / SOCKET).stat().st_ino
    with pytest.raises(NetworkError, match="another program listens there"):
        await started(machine.folder)
    os.kill(machine.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(NetworkError, match="another program listens there"):
            await started(machine.folder)
    finally:
        os.kill(machine.process.pid, signal.SIGCONT)
    assert (machine.folder / SOCKET).stat().st_ino == before
    await machine.answers()


async def test_what_a_dead_program_left_is_replaced_and_without_one_it_is_said(machine: Machine):
    machine.end()
    path = machine.folder / SOCKET
    assert path.exists()
    with pytest.raises(NetworkError, match=f"no liqod node answers at {path}: start liqod node"):
        await machinesocketdial.dial(machine.folder)
    (machine.folder / "machine.new").write_text("half done")
    machine.start()
    await machine.answers()
    machine.process.stdin.close()
    machine.process.wait(20)
    with pytest.raises(NetworkError, match="no liqod node answers"):
        await machinesocketdial.dial(machine.folder)
    assert not path.exists()


@pytest.fixture
def taken(folder: Path) -> Path:
    """A folder of another user's."""
    folder.mkdir(mode=0o755)
    os.chown(folder, STRANGER, STRANGER)
    return folder


@pytest.fixture
def link(folder: Path, tmp_path: Path) -> Path:
    """A link to a folder."""
    folder.symlink_to(tmp_path)
    return folder


async def test_a_folder_of_another_user_is_not_used(taken: Path):
    with pytest.raises(NetworkError, match="the folder is another user's"):
        await started(taken)


async def test_a_link_is_not_used_for_a_folder(link: Path, tmp_path: Path):
    with pytest.raises(NetworkError, match=str(link)):
        await started(link)
    assert os.listdir(tmp_path) == []


async def test_connections_are_bounded_and_one_more_is_told(machine: Machine):
    async with machine.leading() as orders:
        silent = [socket.socket(socket.AF_UNIX) for _ in range(machinesocket.MOST - 1)]
        for each in silent:
            each.connect(str(machine.folder / SOCKET))
        assert "8 connections already" in refusal(said_to(machine, DAEMON.user, DAEMON.group))
        await lead(orders)
        for each in silent:
            each.close()
    machine.memory()
    await trio.sleep(0.5)
    await machine.answers()


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\0" * 65536,
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(100_000),
        frame(b"{}"),
        frame(messages.encode(LEAD)),
        frame(b" " * LARGEST_GREETING + b"{}"),
        HELLO[:-1],
        HELLO + b"\xff" * 100_000,
        HELLO + frame(b"[" * 1_000_000),
        HELLO + frame(messages.encode(LEAD))[:-7],
        HELLO + frame(b'{"type":"LeadOverlay","gateway":{"name":"; flush ruleset"}}'),
    ],
    ids=range(11),
)
async def test_nonsense_ends_its_connection_and_changes_nothing(machine: Machine, nonsense: bytes):
    async with machine.leading():
        before = state(machine.node)
        said_to(machine, *DAEMON, nonsense)
        assert state(machine.node) == before
        await machine.answers()


async def test_orders_without_end_take_bounded_memory_and_time(machine: Machine):
    wrong = LeadOverlay(ONE, (ONE, msgspec.structs.replace(TWO, address=ONE.address)), LEAD.overlay)
    async with machine.leading() as orders, trio.open_nursery() as nursery:
        nursery.start_soon(drain, orders)
        memory, before = machine.memory(), state(machine.node)
        with trio.move_on_after(8):
            for number in range(1_000_000):
                await orders.deliver(LeaseAnswer(number))
                await orders.deliver(wrong)
        assert number > 100
        assert machine.memory() - memory < GROWN
        assert state(machine.node) == before
        nursery.cancel_scope.cancel()
    async with machine.daemon(Generation(started=7)) as later:
        await lead(later)
    assert state(machine.node) == before


async def drain(connection: FrameStream) -> None:
    """Reads all that comes."""
    while True:
        await connection.receive()


async def test_a_daemon_that_reads_nothing_takes_bounded_memory(machine: Machine):
    unknown = frame(b'{"type":"%s"}' % (b"x" * 60)) * 100
    memory = machine.memory()
    with trio.move_on_after(8), suppress(trio.BrokenResourceError):
        async with await machinesocketdial.dial(machine.folder) as stream:
            await stream.send_all(HELLO)
            while True:
                await stream.send_all(unknown)
    assert machine.memory() - memory < GROWN
    await machine.answers()


@pytest.fixture
def daemon(machine: Machine) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is a daemon with an overlay, for as long as it lives."""
    text = (
        "import socket, sys, time\n"
        "made = socket.socket(socket.AF_UNIX); made.connect(sys.argv[1])\n"
        "made.sendall(bytes.fromhex(sys.argv[2]))\n"
        "time.sleep(1000)\n"
    )
    orders = HELLO + frame(messages.encode(LEAD))
    words = (sys.executable, "-c", text, str(machine.folder / SOCKET), orders.hex())
    with subprocess.Popen(words) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_all_stands_and_is_healed_while_the_daemon_is_dead_or_frozen(
    machine: Machine, daemon: subprocess.Popen[bytes], number: signal.Signals
):
    wait_until("the overlay", lambda: has_overlay(state(machine.node)), 20, 0.2)
    time.sleep(1)
    made = state(machine.node)
    os.kill(daemon.pid, number)
    time.sleep(0.5)
    assert state(machine.node) == made
    inside(machine.node, f"ip link delete {has_overlay(made)}")
    wait_until("what is lost", lambda: state(machine.node) == made, 20, 0.2)


def has_overlay(found: dict[str, Any]) -> str:
    """The overlay's device; empty for none."""
    links = [json.loads(each) for each in found["links"]]
    return next((each["ifname"] for each in links if each["kind"] == "vxlan"), "")
