"""How long pods take to start: a steady trickle of them on some nodes, each timed and taken away.

The time of a pod runs from its create to its Ready in the consumer's cluster. Windows of a healthy
and of a faulty federation are to be compared within one run: the machine is shared, and a
neighbour's load is in both.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import trio

from liqod.apimachinery.kinds import PODS
from liqod.errors import LiqodError
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from tests.testbed.errors import TestbedError
from tests.testbed.processes import Child
from tests.testbed.workloads import pod

PATIENCE = 30.0
"""Seconds after which a pod that is not Ready is an error."""
MEDIAN_RATIO = 1.5
TAIL_SECONDS = 0.050
"""Bound on the others' start latency beside a faulty peer: median times, and p99 plus, this."""
LATEST = 8.0
"""Seconds in which a pod starts elsewhere while a peer misbehaves, beside other tests: less than a
connection to a frozen peer waits, and three times what four tests at once on two cores took."""
PRIORITY = -20
"""Of processes under measurement, where they may have it: neighbours are not what is measured."""


@contextlib.contextmanager
def preferred(children: Iterable[Child]) -> Iterator[None]:
    """Lets this thread and these programs run before others, where that is allowed (as root)."""
    found = [child for child in children if child.alive]
    try:
        _prefer(found, PRIORITY)
        yield
    finally:
        _prefer([child for child in found if child.alive], 0)


def _prefer(children: Sequence[Child], priority: int) -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, priority)
        for child in children:
            # Each leads a session of its own; this reaches all its threads.
            os.setpriority(os.PRIO_PGRP, child.pid, priority)
    for pid in (os.getpid(), *(child.pid for child in children)):
        # Where Linux groups processes by session, those groups have a niceness of their own.
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(str(priority))


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_pod = msgspec.json.Decoder(_Pod)


def is_ready(body: bytes) -> bool:
    """True if a pod is Ready."""
    conditions = _pod.decode(body).status.conditions or ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def quantile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank quantile."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Comparison:
    """Start latencies with and without a fault elsewhere, in seconds."""

    fault: str
    healthy: list[float] = field(default_factory=list)
    faulty: list[float] = field(default_factory=list)
    recovery: float = 0.0
    lines: int = 0

    @property
    def ratio(self) -> float:
        """Of the medians."""
        return quantile(self.faulty, 0.5) / quantile(self.healthy, 0.5)

    @property
    def tail(self) -> float:
        """Seconds by which the p99 is later."""
        return quantile(self.faulty, 0.99) - quantile(self.healthy, 0.99)

    def add(self, other: Comparison) -> None:
        """Take in another's samples."""
        self.healthy += other.healthy
        self.faulty += other.faulty
        self.recovery = max(self.recovery, other.recovery)
        self.lines += other.lines

    def row(self) -> tuple[str, ...]:
        """Its line of the table."""
        numbers = (quantile(each, q) for each in (self.healthy, self.faulty) for q in (0.5, 0.99))
        return (
            self.fault,
            *(f"{number * 1e3:.1f}" for number in numbers),
            f"{self.ratio:.2f}",
            f"{self.tail * 1e3:+.1f}",
            f"{len(self.healthy)}+{len(self.faulty)}",
            f"{self.recovery:.1f}",
            str(self.lines),
        )


HEAD = (
    *("fault of one peer", "median", "p99", "median*", "p99*", "ratio", "p99 diff", "pods"),
    *("recovery s", "log lines"),
)


def total(found: Iterable[Comparison]) -> Comparison:
    """All samples together, where a p99 means something."""
    made = Comparison("all of them")
    for one in found:
        made.add(one)
    return made


def table(found: Iterable[Comparison]) -> str:
    """All of them; times in ms, * with the fault."""
    rows = [HEAD, *(one.row() for one in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = (
        "  ".join(
            text.ljust(width) if not column else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


class Sampler:
    """Starts pods in one namespace of the consumer and times them; no two share a name.

    Args:
        client: an administrator of the consumer's cluster.
        namespace: an offloaded one.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._numbers = itertools.count()
        self._mark = secrets.token_hex(2)
        self._ready: dict[str, trio.Event] = {}
        self._began: dict[str, float] = {}
        self.informer = SharedInformer(client, PODS, Selection(namespace))

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Watch the pods until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.informer.run)
            self.informer.subscribe(self._see)
            task_status.started()

    def _see(self, change: StoreChange) -> None:
        event = self._ready.get(change.key[1])
        if event is not None and change.new is not None and is_ready(change.new):
            event.set()

    async def window(self, nodes: Sequence[str], count: int, pace: float) -> list[float]:
        """The latencies of `count` pods, one every `pace` seconds, on these nodes in turn."""
        found: list[float] = []

        async def one(node: str) -> None:
            found.append(await self._once(node))

        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            for number in range(count):
                await trio.sleep_until(began + number * pace)
                nursery.start_soon(one, nodes[number % len(nodes)])
        return found

    async def _once(self, node: str) -> float:
        name = await self.create(node)
        try:
            await self.ready(name, PATIENCE)
            return trio.current_time() - self._began[name]
        finally:
            await self.delete(name)

    async def create(self, node: str) -> str:
        """Start a pod on a node; its name."""
        name = f"pod-{node}-{self._mark}-{next(self._numbers)}"
        self._ready[name] = trio.Event()
        self._began[name] = trio.current_time()
        tolerated = [{"operator": "Exists"}]
        await self._client.create(
            PODS, pod(name, nodeName=node, tolerations=tolerated), self._namespace
        )
        return name

    async def ready(self, name: str, seconds: float) -> None:
        """Wait until a pod that was created is Ready. Raises TestbedError after `seconds`."""
        with trio.move_on_after(seconds):
            await self._ready[name].wait()
            return
        raise TestbedError(f"{name} is not Ready after {seconds:.0f} s")

    async def delete(self, name: str) -> None:
        """Take a pod away, and do not wait for it."""
        with contextlib.suppress(LiqodError):
            await self._client.delete(PODS, name, self._namespace)
        self._ready.pop(name, None)
        self._began.pop(name, None)
