"""Child processes that end with the test run, whatever ends it, and what they cost.

Each child asks the kernel for a SIGKILL when its parent is gone, so nothing is left after pytest
itself is killed. That signal is tied to the *thread* that started the child, therefore one thread
that lives as long as this process starts them all.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.testbed.errors import TestbedError

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")

# PR_SET_PDEATHSIG is 1 (linux/prctl.h). The parent may be gone before the call: then end at once.
_TIED = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


@dataclass(frozen=True)
class Usage:
    """Resources that a process has used: CPU seconds of all its threads; resident bytes now and at
    most.
    """

    cpu: float
    rss: int
    peak: int


class Child:
    """One program in the background, its output in `log`. Its owner calls `stop` or `kill`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = _spawner.submit(
                spawn, command, output, cwd, environment, pass_fds
            ).result()

    @property
    def pid(self) -> int:
        """The process id, as seen from here."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if it still runs."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raises `TestbedError`, with the end of its log, if it has ended."""
        if not self.alive:
            code = self._process.returncode
            raise TestbedError(f"{self.name} ended with {code}:\n{tail(self.log, 15)}")

    def wait(self, seconds: float) -> int:
        """Its exit code; raises `TestbedError` if it still runs after `seconds`."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"{self.name} still runs after {seconds} s") from None

    def signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.alive:
            self._process.send_signal(number)

    def stop(self, seconds: float = 10.0) -> None:
        """Ends it: SIGTERM, and SIGKILL after `seconds`."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends it at once."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """Stops it where it is: connections stay open and nothing answers."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen one go on."""
        self.signal(signal.SIGCONT)

    def usage(self) -> Usage:
        """Returns the resources that it has used so far; raises `TestbedError` if it has ended."""
        self.check()
        return usage(self.pid)


def signal_inside(child: Child, number: int) -> None:
    """Sends a signal to what a child started that only entered namespaces (``nsenter``)."""
    path = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for pid in path.read_text().split():
            os.kill(int(pid), number)


def spawn(
    command: Sequence[str],
    output: IO[bytes],
    cwd: Path | None,
    environment: Mapping[str, str] | None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a program that dies with the calling thread; see this module's docstring."""
    tied = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *command]
    return subprocess.Popen(
        tied,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(environment) if environment is not None else plain_environment(),
        pass_fds=pass_fds,
        # A Ctrl-C in the terminal is for pytest, which then stops these in order.
        start_new_session=True,
    )


GO = {"GOGC": "300"}
"""For programs in Go that run for long: their garbage is collected when the heap has grown to four
times what is in use, not to twice. A control plane takes a quarter less of the processor for it,
and a third more memory."""


def plain_environment() -> dict[str, str]:
    """An environment that carries no proxy, no kubeconfig and no credentials of the user's."""
    return {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}


def usage(pid: int) -> Usage:
    """Returns the resources that process `pid` has used so far."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )

    def size(key: str) -> int:
        return int(fields[key].split()[0]) * 1024

    # The CPU-time clock of another process: CPUCLOCK_SCHED (2) of ~pid. In nanoseconds, and it
    # counts
    # the threads that have ended, which /proc/PID/task/*/schedstat does not.
    return Usage(time.clock_gettime((~pid << 3) | 2), size("VmRSS"), size("VmHWM"))


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, or a word on why there are none."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - 500 * lines))
            text = handle.read().decode(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(line[:500] for line in text.splitlines()[-lines:]) or "(empty log)"


def free_ports(count: int) -> list[int]:
    """TCP ports on loopback that nobody listens on, below the range of outgoing connections.

    They are this process's until it ends: tests run side by side, and what is to listen on a port
    only starts after it was chosen.
    """
    found: list[int] = []
    while len(found) < count:
        port = random.randint(20000, 32000)
        if port not in _reserved and _is_free(port) and _reserve(port):
            found.append(port)
    return found


_reserved: dict[int, socket.socket] = {}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _reserve(port: int) -> bool:
    """Takes a port by an abstract name (unix(7)), which goes with this process; or it is taken."""
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0liqod-testbed-port-{port}")
    except OSError:
        claim.close()
        return False
    _reserved[port] = claim
    return True
