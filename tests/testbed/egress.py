"""The only way of an API server to nodes, `python -m tests.testbed.egress SOCKET`.

HTTP CONNECT over a Unix socket, as the server of konnectivity speaks it (`--mode=http-connect`) and
an API server's EgressSelectorConfiguration names it. Its log has a line for each connection.
"""

from __future__ import annotations

import json
import socket
import socketserver
import sys
from pathlib import Path

from tests.testbed import evidence
from tests.testbed.api import wait_until
from tests.testbed.narrowproxy import pass_both_ways
from tests.testbed.processes import Child, tail

ROOT = Path(__file__).parents[2]


class Egress:
    """The proxy as a process of its own. Owner calls `close`.

    Args:
        folder: where its socket, its log and the API server's configuration go.

    Attributes:
        flag: what the API server is started with.
    """

    def __init__(self, folder: Path) -> None:
        self.log, path = folder / "egress.log", folder / "egress.sock"
        connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(path)}}}
        selection = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
        file = folder / "egress.json"
        file.write_text(json.dumps(selection))
        self.flag = f"--egress-selector-config-file={file}"
        command = [sys.executable, "-m", "tests.testbed.egress", str(path)]
        self.child = Child("egress", command, self.log, cwd=ROOT)
        evidence.add("the egress proxy", self._tail)
        wait_until("the egress proxy", path.exists, 20)

    def targets(self) -> set[str]:
        """Whereto it has led so far."""
        return set(self.log.read_text().splitlines())

    def close(self) -> None:
        """End it."""
        self.child.kill()
        evidence.remove("the egress proxy", self._tail)

    def _tail(self) -> str:
        return tail(self.log, 12)


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        method, target, _ = self.rfile.readline().decode("latin-1").split(" ")
        assert method == "CONNECT", method
        while self.rfile.readline().strip():
            pass
        print(target, flush=True)
        host, _, port = target.rpartition(":")
        try:
            there = socket.create_connection((host.strip("[]"), int(port)), 5)
        except OSError:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        there.settimeout(None)
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        pass_both_ways(self.connection, there)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


if __name__ == "__main__":
    with _Server(sys.argv[1], _Request) as server:
        server.serve_forever()
