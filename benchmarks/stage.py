"""The base of every benchmark: clusters with daemons, and what they have cost so far.

The same on embedded clusters and on real control planes; only the programs beside the daemons
differ.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.embedded import CONSUMER, EmbeddedPlane
from benchmarks.meter import Meter
from benchmarks.report import Report
from liqod.errors import LiqodError
from liqod.runtime.supervise import explain
from tests.testbed import programs
from tests.testbed.controlplane import ControlPlane, Place, Settings
from tests.testbed.errors import TestbedError
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import start_all
from tests.testbed.processes import Usage

PROVIDER = "milan"
API_SERVERS = ("kube-apiserver", "embedded")
"""The names of the API server's process; an embedded cluster is one process."""
SECOND_HOST = "127.77.0.1"
"""An address of loopback of its own for the provider, so that it alone can vanish."""

Requests = Counter[tuple[str, str, str]]
"""Requests by cluster, verb and resource."""
say = programs.say


@dataclass
class Cost:
    """The cost of a stretch of time: CPU and memory by `cluster/process`, requests, bytes."""

    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    resident: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)
    requests: Requests = field(default_factory=Counter)
    bytes_out: int = 0
    bytes_in: int = 0

    def cpu_of(self, *processes: str) -> float:
        """CPU seconds of the processes so named, in all clusters."""
        return sum(cpu for name, cpu in self.cpu.items() if name.split("/")[1] in processes)

    def as_json(self) -> dict[str, Any]:
        """For another program."""
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu,
            "resident_bytes": self.resident,
            "peak_bytes": self.peak,
            "requests": {" ".join(key): count for key, count in self.requests.items() if count},
            "peer_bytes_out": self.bytes_out,
            "peer_bytes_in": self.bytes_in,
        }


@dataclass
class Sample:
    """The cost of everything until one moment."""

    at: float
    usage: dict[str, Usage]
    requests: Requests
    bytes: tuple[int, int]


class Stage:
    """Clusters with daemons; `close` leaves nothing, whatever happened.

    Attributes:
        events: the Events of pods that the consumer shows (`reflection.events`); empty for the
            default.
        tells: whether nodes write four Events of each pod that starts, as kubelets do.
    """

    def __init__(self, *, embedded: bool) -> None:
        self.embedded = embedded
        self.events = ""
        self.tells = False
        self.federation = Federation()
        self.planes: list[Any] = []
        self.meter: Meter | None = None

    def start(self, *names: str, hosts: dict[str, str] | None = None) -> None:
        """Start clusters side by side, without liqod in them."""
        made: list[Any] = []
        for name in names:
            settings = Settings(pod_cidr=pod_cidr(len(self.planes) + len(made)), more=ROOM)
            host = (hosts or {}).get(name, "127.0.0.1")
            made.append(
                EmbeddedPlane(name, settings, host)
                if self.embedded
                else ControlPlane(name, settings, Place(host))
            )
        self.planes += made
        start_all(made)

    def join(
        self,
        name: str,
        *,
        nodes: int = 1,
        pods: int = 110,
        relayed: bool = False,
        more: Mapping[str, Any] | None = None,
    ) -> Member:
        """Put liqod into a cluster and run its daemon.

        `relayed` is how peers will reach it; `more` are further tables of its configuration.
        """
        plane = next(each for each in self.planes if each.name == name)
        settings: dict[str, Any] = {
            "cluster": {"pod_cidrs": [plane.settings.pod_cidr]},
            "peer_defaults": {"pod_network": "routed", "pod_cidrs": ["10.0.0.0/8"]},
            "guests": {"max_resources": {"pods": str(pods)}},
            **({"reflection": {"events": self.events}} if self.events else {}),
            **(more or {}),
        }
        if relayed:
            address = urlsplit(plane.server)
            port = address.port or 0
            self.meter = Meter(plane.folder, [port], address.hostname or "")
            settings["api_server"] = {"advertise": self.meter.url(port)}
        return self.federation.join(plane, settings, nodes=nodes, pods=pods, tells=self.tells)

    def sample(self) -> Sample:
        """The cost of everything so far."""
        usage: dict[str, Usage] = {}
        requests: Requests = Counter()
        for name, member in self.federation.members.items():
            for (verb, resource), count in member.plane.requests().items():
                requests[name, verb, resource] = count
            usage[f"{name}/liqod"] = member.daemon.usage()
            usage |= {f"{name}/{one}": use for one, use in member.plane.usage().items()}
            if member.has_nodes:
                usage[f"{name}/nodes"] = member.nodes.usage()
        relayed = self.meter.bytes() if self.meter is not None else (0, 0)
        return Sample(time.monotonic(), usage, requests, relayed)

    def cost(self, before: Sample, after: Sample) -> Cost:
        """The cost between two samples."""
        return Cost(
            after.at - before.at,
            {name: use.cpu - before.usage[name].cpu for name, use in after.usage.items()},
            {name: use.rss for name, use in after.usage.items()},
            {name: use.peak for name, use in after.usage.items()},
            Counter({key: n - before.requests[key] for key, n in after.requests.items()}),
            after.bytes[0] - before.bytes[0],
            after.bytes[1] - before.bytes[1],
        )

    def forget_peaks(self) -> None:
        """Have peaks of resident memory count from now, where the kernel lets us."""
        for member in self.federation.members.values():
            children = [member.daemon.child, *member.plane.children.values()]
            for child in filter(None, children):
                with contextlib.suppress(OSError):
                    Path(f"/proc/{child.pid}/clear_refs").write_text("5")

    def idle(self, seconds: float) -> Cost:
        """The cost of doing nothing for so many seconds."""
        before = self.sample()
        time.sleep(seconds)
        return self.cost(before, self.sample())

    def close(self) -> None:
        """End everything at once."""
        self.federation.close()
        if self.meter is not None:
            self.meter.close()
        for plane in self.planes:
            plane.destroy()


