"""The cost of streams to pods at a peer: open and idle, and as the way of bytes.

The virtual nodes' kubelet API runs in a process of its own, between two embedded clusters: it is
asked as this cluster's API server asks it, and the peer's says back what it receives.

- resident memory of that process with so many idle streams and without, and how soon they are open;
- one stream, all that is sent coming back: bytes a second, and the CPU of that process for a GiB;
  beside it the same with the peer's API server asked directly.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import trio

from benchmarks.channel import resident
from benchmarks.report import Aim, Report
from liqod.apimachinery.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.consumer.nodes.podproxy import SHARE, PodProxies
from liqod.consumer.nodes.podusage import PodLocation, PodUsage
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.http.wire import Wire
from liqod.runtime.account import Account
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, eventually
from tests.simulated.kubeletcaller import EXEC, SPDY, Caller

MEMORY = Aim("an idle stream, kB", "-", 40.0)
PACE = Aim("bytes a second by way of the virtual node, times slower", "-", 2.0)
PIECE = bytes(1 << 16)
HEADERS = (("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"))
WITHOUT = '[kubelet]\nport = 0\nlisten = "127.0.0.1"\n'


class Clusters(msgspec.Struct, frozen=True):
    """Where the process finds the clusters: two kubeconfigs, and the first one's API server."""

    rome: str
    milan: str
    server: str


class Cluster(msgspec.Struct, frozen=True):
    """A cluster of another process."""

    kubeconfig: str
    server: str


class OnePodProxy:
    """Leads to the one pod (:class:`liqod.consumer.nodes.podproxy.PodProxy`)."""

    id = "milan"

    def __init__(self, client: Client, share: float) -> None:
        self.client = client
        self.budget = CpuBudget(share=share)
        self.streams = 0
        self.usage = PodUsage(self.resolve)
        self.nodes = ("milan",)

    def healthy(self) -> None:
        """It always is."""

    def pods(self, node: str) -> Iterable[bytes]:
        """Nobody asks for them."""
        return ()

    def has(self, node: str) -> bool:
        """True for any node."""
        return True

    def resolve(self, node: str, namespace: str) -> PodLocation:
        """There."""
        return PodLocation(self.client, f"{namespace}-rome")

    @contextmanager
    def hold(self, close: Callable[[], None]) -> Iterator[None]:
        """It is never lost."""
        yield


async def carry(clusters: Clusters) -> None:
    """The process between the two: it prints its port, and works until it is killed."""
    async with (
        borrower(Cluster(clusters.rome, clusters.server), WITHOUT) as context,
        Client(from_kubeconfig(clusters.milan)) as milan,
        trio.open_nursery() as nursery,
    ):
        proxies = PodProxies()
        proxies["milan"] = cast("Any", OnePodProxy(milan, SHARE))
        await milan.raw("GET", "/version")  # as every peer is asked: TLS sessions are resumed
        print(await nursery.start(KubeletServer(context, proxies, Account()).run), flush=True)
        await trio.sleep_forever()


async def filled(cluster: EmbeddedCluster, namespace: str) -> None:
    """The pod, as it is in one of them."""
    spec = {"containers": [{"name": "web", "image": "web"}]}
    async with Client(from_kubeconfig(cluster.kubeconfig)) as admin:
        await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
        await eventually(lambda: admin.find(SERVICE_ACCOUNTS, "default", namespace))
        await admin.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, namespace)

        async def bound() -> bool:
            return "nodeName" in (await admin.get(PODS, "web", namespace))["spec"]

        await eventually(bound)


