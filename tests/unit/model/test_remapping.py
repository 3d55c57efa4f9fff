"""Translation of an address between two clusters with joined or routed networks."""

import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.crossing.addresses import refuse
from liqod.model.network.ranges import ClusterCidrs, PeerRanges, holds
from liqod.model.network.remapping import remap_received, remap_sent

POD = "10.244.0.0/16"
JOINED = PeerRanges(
    own=ClusterCidrs(pod=(POD,), external=("10.70.0.0/16",)),
    peer=ClusterCidrs(pod=(POD,), external=("10.70.0.0/16",)),
    seen=ClusterCidrs(pod=("10.71.0.0/16",), external=("10.72.0.0/16",)),
    lent={"10.70.0.4": "192.0.2.7", "10.99.0.1": "192.0.2.8"},
)
MIRRORED = PeerRanges(
    own=JOINED.peer,
    peer=JOINED.own,
    seen=ClusterCidrs(pod=("10.81.0.0/16",), external=("10.82.0.0/16",)),
)


@pytest.mark.parametrize(
    ("address", "alias"), [("10.244.1.5", "10.71.1.5"), ("10.70.0.4", "10.72.0.4")]
)
def test_what_a_peer_names_is_seen_by_its_alias(address, alias):
    assert remap_received(address, JOINED, own=(POD,)) == (alias, "")


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("10.71.1.5", "none of the ranges"),
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("nonsense", "no IP address"),
        (None, "no IP address"),
    ],
)
def test_what_a_peer_names_outside_of_its_ranges_is_refused(address, word):
    crossed = remap_received(address, JOINED)
    assert crossed.address == ""
    assert word in crossed.problem


def test_an_alias_that_lies_in_our_own_networks_is_refused():
    wrong = msgspec.structs.replace(JOINED, seen=ClusterCidrs(pod=(POD,)))
    crossed = remap_received("10.244.1.5", wrong, own=(POD,))
    assert crossed.address == ""
    assert "own network" in crossed.problem


def test_an_alias_that_is_a_node_of_ours_is_refused():
    assert remap_received("10.244.1.5", JOINED, nodes={"10.71.1.5"}).address == ""


def test_what_lends_itself_outside_of_the_external_range_does_not_count():
    assert remap_sent("192.0.2.8", JOINED).address == ""


ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)
PODS = st.integers(0, 65535).map(lambda host: str(ipaddress.ip_network(POD)[host]))


@given(ADDRESSES | PODS)
def test_what_leaves_one_cluster_arrives_in_the_other_or_says_why(address):
    """Both directions together; what arrives lies in an alias, never in the cluster's own."""
    sent = remap_sent(address, JOINED)
    assert bool(sent.address) is not bool(sent.problem)
    if not sent.address:
        return
    seen = remap_received(sent.address, MIRRORED, own=MIRRORED.own.pod)
    assert seen.problem == ""
    assert any(holds(each, seen.address) for each in (*MIRRORED.seen.pod, *MIRRORED.seen.external))


@given(ADDRESSES)
def test_where_addresses_are_routed_they_cross_as_they_are_or_not_at_all(address):
    crossed = remap_received(address, None, own=("10.0.0.0/8",))
    problem = refuse(address, ("10.0.0.0/8",))
    assert crossed == (("", problem) if problem else (address, ""))
    assert remap_sent(address, None).problem == (refuse(address) or "")
