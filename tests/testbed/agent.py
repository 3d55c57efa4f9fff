"""`liqod node` as a process of one node, for tests: started, begun anew, killed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.testbed.daemon import toml
from tests.testbed.machine import Machine
from tests.testbed.processes import Child, Usage, plain_environment, signal_inside, usage


class Agent:
    """One node's own daemon.

    Args:
        node: name of the Node.
        machine: in which it runs.
        folder: where its log goes.
        kubeconfig: that node's own.
        settings: tables of its configuration.
    """

    def __init__(
        self,
        node: str,
        machine: Machine,
        folder: Path,
        kubeconfig: Path,
        settings: Mapping[str, Any],
    ) -> None:
        self.node, self.kubeconfig = node, kubeconfig
        self._machine, self._log = machine, folder / "liqod-node.log"
        self._config = folder / "liqod-node.toml"
        self._config.write_text(toml(settings))
        self._child: Child | None = None

    def start(self) -> None:
        """Starts it, or kills it and starts it again."""
        self.kill()
        environment = {
            **plain_environment(),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "LIQOD_CONFIG": str(self._config),
            "LIQOD_KUBECONFIG": str(self.kubeconfig),
        }
        command = [sys.executable, "-m", "liqod", "node", "--name", self.node, "--verbose"]
        self._child = Child(
            f"{self.node}/liqod-node",
            [*self._machine.inside, *command],
            self._log,
            environment=environment,
        )

    def kill(self) -> None:
        """Ends it at once: itself, which is a child of the one that entered the machine."""
        if self._child is not None:
            signal_inside(self._child, signal.SIGKILL)
            self._child.kill()
            self._child = None

    def usage(self) -> Usage:
        """Returns the resources that it has used so far."""
        assert self._child is not None, "it does not run"
        children = Path(f"/proc/{self._child.pid}/task/{self._child.pid}/children")
        return usage(int(children.read_text().split()[0]))
