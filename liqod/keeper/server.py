"""The keeper: begins programs that carry packets, ends them, and holds network namespaces open.

It decides nothing and reads no configuration. Only root on this machine may send requests, and it
could do all of it anyway. Its programs need ``CAP_NET_ADMIN`` and ``/dev/net/tun``. With it end
the tunnels of this node, until a daemon has made them anew.
"""

import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from liqod.keeper.keepermessages import LOCK, VARIABLE, Message, receive, send
from liqod.runtime.unixpeer import unix_peer

DEFAULT: Final = "/run/liqod-network/keeper.sock"
OWN: Final = "/proc/self/ns/net"
PATIENCE: Final = 2.0
"""Seconds for a program to end on request, before it is killed."""
ASKER: Final = 5.0
"""Seconds for a client to send its request."""


class KeptProgram:
    """One that was begun: its command line, and what it has ended with."""

    def __init__(self, process: int, words: Sequence[str]) -> None:
        self.process = process
        self.words = tuple(words)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its status once it has ended, negative for a signal."""
        if self._status is None:
            found, status = os.waitpid(self.process, os.WNOHANG)
            if found:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def end(self) -> None:
        """End it, and wait until it has."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.poll() is None:
                os.kill(self.process, number)
            deadline = time.monotonic() + PATIENCE
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(0.005)


class KeeperServer:
    """Keeps programs by their process ids, and namespaces by their names."""

    def __init__(self) -> None:
        self._programs: dict[int, KeptProgram] = {}
        self._namespaces: dict[str, int] = {}
        self._lock: Path | None = None

    def answer(self, asked: Message, files: Sequence[int]) -> tuple[Message, list[int]]:
        """Do a request; the answer, and files that go along.

        Args:
            asked: with ``do``, one of the names below.
            files: that came along; closed by the caller.

        Raises:
            OSError, LookupError, TypeError, ValueError: it cannot be done, or is no sound request.
        """
        self._reap()
        match asked["do"]:
            case "start":
                return {"process": self._start(asked, files)}, []
            case "ended":
                return {"status": self._status(int(asked["process"]))}, []
            case "end":
                self._end(lambda one: str(asked["named"]) in one.words)
            case "kill":
                self._end(lambda one: one.process == int(asked["process"]))
            case "keep":
                self._keep(str(asked["name"]), files[0])
            case "drop":
                self._drop(str(asked["name"]))
            case "forsake":
                return {"forsaken": self._forsake()}, []
            case "kept":
                return {"names": sorted(self._namespaces)}, []
            case "give":
                return {}, [self._namespaces[str(asked["name"])]]
            case other:
                raise ValueError(f"{other} is nothing that a keeper does")
        return {}, []

    def _reap(self) -> None:
        for program in self._programs.values():
            program.poll()

    def _start(self, asked: Message, files: Sequence[int]) -> int:
        """Begin a program; files are the client's namespace, its standard input, those kept.

        It runs in the keeper's own namespace, which has to be the asker's.
        """
        namespace, given, *kept = files
        if not os.path.samestat(os.fstat(namespace), os.stat(OWN)):
            raise ValueError("a program is begun in the node's own network namespace only")
        words = [str(word) for word in asked["command"]]
        numbers = [int(number) for number in asked["keep"]]
        environment = {str(key): str(value) for key, value in dict(asked["environment"]).items()}
        process = os.posix_spawn(
            words[0],
            words,
            {"PATH": os.environ.get("PATH", os.defpath), **environment},
            file_actions=_arranged(given, kept, numbers),
            setsid=True,
        )
        # One that has ended is remembered until its number is another's.
        self._programs[process] = KeptProgram(process, words)
        return process

    def _status(self, process: int) -> int | None:
        program = self._programs.get(process)
        return program.poll() if program is not None else -1

    def _end(self, meant: Callable[[KeptProgram], bool]) -> None:
        for program in [one for one in self._programs.values() if meant(one)]:
            program.end()
            del self._programs[program.process]

    def _keep(self, name: str, file: int) -> None:
        if os.fstat(file).st_dev != os.stat(OWN).st_dev:
            raise ValueError("only namespaces are kept")
        held = self._namespaces.get(name)
        if held is not None and os.path.sameopenfile(held, file):
            return
        self._drop(name)
        self._namespaces[name] = os.dup(file)

    def _drop(self, name: str) -> None:
        held = self._namespaces.pop(name, None)
        if held is not None:
            os.close(held)

    def _forsake(self) -> bool:
        """End and hold nothing any more, unless a daemon is here; whether that was so."""
        if self._lock is None or not _is_free(self._lock):
            return False
        self._end(lambda one: True)
        for name in list(self._namespaces):
            self._drop(name)
        return True

    def serve(self, place: Path) -> NoReturn:
        """Answer at a socket, one after the other, until the process ends.

        Raises:
            OSError: there can be no socket.
        """
        os.chdir("/")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = place.with_suffix(LOCK)
        beside = place.with_suffix(".new")
        beside.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            os.umask(0o077)
            listener.bind(str(beside))
            listener.listen()
            # A client that finds it there is answered.
            beside.rename(place)
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(ASKER)
                    with contextlib.suppress(OSError):
                        self._serve_one(connection)

    def _serve_one(self, connection: socket.socket) -> None:
        if unix_peer(connection).user != os.geteuid():
            return
        files: list[int] = []
        try:
            asked, files = receive(connection)
            answer, along = self.answer(asked, files)
        except (OSError, LookupError, TypeError, ValueError) as error:
            answer, along = {"error": str(error) or type(error).__name__}, []
        finally:
            for file in files:
                os.close(file)
        send(connection, answer, along)


def _arranged(
    given: int, files: Sequence[int], numbers: Sequence[int]
) -> list[tuple[int, int, int] | tuple[int, int, str, int, int] | tuple[int, int]]:
    """The files that a program finds open: its input, no outputs, and others by their numbers.

    All other files that are open here are closed for it, as Python opens files.
    """
    if len(files) != len(numbers) or any(number < 3 for number in numbers):
        raise ValueError("each file that is kept has a number, from 3 on")
    # Beyond all numbers that are wanted, so that none is written over before it is copied.
    above = max((*numbers, *files, given), default=2) + 1
    aside = [(file, above + place) for place, file in enumerate(files)]
    return [
        *((os.POSIX_SPAWN_DUP2, file, place) for file, place in aside),
        (os.POSIX_SPAWN_DUP2, given, 0),
        *((os.POSIX_SPAWN_OPEN, output, os.devnull, os.O_WRONLY, 0) for output in (1, 2)),
        *(
            (os.POSIX_SPAWN_DUP2, place, number)
            for (_, place), number in zip(aside, numbers, strict=True)
        ),
        *((os.POSIX_SPAWN_CLOSE, place) for _, place in aside),
    ]


def _is_free(lock: Path) -> bool:
    """True if no daemon holds the lock."""
    try:
        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def main() -> None:
    """Keep until a signal ends it."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        place.unlink(missing_ok=True)
        sys.exit(0)

    # Other files left open by the parent process would be its programs' too.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    place = Path(os.environ.get(VARIABLE) or DEFAULT)
    # As process 1 of a container, signals without a handler do not end it.
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    KeeperServer().serve(place)


if __name__ == "__main__":
    main()
