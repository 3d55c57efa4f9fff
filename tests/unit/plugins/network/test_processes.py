"""Programs that outlive the daemon are begun: by several threads at once, and on busy machines."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.errors import NetworkError
from liqod.plugins.network import processes
from tests.kube_cases import until
from tests.unit.plugins.network.machines import Here, R

DEADLINE = 0.1
PROGRAM = """
import pathlib, sys, time
time.sleep(float(sys.argv[2]))
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""
"""Makes a file, that many seconds after it has begun."""


def test_one_that_is_begun_while_others_are_reaped_is_reaped_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    class Slow(subprocess.Popen[bytes]):
        """One whose state is asked for while another thread begins a program."""

        def poll(self) -> int | None:
            if len(begun) < 3:
                monkeypatch.setattr(subprocess, "Popen", Ordinary)
                begin()
            return super().poll()

    class Ordinary(subprocess.Popen[bytes]):
        """One that ends at once."""

        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            begun.append(self)

    def begin() -> None:
        processes.start([sys.executable, "-S", "-c", ""], {})

    monkeypatch.setattr(subprocess, "Popen", Slow)
    begin()
    for each in begun:
        each.wait()
    processes.reap()
    assert len(begun) == 3


class Machine(Here):
    """A machine whose kernel says how long a program had no processor.

    Args:
        folder: of what the kernel says, in place of ``/proc``.
        starved: seconds.
    """

    def __init__(self, folder: Path, starved: int) -> None:
        self._folder, self._starved = folder, starved

    async def within(self, namespace: str, function: Callable[[], R], /) -> R:
        child = function()
        assert isinstance(child, subprocess.Popen)
        self.child = child
        self._tell(child.pid)
        return child

    def _tell(self, process: int) -> None:
        ran, _, times = Path(f"/proc/{process}/schedstat").read_text().split()
        (self._folder / f"{process}").mkdir()
        told = f"{ran} {self._starved * 10**9} {times}\n"
        (self._folder / f"{process}/schedstat").write_text(told)

    async def begin(self, ready: Path, *, after: float) -> None:
        """Begins a program, until it has made a file."""
        command = [sys.executable, "-S", "-c", PROGRAM, str(ready), str(after)]
        made = trio.Path(ready).exists
        await processes.start_until_ready(
            self, "", command, {}, ready=made, deadline=DEADLINE, who="it"
        )


async def test_one_that_gets_no_processor_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    machine = Machine(tmp_path, starved=60)
    await machine.begin(tmp_path / "ready", after=3 * DEADLINE)
    assert machine.child.poll() is None
    machine.child.kill()


async def test_one_that_had_a_processor_and_is_not_ready_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "PROC", tmp_path)
    machine = Machine(tmp_path, starved=0)
    with pytest.raises(NetworkError, match="it was not ready"):
        await machine.begin(tmp_path / "ready", after=60)
    await until(lambda: machine.child.poll() == -signal.SIGKILL, 20.0)
