"""``/metrics``: the daemon's figures, in the names, units and format of Prometheus.

Names that Liqo's dashboards read are served beside our own, with liqod's values: ``driver`` is
``api`` for the connection to a peer's API server, and else the backend of a tunnel.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from liqod import __version__
from liqod.inspect.samples import (
    Family,
    Scrape,
    both,
    checks,
    connected,
    daemon_up,
    dropped,
    identities,
    meetings_by_name,
    network_last_answer,
    of_meetings,
    of_networks,
    of_peers,
    of_places,
    of_queues,
    one,
    peering_requests,
    pods,
    pods_reached,
    process,
    quantiles,
    reflected,
    refused_places,
    remote_events,
    request_bytes,
    request_durations,
    requests,
    sightings,
    transit,
    with_driver,
)
from liqod.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector

_PEER = ("peer",)
_LIQO = ("driver", "cluster_id")
_REFLECTED = ("namespace", "reflector_resource", "cluster_id", "node_name")
_FACE = ("face",)

FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_build_info", "gauge", ("version", "cluster_id"), "What runs, where; always 1."),
        lambda now: [((__version__, process(now).cluster_id), 1.0)],
    ),
    Family(
        "liqod_leader",
        "gauge",
        (),
        "Whether this daemon leads.",
        one(lambda now: float(process(now).leading)),
    ),
    Family(
        *("process_cpu_seconds", "counter", (), "Processor time used."),
        one(lambda now: time.process_time()),
    ),
    Family(
        *("process_resident_memory_bytes", "gauge", (), "Resident memory."),
        one(lambda now: process(now).rss),
    ),
    Family(
        *("process_start_time_seconds", "gauge", (), "Unix time of the start."),
        one(lambda now: process(now).started),
    ),
    Family(
        *("liqod_event_loop_lag_seconds", "gauge", (), "Worst lateness in the last minute."),
        one(lambda now: now.report.cluster.lag),
    ),
    Family("liqod_tasks", "gauge", (), "Tasks.", one(lambda now: process(now).tasks)),
    Family("liqod_viewers", "gauge", (), "Clients that watch.", one(lambda now: now.viewers)),
    Family("liqod_peer_up", "gauge", _PEER, "Whether the API server answers.", of_peers(connected)),
    Family(
        *("liqod_peer_daemon_up", "gauge", _PEER),
        "Whether the peer's daemon runs; absent where the peer does not show it.",
        of_peers(daemon_up),
    ),
    Family(
        *("liqod_peer_last_contact_timestamp_seconds", "gauge", _PEER),
        "Unix time at which something last came back.",
        of_peers(lambda facts: facts.link.heard),
    ),
    Family(
        *("liqod_peer_round_trip_seconds", "gauge", _PEER, "Newest round trip."),
        of_peers(lambda facts: facts.link.rtt),
    ),
    Family(
        *("liqod_peer_round_trip_quantile_seconds", "gauge", ("peer", "quantile")),
        "Round trips of the last hundred probes.",
        quantiles,
    ),
    Family(
        *("liqod_peer_probe_loss_ratio", "gauge", _PEER, "Part of the last hundred probes lost."),
        of_peers(lambda facts: facts.link.lost),
    ),
    Family(
        *("liqod_peer_pods", "gauge", ("peer", "direction"), "Pods there (out), and here (in)."),
        pods,
    ),
    Family(
        *("liqod_peer_certificate_expiry_timestamp_seconds", "gauge", ("peer", "identity")),
        "Unix time at which a certificate ends.",
        identities,
    ),
    Family(
        *("liqod_check_ok", "gauge", ("peer", "layer")),
        "Whether a layer works, by the doctor; this cluster's own have an empty peer.",
        checks,
    ),
    Family(
        *("liqod_network_up", "gauge", _PEER, "Whether probes come back through the tunnel."),
        of_networks(lambda facts: float(facts.rtt is not None)),
    ),
    Family(
        *("liqod_network_last_round_trip_timestamp_seconds", "gauge", _PEER),
        "Unix time at which a probe last came back through the tunnel.",
        of_networks(network_last_answer),
    ),
    Family(
        *("liqod_network_round_trip_seconds", "gauge", _PEER, "Round trip through the tunnel."),
        of_networks(lambda facts: facts.rtt),
    ),
    Family(
        *("liqod_network_probe_loss_ratio", "gauge", _PEER, "Part of the tunnel's probes lost."),
        of_networks(lambda facts: facts.loss),
    ),
    Family(
        *("liqod_network_pods_reached", "gauge", _PEER),
        "Whether a packet came back from a pod's address there; absent where none was sent.",
        of_networks(pods_reached),
    ),
    Family(
        *("liqod_network_carried_bytes", "gauge", _PEER, "The largest packet that passes."),
        of_networks(lambda facts: facts.passes),
    ),
    Family(
        *("liqod_network_received_bytes", "counter", _PEER, "Bytes from the tunnel."),
        of_networks(lambda facts: facts.received),
    ),
    Family(
        *("liqod_network_sent_bytes", "counter", _PEER, "Bytes into the tunnel."),
        of_networks(lambda facts: facts.sent),
    ),
    Family(
        *("liqod_network_dropped_packets", "counter", ("peer", "reason")),
        "Packets of the peer's that were refused: spoofed sources, destinations that were not "
        "lent (strangers), more than the gateway takes (flooded).",
        dropped,
    ),
    Family(
        *("liqod_network_transit_endpoints", "gauge", ("peer", "owner")),
        "Endpoints at another peer (owner) that are opened to a peer's pods.",
        transit(lambda way: way.addresses),
    ),
    Family(
        *("liqod_network_transit_packets", "counter", ("peer", "owner")),
        "Packets between a peer's pods and endpoints at another peer (owner), both ways.",
        transit(lambda way: way.packets),
    ),
    Family(
        *("liqod_network_transit_bytes", "counter", ("peer", "owner")),
        "Bytes between a peer's pods and endpoints at another peer (owner), both ways.",
        transit(lambda way: way.bytes),
    ),
    Family(
        *("liqod_peering_requests", "gauge", ("direction", "phase")),
        "Requests that others make (in) and that this cluster makes (out), by their phase.",
        peering_requests,
    ),
    Family(
        *("liqod_peering_answers", "counter", ("answer",), "Answers to those who asked."),
        meetings_by_name(lambda figures: figures.answers),
    ),
    Family(
        *("liqod_meetings_refused", "counter", ("reason",)),
        "Meetings with other daemons that this one has ended, by the handshake's code.",
        meetings_by_name(lambda figures: figures.refused),
    ),
    Family(
        *("liqod_channels", "gauge", ("peer",), "Channels between daemons that are open."),
        meetings_by_name(lambda figures: figures.channels),
    ),
    Family(
        *("liqod_channel_streams", "gauge", ("peer",), "Streams that are open in channels."),
        meetings_by_name(lambda figures: figures.streams),
    ),
    Family(
        *("liqod_channel_received_bytes", "counter", (), "Bytes from all channels."),
        of_meetings(lambda figures: figures.received),
    ),
    Family(
        *("liqod_channel_sent_bytes", "counter", (), "Bytes into all channels."),
        of_meetings(lambda figures: figures.sent),
    ),
    Family(
        *("liqod_sightings", "gauge", ("plugin",), "Sightings that are kept, by who sees."),
        sightings,
    ),
    Family(
        *("liqod_remote_events", "counter", ("peer", "type", "outcome")),
        "Events of objects at a peer: written here, merged into one that waits, left out where "
        "more come than are written, refused by this cluster's API server.",
        remote_events,
    ),
    Family(
        *("liqod_places_taken", "gauge", _FACE, "Places of a face that callers have."),
        of_places(lambda places: len(places) + places.elsewhere.taken),
    ),
    Family(
        "liqod_places", "gauge", _FACE, "Places of a face.", of_places(lambda places: places.most)
    ),
    Family(
        *("liqod_places_of_one", "gauge", _FACE, "Places of a face that one source may have."),
        of_places(lambda places: places.of_one),
    ),
    Family(
        *("liqod_places_held_bytes", "gauge", _FACE),
        "Bytes kept of what was sent and is not answered; absent where nobody counts.",
        of_places(lambda places: places.buffered),
    ),
    Family(
        *("liqod_places_held_limit_bytes", "gauge", _FACE, "As many may be."),
        of_places(lambda places: places.max_buffered),
    ),
    Family(
        *("liqod_places_refused", "counter", ("face", "source", "reason")),
        "Callers that were refused or put out, by the sort of their source.",
        refused_places,
    ),
    Family(
        *("liqod_queue_keys", "gauge", ("peer", "queue"), "Keys that wait."),
        of_queues(lambda queue: float(queue.waiting)),
    ),
    Family(
        *("liqod_queue_oldest_seconds", "gauge", ("peer", "queue"), "How overdue the oldest is."),
        of_queues(lambda queue: float(queue.oldest)),
    ),
    Family(
        *("liqod_queue_processed", "counter", ("peer", "queue"), "Keys that were worked on."),
        of_queues(lambda queue: float(queue.done)),
    ),
    Family(
        *("liqod_queue_failures", "counter", ("peer", "queue"), "Keys that failed."),
        of_queues(lambda queue: float(queue.failed)),
    ),
    Family(
        *("liqod_api_requests", "counter", ("peer", "verb", "resource", "code")),
        "Requests to API servers by HTTP status; an empty peer is this cluster's own.",
        requests,
    ),
    Family(
        *("liqod_api_request_duration_seconds", "histogram", ("peer", "verb")),
        "How long answers took to begin; an empty peer is this cluster's own.",
        request_durations,
    ),
    Family(
        *("liqod_queue_duration_seconds", "histogram", ("peer", "queue")),
        "How long keys took from when they were due until they were done.",
        of_queues(lambda queue: queue.delays),
    ),
    Family(
        *("liqod_api_sent_bytes", "counter", _PEER, "Bytes to API servers."),
        request_bytes("sent", own=True),
    ),
    Family(
        *("liqod_api_received_bytes", "counter", _PEER, "Bytes from API servers."),
        request_bytes("received", own=True),
    ),
    Family(
        *("liqo_peer_receive_bytes", "counter", _LIQO, "Bytes from the peer."),
        both(
            with_driver(request_bytes("received", own=False)),
            of_networks(lambda facts: facts.received, driver=True),
        ),
    ),
    Family(
        *("liqo_peer_transmit_bytes", "counter", _LIQO, "Bytes to the peer."),
        both(
            with_driver(request_bytes("sent", own=False)),
            of_networks(lambda facts: facts.sent, driver=True),
        ),
    ),
    Family(
        *("liqo_peer_latency_us", "gauge", _LIQO, "Newest round trip in microseconds."),
        both(
            with_driver(of_peers(lambda facts: facts.link.rtt), 1e6),
            of_networks(lambda facts: None if facts.rtt is None else 1e6 * facts.rtt, driver=True),
        ),
    ),
    Family(
        *("liqo_peer_is_connected", "gauge", _LIQO, "Whether the peer answers."),
        both(
            with_driver(of_peers(connected)),
            of_networks(lambda facts: float(facts.rtt is not None), driver=True),
        ),
    ),
    Family(
        *("liqo_virtual_kubelet_reflection_item_counter", "unknown", _REFLECTED),
        "Objects written, there or here.",
        reflected("done"),
    ),
    Family(
        *("liqo_virtual_kubelet_reflection_error_counter", "unknown", _REFLECTED),
        "Objects that failed.",
        reflected("failed"),
    ),
)


def render(inspector: "Inspector", accept: str) -> tuple[bytes, str]:
    """Render the text of a scrape, and its content type, as the client accepts it.

    The library is imported with the first scrape: it takes 3 MB that nothing else needs.
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    scrape = Scrape(
        report=inspector.facts.report(),
        ladders=inspector.doctor.ladders,
        viewers=len(inspector.stream),
        callers=inspector.callers,
    )

    class Families:
        def collect(self) -> Iterator[Any]:
            yield from _families(scrape)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _families(scrape: Scrape) -> Iterator[Any]:
    from prometheus_client import core

    kinds: dict[str, Any] = {
        "gauge": core.GaugeMetricFamily,
        "counter": core.CounterMetricFamily,
        "histogram": core.HistogramMetricFamily,
        "unknown": core.UnknownMetricFamily,
    }
    for family in FAMILIES:
        made = kinds[family.kind](family.name, family.help, labels=family.labels)
        for labels, value in family.read(scrape):
            if isinstance(value, Histogram):
                made.add_metric(labels, buckets=value.buckets(), sum_value=value.total)
            else:
                made.add_metric(labels, value)
        yield made
