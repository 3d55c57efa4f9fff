"""The history of metrics in memory: a second's figures for ten minutes, a minute's for a day.

The process and each peer are measured each second, with or without viewers; one round over a
hundred peers takes about a millisecond. Each metric of each peer is two rings of 32-bit floats,
8 kB when full; they grow as they fill. A value that was not measured is NaN inside and None
outside. Removed peers are forgotten.
"""

import math
import resource
import time
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

import msgspec
import trio

from liqod.inspect.memoryfacts import FactsInMemory
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.facts import PeerFacts, Report, WorkFacts
from liqod.runtime.ticks import sleep_until_tick

PAGE = resource.getpagesize()
EVERY = 1.0
"""Seconds between two rounds."""
SECONDS = 600
MINUTES = 1440
Fold = Callable[[list[float]], float]
T = TypeVar("T")


def mean(values: list[float]) -> float:
    """The mean of a minute's values, for figures that add up."""
    return sum(values) / len(values)


class Metric(NamedTuple, Generic[T]):
    """One metric: its meaning and unit, its fact, and the function from seconds to a minute."""

    help: str
    unit: str
    read: Callable[[T], float | None]
    fold: Fold = mean


def work(read: Callable[[WorkFacts], float | None]) -> Callable[[PeerFacts], float | None]:
    """The reader of a figure of the work in progress for a peer."""
    return lambda facts: None if facts.work is None else read(facts.work)


def process(read: Callable[[ProcessFacts], float]) -> Callable[[Report], float]:
    """The reader of a figure of the daemon's process."""
    return lambda report: read(report.cluster.process or ProcessFacts())


def pods(read: Callable[[PeerFacts], int | None]) -> Callable[[Report], int]:
    """The reader of a sum over all peers."""
    return lambda report: sum(read(each) or 0 for each in report.peers.values())


PEER: Mapping[str, Metric[PeerFacts]] = {
    "rtt": Metric("round trip to the peer's API server", "seconds", lambda each: each.link.rtt),
    "loss": Metric("part of the probes without an answer", "ratio", lambda each: each.link.lost),
    "lag": Metric(
        *("longest time from a change here to its write there", "seconds"),
        *(work(lambda each: each.lag), max),
    ),
    "backlog": Metric(
        "keys that wait in the peer's queues", "", work(lambda each: each.backlog), max
    ),
    "oldest": Metric(
        "how long the oldest of them is overdue", "seconds", work(lambda each: each.oldest), max
    ),
    "requests": Metric("requests to the peer under way", "", work(lambda each: each.requests)),
    "sent": Metric("bytes to the peer", "bytes/s", work(lambda each: each.sent)),
    "received": Metric("bytes from the peer", "bytes/s", work(lambda each: each.received)),
    "pods_out": Metric("pods of this cluster there", "", lambda each: each.pods_out),
    "pods_in": Metric("pods of that cluster here", "", lambda each: each.pods_in),
}
DAEMON: Mapping[str, Metric[Report]] = {
    "cpu": Metric("share of one core", "ratio", process(lambda each: each.cpu)),
    "rss": Metric("resident memory", "bytes", process(lambda each: each.rss)),
    "lag": Metric("how late the event loop was", "seconds", process(lambda each: each.lag), max),
    "tasks": Metric("tasks", "", process(lambda each: each.tasks)),
    "viewers": Metric("clients that watch", "", process(lambda each: each.viewers)),
    "pods_out": Metric("pods on virtual nodes", "", pods(lambda each: each.pods_out)),
    "pods_in": Metric("pods lent to peers", "", pods(lambda each: each.pods_in)),
}


class Ring:
    """The newest values of a series, oldest first.

    Args:
        size: number of values kept.
    """

    __slots__ = ("_next", "_size", "_values")

    def __init__(self, size: int) -> None:
        self._values = array("f")
        self._size = size
        self._next = 0

    def push(self, value: float) -> None:
        """Add a value; the oldest goes when it is full."""
        if len(self._values) < self._size:
            self._values.append(value)
            return
        self._values[self._next] = value
        self._next = (self._next + 1) % self._size

    def newest(self, count: int) -> list[float]:
        """The last ``count`` values, or all if there are fewer."""
        ordered = self._values[self._next :] + self._values[: self._next]
        return ordered[-count:].tolist() if count > 0 else []

    def __len__(self) -> int:
        return len(self._values)

    @property
    def bytes(self) -> int:
        """Bytes of memory of its values, without Python's own."""
        return len(self._values) * self._values.itemsize


