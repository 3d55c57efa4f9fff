"""The tunnels' process under a burst of orders, while it hangs, and taken over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.errors import NetworkError
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.plugins.network import machineprocess, processes, uapi
from liqod.plugins.network.machineprocess import MODULE, MachineProcess
from liqod.plugins.network.websocketprogram import TunnelProcess
from liqod.plugins.providers import Place, TunnelServices
from liqod.sharedport import HANDED, send
from liqod.tunnel import wanted
from liqod.tunnel.wanted import TunnelReport, TunnelRequest
from tests.kube_cases import until
from tests.unit.sharedports import tunnels

Answer = Callable[[TunnelRequest, trio.SocketStream], Awaitable[object]]
CALLERS = 100
ROME = KernelDatapath("rome")


@pytest.fixture
def process(tmp_path: Path) -> MachineProcess:
    """The process of a machine; nobody has begun it."""
    return MachineProcess(ROME, tmp_path)


@asynccontextmanager
async def serving(control: Path, answer: Answer, *, busy: bool = False) -> AsyncIterator[None]:
    """A process's socket, served by the test; of a busy one after a while."""

    async def serve(stream: trio.SocketStream) -> None:
        line = b""
        while not line.endswith(b"\n"):
            line += await stream.receive_some()
        await answer(wanted.decoded(line), stream)

    made = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await made.bind(os.fspath(control))
    made.listen(1 if busy else 64)

    async def accept() -> None:
        await trio.sleep(0.3 if busy else 0.0)
        await trio.serve_listeners(serve, [trio.SocketListener(made)])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        yield
        nursery.cancel_scope.cancel()


async def takes(request: TunnelRequest, stream: trio.SocketStream) -> None:
    """As the process does with what lasts as long as its connection."""
    if request.do == wanted.STAY:
        await stream.send_all(HANDED)
        await stream.receive_some(1)
    else:
        await stream.send_all(wanted.encoded(TunnelReport(wanted.VERSION)))


def is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test in which a process is begun."""

    async def begun(*_: object, **__: object) -> None:
        raise AssertionError("a second process is begun")

    monkeypatch.setattr(processes, "start_until_ready", begun)


async def test_a_burst_of_orders_waits_for_the_process_and_begins_no_other(
    monkeypatch: pytest.MonkeyPatch, process: MachineProcess
) -> None:
    is_never_begun(monkeypatch)
    taken: list[int] = []

    async def order(number: int, done: trio.Event) -> None:
        async with process.attended(TunnelRequest(wanted.STAY)):
            taken.append(number)
            await done.wait()

    done = trio.Event()
    async with serving(process.control, takes, busy=True):
        there = process.control.stat().st_ino
        async with trio.open_nursery() as nursery:
            for number in range(CALLERS):
                nursery.start_soon(order, number, done)
            await until(lambda: len(taken) == CALLERS, 20.0)
            done.set()
        assert process.control.stat().st_ino == there


async def test_of_two_programs_of_a_machine_one_begins_the_process_and_the_other_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each `liqod node` has a turn of its own, where a machine has several clusters."""
    programs, begun = [MachineProcess(ROME, tmp_path) for _ in range(2)], list[int]()
    programs[1].turn = trio.Lock()
    async with trio.open_nursery() as nursery:

        async def begin(*_: object, **__: object) -> None:
            begun.append(1)
            await trio.sleep(0.1)  # until it listens
            await nursery.start(listen)

        async def listen(*, task_status: trio.TaskStatus[None]) -> None:
            async with serving(tmp_path / "tunnels.socket", takes):
                task_status.started()
                await trio.sleep_forever()

        monkeypatch.setattr(processes, "start_until_ready", begin)

        async def have(program: MachineProcess) -> None:
            async with program.turn:
                await program.have()

        async with trio.open_nursery() as having:
            for program in programs:
                having.start_soon(have, program)
        assert begun == [1]
        nursery.cancel_scope.cancel()


