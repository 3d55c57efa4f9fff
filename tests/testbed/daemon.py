"""`liqod run` as a process beside a cluster, for tests: started, watched, stopped, killed.

Its readiness is what it reports to systemd: the test listens on the notify socket.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.testbed import evidence
from tests.testbed.api import BUSY
from tests.testbed.errors import TestbedError
from tests.testbed.processes import Child, Usage, plain_environment, signal_inside, tail

LEADING = "STATUS=leading"
_FOR_OPERATORS = re.compile(r"[\d-]{10} [\d:]{8} (info|warning|error|critical) ")
STOP_DEADLINE = BUSY * 10.0
"""Seconds in which a daemon stops on SIGTERM; after 8 s it leaves with an error by itself."""


class Daemon:
    """The daemon of one cluster.

    Args:
        name: the cluster's, for logs.
        kubeconfig: the daemon's own.
        folder: where configuration, log and socket go.
        settings: tables of the configuration, over those that keep daemons on one host apart.

    Attributes:
        program: how Python is to find it: this version, unless a test says otherwise.
        enter: the command that starts it elsewhere, in a machine's namespaces.
        packages: the folder in which another version is.
        python: the interpreter.
        files: that it may have open at the most, at first and ever; None: as many as the test.
        machine: its machine's `liqod node`, which outlives it, where networks are joined.
        has_agent: whether another starts that.
        machine_health: its port of health; 0 for none.
    """

    def __init__(
        self,
        name: str,
        kubeconfig: Path,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self.folder = folder
        self.settings = dict(settings or {})
        self.log = folder / "liqod.log"
        self.inspector = folder / f"{name}.sock"
        self.child: Child | None = None
        self.machine: Child | None = None
        self.has_agent = False
        self.machine_health = 0
        self.program: tuple[str, ...] = ("-m", "liqod")
        self.python = sys.executable
        self.enter: tuple[str, ...] = ()
        self.packages: Path | None = None
        self.files: int | None = None
        self._said: list[str] = []
        self._socket: socket.socket | None = None
        evidence.add(f"liqod of {name}", self.tail)

    def start(self, seconds: float = 30.0) -> None:
        """Starts it and waits until it leads; raises `TestbedError` with its log."""
        self.launch()
        deadline = time.monotonic() + BUSY * seconds
        while not self.has_said(LEADING):
            if self.child is not None:
                self.child.check()
            if time.monotonic() > deadline:
                raise TestbedError(f"liqod of {self.name} leads not in time:\n{self.tail()}")

    def launch(self) -> None:
        """Starts it and does not wait: for a standby, or where a failure is expected."""
        config, tables = self.folder / "liqod.toml", self._tables()
        config.write_text(toml(tables))
        path = self.folder / "notify.sock"
        path.unlink(missing_ok=True)
        if self._socket is not None:
            self._socket.close()
        self._said.clear()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.bind(str(path))
        environment = {**plain_environment(), "NOTIFY_SOCKET": str(path)}
        if self.packages or self.enter:  # which leaves the folder in which this version is
            environment["PYTHONPATH"] = str(self.packages or Path(__file__).parents[2])
        if tables["network"].get("enabled", True) and not self.has_agent:
            self.launch_machine()
        self.child = Child(
            f"{self.name}/liqod",
            [
                *self._entering(),
                self.python,
                *self.program,
                "run",
                "--verbose",
                "--config",
                str(config),
            ],
            self.log,
            environment=environment,
        )

    def launch_machine(self) -> None:
        """Starts `liqod node` on its machine, unless that runs, by the same configuration."""
        if self.machine is not None and self.machine.alive:
            return
        environment = plain_environment()
        if self.packages or self.enter:
            environment["PYTHONPATH"] = str(self.packages or Path(__file__).parents[2])
        config = ("--config", str(self.folder / "liqod.toml"))
        words = ("node", *config, "--name", self.name, "--health-port", str(self.machine_health))
        self.machine = Child(
            f"{self.name}/liqod node",
            [*self._entering(), sys.executable, *self.program, *words],
            self.folder / "node.log",
            environment=environment,
        )

    def _entering(self) -> list[str]:
        """The words before a program that starts it on its machine, with its limits."""
        limited = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(self.files)] if self.files else []
        return [*self.enter, *limited]

    def leave_machine(self, folder: Path) -> None:
        """Ends its machine's `liqod node`: another has the socket in a folder from now on."""
        self.settings["network"] = {**self.settings.get("network", {}), "machine": str(folder)}
        self.has_agent = True
        self._kill_machine()

    def _kill_machine(self) -> None:
        if self.machine is not None:
            if self.enter:
                signal_inside(self.machine, 9)
            self.machine.kill()
            self.machine = None

    def _tables(self) -> dict[str, Any]:
        tables: dict[str, Any] = {
            "cluster": {"kubeconfig": str(self.kubeconfig)},
            "webhook": {"host": "127.0.0.1", "port": 0},
            "kubelet": {"host": "127.0.0.1", "listen": "127.0.0.1", "port": 0},
            "health": {"port": 0},
            "inspector": {"socket": str(self.inspector)},
            # In this machine's own network namespace, which daemons share, tests make nothing.
            "network": {"enabled": bool(self.enter)},
        }
        if self.packages is None:  # the version before does not know it
            tables["network"]["machine"] = str(self.folder / "machine")
        if not self.enter:  # nor does one of them keep the others' port
            tables["handshake"] = {"host": "127.0.0.1", "port": 0}
        for name, table in self.settings.items():
            if isinstance(table, Mapping):
                tables[name] = {**tables.get(name, {}), **table}
            else:
                tables[name] = table
        return tables

    def has_said(self, text: str, pause: float = 0.2) -> bool:
        """True if it has sent systemd a message with `text` since it started."""
        assert self._socket is not None, "not started"
        self._socket.settimeout(pause)
        try:
            while True:
                self._said += self._socket.recv(65536).decode().splitlines()
                self._socket.settimeout(0.001)
        except (TimeoutError, BlockingIOError):
            pass
        return any(text in line for line in self._said)

    def stop(self) -> float:
        """Ends it cleanly; the seconds that took. Raises `TestbedError` if it is late or fails."""
        assert self.child is not None, "not started"
        started = time.monotonic()
        self.signal(15)
        code = self.child.wait(STOP_DEADLINE)
        if code != 0:
            raise TestbedError(f"liqod of {self.name} ended with {code}:\n{self.tail()}")
        return time.monotonic() - started

    def kill(self) -> None:
        """Ends it at once, as a crash does; does nothing if it does not run."""
        if self.child is not None:
            self.signal(9)
            self.child.kill()

    def signal(self, number: int) -> None:
        """Sends it a signal; to the process itself, which is a child of the one that entered."""
        assert self.child is not None, "not started"
        if self.enter:
            signal_inside(self.child, number)
        else:
            self.child.signal(number)

    def close(self) -> None:
        """Ends it and releases what it held."""
        self.kill()
        self._kill_machine()
        if self._socket is not None:
            self._socket.close()
        evidence.remove(f"liqod of {self.name}", self.tail)

    def usage(self) -> Usage:
        """Returns the resources that it has used so far."""
        assert self.child is not None, "not started"
        return self.child.usage()

    def mark(self) -> int:
        """Where its log ends now, for :meth:`lines`."""
        return self.log.stat().st_size if self.log.exists() else 0

    def lines(self, since: int = 0) -> list[str]:
        """Returns the lines logged after a mark for its operator to read: no debugging."""
        with self.log.open("rb") as handle:
            handle.seek(since)
            text = handle.read().decode(errors="replace")
        return [line for line in text.splitlines() if _FOR_OPERATORS.match(line)]

    def tail(self, lines: int = 40) -> str:
        """The end of its log."""
        return tail(self.log, lines)


def toml(tables: Mapping[str, Any]) -> str:
    """The text of a TOML document: plain values, tables of them, and lists of tables."""
    plain, nested = [], []
    for name, value in tables.items():
        if isinstance(value, Mapping):
            nested += [f"[{name}]", *(f"{key} = {_value(item)}" for key, item in value.items())]
        else:
            plain.append(f"{name} = {_value(value)}")
    return "\n".join((*plain, *nested)) + "\n"


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Mapping():
            inner = (f"{_value(str(key))} = {_value(item)}" for key, item in value.items())
            return "{" + ", ".join(inner) + "}"
        case list() | tuple():
            return "[" + ", ".join(_value(item) for item in value) + "]"
        case _:
            return str(value)
