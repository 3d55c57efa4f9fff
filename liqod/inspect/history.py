"""The past without a database: a second's figures for ten minutes, a minute's for a day.

The process and each peer are measured each second, whether or not anybody looks; one round over a
hundred peers takes about a millisecond. Each metric of each peer is two rings of 32-bit floats,
8 kB when full; they grow as they fill. A value that was not measured is NaN inside and None
outside. Peers that went are forgotten.
"""

import math
import resource
import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec
import trio

from liqod.inspect.facts import FactsInMemory
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.facts import PeerFacts
from liqod.runtime.ticks import sleep_until_tick

PAGE = resource.getpagesize()
EVERY = 1.0
"""Seconds between two rounds."""
SECONDS = 600
MINUTES = 1440
Fold = Callable[[list[float]], float]


def mean(values: list[float]) -> float:
    """The mean of a minute's values, for figures that add up."""
    return sum(values) / len(values)


class Metric(msgspec.Struct, frozen=True):
    """One metric: its meaning, its unit, and the function that makes a minute of its seconds."""

    help: str
    unit: str
    fold: Fold = mean


PEER: Mapping[str, Metric] = {
    "rtt": Metric("round trip to the peer's API server", "seconds"),
    "loss": Metric("part of the probes without an answer", "ratio"),
    "lag": Metric("longest time from a change here to its write there", "seconds", max),
    "backlog": Metric("keys that wait in the peer's queues", "", max),
    "oldest": Metric("how long the oldest of them is overdue", "seconds", max),
    "requests": Metric("requests to the peer under way", ""),
    "sent": Metric("bytes to the peer", "bytes/s"),
    "received": Metric("bytes from the peer", "bytes/s"),
    "pods_out": Metric("pods of this cluster there", ""),
    "pods_in": Metric("pods of that cluster here", ""),
}
DAEMON: Mapping[str, Metric] = {
    "cpu": Metric("share of one core", "ratio"),
    "rss": Metric("resident memory", "bytes"),
    "lag": Metric("how late the event loop was", "seconds", max),
    "tasks": Metric("tasks", ""),
    "viewers": Metric("clients that watch", ""),
    "pods_out": Metric("pods on virtual nodes", ""),
    "pods_in": Metric("pods lent to peers", ""),
}


class Ring:
    """The newest values of a series, oldest first.

    Args:
        size: how many are kept.
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
        """The last ``count`` values, fewer where there are fewer."""
        ordered = self._values[self._next :] + self._values[: self._next]
        return ordered[-count:].tolist() if count > 0 else []

    def __len__(self) -> int:
        return len(self._values)

    @property
    def bytes(self) -> int:
        """Bytes of memory that its values take, without Python's own."""
        return len(self._values) * self._values.itemsize


class History:
    """The metrics of one peer, or of the daemon."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics
        self._rings = {name: (Ring(SECONDS), Ring(MINUTES)) for name in metrics}
        self._taken = 0

    def record(self, values: Mapping[str, float | None]) -> None:
        """Take the values of a second; those that are missing or None were not measured."""
        self._taken += 1
        for name, (seconds, minutes) in self._rings.items():
            value = values.get(name)
            seconds.push(math.nan if value is None else value)
            if self._taken % 60 == 0:
                last = [each for each in seconds.newest(60) if not math.isnan(each)]
                minutes.push(self._metrics[name].fold(last) if last else math.nan)

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
        """Bytes of memory that its values take."""
        return sum(ring.bytes for pair in self._rings.values() for ring in pair)


def short(value: float) -> float:
    """The value to the seven digits that 32 bits hold."""
    return float(f"{value:.7g}")


class Histories:
    """The history of the daemon and of each peer."""

    def __init__(self) -> None:
        self.daemon = History(DAEMON)
        self.peers: dict[str, History] = {}
        self.at = time.time()

    def record(self, daemon: ProcessFacts, peers: Mapping[str, PeerFacts]) -> None:
        """Take the figures of a second.

        Args:
            daemon: of the process.
            peers: what is known of each peer.
        """
        self.at = time.time()
        out = sum(each.pods_out or 0 for each in peers.values())
        inward = sum(each.pods_in or 0 for each in peers.values())
        self.daemon.record({**_fields(daemon, DAEMON), "pods_out": out, "pods_in": inward})
        for name in self.peers.keys() - peers.keys():
            del self.peers[name]
        for name, facts in peers.items():
            history = self.peers.get(name)
            if history is None:
                history = self.peers[name] = History(PEER)
            link = {"rtt": facts.link.rtt, "loss": facts.link.lost}
            pods = {"pods_out": facts.pods_out, "pods_in": facts.pods_in}
            history.record({**_fields(facts.work, PEER), **link, **pods})

    def of(self, peer: str) -> History:
        """The history of a peer, or with an empty name the daemon's. Raises KeyError."""
        return self.peers[peer] if peer else self.daemon


def _fields(row: Any, names: Iterable[str]) -> dict[str, float | None]:
    return {name: getattr(row, name, None) for name in names}


class LoopTurns(trio.abc.Instrument):
    """How long the event loop was busy at a stretch: so late is what became due meanwhile.

    It costs nothing at rest, where a timer that asks how late it is wakes the process.
    """

    def __init__(self) -> None:
        self._longest = 0.0
        self._began = time.perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        """A turn begins."""
        self._began = time.perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        """It ends."""
        self._longest = max(self._longest, time.perf_counter() - self._began)

    def take(self) -> float:
        """Seconds of the longest turn since the last time."""
        longest, self._longest = self._longest, 0.0
        return longest


class Sampler:
    """Measures each second.

    Args:
        facts: take the newest figures.
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
        """One round."""
        await self._facts.measure(self._process())
        self._histories.record(self._facts.daemon, self._facts.measured)

    def become(self, state: str) -> None:
        """Set the daemon's state, such as ``leading``."""
        self._facts.daemon = msgspec.structs.replace(self._facts.daemon, state=state)

    def watched(self, viewers: int) -> None:
        """How many watch."""
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
    """Resident bytes of this process; 0 where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # memory, not a disk
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0
