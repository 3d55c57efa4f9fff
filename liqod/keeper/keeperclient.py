"""A daemon's client of its tunnels' keeper, in a thread that may block; hosts have no keeper.

Everything that outlives the daemon goes through here where there is a keeper, by the same calls
that are made where there is none.
"""

import fcntl
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from liqod.keeper.keepermessages import LOCK, PATIENCE, VARIABLE, Message, receive, send

SILENT: Final = "the keeper of tunnels at {path} does not answer ({why}): is there a pod of the \
DaemonSet liqod-keeper on this node?"


class Begun:
    """A program that the keeper has begun, with the interface of :class:`subprocess.Popen`."""

    def __init__(self, keeper: "KeeperClient", process: int) -> None:
        self.pid = process
        self.returncode: int | None = None
        self._keeper = keeper

    def poll(self) -> int | None:
        """Its status, once it has ended."""
        if self.returncode is None:
            self.returncode = self._keeper.status(self.pid)
        return self.returncode

    def kill(self) -> None:
        """End it."""
        self._keeper.kill(self.pid)


class KeeperClient:
    """The keeper at a socket. Each call raises OSError where it does not answer, or refuses."""

    def __init__(self, path: str) -> None:
        self._path = path

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdin: int,
        keep: Sequence[int],
    ) -> Begun:
        """Begin a program in the namespace of this thread, which has to be the node's own.

        Args:
            command: with the program's path first.
            environment: besides ``PATH``.
            stdin: its standard input.
            keep: open files that it gets under the numbers that they have here.
        """
        asked = {
            "do": "start",
            "command": list(command),
            "environment": dict(environment),
            "keep": list(keep),
        }
        namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            answer, _ = self._request(asked, (namespace, stdin, *keep))
        finally:
            os.close(namespace)
        return Begun(self, int(answer["process"]))

    def status(self, process: int) -> int | None:
        """The exit status of a program; None while it runs."""
        answer, _ = self._request({"do": "ended", "process": process})
        found = answer["status"]
        return int(found) if found is not None else None

    def kill(self, process: int) -> None:
        """End one program that was begun here."""
        self._request({"do": "kill", "process": process})

    def end(self, named: str) -> None:
        """End the programs that have this word in their command line."""
        self._request({"do": "end", "named": named})

    def keep(self, name: str, file: int) -> None:
        """Hold a network namespace open under a name."""
        self._request({"do": "keep", "name": name}, (file,))

    def drop(self, name: str) -> None:
        """Hold one no longer."""
        self._request({"do": "drop", "name": name})

    def kept(self) -> list[str]:
        """The names of those that are held."""
        answer, _ = self._request({"do": "kept"})
        return [str(name) for name in answer["names"]]

    def give(self, name: str) -> int:
        """One of them, open; the caller's to close."""
        _, files = self._request({"do": "give", "name": name})
        if len(files) != 1:
            raise OSError(f"the keeper at {self._path} gives no namespace {name}")
        return files[0]

    def forsake(self) -> bool:
        """Have all of it ended, where this node is not the gateway; no, while a daemon is here.

        Two that have the keys of the same tunnels would take each other's packets.
        """
        answer, _ = self._request({"do": "forsake"})
        return bool(answer["forsaken"])

    def attend(self) -> None:
        """Register this process with the keeper until it ends. Raises OSError."""
        if self._path not in _attended:
            place = Path(self._path).with_suffix(LOCK)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(file, fcntl.LOCK_SH)
            _attended[self._path] = file

    def _request(self, asked: Message, files: Sequence[int] = ()) -> tuple[Message, list[int]]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(PATIENCE)
                connection.connect(self._path)
                send(connection, asked, files)
                answer, along = receive(connection)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise OSError(SILENT.format(path=self._path, why=why)) from error
        if "error" in answer:
            raise OSError(f"the keeper of tunnels: {answer['error']}")
        return answer, along


_attended: dict[str, int] = {}
"""Locks that this process holds, by the keeper's socket: the kernel releases them with it."""


def keeper() -> KeeperClient | None:
    """The keeper of this daemon; None on a host, where none is needed."""
    path = os.environ.get(VARIABLE, "")
    return KeeperClient(path) if path else None