async def test_no_more_orders_wait_than_the_backlog_holds(process: MachineProcess) -> None:
    waiting: list[int] = []

    async def counts(request: TunnelRequest, stream: trio.SocketStream) -> None:
        waiting.append(len(waiting))
        await trio.sleep_forever()

    async def order() -> None:
        async with process.attended(TunnelRequest(wanted.STAY)):
            pass

    async with serving(process.control, counts), trio.open_nursery() as nursery:
        for _ in range(CALLERS):
            nursery.start_soon(order)
        await until(lambda: bool(waiting), 5.0)
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert len(waiting) == machineprocess.AT_ONCE
        nursery.cancel_scope.cancel()


async def test_one_whose_backlog_is_full_is_found_once_there_is_a_place(
    process: MachineProcess,
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(process.control))
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(os.fspath(process.control))

            async def accept() -> None:
                await trio.sleep(0.2)
                listener.accept()[0].close()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(accept)
                assert await process.process() == os.getpid()


HANGS = """
import socket, sys, time
made = socket.socket(socket.AF_UNIX)
made.bind(sys.argv[-1])
made.listen(0)
time.sleep(60)
"""


@pytest.fixture
def hanging(process: MachineProcess) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens, and accepts nothing."""
    command = [sys.executable, "-c", HANGS, MODULE, str(process.control)]
    with subprocess.Popen(command) as began:
        yield began
        began.kill()


async def test_one_that_accepts_nothing_is_ended_before_its_socket_goes(
    monkeypatch: pytest.MonkeyPatch,
    process: MachineProcess,
    hanging: subprocess.Popen[bytes],
) -> None:
    monkeypatch.setattr(uapi, "PATIENCE", 0.2)
    with socket.socket(socket.AF_UNIX) as waits:
        await until(partial(is_connected, waits, str(process.control)), 10.0)
        await process.end()
    assert not process.control.exists()
    await until(lambda: hanging.poll() is not None, 5.0)


def is_connected(made: socket.socket, path: str) -> bool:
    """Connects, where somebody listens."""
    return made.connect_ex(path) == 0


def tunnel_in(folder: Path) -> TunnelProcess:
    """A tunnel's part in a process."""
    services = TunnelServices(cluster_id="rome", host=ROME, folder=str(folder))
    return TunnelProcess(services, Place(interface="liqo.milan", namespace=""), "liqo.milan")


@pytest.mark.parametrize("has_it", [True, False])
async def test_a_tunnel_that_does_not_end_ends_no_other_tunnel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_it: bool
) -> None:
    tunnel, ended = tunnel_in(tmp_path), list[str]()

    async def end(machine: MachineProcess) -> None:
        ended.append(str(machine.control))

    async def answer(request: TunnelRequest, stream: trio.SocketStream) -> None:
        if request.do == wanted.STATUS:
            found = TunnelReport(wanted.VERSION, tunnels=2, digest="" if has_it else None)
            await stream.send_all(wanted.encoded(found))

    monkeypatch.setattr(MachineProcess, "end", end)
    async with serving(tunnel.machine.control, answer):
        if has_it:
            with pytest.raises(NetworkError, match="does not end"):
                await tunnel.end()
        else:
            await tunnel.end()
    assert ended == []


async def test_where_there_is_no_process_a_tunnel_has_ended(tmp_path: Path) -> None:
    await tunnel_in(tmp_path).end()


@pytest.mark.parametrize("answered", [wanted.encoded(TunnelReport(wanted.VERSION)), b"nonsense\n"])
async def test_descriptors_that_nobody_asked_for_are_closed(
    process: MachineProcess, answered: bytes
) -> None:
    async def gives(request: TunnelRequest, stream: trio.SocketStream) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            await send(stream, answered, [one.fileno()] * wanted.MOST_FILES)

    async def ask(do: str) -> list[int]:
        try:
            _, files = await process.ask(wanted.decoded(f'{{"do":"{do}"}}'.encode()))
        except ConnectionError:
            return []
        return files

    async with serving(process.control, gives):
        await ask("status")
        before = len(os.listdir("/proc/self/fd"))
        for do in ("status", "hurry", "end"):
            assert await ask(do) == []
        await trio.testing.wait_all_tasks_blocked()
        assert len(os.listdir("/proc/self/fd")) <= before
        given = await ask("sockets")
        assert len(given) == (0 if answered == b"nonsense\n" else wanted.MOST_FILES)
        for each in given:
            os.close(each)


