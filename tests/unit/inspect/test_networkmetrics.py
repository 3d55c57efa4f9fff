"""Metrics of joined networks in a scrape, and their absence where nothing is known."""

from liqod.inspect.metrics import render
from liqod.model.network.pathfigures import TransitFacts
from liqod.model.view.networkfacts import NetworkFacts, PodTrip
from liqod.peers.peernetwork import PeerNetwork
from tests.unit.inspect.test_metrics import inspector


def scraped(facts: NetworkFacts | None) -> list[str]:
    """The lines about the network with milan."""
    network = PeerNetwork()
    network.waits = "something"
    network.tunnel = None if facts is None else lambda: facts
    text, _ = render(inspector(network=network.facts()), "")
    lines = text.decode().splitlines()
    told = [each for each in lines if each.startswith(("liqod_network_", "liqo_peer"))]
    return [each for each in told if 'driver="api"' not in each]


def test_a_network_that_stands():
    lines = scraped(
        NetworkFacts(
            backend="wireguard", echo=0.0, rtt=0.002, loss=0.0, mtu=1340, passes=1340,
            received=5, sent=7, spoofed=3, pods=PodTrip(1.0, 0.001),
        )
    )  # fmt: skip
    assert 'liqod_network_up{peer="milan"} 1.0' in lines
    assert 'liqod_network_pods_reached{peer="milan"} 1.0' in lines
    assert 'liqod_network_received_bytes_total{peer="milan"} 5.0' in lines
    assert 'liqod_network_dropped_packets_total{peer="milan",reason="spoofed"} 3.0' in lines
    assert 'liqo_peer_latency_us{cluster_id="milan",driver="wireguard"} 2000.0' in lines


def test_what_a_peers_pods_reach_at_another_is_counted_by_both():
    ways = (TransitFacts("oslo"), TransitFacts("turin", 2, 10, 1200))
    lines = transit_lines(NetworkFacts(backend="wireguard", transit=ways))
    assert lines == [
        'liqod_network_transit_bytes_total{owner="oslo",peer="milan"} 0.0',
        'liqod_network_transit_bytes_total{owner="turin",peer="milan"} 1200.0',
        'liqod_network_transit_endpoints{owner="oslo",peer="milan"} 0.0',
        'liqod_network_transit_endpoints{owner="turin",peer="milan"} 2.0',
        'liqod_network_transit_packets_total{owner="oslo",peer="milan"} 0.0',
        'liqod_network_transit_packets_total{owner="turin",peer="milan"} 10.0',
    ]
    assert transit_lines(NetworkFacts(backend="wireguard")) == []


def transit_lines(facts: NetworkFacts) -> list[str]:
    """The lines about transit, in order."""
    text, _ = render(inspector(network=facts), "")
    return sorted(
        each for each in text.decode().splitlines() if each.startswith("liqod_network_transit")
    )


def test_one_that_is_silent_has_no_round_trip_and_is_not_up():
    error = PodTrip(1.0, error="nothing came back")
    lines = scraped(NetworkFacts(backend="wireguard", echo=9.0, mtu=1340, pods=error))
    assert 'liqod_network_up{peer="milan"} 0.0' in lines
    assert 'liqod_network_pods_reached{peer="milan"} 0.0' in lines
    assert not [each for each in lines if "round_trip_seconds" in each]


def test_of_one_that_waits_or_is_not_there_nothing_is_told():
    assert not [each for each in scraped(NetworkFacts(waits="a key")) if "milan" in each]
    assert not [each for each in scraped(None) if "milan" in each]
