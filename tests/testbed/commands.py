"""`liqod …` as a process of its own that need not import everything first.

A run of tests gives hundreds of commands, and each of them would spend two thirds of a second of a
core on imports. One process has everything imported, and forks for each command; what the fork
then does is what `python -m liqod` does. Shells find it as a program, which asks for such a fork.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.testbed import processes, workspace
from tests.testbed.errors import TestbedError
from tests.testbed.processes import Child, tail

SIZE = 1 << 20
"""Bytes that a command line and its environment may have."""
PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of linux/prctl.h."""
_prctl = ctypes.CDLL(None).prctl
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
    line.connect({address!r})
    request = {{"words": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}
    socket.send_fds(line, [json.dumps(request).encode()], [0, 1, 2])
    pid = int(line.recv({size}))
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: os.kill(pid, number))
    sys.exit(int(line.recv({size}) or b"1"))
"""
"""Asks for a fork with its own files, words and environment, hands signals on to it, and ends as it
does."""


def run(
    words: Sequence[str], environment: Mapping[str, str], timeout: float, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """`liqod WORDS…` to its end, with `given` on its standard input.

    Raises `TestbedError`, with what it said, if that takes longer.
    """
    request = {"words": list(words), "environment": dict(environment), "folder": os.getcwd()}
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() as into,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line,
    ):
        line.connect(_server())
        into.write(given.encode())
        into.seek(0)
        files = [into.fileno(), out.fileno(), err.fileno()]
        socket.send_fds(line, [json.dumps(request).encode()], files)
        pid = int(line.recv(SIZE) or b"0")
        line.settimeout(timeout)
        try:
            status = int(line.recv(SIZE) or b"-1")
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            line.settimeout(None)
            line.recv(SIZE)
            said = _text(out) + _text(err)
            raise TestbedError(f"`liqod {' '.join(words)}` hangs:\n{said}") from None
        return subprocess.CompletedProcess(list(words), status, _text(out), _text(err))


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode(errors="replace"))


@functools.cache
def programs() -> Path:
    """A folder for the search path of shells, with the program `liqod`."""
    address = _server()
    folder = workspace.new("programs")
    made = folder / "liqod"
    made.write_text(PROGRAM.format(python=sys.executable, address=address, size=SIZE))
    made.chmod(0o755)
    return folder


_starting = threading.Lock()


def _server() -> str:
    """The address of this process's server, which is started first where there is none."""
    with _starting:
        return _started()


@functools.cache
def _started() -> str:
    folder = workspace.new("commands")
    address, log = str(folder / "socket"), folder / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        number = listener.fileno()
        child = Child(
            "commands",
            [sys.executable, "-m", "tests.testbed.commands", str(number)],
            log,
            cwd=Path(__file__).parents[2],
            environment=processes.plain_environment(),
            pass_fds=[number],
        )
    atexit.register(child.kill)
    if not child.alive:
        raise TestbedError(f"no commands:\n{tail(log, 20)}")
    return address


def serve(number: int) -> NoReturn:
    """Forks for each command line that comes in at a listening socket."""
    import liqod.cli

    for module in pkgutil.walk_packages(liqod.cli.__path__, "liqod.cli."):
        importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have ended
    with socket.socket(fileno=number) as listener:
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                os._exit(_answer(line))
            line.close()


def _answer(line: socket.socket) -> int:
    """Does what one request asks for, in a process of its own; the exit status."""
    _prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    raw, files, _, _ = socket.recv_fds(line, SIZE, 3)
    line.send(str(os.getpid()).encode())
    request = json.loads(raw)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[1:1] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["liqod", *request["words"]]
    status = _main()
    line.send(str(status).encode())
    return status


def _main() -> int:
    """Runs the program's main function, and returns the exit status as the interpreter would."""
    from liqod.__main__ import main

    status: object = 1
    try:
        status = main()
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if isinstance(status, str):
        os.write(2, f"{status}\n".encode())
    return status if isinstance(status, int) else int(status is not None)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
