"""Programs that carry packets: begun so that they outlive the daemon, found again, ended.

A program gets a session of its own, so that no signal of a terminal or a group reaches it, nothing
of the starter's open files, and a bare environment. A starter that is killed leaves it running;
under systemd that takes ``KillMode=process`` (docs/how-to/systemd.md). In a pod it ends with its
container.
"""

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import trio

from liqod.errors import NetworkError
from liqod.plugins.providers import Host

PROC = Path("/proc")
TERM_PATIENCE = 2.0
"""Seconds for a program to end on request, before it is killed."""

_children: set[subprocess.Popen[bytes]] = set()
"""Those that this daemon began: they are its to reap."""


def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Begin a program; blocks, and the calling thread's namespace becomes the program's.

    Args:
        command: with the program's path first; visible in full in lists of processes.
        environment: besides ``PATH``; nothing else of the daemon's own.

    Raises:
        OSError: it cannot be begun.
    """
    began = subprocess.Popen(
        list(command),
        env={"PATH": os.environ.get("PATH", os.defpath), **environment},
        cwd="/",
        start_new_session=True,
        close_fds=True,
        stdin=subprocess.DEVNULL,
        # No pipe: the daemon at its other end may go, and a program that writes would be killed.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _children.add(began)
    reap()
    return began


async def start_until_ready(
    host: Host,
    underlay: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    ready: Callable[[], Awaitable[bool]],
    deadline: float,
    who: str,
) -> None:
    """Begin a program where its packets travel, and wait until it is ready.

    Args:
        host: the machine.
        underlay: name of the network namespace; empty for the daemon's own.
        command, environment: as :func:`start`'s.
        ready: True if it is ready.
        deadline: seconds after which it is killed, without those in which it had no processor.
        who: the program, in words.

    Raises:
        NetworkError: it has ended, or was not ready in time.
        OSError: it cannot be begun.
    """
    child = await host.within(underlay, partial(start, command, environment))
    began = trio.current_time()
    while True:
        # On a machine that is too busy for it, another one would be no sooner ready.
        had = trio.current_time() - began - _starved(child.pid)
        if await ready():
            return
        if child.poll() is not None:
            raise NetworkError(
                f"{who} ended with status {child.returncode}; "
                f"`{' '.join(command)}` on this host says why"
            )
        if had > deadline:
            child.kill()
            raise NetworkError(f"{who} was not ready in {deadline:.0f} s")
        await trio.sleep(0.01)


def _starved(process: int) -> float:
    """Seconds in which a process could have run, and others had the processors.

    Those of its first thread, until that has ended; 0 where the kernel does not count them.
    """
    try:
        _, waited, _ = (PROC / f"{process}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(waited) / 1e9


def reap() -> None:
    """Let the kernel forget those of our programs that have ended."""
    # A copy: another thread may begin one meanwhile.
    for each in list(_children):
        if each.poll() is not None:
            _children.discard(each)


async def end(process: int, *, named: str, patience: float = TERM_PATIENCE) -> None:
    """End a program of any starter, and wait until it is gone.

    Args:
        process: its id.
        named: a word of its command line, without which it is left alone: the id may be another's
            by now.
        patience: seconds for it to end on request; 0 for one that hangs, which is not requested.
    """
    try:
        # It identifies this very process, also when the number is given to another one.
        handle = os.pidfd_open(process)
    except OSError:
        reap()
        return
    try:
        if named not in command_line(process):
            return
        requests = [(signal.SIGTERM, patience)] if patience else []
        for number, within in (*requests, (signal.SIGKILL, TERM_PATIENCE)):
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                break
            with trio.move_on_after(within) as waiting:
                await trio.lowlevel.wait_readable(handle)
            if not waiting.cancelled_caught:
                break
    finally:
        os.close(handle)
        reap()


async def end_named(*words: str) -> None:
    """End the programs of any starter that have all these words in their command line, at once.

    It is for those whose id nobody states, since they accept no connection.
    """
    for process in await trio.to_thread.run_sync(_named, words):
        await end(process, named=words[-1], patience=0.0)


def _named(words: Sequence[str]) -> list[int]:
    found = (int(each.name) for each in PROC.iterdir() if each.name.isdecimal())
    return [each for each in found if set(words) <= set(command_line(each))]


def command_line(process: int) -> list[str]:
    """The words that a process was begun with; none where there is no such process."""
    try:
        said = (PROC / f"{process}/cmdline").read_bytes()
    except OSError:
        return []
    return [each.decode(errors="replace") for each in said.split(b"\0") if each]
