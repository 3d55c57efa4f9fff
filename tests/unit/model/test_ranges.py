"""One address becomes another: the host part stays, and nothing outside the ranges crosses."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.network.ranges import ClusterCidrs, holds, translate

PEER = ClusterCidrs(pod=("10.244.0.0/16", "fd00:10:244::/56"), external=("10.70.0.0/16",))
SEEN = ClusterCidrs(pod=("10.71.0.0/16", "fd00:71:0::/56"), external=("10.72.0.0/16",))


@pytest.mark.parametrize(
    ("address", "alias"),
    [
        ("10.244.1.5", "10.71.1.5"),
        ("10.244.0.0", "10.71.0.0"),
        ("10.244.255.255", "10.71.255.255"),
        ("10.70.0.9", "10.72.0.9"),
        ("fd00:10:244::5", "fd00:71::5"),
        ("::ffff:10.244.1.5", "10.71.1.5"),
        ("10.245.0.1", None),
        ("10.71.1.5", None),
        ("fd00::1", None),
        ("192.168.0.1", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_translate(address, alias):
    """By hand, of either family."""
    assert translate(address, PEER, SEEN) == alias


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (ClusterCidrs(pod=("10.244.0.0/16",)), ClusterCidrs()),
        (ClusterCidrs(pod=("10.244.0.0/16",)), ClusterCidrs(pod=("10.71.0.0/24",))),
        (ClusterCidrs(pod=("10.244.0.0/16",)), ClusterCidrs(pod=("fd00::/16",))),
        (ClusterCidrs(pod=("10.244.0.0/16",)), ClusterCidrs(external=("10.71.0.0/16",))),
        (ClusterCidrs(pod=("10.244.0.1/16",)), ClusterCidrs(pod=("10.71.0.0/16",))),
        (ClusterCidrs(pod=("nonsense",)), ClusterCidrs(pod=("10.71.0.0/16",))),
        (ClusterCidrs(pod=("10.244.0.0/16",)), ClusterCidrs(pod=("nonsense",))),
    ],
)
def test_ranges_that_do_not_go_together(source, target):
    """Nothing crosses by them."""
    assert translate("10.244.0.1", source, target) is None


PLACES = st.one_of(
    st.tuples(st.just(32), st.integers(0, 32), st.integers(0), st.integers(0), st.integers(0)),
    st.tuples(st.just(128), st.integers(0, 128), st.integers(0), st.integers(0), st.integers(0)),
)


@given(PLACES)
def test_there_and_back(place):
    """An address comes back as itself, from a place that has the same host part."""
    bits, length, first, second, host = place
    make = ipaddress.IPv4Network if bits == 32 else ipaddress.IPv6Network
    hosts = 1 << (bits - length)
    one = make(((first % (1 << length)) * hosts, length))
    other = make(((second % (1 << length)) * hosts, length))
    address = str(one[host % hosts])
    source, target = ClusterCidrs(pod=(str(one),)), ClusterCidrs(pod=(str(other),))
    if getattr(one[host % hosts], "ipv4_mapped", None) or getattr(
        other[host % hosts], "ipv4_mapped", None
    ):
        return
    there = translate(address, source, target)
    assert there == str(other[host % hosts])
    assert holds(str(other), there)
    assert translate(there, target, source) == address
