"""`liqod node` as the program that has a node's tunnels, on a node in a namespace.

Its API server does not exist: it is ordered by a daemon alone.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import trio

from liqod.network import machinesocketdial
from liqod.network.hostcapabilities import FOLDER
from liqod.plugins.network import processes, uapi
from tests.testbed import former
from tests.testbed.daemon import toml
from tests.testbed.processes import Child, tail

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{{name: none, context: {{cluster: none, user: none}}}}]
clusters: [{{name: none, cluster: {{server: "{server}"}}}}]
users: [{{name: none, user: {{token: none}}}}]
"""


class NodeProgram:
    """One node's.

    Args:
        node: name of the node's network namespace.
        address: at which peers reach it.
        wireguard: the program of WireGuard.
        folder: for its socket, configuration and log.
        daemon: the user of its daemon; empty for this one.
        server: URL of the API server.
        reserved: ranges that its configuration reserves.

    Attributes:
        program: how Python is to find it: this version, unless a test says otherwise.
    """

    def __init__(
        self,
        node: str,
        address: str,
        wireguard: str,
        folder: Path,
        daemon: str = "",
        *,
        server: str = "https://127.0.0.1:9",
        reserved: tuple[str, ...] = (),
    ) -> None:
        self.node, self._folder = node, folder
        self._log = folder / "node.log"
        folder.mkdir()
        (folder / "kubeconfig").write_text(KUBECONFIG.format(server=server))
        tables = {
            "cluster": {"kubeconfig": str(folder / "kubeconfig")},
            "network": {
                "machine": str(folder / "machine"),
                "daemon": daemon,
                "advertise": [address],
                "reserved": reserved,
                "backends": ["wireguard", "vxlan", "websocket"],
            },
            "plugins": {"settings": {"wireguard": {"program": wireguard, "kernel": False}}},
        }
        (folder / "node.toml").write_text(toml(tables))
        self.dial = partial(machinesocketdial.dial, folder / "machine")
        self.program: tuple[str, ...] = former.PROGRAM
        self.child: Child | None = None

    def start(self) -> None:
        """Begins it; it listens some time later."""
        config = ("--config", str(self._folder / "node.toml"))
        place = ("--network-namespace", self.node, "--name", self.node)
        words = (*config, *place, "--health-port", "0")
        self.child = Child(
            f"liqod node of {self.node}",
            [sys.executable, *self.program, "node", *words],
            self._log,
            environment=former.environment(former.ROOT),
        )

    def kill(self) -> None:
        """Ends it at once, as a crash does."""
        if self.child is not None:
            self.child.kill()

    def said(self) -> str:
        """The end of its log."""
        return tail(self._log, 40)

    async def close(self) -> None:
        """Ends it, and the process of its tunnels."""
        self.kill()
        with trio.CancelScope(shield=True):
            control = Path(FOLDER) / f"tunnels-{self.node}.socket"
            process = await uapi.process(control)
            if process is not None:
                await processes.end(process, named=str(control))
