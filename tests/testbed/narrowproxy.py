"""An HTTP proxy as a strict network has it, `python -m tests.testbed.narrowproxy`.

It knows CONNECT, to port 443, of the names that it was given; each of them stands for a port of
this machine. Everything else is refused. Its log has a line for each request.

The program that it is needs nothing of liqod, so that both cannot be wrong in the same way.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from pathlib import Path

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.processes import Child, free_ports, tail

ROOT = Path(__file__).parents[2]
HEAD = 8192
"""Bytes of a request."""


class NarrowProxy:
    """The proxy as a process of its own. Owner calls `close`.

    Args:
        folder: where its log goes.
        names: the ports of this machine at which port 443 of these names is.
    """

    def __init__(self, folder: Path, **names: int) -> None:
        self.log = folder / "proxy.log"
        self.log.unlink(missing_ok=True)
        (self.port,) = free_ports(1)
        known = [f"{name}.example={port}" for name, port in names.items()]
        command = [sys.executable, "-m", "tests.testbed.narrowproxy", str(self.port), *known]
        self.child = Child("proxy", command, self.log, cwd=ROOT)
        evidence.add("the proxy", self._tail)
        wait_until("the proxy", self._listens, 20)

    @property
    def url(self) -> str:
        """The URL with which a daemon is configured."""
        return f"http://127.0.0.1:{self.port}"

    def requests(self) -> set[str]:
        """Returns its requests so far with their answers, each once."""
        return set(self.log.read_text().splitlines())

    def close(self) -> None:
        """End it."""
        self.child.kill()
        evidence.remove("the proxy", self._tail)

    def _tail(self) -> str:
        return tail(self.log, 12)

    def _listens(self) -> bool:
        self.child.check()
        with socket.socket() as made:
            return made.connect_ex(("127.0.0.1", self.port)) == 0


class _Request(socketserver.BaseRequestHandler):
    names: dict[str, int]

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = self.request.recv(HEAD)
            if not data or len(head) > HEAD:
                return
            head += data
        first, _, rest = head.partition(b"\r\n")
        method, target, _ = (*first.decode("latin-1").split(" "), "", "", "")[:3]
        port = self.names.get(target)
        if method != "CONNECT" or port is None:
            print(f"refused: {method} {target}", flush=True)
            self.request.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        print(f"{method} {target}", flush=True)
        try:
            there = socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            self.request.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        there.settimeout(None)
        self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there.sendall(rest.partition(b"\r\n\r\n")[2])
        pass_both_ways(self.request, there)


def pass_both_ways(near: socket.socket, far: socket.socket) -> None:
    """Carry bytes in both directions until both have ended, and close the far one."""
    back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
    back.start()
    _pass_on(near, far)
    back.join()
    far.close()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            each.close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main(port: str, *known: str) -> None:
    """Serve until killed."""
    pairs = (each.split("=") for each in known)
    _Request.names = {f"{name}:443": int(number) for name, number in pairs}
    with _Server(("127.0.0.1", int(port)), _Request) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
