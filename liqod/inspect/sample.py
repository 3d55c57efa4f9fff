"""What is measured each second, whether or not anybody looks: the process, and each peer's pulse.

One round over a hundred peers takes about a millisecond. Each figure also goes into the history.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.meta import Partial
from liqod.inspect.caches import Cache
from liqod.inspect.history import Histories
from liqod.kube.cache.placement import placement
from liqod.kube.selection import Selection
from liqod.model.view import peerview
from liqod.model.view.rows import Daemon, Pulse
from liqod.ticks import sleep_until_tick

if TYPE_CHECKING:
    from liqod.consumer.borrowing import Borrowing
    from liqod.inspect.rooms import Rooms
    from liqod.kube.cache.informers import Informers
    from liqod.kube.client import Client
    from liqod.kube.queue import KeyedQueue
    from liqod.ownpods import OwnPods
    from liqod.peer import Peer

Rounds = tuple[float | None, float | None, float | None, float | None, float | None]
"""Newest, median, 95th percentile, jitter and loss of round trips."""
PAGE = resource.getpagesize()
EVERY = 1.0
"""Seconds between two rounds."""


class Figures(msgspec.Struct):
    """The newest figures.

    Attributes:
        daemon: cpu, rss, lag and tasks of the process.
        pulses: by peer.
        lags: how late the loop was in each of the last sixty seconds, newest last.
        pods: of each peer the number out and in.
    """

    daemon: Daemon = Daemon()
    pulses: dict[str, Pulse] = {}
    lags: tuple[float, ...] = ()
    pods: dict[str, tuple[int, int]] = {}


class Turns(trio.abc.Instrument):
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
    """Measures each second; see :attr:`figures`.

    Args:
        rooms: those that work now.
        informers: those of this cluster.
        histories: where each figure is kept.

    Attributes:
        lent: of each pod here that belongs to a consumer, that consumer.
    """

    def __init__(
        self, rooms: "Rooms", informers: "Informers", own_pods: "OwnPods", histories: Histories
    ) -> None:
        self.figures = Figures(Daemon(pid=os.getpid(), started=time.time()))
        self.lent = Cache[str](Partial, peerview.origin)
        self._rooms = rooms
        self._informers = informers
        self._own_pods = own_pods
        self._histories = histories
        self._late = 0.0
        self._turns = Turns()
        self._second = int(trio.current_time())
        self._trips: dict[str, tuple[list[float | None], Rounds]] = {}
        self._cpu = time.process_time()
        self._bytes: dict[str, tuple[int, int]] = {}
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
        self.lent.sit_on(self._informers.find(PODS, Selection(labels=labels.GUEST_PODS)))
        await self.lent.refresh()
        now = trio.current_time()
        passed, self._at = max(now - self._at, 1e-3), now
        figures = self.figures
        figures.daemon = self._process(passed)
        figures.lags = (*figures.lags[-59:], figures.daemon.lag)
        before, self._second = self._second, int(now)
        peers = self._rooms.peers
        figures.pulses = {
            name: self._pulse(peer, passed, (before, self._second)) for name, peer in peers.items()
        }
        for gone in self._bytes.keys() - peers.keys():
            del self._bytes[gone]
        for gone in self._trips.keys() - peers.keys():
            del self._trips[gone]
        figures.pods = self._pods()
        self._histories.record(figures.daemon, figures.pulses, figures.pods)

    def become(self, state: str) -> None:
        """What the daemon is now, such as ``leading``."""
        self.figures.daemon = msgspec.structs.replace(self.figures.daemon, state=state)

    def watched(self, viewers: int) -> None:
        """How many watch."""
        if viewers != self.figures.daemon.viewers:
            self.figures.daemon = msgspec.structs.replace(self.figures.daemon, viewers=viewers)

    def _process(self, passed: float) -> Daemon:
        cpu, late = time.process_time(), max(self._late, self._turns.take())
        used, self._cpu = (cpu - self._cpu) / passed, cpu
        return msgspec.structs.replace(
            self.figures.daemon,
            cpu=round(used, 4),
            rss=resident(),
            lag=round(late, 4),
            tasks=trio.lowlevel.current_statistics().tasks_living,
        )

    def _pulse(self, peer: "Peer", passed: float, seconds: tuple[int, int]) -> Pulse:
        """One peer's figures of some whole seconds, the last of which is not over yet."""
        silence = peer.link.since_last_answer
        rtt, p50, p95, jitter, loss = self._round_trips(peer)
        queues, clients = _queues(peer.borrowing), _clients(peer.borrowing)
        sent, received = self._rates(peer.id, clients, passed)
        slowest = max((queue.slowest(*seconds) for queue in queues), default=0.0)
        return Pulse(
            heard=None if silence is None else round(time.time() - silence, 1),
            rtt=rtt,
            p50=p50,
            p95=p95,
            jitter=jitter,
            loss=loss,
            lag=round(slowest, 3) if slowest else None,
            backlog=sum(queue.waiting for queue in queues),
            oldest=round(max((queue.oldest for queue in queues), default=0.0), 1),
            requests=sum(client.busy()[0] for client in clients),
            sent=sent,
            received=received,
        )

    def _round_trips(self, peer: "Peer") -> Rounds:
        """What the round trips come to; computed again where there is a new one."""
        taken = list(peer.link.rounds)
        known = self._trips.get(peer.id)
        if known is None or known[0] != taken:
            known = self._trips[peer.id] = (taken, rounds(taken))
        return known[1]

    def _pods(self) -> dict[str, tuple[int, int]]:
        """Of each peer the number of pods out and in."""
        pods, lent = (
            self._informers.find(PODS, self._own_pods.selection),
            Counter(self.lent.rows.values()),
        )

        def out(borrowing: "Borrowing | None") -> int:
            if pods is None or borrowing is None:
                return 0
            return sum(placement(pods).count(node) for node in borrowing.engine.nodes)

        peers = self._rooms.peers
        return {name: (out(peer.borrowing), lent[name]) for name, peer in peers.items()}

    def _rates(self, name: str, clients: "list[Client]", passed: float) -> tuple[float, float]:
        stats = [client.stats for client in clients]
        totals = (sum(each.bytes_out for each in stats), sum(each.bytes_in for each in stats))
        before = self._bytes.get(name, totals)
        self._bytes[name] = totals
        sent, received = (max(a - b, 0) / passed for a, b in zip(totals, before, strict=True))
        return round(sent), round(received)


def _queues(borrowing: "Borrowing | None") -> "list[KeyedQueue[Any]]":
    if borrowing is None:
        return []
    return [*borrowing.engine.queues.values(), borrowing.replication.queue]


def _clients(borrowing: "Borrowing | None") -> "list[Client]":
    return [] if borrowing is None else [each.client for each in borrowing.remotes.all()]


def rounds(taken: Iterable[float | None]) -> Rounds:
    """Newest, median, 95th percentile, jitter and loss of round trips; None marks a lost one."""
    every = list(taken)
    good = [each for each in every if each is not None]
    if not every:
        return None, None, None, None, None
    loss = round(1 - len(good) / len(every), 3)
    if not good:
        return None, None, None, None, loss
    ordered = sorted(good)
    steps = [abs(b - a) for a, b in pairwise(good)]
    return (
        round(good[-1], 6) if every[-1] is not None else None,
        round(ordered[len(ordered) // 2], 6),
        round(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], 6),
        round(sum(steps) / len(steps), 6) if steps else None,
        loss,
    )


def resident() -> int:
    """Resident bytes of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # memory, not a disk
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0
