"""Programs that run a daemon's discovery, with one plugin, and print what it decides.

    python -m tests.netns.announcers mdns '{"cluster": "rome", "settings": {…}}'

Each cluster has a key of its own, which is the first line; then each change of what is seen is
a line of JSON with ``at``, the seconds since 1970. A line of input is the next port of the
handshake.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import trio

from liqod.advertsigner import SignedAdverts
from liqod.config import parse
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.identity import keys
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.telemetry.hub import Hub
from simulator.suites.providers import share
from tests.netns.lab import bridge, make, plug, run

LONG = 60.0
"""Seconds for which a sighting is waited for: several times what it takes."""


class Line(msgspec.Struct, frozen=True):
    """A line that was printed, as :class:`liqod.telemetry.events.ClusterSighted`."""

    at: float
    cluster_id: str
    key: str = ""
    where: str = ""
    gone: bool = False
    addresses: tuple[str, ...] = ()
    problem: str = ""


class Program:
    """One daemon's discovery in a namespace.

    Attributes:
        lines: what it has said.
    """

    def __init__(self, namespace: str, plugin: str, told: dict[str, Any]) -> None:
        enter = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
        command = [*enter, sys.executable, "-m", __name__, plugin, json.dumps(told)]
        self.lines: list[Line] = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(msgspec.json.decode(line, type=Line))
                self._news.notify_all()

    def waits(self, cluster: str, *, since: float = 0.0, **facts: Any) -> Line:
        """The first line since then that reports this of a cluster, which may still come."""
        until = time.monotonic() + LONG
        wanted = {"cluster_id": cluster, "gone": False, **facts}
        with self._news:
            while True:
                for line in self.lines:
                    told = msgspec.structs.asdict(line)
                    if line.at >= since and wanted.items() <= told.items():
                        return line
                left = until - time.monotonic()
                assert left > 0, f"{wanted} is not seen, but {self.now()}"
                self._news.wait(left)

    @property
    def key(self) -> str:
        """Its key."""
        return self.waits("").key

    def now(self) -> dict[str, Line]:
        """Returns the clusters that it sees now, by source."""
        found: dict[str, Line] = {}
        for line in list(self.lines):
            if line.gone:
                found.pop(line.where, None)
            elif line.cluster_id:
                found[line.where] = line
        return found

    def say(self, port: int) -> None:
        """Take the handshake at another port."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port}\n")
        self.process.stdin.flush()

    def stop(self, *, kill: bool = False) -> None:
        """End it, with or without a farewell."""
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        self.process.wait(10)
        self._reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def bridged(word: str, count: int) -> Iterator[list[str]]:
    """Namespaces whose ``eth0`` are on one bridge, with an address of either family."""
    switch, made = f"{word}-sw", [f"{word}-{at}" for at in range(count)]
    try:
        make(switch)
        bridge(switch, "mcast_snooping", "0")
        for at, name in enumerate(made, 1):
            make(name)
            plug(switch, f"p{at}", name, "eth0", f"10.31.0.{at}/16", f"fd00:31::{at}/64")
        yield made
    finally:
        for name in (*made, switch):
            run("ip", "netns", "del", name, check=False)


class Home:
    """This cluster, as far as discovery asks."""

    def __init__(self, cluster: str) -> None:
        self.cluster_id = cluster
        self.hub, self.config = Hub(), parse("")
        self.informers = SimpleNamespace(share=share)
        self.client = None
        self.in_cluster = False


async def _main(plugin: str, told: dict[str, Any]) -> None:
    ports = [6446]
    settings = {} if told.get("off") else {plugin: told.get("settings", {})}
    loaded = loader.load(sources=loader.built_in(), settings=settings, blocked=["manual"])
    context: Any = Home(told["cluster"])
    signed = SignedAdverts(told["cluster"], keys.generate(), lambda: ports[0])

    def heard(event: Any) -> None:
        found = msgspec.to_builtins(event.payload)
        print(json.dumps({"at": time.time(), **found}), flush=True)

    def listen() -> None:
        for line in sys.stdin:
            ports[0] = int(line)

    context.hub.listen(heard)
    print(json.dumps({"at": time.time(), "cluster_id": "", "key": signed.key}), flush=True)
    threading.Thread(target=listen, daemon=True).start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(DiscoveryManager(context, PluginHost(loaded), signed).run)
        with trio.open_signal_receiver(15) as signals:
            async for _ in signals:
                nursery.cancel_scope.cancel()
                return


if __name__ == "__main__":
    trio.run(_main, sys.argv[1], json.loads(sys.argv[2]))