ROOM = {"kube-controller-manager": ("--node-cidr-mask-size=20",)}
"""A node has addresses for four thousand pods, and not for the usual 254."""


def pod_cidr(index: int) -> str:
    """Pod networks that do not overlap."""
    return f"10.{201 + index}.0.0/16"


def peered(stage: Stage, *, pods: int = 50, host: str = "127.0.0.1") -> tuple[Member, Member]:
    """A consumer and a provider, peered through a meter, with room for so many pods."""
    say("starting two clusters with liqod")
    stage.start(CONSUMER, PROVIDER, hosts={PROVIDER: host})
    rome = stage.join(CONSUMER, pods=pods)
    milan = stage.join(PROVIDER, pods=pods, relayed=True)
    stage.federation.peer(rome, milan, cpu=str(pods), memory=f"{pods}Gi", pods=str(pods))
    return rome, milan


def offloaded(rome: Member, name: str) -> None:
    """A namespace that all peers have."""
    rome.create("/api/v1/namespaces", {"metadata": {"name": name}})
    rome.liqod("offload", "namespace", name, "--pod-offloading-strategy", "Remote")


# -- the command line ----------------------------------------------------------------------------


def parser(name: str, what: str) -> argparse.ArgumentParser:
    """The arguments that all benchmarks have."""
    made = argparse.ArgumentParser(
        prog=".".join(filter(None, ("python -m benchmarks", name))),
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--embedded",
        action="store_true",
        help="embedded clusters; without it real control planes, whose programs are built if "
        "they are not there (some ten minutes, once)",
    )
    made.add_argument("--json", metavar="FILE", help="write every figure there too")
    return made


@contextlib.contextmanager
def stage(*, embedded: bool) -> Iterator[Stage]:
    """A stage that is cleared however it ends, by Ctrl-C too."""
    made = Stage(embedded=embedded)
    try:
        yield made
    finally:
        made.close()


def run(
    measure: Callable[[argparse.Namespace], Report],
    arguments: argparse.ArgumentParser,
    words: Sequence[str] | None = None,
) -> int:
    """Measure, print the table, write the file; the exit status."""
    chosen = arguments.parse_args(words)
    # To be told to end is to be interrupted, which Trio knows to do in order.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    report, status = Report(""), 0
    try:
        report = measure(chosen)
    except* (TestbedError, LiqodError) as group:
        print(f"benchmark: {explain(group)}", file=sys.stderr)
        status = 1
    except* KeyboardInterrupt:
        print("benchmark: interrupted; nothing is left", file=sys.stderr)
        status = 130
    if status:
        return status
    report.facts["machine"] = machine()
    report.facts["clusters"] = "embedded" if chosen.embedded else "real control planes"
    print(report.text(), flush=True)
    if chosen.json:
        report.write(chosen.json)
    return 0


def machine() -> str:
    """The machine on which the figures were measured."""
    model = "unknown processor"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        found = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
        model = next(found, model)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return f"{cores} cores ({model}), {memory:.0f} GiB, Python {python}"


def route(verb: str, host: str) -> bool:
    """Take packets to a loopback address out of the world (`add`), or back in (`del`).

    False where that cannot be done: it takes root and iproute2.
    """
    words: Sequence[str] = ("ip", "route", verb, "blackhole", f"{host}/32", "table", "local")
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0