class History(Generic[T]):
    """The metrics of one peer, or of the daemon.

    Args:
        metrics: by name.
    """

    def __init__(self, metrics: Mapping[str, Metric[T]]) -> None:
        self._metrics = metrics
        self._rings = {name: (Ring(SECONDS), Ring(MINUTES)) for name in metrics}
        self._taken = 0

    def record(self, facts: T) -> None:
        """Record the values of a second; those that are None were not measured."""
        self._taken += 1
        for name, (seconds, minutes) in self._rings.items():
            metric = self._metrics[name]
            value = metric.read(facts)
            seconds.push(math.nan if value is None else value)
            if self._taken % 60 == 0:
                last = [each for each in seconds.newest(60) if not math.isnan(each)]
                minutes.push(metric.fold(last) if last else math.nan)

    def series(self, name: str, span: float) -> tuple[float, tuple[float | None, ...]]:
        """Seconds from one value to the next, and the values of the last ``span`` seconds.

        Raises:
            KeyError: there is no such metric.
        """
        seconds, minutes = self._rings[name]
        ring, step = (seconds, 1.0) if span <= SECONDS else (minutes, 60.0)
        values = ring.newest(math.ceil(span / step))
        return step, tuple(None if math.isnan(each) else short(each) for each in values)

    @property
    def bytes(self) -> int:
        """Bytes of memory of its values."""
        return sum(ring.bytes for pair in self._rings.values() for ring in pair)


def short(value: float) -> float:
    """The value to the seven digits that 32 bits hold."""
    return float(f"{value:.7g}")


class Histories:
    """The history of the daemon and of each peer."""

    def __init__(self) -> None:
        self.daemon = History(DAEMON)
        self.peers: dict[str, History[PeerFacts]] = {}
        self.at = time.time()

    def record(self, report: Report) -> None:
        """Record the figures of a second."""
        self.at = time.time()
        self.daemon.record(report)
        for name in self.peers.keys() - report.peers.keys():
            del self.peers[name]
        for name, facts in report.peers.items():
            if name not in self.peers:
                self.peers[name] = History(PEER)
            self.peers[name].record(facts)

    def of(self, peer: str) -> "History[Any]":
        """The history of a peer, or with an empty name the daemon's. Raises KeyError."""
        return self.peers[peer] if peer else self.daemon


class LoopTurns(trio.abc.Instrument):
    """Measures the longest busy turn of the event loop: tasks that became due wait so long.

    It costs nothing at rest, while a timer that measures its own delay wakes the process.
    """

    def __init__(self) -> None:
        self._longest = 0.0
        self._began = time.perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        """Begin a turn."""
        self._began = time.perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        """End a turn."""
        self._longest = max(self._longest, time.perf_counter() - self._began)

    def take(self) -> float:
        """Seconds of the longest turn since the last call."""
        longest, self._longest = self._longest, 0.0
        return longest


class Sampler:
    """Measures the figures each second.

    Args:
        facts: hold the newest figures.
        histories: keep each figure.
    """

    def __init__(self, facts: FactsInMemory, histories: Histories) -> None:
        self._facts = facts
        self._histories = histories
        self._late = 0.0
        self._turns = LoopTurns()
        self._cpu = time.process_time()
        self._at = trio.current_time()

    async def run(self) -> NoReturn:
        """Measure until cancelled."""
        trio.lowlevel.add_instrument(self._turns)
        try:
            while True:
                self._late = await sleep_until_tick(EVERY)
                await self.take()
        finally:
            trio.lowlevel.remove_instrument(self._turns)

    async def take(self) -> None:
        """Measure one round."""
        self._histories.record(await self._facts.measure(self._process()))

    def become(self, state: str) -> None:
        """Set the daemon's state, such as ``leading``."""
        self._facts.daemon = msgspec.structs.replace(self._facts.daemon, state=state)

    def watched(self, viewers: int) -> None:
        """Set the number of viewers."""
        if viewers != self._facts.daemon.viewers:
            self._facts.daemon = msgspec.structs.replace(self._facts.daemon, viewers=viewers)

    def _process(self) -> ProcessFacts:
        at, cpu = trio.current_time(), time.process_time()
        passed, self._at = max(at - self._at, 1e-3), at
        late = max(self._late, self._turns.take())
        used, self._cpu = (cpu - self._cpu) / passed, cpu
        return msgspec.structs.replace(
            self._facts.daemon,
            cpu=round(used, 4),
            rss=resident(),
            lag=round(late, 4),
            tasks=trio.lowlevel.current_statistics().tasks_living,
        )


def resident() -> int:
    """Resident bytes of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # memory, not a disk
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0
