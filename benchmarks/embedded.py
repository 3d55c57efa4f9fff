"""Embedded clusters as processes of their own, so that what they cost is not the driver's.

    python -m benchmarks.embedded plane FOLDER NAME HOST   one cluster; a daemon runs beside it
    python -m benchmarks.embedded farm FOLDER              many clusters, each with its daemon's
                                                           components in this process: providers

Each is up once FOLDER/kubeconfig (FOLDER/ready) is there, and ends with anyone who started it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio

from benchmarks.meter import Meter, allow_files
from liqod import install
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.plugins import loader
from liqod.procedures import peeringusers
from simulator import EmbeddedCluster
from simulator.access.identities import MASTERS
from tests.simulated.members import SETTINGS, served
from tests.simulated.prepared import quiet
from tests.testbed import workspace
from tests.testbed.api import Api, wait_until
from tests.testbed.controlplane import Settings
from tests.testbed.processes import Child, Usage, free_ports, tail

CONSUMER = "rome"
"""The consumer that the clusters of a farm let in."""
START_EACH = 5.0
"""Seconds in which one cluster starts, on a machine with other things to do."""
AT_ONCE = 8
"""Clusters of a farm that are made side by side."""


class EmbeddedPlane:
    """An embedded cluster in place of a :class:`tests.testbed.controlplane.ControlPlane`."""

    def __init__(
        self, name: str, settings: Settings | None = None, host: str = "127.0.0.1"
    ) -> None:
        self.name = name
        self.settings = settings or Settings()
        self.folder = workspace.new(name)
        self.kubeconfig = self.folder / "kubeconfig"
        self._host = host
        self.server = ""
        self.children: dict[str, Child] = {}

    def start(self) -> None:
        """Start it; returns when it can be used."""
        words = ("plane", str(self.folder), self.name, self._host, self.settings.pod_cidr)
        child = self.children["embedded"] = _child(self.name, self.folder, words)
        _wait(child, self.kubeconfig, 30)
        self.server = (self.folder / "server").read_text()
        port = urlsplit(self.server).port or 0
        pair = [self.folder / name for name in ("ca.crt", "admin.crt", "admin.key")]
        self.api = Api(self._host, port, *pair)

    def usage(self) -> dict[str, Usage]:
        """The usage of the one process so far: API server, controllers, scheduler."""
        return {name: child.usage() for name, child in self.children.items()}

    def requests(self) -> dict[tuple[str, str], int]:
        """The requests that the API server has served so far, by (verb, resource)."""
        return self.api.requests()

    def freeze(self) -> None:
        """Stop it where it is: it accepts connections and answers nothing."""
        self.children["embedded"].freeze()

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self.children["embedded"].thaw()

    def kill(self) -> None:
        """End it at once."""
        for child in self.children.values():
            child.kill()

    def logs(self, lines: int = 12) -> str:
        """The end of its log."""
        return tail(self.folder / f"{self.name}.log", lines)

    def destroy(self) -> None:
        """End it at once."""
        self.kill()
        self.children.clear()


@dataclass(frozen=True)
class Lender:
    """A provider of a farm.

    Attributes:
        name: its cluster id.
        port: of its API server.
        server: the URL that it advertises.
    """

    name: str
    port: int
    server: str


class Farm:
    """Many embedded providers in one process, behind a meter. `close` it."""

    def __init__(self, count: int) -> None:
        self.folder = workspace.new("farm")
        ports = free_ports(count)
        self.meter = Meter(self.folder, ports)
        self.lenders = [
            Lender(f"lender-{number:03}", port, self.meter.url(port))
            for number, port in enumerate(ports, 1)
        ]
        (self.folder / "lenders.json").write_bytes(msgspec.json.encode(self.lenders))
        self._child = _child("farm", self.folder, ("farm", str(self.folder)))
        try:
            _wait(self._child, self.folder / "ready", 30 + START_EACH * count)
        except BaseException:
            self.close()
            raise

    def user(self, lender: Lender) -> Path:
        """The consumer's kubeconfig for one of them."""
        return self.folder / f"{lender.name}.kubeconfig"

    def close(self) -> None:
        """End them all at once."""
        self._child.kill()
        self.meter.close()


def _child(name: str, folder: Path, words: Sequence[str]) -> Child:
    command = [sys.executable, "-m", "benchmarks.embedded", *words]
    return Child(name, command, folder / f"{name}.log", cwd=Path(__file__).parents[1])


def _wait(child: Child, path: Path, seconds: float) -> None:
    def is_there() -> bool:
        child.check()
        return path.exists()

    wait_until(str(path), is_there, seconds)


async def plane(folder: Path, name: str, host: str, pod_cidr: str) -> None:
    """Serve one cluster until killed."""
    async with EmbeddedCluster(name, host=host, pod_cidr=pod_cidr) as cluster:
        admin = certificates.make_client(cluster.ca, "admin", (MASTERS,))
        (folder / "ca.crt").write_bytes(cluster.ca.certificate)
        (folder / "admin.crt").write_bytes(admin.certificate)
        (folder / "admin.key").write_bytes(admin.key)
        (folder / "server").write_text(cluster.server)
        _put(folder / "kubeconfig", cluster.kubeconfig)
        await trio.sleep_forever()


async def farm(folder: Path) -> None:
    """Serve many, with the components of their daemons, until killed."""
    plugins = loader.load(sources=loader.built_in())
    limit = trio.CapacityLimiter(AT_ONCE)

    async def lend(lender: Lender, *, task_status: trio.TaskStatus[None]) -> None:
        async with (
            EmbeddedCluster(lender.name, port=lender.port) as cluster,
            Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        ):
            await install.install(admin, install.Options(cluster_id=lender.name), quiet)
            await lend_with(lender, cluster, admin, task_status)

    async def lend_with(
        lender: Lender,
        cluster: EmbeddedCluster,
        admin: Client,
        task_status: trio.TaskStatus[None],
    ) -> None:
        more: dict[str, Any] = {"settings": SETTINGS, "plugins": plugins}
        more["advertise"] = lender.server
        async with (
            trio.open_nursery() as nursery,
            served(lender.name, cluster, admin, nursery, **more) as one,
        ):
            user = await peeringusers.generate(
                one.admin,
                CONSUMER,
                here=one.id,
                server=lender.server,
                ca=one.cluster.ca.certificate,
            )
            (folder / f"{lender.name}.kubeconfig").write_bytes(user)
            task_status.started()
            await trio.sleep_forever()

    async with trio.open_nursery() as lenders:

        async def start(lender: Lender) -> None:
            async with limit:
                await lenders.start(lend, lender)

        async with trio.open_nursery() as starters:
            text = (folder / "lenders.json").read_bytes()
            for lender in msgspec.json.decode(text, type=list[Lender]):
                starters.start_soon(start, lender)
        # Else a collection goes over all clusters, and none answers for seconds.
        gc.collect()
        gc.freeze()
        _put(folder / "ready", "")


def _put(path: Path, text: str) -> None:
    """Write a file so that it is there only when it is whole."""
    part = path.with_suffix(".part")
    part.write_text(text)
    part.rename(path)


def main(arguments: list[str]) -> None:
    """Serve until killed."""
    allow_files()
    what, folder, *more = arguments
    if what == "plane":
        name, host, pod_cidr = more
        trio.run(plane, Path(folder), name, host, pod_cidr)
    else:
        trio.run(farm, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
