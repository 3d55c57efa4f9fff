"""Network claims of a peer: the ranges that it may state, and the addresses that it may be lent."""

import re

import pytest

from liqod.model.network.rangechecks import refuse_lent, refuse_range, refuse_ranges
from liqod.model.network.ranges import ClusterCidrs

NODES = frozenset({"192.168.1.10", "2001:db8:1::10"})
API_SERVER = "172.20.0.1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no range"),
        ("10.244.0.0", "no length"),
        ("10.244.0.0/33", "no range"),
        ("10.244.0/16", "no range"),
        ("milan/16", "no range"),
        ("10.244.0.0/255.255.0.0", "length is no number"),
        ("10.244.1.0/16", "host bits: 10.244.0.0/16"),
        ("fd00::1/64", "host bits"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
        ("0.0.0.0/1", "no host's"),
        ("169.254.169.254/32", "metadata service"),
        ("169.254.0.0/16", "metadata service"),
        ("169.254.7.0/24", "link-local"),
        ("127.0.0.0/8", "loopback"),
        ("224.0.0.0/24", "multicast"),
        ("240.0.0.0/8", "reserved"),
        ("::ffff:10.244.0.0/112", "IPv4 addresses in another form"),
        ("2002:a00::/32", "IPv4 addresses in another form"),
        ("fe80::/64", "link-local"),
        ("ff02::/64", "multicast"),
        ("fd00:ec2::/64", "metadata service"),
        ("192.168.0.0/16", r"nodes in it \(192.168.1.10\)"),
        ("2001:db8:1::/64", "nodes in it"),
        ("172.20.0.0/16", r"API server in it \(172.20.0.1\)"),
        ("64.0.0.0/7", "no size"),
        ("10.244.0.0/31", "no size"),
        ("fdab::/16", "no size"),
        ("fd00::4/127", "no size"),
    ],
)
def test_a_range_is_refused_by_name(text: str, why: str) -> None:
    found = refuse_range(text, NODES, API_SERVER)
    assert re.search(why, found), found
    assert text in found


@pytest.mark.parametrize(
    "text", ["10.244.0.0/16", "fd00:10:244::/56", "100.64.0.0/16", "FD00::/64"]
)
def test_an_ordinary_range_is_believed(text: str) -> None:
    """This cluster's own among them: both may well have the same."""
    assert refuse_range(text, NODES, API_SERVER) == ""


def test_ranges_of_one_cluster_do_not_overlap() -> None:
    found = refuse_ranges(ClusterCidrs(("10.244.0.0/16", "fd00::/64"), ("10.244.128.0/17",)))
    assert found == "10.244.128.0/17 overlaps 10.244.0.0/16 of the same cluster"
    assert refuse_ranges(ClusterCidrs(("10.244.0.0/16", "fd00::/64"), ("10.70.0.0/16",))) == ""


def test_a_cluster_has_only_so_many() -> None:
    many = tuple(f"10.{each}.0.0/16" for each in range(17))
    assert "17 ranges" in refuse_ranges(ClusterCidrs(many))


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("printer", "no IP address"),
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "metadata"),
        ("::ffff:127.0.0.1", "loopback"),
        ("224.0.0.1", "multicast"),
        ("0.0.0.0", "no host's"),
        ("172.20.0.1", "API server"),
        ("192.168.1.10", "nodes"),
        ("::ffff:192.168.1.10", "nodes"),
        ("::1", "loopback"),
        ("fd00:ec2::254", "metadata"),
        ("fd00::7%eth0", "no IP address"),
    ],
)
def test_what_is_not_lent(address: str, why: str) -> None:
    assert why in refuse_lent(address, NODES, API_SERVER)


def test_another_host_is_lent() -> None:
    assert refuse_lent("192.168.1.77", NODES, API_SERVER) == ""
