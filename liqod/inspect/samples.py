"""Samples of ``/metrics``, each read from the facts at the moment of a scrape.

This module counts nothing: a scrape fills one report, a few milliseconds for a hundred peers.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, product
from typing import Literal, NamedTuple

from liqod.model.network.pathfigures import TransitFacts
from liqod.model.objects.remoteevents import TYPES
from liqod.model.view.daemonfacts import ClientFacts, MeetingFacts, ProcessFacts
from liqod.model.view.facts import PeerFacts, QueueFacts, Report
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.rows import Ladder
from liqod.reflection.eventwriter import OUTCOMES
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.telemetry.histogram import Histogram

CONTROL_PLANE = "control-plane"
"""The label of an identity without a slice."""
DRIVER = "api"
"""The driver of connections to API servers, beside the names of tunnels' backends."""


class Scrape(NamedTuple):
    """The data of one scrape.

    Attributes:
        report: the facts.
        ladders: the doctor's findings by peer; this cluster's own by the empty string.
        viewers: number of viewers.
        callers: limits of callers' connections.
    """

    report: Report
    ladders: Mapping[str, Ladder]
    viewers: int
    callers: Account


Labels = tuple[str, ...]
Sample = tuple[Labels, float | Histogram]
Read = Callable[[Scrape], Iterable[Sample]]


class Family(NamedTuple):
    """One metric: its name without a counter's ``_total``, its kind, labels and meaning."""

    name: str
    kind: Literal["gauge", "counter", "histogram", "unknown"]
    labels: Labels
    help: str
    read: Read

    @property
    def sample(self) -> str:
        """The name of its samples."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


# Of the daemon


def process(now: Scrape) -> ProcessFacts:
    """The facts of the daemon's process."""
    return now.report.cluster.process or ProcessFacts()


def one(read: Callable[[Scrape], float]) -> Read:
    """The reader of the single sample of a family without labels."""
    return lambda now: [((), read(now))]


def both(*reads: Read) -> Read:
    """The reader of the samples of several."""
    return lambda now: chain.from_iterable(read(now) for read in reads)


def checks(now: Scrape) -> Iterator[Sample]:
    """1 for each layer that works, 0 for each that fails."""
    for peer, ladder in now.ladders.items():
        for check in ladder.checks:
            if check.verdict in ("ok", "failing"):
                yield (peer, check.layer), float(check.verdict == "ok")


def sightings(now: Scrape) -> Iterator[Sample]:
    """Number of kept sightings, by plugin."""
    for plugin, count in now.report.cluster.sighted.items():
        yield (plugin,), count


# Of peers


def of_peers(read: Callable[[PeerFacts], float | None]) -> Read:
    """The reader of a figure of each peer that has one."""

    def each(now: Scrape) -> Iterator[Sample]:
        for peer, facts in now.report.peers.items():
            value = read(facts)
            if value is not None:
                yield (peer,), value

    return each


def with_driver(read: Read, factor: float = 1.0) -> Read:
    """The reader of the same samples with Liqo's labels, multiplied."""

    def driven(now: Scrape) -> Iterator[Sample]:
        for (peer,), value in read(now):
            assert not isinstance(value, Histogram)
            yield (DRIVER, peer), value * factor

    return driven


def connected(facts: PeerFacts) -> float | None:
    """1 if the peer's API server answers, else 0; None if it is not probed."""
    return None if facts.link.state == "idle" else float(facts.link.state == "up")


def daemon_up(facts: PeerFacts) -> float | None:
    """1 if the peer's daemon runs, else 0; None if unknown."""
    known = facts.link.daemon in ("runs", "silent")
    return float(facts.link.daemon == "runs") if known else None


def quantiles(now: Scrape) -> Iterator[Sample]:
    """Quantiles of the round trips to each peer's API server."""
    for peer, facts in now.report.peers.items():
        for quantile, value in (("0.5", facts.link.p50), ("0.95", facts.link.p95)):
            if value is not None:
                yield (peer, quantile), value


def pods(now: Scrape) -> Iterator[Sample]:
    """Number of pods at each peer, and of each peer's pods in this cluster."""
    for peer, facts in now.report.peers.items():
        for direction, count in (("out", facts.pods_out), ("in", facts.pods_in)):
            if count is not None:
                yield (peer, direction), count


def identities(now: Scrape) -> Iterator[Sample]:
    """Ends of the certificates at each peer, in Unix seconds."""
    at = time.time()
    for peer, facts in now.report.peers.items():
        for name, left in facts.certificates.items():
            slice_ = name.removeprefix("slice ")
            label = CONTROL_PLANE if slice_ == name else slice_
            yield (peer, label), round(at + left)


def reflected(field: Literal["done", "failed"]) -> Read:
    """The reader of one count of writes, by namespace and reflector."""

    def read(now: Scrape) -> Iterator[Sample]:
        for peer, facts in now.report.peers.items():
            nodes = facts.reflection.nodes
            node = nodes[0].name if nodes else ""
            for (reflector, namespace), count in facts.reflection.mapped.items():
                yield (namespace, reflector, peer, node), getattr(count, field)

    return read


