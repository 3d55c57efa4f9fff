"""Relays that tests hold: each a process in front of one API server, obedient over a socket.

relay = Relay("milan", plane.server, files, folder)
relay.be(Trouble(verb="watch", cut=1.0))   # from now on
relay.well()                               # as if nothing had been
"""

from __future__ import annotations

import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.processes import Child, tail
from tests.testbed.relay import Command, Settings
from tests.testbed.wirefaults import Trouble

ANSWER = 20.0
"""Seconds in which a relay has to obey."""


@dataclass(frozen=True)
class Files:
    """PEM files with which a relay passes for the API server behind it, and asks as anybody.

    Attributes:
        authority: the cluster's.
        certificate, key: of a server on 127.0.0.1.
        admin_certificate, admin_key: of somebody who may impersonate.
    """

    authority: Path
    certificate: Path
    key: Path
    admin_certificate: Path
    admin_key: Path


class Relay:
    """The other end of a relay's control socket. Owner calls `close`.

    Args:
        name: the cluster's, for logs.
        path: the control socket.
        child: the process that the relay runs in; it ends with this.
    """

    def __init__(self, name: str, path: Path, child: Child) -> None:
        self._name = name
        self._path = path
        self.child = child
        self._socket: socket.socket | None = None
        wait_until(f"relay of {name}", self._connected, 20)
        evidence.add(f"relay of {name}", self._tail)
        self.port = self._tell(Command())["port"]

    @property
    def server(self) -> str:
        """The URL at which it serves."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        """How many requests have come so far."""
        return self._tell(None)["requests"]

    def be(self, *troubles: Trouble, cut: bool = True) -> None:
        """Bend what these hit from now on; with `cut`, connections that are open end first."""
        self._tell(Command(troubles=list(troubles), cut=cut))

    def freeze(self) -> None:
        """Accept connections and answer nothing, on old ones either."""
        self._tell(Command(frozen=True))

    def forget(self) -> None:
        """Lose the connections that are open, as a load balancer that is replaced does: what is
        sent over them goes nowhere, and this side of them is kept alive; new ones work."""
        self._tell(Command(forgetting=True))

    def refuse(self) -> None:
        """Be gone: connections are cut and new ones refused."""
        self._tell(Command(refusing=True))

    def well(self) -> None:
        """Pass everything on."""
        self._tell(Command())

    def close(self) -> None:
        """End it."""
        if self._socket is not None:
            self._socket.close()
        self.child.kill()
        evidence.remove(f"relay of {self._name}", self._tail)

    def _tail(self) -> str:
        return tail(self.child.log, 12)

    def _connected(self) -> bool:
        self.child.check()
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(ANSWER)
        try:
            made.connect(str(self._path))
        except OSError:
            made.close()
            return False
        self._socket = made
        return True

    def _tell(self, command: Command | None) -> dict[str, int]:
        assert self._socket is not None
        self._socket.sendall(msgspec.json.encode(command) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = self._socket.recv(4096)
            if not data:
                self.child.check()
                raise ConnectionError(f"the relay of {self._name} hung up")
            answer += data
        told: dict[str, int] = msgspec.json.decode(answer)
        return told


def stand(name: str, server: str, files: Files, folder: Path) -> Relay:
    """Starts a relay in front of an API server."""
    path = folder / "relay.sock"
    path.unlink(missing_ok=True)
    paths = {key: str(value) for key, value in vars(files).items()}
    settings = folder / "relay.json"
    settings.write_bytes(msgspec.json.encode(Settings(server, **paths)))
    command = [sys.executable, "-m", "tests.testbed.relay", str(settings), str(path)]
    child = Child(f"{name}/relay", command, folder / "relay.log", cwd=Path(__file__).parents[2])
    return Relay(name, path, child)