@asynccontextmanager
async def watched(
    process: MachineProcess, monkeypatch: pytest.MonkeyPatch, answers: float
) -> AsyncIterator[list[int]]:
    """One that is watched, with other times; the ids of those that were begun for its orders."""
    monkeypatch.setattr(machineprocess, "LOOKED", 0.1)
    monkeypatch.setattr(machineprocess, "ANSWERS", answers)
    begun: list[int] = []

    async def stay() -> None:
        while True:
            async with process.attended(TunnelRequest(wanted.STAY)) as stream:
                if (found := await process.process()) is not None:
                    begun.append(found)
                await stream.receive_some(1)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.watch)
            nursery.start_soon(stay)
            await until(lambda: bool(begun), 20.0)
            yield begun
            nursery.cancel_scope.cancel()
    finally:
        await process.end(hangs=True)


async def test_one_that_is_frozen_is_replaced_soon(
    monkeypatch: pytest.MonkeyPatch, process: MachineProcess
) -> None:
    async with watched(process, monkeypatch, 0.5) as begun:
        os.kill(begun[0], signal.SIGSTOP)
        began = trio.current_time()
        await until(lambda: len(begun) == 2, 20.0)
        took = trio.current_time() - began
        assert begun[1] != begun[0]
        assert not processes.command_line(begun[0])
        assert took >= 1.0, "one look without an answer proves nothing"


async def test_one_that_answers_late_once_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, process: MachineProcess
) -> None:
    is_never_begun(monkeypatch)
    monkeypatch.setattr(machineprocess, "LOOKED", 0.01)
    monkeypatch.setattr(machineprocess, "ANSWERS", 0.7)
    asked: list[str] = []

    async def slow(request: TunnelRequest, stream: trio.SocketStream) -> None:
        asked.append(request.do)
        if len(asked) % 2:
            await trio.sleep(1.0)
        else:
            await stream.send_all(wanted.encoded(TunnelReport(wanted.VERSION)))

    async def end(machine: MachineProcess, *, hangs: bool = False) -> None:
        raise AssertionError("it is ended")

    monkeypatch.setattr(MachineProcess, "end", end)
    async with serving(process.control, slow), trio.open_nursery() as nursery:
        nursery.start_soon(process.watch)
        await until(lambda: len(asked) >= 4, 20.0)
        nursery.cancel_scope.cancel()


async def test_where_there_is_none_nothing_is_ended_and_none_is_begun(
    monkeypatch: pytest.MonkeyPatch, process: MachineProcess
) -> None:
    is_never_begun(monkeypatch)
    monkeypatch.setattr(machineprocess, "LOOKED", 0.01)
    with trio.move_on_after(0.2) as over:
        await process.watch()
    assert over.cancelled_caught


async def test_one_that_is_begun_for_an_order_is_not_ended_before_it_has_it(
    monkeypatch: pytest.MonkeyPatch, process: MachineProcess
) -> None:
    ended: list[str] = []
    have, handed = MachineProcess.have, MachineProcess.hand

    async def late(*order: Any) -> trio.SocketStream | None:
        await trio.sleep(0.1)
        return await handed(*order)

    async def end(machine: MachineProcess, *, hangs: bool = False) -> None:
        ended.append(str(machine.control))

    async def begun(machine: MachineProcess) -> TunnelReport:
        nursery.start_soon(former)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await nursery.start(serve)
        return await have(machine)

    async def former() -> None:
        await tunnel_in(process.control.parent).end()
        gone.set()

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        async with tunnels(process.control.parent):
            task_status.started()
            await trio.sleep_forever()

    monkeypatch.setattr(MachineProcess, "end", end)
    monkeypatch.setattr(MachineProcess, "have", begun)
    monkeypatch.setattr(MachineProcess, "hand", late)
    gone = trio.Event()
    with trio.fail_after(20.0):
        async with trio.open_nursery() as nursery:
            async with process.attended(TunnelRequest(wanted.STAY)):
                await gone.wait()
            nursery.cancel_scope.cancel()
    assert ended == []


async def test_it_is_begun_where_no_program_has_run_yet(tmp_path: Path):
    process = MachineProcess(ROME, tmp_path / "never" / "made")
    try:
        async with process.turn:
            await process.have()
        assert await process.process() is not None
        assert process.control.parent.stat().st_mode & 0o777 == 0o700
    finally:
        await process.end()