def remote_events(now: Scrape) -> Iterator[Sample]:
    """Number of peers' Events, by type and outcome."""
    for peer, facts in now.report.peers.items():
        counts = facts.reflection.events
        if counts is not None:
            for type, outcome in product(TYPES, OUTCOMES):
                yield (peer, type, outcome), float(counts.get((type, outcome), 0))


# Of queues and requests


def of_queues(read: Callable[[QueueFacts], float | Histogram | None]) -> Read:
    """The reader of one figure of each queue."""

    def each(now: Scrape) -> Iterator[Sample]:
        for peer, facts in now.report.peers.items():
            queues = dict(facts.reflection.reflectors)
            if facts.replication is not None:
                queues["replication"] = facts.replication
            for name, queue in queues.items():
                value = read(queue)
                if value is not None:
                    yield (peer, name), value

    return each


def requests(now: Scrape) -> Iterator[Sample]:
    """Number of requests to API servers, by verb, resource and HTTP status."""
    totals: dict[Labels, float] = {}
    for peer, client in _clients(now):
        for (verb, kind, status), count in client.answers.items():
            key = (peer, verb, kind, str(status or "none"))
            totals[key] = totals.get(key, 0) + count
    yield from totals.items()


def request_durations(now: Scrape) -> Iterator[Sample]:
    """Durations until responses began, by verb."""
    totals: dict[Labels, Histogram] = {}
    for peer, client in _clients(now):
        for verb, took in client.took.items():
            totals.setdefault((peer, verb), Histogram()).merge(took)
    yield from totals.items()


def request_bytes(field: Literal["sent", "received"], *, own: bool) -> Read:
    """The reader of bytes to or from API servers, with this cluster's own or without."""

    def read(now: Scrape) -> Iterator[Sample]:
        totals: dict[Labels, float] = {}
        for peer, client in _clients(now):
            if peer or own:
                totals[(peer,)] = totals.get((peer,), 0) + getattr(client, field)
        yield from totals.items()

    return read


def _clients(now: Scrape) -> Iterator[tuple[str, ClientFacts]]:
    if now.report.cluster.requests is not None:
        yield "", now.report.cluster.requests
    for peer, facts in now.report.peers.items():
        for client in facts.requests or ():
            yield peer, client


# Of networks


def of_networks(read: Callable[[NetworkFacts], float | None], *, driver: bool = False) -> Read:
    """The reader of a figure of each joined network; with the tunnel's backend if ``driver``."""

    def each(now: Scrape) -> Iterator[Sample]:
        for peer, known in _networks(now):
            value = read(known)
            if value is not None:
                yield ((known.backend, peer) if driver else (peer,)), value

    return each


def network_last_answer(known: NetworkFacts) -> float | None:
    """Unix time at which a probe last came back; None if none did."""
    return None if known.echo is None else round(time.time() - known.echo, 1)


def pods_reached(known: NetworkFacts) -> float | None:
    """1 if a packet came back from a pod's address, else 0; None if none was sent."""
    return None if known.pods is None else float(not known.pods.error)


def dropped(now: Scrape) -> Iterator[Sample]:
    """Number of packets refused, by reason."""
    for peer, known in _networks(now):
        for reason in ("spoofed", "strangers", "flooded"):
            yield (peer, reason), getattr(known, reason)


def transit(read: Callable[[TransitFacts], float]) -> Read:
    """The reader of a figure of what each peer's pods reach at another peer, by both peers."""

    def each(now: Scrape) -> Iterator[Sample]:
        for peer, known in _networks(now):
            for way in known.transit:
                yield (peer, way.owner), read(way)

    return each


def _networks(now: Scrape) -> Iterator[tuple[str, NetworkFacts]]:
    for peer, facts in now.report.peers.items():
        if facts.network is not None and facts.network.backend:
            yield peer, facts.network


# Of meetings and of callers


def peering_requests(now: Scrape) -> Iterator[Sample]:
    """Number of requests to borrow, by direction and phase."""
    meetings = now.report.cluster.meetings
    for direction, phases in meetings.requests.items() if meetings is not None else ():
        for phase, count in phases.items():
            yield (direction, phase or "new"), count


def of_meetings(read: Callable[[MeetingFacts], float]) -> Read:
    """The reader of one figure of all meetings."""

    def single(now: Scrape) -> Iterator[Sample]:
        if now.report.cluster.meetings is not None:
            yield (), read(now.report.cluster.meetings)

    return single


def meetings_by_name(read: Callable[[MeetingFacts], Mapping[str, int]]) -> Read:
    """The reader of counts of all meetings, by peer or by reason."""

    def each(now: Scrape) -> Iterator[Sample]:
        if now.report.cluster.meetings is not None:
            for name, count in read(now.report.cluster.meetings).items():
                yield (name,), count

    return each


def of_places(read: Callable[[ConnectionLimiter], int | None]) -> Read:
    """The reader of one figure of each server that has it."""

    def each(now: Scrape) -> Iterator[Sample]:
        for face, _, places in now.callers.faces():
            value = read(places)
            if value is not None:
                yield (face,), value

    return each


def refused_places(now: Scrape) -> Iterator[Sample]:
    """Number of refused callers, by the type of their source (an address, or another)."""
    for face, share, places in now.callers.faces():
        for (sort, why), count in places.refused.items():
            yield (face, sort or share.source, why), count
