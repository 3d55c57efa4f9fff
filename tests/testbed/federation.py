"""Several clusters, each with liqod installed, a daemon beside it and fake nodes in it.

Everything that a user does is done with the commands that a user has; what they see is read with
the administrator's rights.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.testbed import commands, evidence, inventory
from tests.testbed.api import Api, wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.daemon import Daemon
from tests.testbed.errors import Missing, TestbedError
from tests.testbed.processes import Child, plain_environment, tail

COMMAND_DEADLINE = 120.0
ASKED = {"cpu": "4", "memory": "8Gi", "pods": "50"}
"""Resources that a consumer requests from a provider unless a test sets others."""
UNSERVED = "the API server does not serve "
"""With which `liqod install` begins to say for what it has waited in vain."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/liqo/leases/liqod"
"""The Lease of the daemon that leads."""


class Member:
    """One cluster of a federation, whose cluster id is its name."""

    def __init__(self, plane: ControlPlane, settings: Mapping[str, Any] | None = None) -> None:
        self.plane = plane
        self.name = plane.name
        self.folder = plane.folder / "liqod"
        self.folder.mkdir()
        self.kubeconfig = self.folder / "daemon.kubeconfig"
        self.daemon = Daemon(self.name, self.kubeconfig, self.folder, settings)
        self._nodes: Child | None = None

    @property
    def api(self) -> Api:
        """The administrator's access."""
        return self.plane.api

    def install(self, *words: str) -> None:
        """`liqod install`; where nothing else is said with a kubeconfig of the daemon's own rights.

        A busy machine's API server may serve the new kinds later than the command waits for them.
        Then it is repeated, which goes on from there.
        """
        words = words or ("--write-kubeconfig", str(self.kubeconfig))

        def done() -> bool:
            try:
                self.liqod("install", "--cluster-id", self.name, *words)
            except TestbedError as error:
                if UNSERVED not in str(error):
                    raise
                return False
            return True

        wait_until(f"the kinds at {self.name}", done, 30)

    def run_nodes(
        self, count: int = 1, *, delay: float = 0.0, pods: int = 110, tells: bool = False
    ) -> None:
        """Fake nodes, `NAME-0` and so on, whose pods run `delay` seconds after they were bound."""
        names = [f"{self.name}-{number}" for number in range(count)]
        log = self.folder / "nodes.log"
        self._nodes = Child(
            f"{self.name}/nodes",
            [
                *(sys.executable, "-m", "tests.testbed.fakenodes"),
                *("--kubeconfig", str(self.plane.kubeconfig), "--delay", str(delay)),
                *("--pod-cidr", self.plane.settings.pod_cidr, "--pods", str(pods)),
                *(("--tells",) if tells else ()),
                *names,
            ],
            log,
            cwd=Path(__file__).parents[2],
        )
        evidence.add(f"nodes of {self.name}", self._nodes_log)

        def ready() -> bool:
            assert self._nodes is not None
            self._nodes.check()
            return all(self.node_is_ready(name) for name in names)

        wait_until(f"nodes of {self.name}", ready, 30)

    def _nodes_log(self) -> str:
        return tail(self.folder / "nodes.log", 12)

    @property
    def has_nodes(self) -> bool:
        """True if fake nodes run."""
        return self._nodes is not None

    @property
    def nodes(self) -> Child:
        """The process of the fake nodes."""
        assert self._nodes is not None, "no nodes"
        return self._nodes

    def liqod(
        self,
        *arguments: str,
        check: bool = True,
        timeout: float = COMMAND_DEADLINE,
        given: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Runs a liqod command as administrator; raises `TestbedError` on failure.

        Its standard input is `given`.

        `status` may end with 1, by which it says that it names a problem.
        """
        words = [*arguments, "--kubeconfig", str(self.plane.kubeconfig)]
        environment = {**plain_environment(), "HOME": str(self.folder)}
        answer = commands.run(words, environment, timeout, given)
        good = (0, 1) if arguments[0] == "status" and answer.stdout else (0,)
        if check and answer.returncode not in good:
            raise TestbedError(
                f"{self.name}: `liqod {' '.join(arguments)}` ended with {answer.returncode}:\n"
                f"{answer.stdout}{answer.stderr}"
            )
        return answer

    def create(self, path: str, obj: Mapping[str, Any]) -> Any:
        """POSTs an object to a collection's path."""
        return self.api.call("POST", path, dict(obj))

    def patch(self, path: str, change: Mapping[str, Any]) -> Any:
        """Merge-patches the object at a path."""
        return self.api.call("PATCH", path, dict(change), content="application/merge-patch+json")

    def names(self, path: str) -> set[str]:
        """The names of the objects of a collection, none where the kind is unknown."""
        status, _ = self.api.raw("GET", path)
        if status == 404:
            return set()
        return {one["metadata"]["name"] for one in self.api.get(path)["items"]}

    def node_is_ready(self, name: str) -> bool:
        """True if there is a node of this name and it is Ready."""
        try:
            return is_true(self.api.get(f"/api/v1/nodes/{name}"), "Ready")
        except Missing:
            return False

    def comes_to(self, path: str, holds: Callable[[Any], Any], seconds: float = 40.0) -> Any:
        """The object at a path, as soon as there is one of which `holds` is true."""
        found: list[Any] = []

        def there() -> bool:
            found[:] = [self.api.get(path)]
            return bool(holds(found[0]))

        try:
            wait_until(f"{path} at {self.name}", there, seconds)
        except Exception as error:
            error.add_note(f"it is {str(found)[:3000]}")
            raise
        return found[0]

    def goes(self, path: str, seconds: float = 40.0) -> None:
        """Waits until there is nothing at a path."""
        wait_until(f"{path} to go at {self.name}", lambda: not self.api.exists(path), seconds)

    def pods(self, namespace: str) -> dict[str, dict[str, Any]]:
        """The pods of a namespace by name."""
        items = self.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def ready_pods(self, namespace: str) -> set[str]:
        """The names of those that are Running and Ready."""
        return {name for name, pod in self.pods(namespace).items() if is_true(pod, "Ready")}

    def inventory(self) -> set[inventory.Item]:
        """Everything in this cluster."""
        return inventory.take(self.api)

    def crash(self) -> None:
        """Kills the daemon and takes its Lease off it, so that the next does not wait for it."""
        self.daemon.kill()
        self.patch(LEASE, {"spec": {"holderIdentity": ""}})

    def close(self) -> None:
        """Ends the daemon and the nodes at once; the cluster stays."""
        self.daemon.close()
        if self._nodes is not None:
            self._nodes.kill()
            evidence.remove(f"nodes of {self.name}", self._nodes_log)
        shutil.rmtree(self.folder, ignore_errors=True)


def is_true(obj: Mapping[str, Any], condition: str) -> bool:
    """True if an object's status has this condition with the status True."""
    conditions = obj.get("status", {}).get("conditions") or []
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


class Federation:
    """Members by name, in the order in which they joined."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}

    def join(
        self,
        plane: ControlPlane,
        settings: Mapping[str, Any] | None = None,
        *,
        nodes: int = 1,
        pods: int = 110,
        tells: bool = False,
    ) -> Member:
        """Installs liqod into a cluster, starts `nodes` fake nodes (if any) and the daemon."""
        member = Member(plane, settings)
        self.members[member.name] = member
        member.install()
        if nodes:
            member.run_nodes(nodes, pods=pods, tells=tells)
        member.daemon.start()
        return member

    def peer(
        self, consumer: Member, provider: Member, *arguments: str, **resources: str
    ) -> subprocess.CompletedProcess[str]:
        """`generate peering-user` at the provider and `peer` at the consumer."""
        user = self.peering_user(consumer, provider)
        asked = [
            word for key, value in (resources or ASKED).items() for word in (f"--{key}", value)
        ]
        return consumer.liqod("peer", "--remote-kubeconfig", str(user), *asked, *arguments)

    def peering_user(self, consumer: Member, provider: Member) -> Path:
        """A kubeconfig with which this consumer may peer with this provider."""
        path = consumer.folder / f"at-{provider.name}.kubeconfig"
        named = ("--consumer-cluster-id", consumer.name, "--output", str(path))
        provider.liqod("generate", "peering-user", *named)
        return path

    def close(self) -> None:
        """Ends all daemons and nodes."""
        for member in self.members.values():
            member.close()
        self.members.clear()
