"""``/metrics``: the daemon's figures, in the names and units of Prometheus.

Nothing is counted here: each scrape reads the facts of the last second and what the components
have, a few milliseconds for a hundred peers. Names that Liqo's dashboards read are served beside
our own, with what is true here: ``driver`` says ``api`` of the way to a peer's API server, and
names the backend of a tunnel.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from liqod import __version__
from liqod.inspect import networkmetrics, roommetrics
from liqod.inspect.family import Family, Labels, Sample
from liqod.model.view.facts import PeerFacts
from liqod.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector
    from liqod.kube.http.transport import ClientStats
    from liqod.kube.queue import KeyedQueue

CONTROL_PLANE = "control-plane"
"""The label of the identity that is no slice's."""
DRIVER = "api"
"""The way to API servers, beside the names of tunnels' backends."""


def render(inspector: "Inspector", accept: str) -> tuple[bytes, str]:
    """The text of a scrape, and its content type, as the client accepts it.

    The library is imported with the first scrape: it takes 3 MB that nobody else needs.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    class Collector:
        def collect(self) -> Iterator[Any]:
            yield from _families(inspector)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _families(inspector: "Inspector") -> Iterator[Any]:
    from prometheus_client import core

    kinds: dict[str, Any] = {
        "gauge": core.GaugeMetricFamily,
        "counter": core.CounterMetricFamily,
        "histogram": core.HistogramMetricFamily,
        "unknown": core.UnknownMetricFamily,
    }
    for family in FAMILIES:
        made = kinds[family.kind](family.name, family.help, labels=family.labels)
        for labels, value in family.read(inspector):
            if isinstance(value, Histogram):
                made.add_metric(labels, buckets=value.buckets(), sum_value=value.total)
            else:
                made.add_metric(labels, value)
        yield made


def _one(read: Callable[["Inspector"], float]) -> Callable[["Inspector"], Iterable[Sample]]:
    return lambda inspector: [((), read(inspector))]


def _peers(
    read: Callable[[PeerFacts], float | None],
) -> Callable[["Inspector"], Iterable[Sample]]:
    """A figure of each peer that has one."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        for peer, facts in inspector.facts.measured.items():
            value = read(facts)
            if value is not None:
                yield (peer,), value

    return each


def _connected(facts: PeerFacts) -> float | None:
    return None if facts.link.state == "idle" else float(facts.link.state == "up")


def _daemon(facts: PeerFacts) -> float | None:
    known = facts.link.daemon in ("runs", "silent")
    return float(facts.link.daemon == "runs") if known else None


def _with_driver(
    read: Callable[["Inspector"], Iterable[Sample]], factor: float = 1.0
) -> Callable[["Inspector"], Iterable[Sample]]:
    def driven(inspector: "Inspector") -> Iterator[Sample]:
        for (peer,), value in read(inspector):
            assert not isinstance(value, Histogram)
            yield (DRIVER, peer), value * factor

    return driven


def _quantiles(inspector: "Inspector") -> Iterator[Sample]:
    for peer, facts in inspector.facts.measured.items():
        for quantile, value in (("0.5", facts.link.p50), ("0.95", facts.link.p95)):
            if value is not None:
                yield (peer, quantile), value


def _pods(inspector: "Inspector") -> Iterator[Sample]:
    for peer, facts in inspector.facts.measured.items():
        for direction, pods in (("out", facts.pods_out), ("in", facts.pods_in)):
            if pods is not None:
                yield (peer, direction), pods


def _checks(inspector: "Inspector") -> Iterator[Sample]:
    for peer, ladder in inspector.doctor.ladders.items():
        for check in ladder.checks:
            if check.verdict in ("ok", "failing"):
                yield (peer, check.layer), float(check.verdict == "ok")


def _identities(inspector: "Inspector") -> Iterator[Sample]:
    for peer, borrowing in inspector.components.borrowing().items():
        for remote in borrowing.remotes.all():
            if remote.expires:
                yield (peer, remote.slice or CONTROL_PLANE), remote.expires


def _queues(
    read: Callable[["KeyedQueue[Any]"], float | Histogram],
) -> Callable[["Inspector"], Iterable[Sample]]:
    def each(inspector: "Inspector") -> Iterator[Sample]:
        for peer, borrowing in inspector.components.borrowing().items():
            for name, queue in borrowing.engine.queues.items():
                yield (peer, name), read(queue)
            yield (peer, "replication"), read(borrowing.replication.queue)

    return each


def _requests(inspector: "Inspector") -> Iterator[Sample]:
    totals: dict[Labels, float] = {}
    for peer, stats in _clients(inspector):
        for (verb, kind, status), count in stats.answers.items():
            key = (peer, verb, kind, str(status or "none"))
            totals[key] = totals.get(key, 0) + count
    yield from totals.items()