def worked(pid: int) -> float:
    """Seconds of CPU of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def round_trip(wire: Wire, size: int) -> float:
    """Bytes a second of so many that are sent, and come back."""
    began = time.monotonic()

    async def send() -> None:
        for _ in range(size // len(PIECE)):
            await wire.send(PIECE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        got = 0
        while got < size:
            got += len(await wire.receive())
    return size / (time.monotonic() - began)


async def measure(chosen: argparse.Namespace) -> dict[str, float]:
    """Everything."""
    async with (
        EmbeddedCluster("rome", nodes=1) as rome,
        EmbeddedCluster("milan", nodes=1) as milan,
        trio.open_nursery() as nursery,
    ):
        await filled(rome, "shop")
        await filled(milan, "shop-rome")
        clusters = Clusters(rome.kubeconfig, milan.kubeconfig, rome.server)
        command = [sys.executable, "-m", "benchmarks.streams", "--carry"]
        run = partial(trio.run_process, command, stdin=msgspec.json.encode(clusters), check=False)
        made = await nursery.start(partial(run, stdout=subprocess.PIPE))
        caller = Caller(int(await made.stdout.receive_some()), rome.ca)
        async with caller.ask(EXEC, SPDY) as first:
            assert first.status == 101, first.body
            await first.line()
        found = await idle(caller, made.pid, chosen.streams)
        size = chosen.mebibytes << 20
        async with caller.ask(EXEC, SPDY) as answer:
            assert answer.status == 101, answer.body
            await answer.line()
            before = worked(made.pid)
            found["carried"] = await round_trip(answer.wire, size)
            found["cpu"] = (worked(made.pid) - before) * (1 << 30) / size
        async with Client(from_kubeconfig(milan.kubeconfig)) as client:
            path = PODS.path("shop-rome", "web", "exec")
            asked: dict[str, Any] = {"query": {"command": "x"}, "headers": HEADERS}
            there = await client.upgrade("POST", path, **asked, label=("create", "pods/exec"))
            assert there.early or await there.wire.receive()
            found["direct"] = await round_trip(there.wire, size)
            there.wire.close()
        made.kill()
        nursery.cancel_scope.cancel()
    return found


async def idle(caller: Caller, pid: int, count: int) -> dict[str, float]:
    """Memory before and with so many streams that say nothing, and seconds until they are open."""
    found = {"before": float(resident(pid))}
    limit = trio.CapacityLimiter(16)
    began = time.monotonic()
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:

        async def open_one() -> None:
            async with limit:
                answer = await stack.enter_async_context(caller.ask(EXEC, SPDY))
                assert answer.status == 101, answer.body
                await answer.line()

        async with trio.open_nursery() as opening:
            for _ in range(count):
                opening.start_soon(open_one)
        found["opened"] = time.monotonic() - began
        await trio.sleep(2.0)
        found["after"] = float(resident(pid))
        nursery.cancel_scope.cancel()
    await trio.sleep(5.0)  # they end
    return found


def report(chosen: argparse.Namespace, cost: dict[str, float]) -> Report:
    """All of it."""
    made = Report("Streams to pods at a peer", {"machine": f"{os.cpu_count()} cores"})
    each = (cost["after"] - cost["before"]) / chosen.streams / 1000
    made.rows = [
        ("", "directly", "by the virtual node"),
        (
            "there and back, MiB/s",
            *(f"{cost[proxy] / (1 << 20):.0f}" for proxy in ("direct", "carried")),
        ),
        ("CPU of the daemon for a GiB there and back, s", "", f"{cost['cpu']:.1f}"),
        (f"each of {chosen.streams} idle streams, kB", "", f"{each:.1f}"),
        ("until they are open, s", "", f"{cost['opened']:.1f}"),
    ]
    made.aims = [(MEMORY, each), (PACE, cost["direct"] / cost["carried"])]
    made.figures = {"cost": cost, "streams": chosen.streams}
    return made


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(prog="benchmarks.streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=1000, help="that are idle")
    parser.add_argument("--mebibytes", type=int, default=512, help="through one stream")
    parser.add_argument("--json", default="", metavar="FILE")
    parser.add_argument("--embedded", action="store_true", help="as it always is")
    parser.add_argument("--carry", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.carry:
        trio.run(carry, msgspec.json.decode(sys.stdin.buffer.read(), type=Clusters))
        return
    made = report(chosen, trio.run(measure, chosen))
    print(made.text())
    if chosen.json:
        made.write(chosen.json)


if __name__ == "__main__":
    main()
