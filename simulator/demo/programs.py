"""Running liqod's own program as a user would, and printing what a user would see.

Each program is in a session of its own: the Ctrl-C of a terminal is for the demo, which then ends
the others in order.
"""

import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import trio

from liqod.errors import LiqodError

LIQOD = (sys.executable, "-m", "liqod")
STOPPED_WITHIN = 10.0
"""Seconds that a daemon may take to stop before it is killed."""


class Failed(LiqodError):
    """A step of the demo did not succeed."""


def print_line(text: str) -> None:
    """A line of the demo's own, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def step(text: str) -> None:
    """A heading."""
    print_line(f"\n== {text}")


def indented(output: bytes) -> str:
    """The output of a command, indented to set it off from the commands."""
    return "\n".join(f"  {line}" for line in output.decode().splitlines())


async def relay(stream: trio.abc.ReceiveStream, said: list[str], name: str) -> None:
    """Keep what a command says line by line, and show it where it has a name."""
    rest = ""
    async for chunk in stream:
        *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
        said += lines
        for line in lines if name else ():
            print_line(f"  {name}: {line.strip()}")


async def command(folder: Path, *words: str, name: str = "") -> bytes:
    """Run one liqod command as a user would, in a folder; its standard output.

    Args:
        folder: where it runs.
        words: its arguments.
        name: show its progress, with this before each line.

    Raises:
        Failed: it does not succeed; what it said is printed.
    """
    shown = shlex.join(["liqod", *words])
    print_line(f"$ {shown}")
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                [*LIQOD, *words],
                cwd=folder,
                check=False,
                capture_stdout=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )
        nursery.start_soon(relay, process.stderr, said, name)
        output = b"".join([chunk async for chunk in process.stdout])
    if process.returncode != 0:
        if not name:
            print_line("\n".join(said))
        raise Failed(f"`{shown}` ended with {process.returncode}")
    return output


async def view(folder: Path, sockets: Sequence[str]) -> None:
    """Run the live view in this terminal until the user leaves it.

    It runs where the user is: what is recorded there outlives the demo's own folder.
    """
    words = [word for socket in sockets for word in ("--socket", str(folder / socket))]

    async def interrupt(process: trio.Process) -> None:
        # The program puts the terminal right again before it goes.
        process.send_signal(signal.SIGINT)
        with trio.move_on_after(STOPPED_WITHIN):
            await process.wait()

    await trio.run_process(
        [*LIQOD, "top", *words],
        stdin=None,
        check=False,
        deliver_cancel=interrupt,
    )


async def daemon(
    folder: Path,
    name: str,
    *,
    task_status: trio.TaskStatus[trio.Process] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Run the daemon whose configuration is ``NAME.toml`` in a folder until cancelled.

    Its log is ``NAME.log``. When cancelled it is given the time to stop cleanly. The caller gets
    the process, to send it signals.

    Raises:
        Failed: it ends by itself.
    """
    with (folder / f"{name}.log").open("w") as log:
        process = await trio.lowlevel.open_process(
            [*LIQOD, "run", "--config", f"{name}.toml"],
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        task_status.started(process)
        ended = await process.wait()
        raise Failed(f"the daemon of {name} ended with {ended}: see {folder}/{name}.log")
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            with trio.move_on_after(STOPPED_WITHIN):
                await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