def _took(inspector: "Inspector") -> Iterator[Sample]:
    totals: dict[Labels, Histogram] = {}
    for peer, stats in _clients(inspector):
        for verb, took in stats.took.items():
            totals.setdefault((peer, verb), Histogram()).merge(took)
    yield from totals.items()


def _bytes(field: str, *, own: bool) -> Callable[["Inspector"], Iterable[Sample]]:
    def read(inspector: "Inspector") -> Iterator[Sample]:
        totals: dict[Labels, float] = {}
        for peer, stats in _clients(inspector):
            if peer or own:
                totals[(peer,)] = totals.get((peer,), 0) + getattr(stats, field)
        yield from totals.items()

    return read


def _clients(inspector: "Inspector") -> Iterator[tuple[str, "ClientStats"]]:
    yield "", inspector.context.client.stats
    for peer, borrowing in inspector.components.borrowing().items():
        for remote in borrowing.remotes.all():
            yield peer, remote.client.stats


def _reflected(field: str) -> Callable[["Inspector"], Iterable[Sample]]:
    def read(inspector: "Inspector") -> Iterator[Sample]:
        borrowing = inspector.components.borrowing()
        for (peer, reflector, namespace), count in inspector.summary.namespaces.items():
            nodes = borrowing[peer].engine.nodes if peer in borrowing else ()
            node = nodes[0] if nodes else ""
            yield (namespace, reflector, peer, node), getattr(count, field)

    return read


def _leader(inspector: "Inspector") -> float:
    return float(inspector.facts.daemon.leading)


_PEER = ("peer",)
_LIQO = ("driver", "cluster_id")
_REFLECTED = ("namespace", "reflector_resource", "cluster_id", "node_name")

FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_build_info", "gauge", ("version", "cluster_id"), "What runs, where; always 1."),
        lambda i: [((__version__, i.context.cluster_id), 1.0)],
    ),
    Family("liqod_leader", "gauge", (), "Whether this daemon leads.", _one(_leader)),
    Family(
        *("process_cpu_seconds", "counter", (), "Processor time used."),
        _one(lambda i: time.process_time()),
    ),
    Family(
        *("process_resident_memory_bytes", "gauge", (), "Resident memory."),
        _one(lambda i: i.facts.daemon.rss),
    ),
    Family(
        *("process_start_time_seconds", "gauge", (), "Unix time of the start."),
        _one(lambda i: i.facts.daemon.started),
    ),
    Family(
        *("liqod_event_loop_lag_seconds", "gauge", (), "Worst lateness in the last minute."),
        _one(lambda i: max(i.facts.lags, default=0.0)),
    ),
    Family("liqod_tasks", "gauge", (), "Tasks.", _one(lambda i: i.facts.daemon.tasks)),
    Family("liqod_viewers", "gauge", (), "Clients that watch.", _one(lambda i: len(i.stream))),
    Family("liqod_peer_up", "gauge", _PEER, "Whether the API server answers.", _peers(_connected)),
    Family(
        *("liqod_peer_daemon_up", "gauge", _PEER),
        "Whether the peer's daemon runs; absent where the peer does not show it.",
        _peers(_daemon),
    ),
    Family(
        *("liqod_peer_last_contact_timestamp_seconds", "gauge", _PEER),
        "Unix time at which something last came back.",
        _peers(lambda facts: facts.link.heard),
    ),
    Family(
        *("liqod_peer_round_trip_seconds", "gauge", _PEER, "Newest round trip."),
        _peers(lambda facts: facts.link.rtt),
    ),
    Family(
        *("liqod_peer_round_trip_quantile_seconds", "gauge", ("peer", "quantile")),
        "Round trips of the last hundred probes.",
        _quantiles,
    ),
    Family(
        *("liqod_peer_probe_loss_ratio", "gauge", _PEER, "Part of the last hundred probes lost."),
        _peers(lambda facts: facts.link.lost),
    ),
    Family(
        *("liqod_peer_pods", "gauge", ("peer", "direction"), "Pods there (out), and here (in)."),
        _pods,
    ),
    Family(
        *("liqod_peer_certificate_expiry_timestamp_seconds", "gauge", ("peer", "identity")),
        "Unix time at which a certificate ends.",
        _identities,
    ),
    Family(
        *("liqod_check_ok", "gauge", ("peer", "layer")),
        "Whether a layer works, by the doctor; this cluster's own have an empty peer.",
        _checks,
    ),
    Family(
        *("liqod_network_up", "gauge", _PEER, "Whether probes come back through the tunnel."),
        networkmetrics.of(lambda facts: float(facts.rtt is not None)),
    ),
    Family(
        *("liqod_network_last_round_trip_timestamp_seconds", "gauge", _PEER),
        "Unix time at which a probe last came back through the tunnel.",
        networkmetrics.of(networkmetrics.heard),
    ),
    Family(
        *("liqod_network_round_trip_seconds", "gauge", _PEER, "Round trip through the tunnel."),
        networkmetrics.of(lambda facts: facts.rtt),
    ),
    Family(
        *("liqod_network_probe_loss_ratio", "gauge", _PEER, "Part of the tunnel's probes lost."),
        networkmetrics.of(lambda facts: facts.loss),
    ),
    Family(
        *("liqod_network_pods_reached", "gauge", _PEER),
        "Whether a packet came back from a pod's address there; absent where none was sent.",
        networkmetrics.of(networkmetrics.reached),
    ),
    Family(
        *("liqod_network_carried_bytes", "gauge", _PEER, "The largest packet that passes."),
        networkmetrics.of(lambda facts: facts.passes),
    ),
    Family(
        *("liqod_network_received_bytes", "counter", _PEER, "Bytes from the tunnel."),
        networkmetrics.of(lambda facts: facts.received),
    ),
    Family(
        *("liqod_network_sent_bytes", "counter", _PEER, "Bytes into the tunnel."),
        networkmetrics.of(lambda facts: facts.sent),
    ),
    Family(
        *("liqod_network_dropped_packets", "counter", ("peer", "reason")),
        "Packets of the peer's that were refused: spoofed sources, destinations that were not "
        "lent (strangers), more than the gateway takes (flooded).",
        networkmetrics.dropped,
    ),
    *roommetrics.FAMILIES,
    Family(
        *("liqod_queue_keys", "gauge", ("peer", "queue"), "Keys that wait."),
        _queues(lambda queue: float(queue.waiting)),
    ),
    Family(
        *("liqod_queue_oldest_seconds", "gauge", ("peer", "queue"), "How overdue the oldest is."),
        _queues(lambda queue: float(queue.oldest)),
    ),
    Family(
        *("liqod_queue_processed", "counter", ("peer", "queue"), "Keys that were worked on."),
        _queues(lambda queue: float(queue.done)),
    ),
    Family(
        *("liqod_queue_failures", "counter", ("peer", "queue"), "Keys that failed."),
        _queues(lambda queue: float(queue.failed)),
    ),
    Family(
        *("liqod_api_requests", "counter", ("peer", "verb", "resource", "code")),
        "Requests to API servers by HTTP status; an empty peer is this cluster's own.",
        _requests,
    ),
    Family(
        *("liqod_api_request_duration_seconds", "histogram", ("peer", "verb")),
        "How long answers took to begin; an empty peer is this cluster's own.",
        _took,
    ),
    Family(
        *("liqod_queue_duration_seconds", "histogram", ("peer", "queue")),
        "How long keys took from when they were due until they were done.",
        _queues(lambda queue: queue.delays),
    ),
    Family(
        *("liqod_api_sent_bytes", "counter", _PEER, "Bytes to API servers."),
        _bytes("bytes_out", own=True),
    ),
    Family(
        *("liqod_api_received_bytes", "counter", _PEER, "Bytes from API servers."),
        _bytes("bytes_in", own=True),
    ),
    Family(
        *("liqo_peer_receive_bytes", "counter", _LIQO, "Bytes from the peer."),
        networkmetrics.both(
            _with_driver(_bytes("bytes_in", own=False)),
            networkmetrics.of(lambda facts: facts.received, driver=True),
        ),
    ),
    Family(
        *("liqo_peer_transmit_bytes", "counter", _LIQO, "Bytes to the peer."),
        networkmetrics.both(
            _with_driver(_bytes("bytes_out", own=False)),
            networkmetrics.of(lambda facts: facts.sent, driver=True),
        ),
    ),
    Family(
        *("liqo_peer_latency_us", "gauge", _LIQO, "Newest round trip in microseconds."),
        networkmetrics.both(
            _with_driver(_peers(lambda facts: facts.link.rtt), 1e6),
            networkmetrics.of(
                lambda facts: None if facts.rtt is None else 1e6 * facts.rtt, driver=True
            ),
        ),
    ),
    Family(
        *("liqo_peer_is_connected", "gauge", _LIQO, "Whether the peer answers."),
        networkmetrics.both(
            _with_driver(_peers(_connected)),
            networkmetrics.of(lambda facts: float(facts.rtt is not None), driver=True),
        ),
    ),
    Family(
        *("liqo_virtual_kubelet_reflection_item_counter", "unknown", _REFLECTED),
        "Objects written, there or here.",
        _reflected("done"),
    ),
    Family(
        *("liqo_virtual_kubelet_reflection_error_counter", "unknown", _REFLECTED),
        "Objects that failed.",
        _reflected("failed"),
    ),
)
