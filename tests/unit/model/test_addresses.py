"""Addresses of peers: what is refused, and by which name."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.crossing import addresses

OWN = ("10.244.0.0/16", "10.96.0.0/12", "fd00:10::/64", "nonsense")
NODES = frozenset({"192.168.1.10", "node-a"})


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.244.3.4", "own network 10.244.0.0/16"),
        ("10.96.0.1", "own network 10.96.0.0/12"),
        ("fd00:10::5", "own network fd00:10::/64"),
        ("::ffff:10.244.3.4", "own network 10.244.0.0/16"),
        ("127.0.0.1", "loopback"),
        ("127.8.8.8", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fd00:11::1%; flush ruleset", "no IP address"),
        ("fd00:11::1%eth0\n", "no IP address"),
        ("fd00:11::1%an-interface-too-long", "no IP address"),
        ("224.0.0.1", "multicast"),
        ("0.0.0.0", "one host"),
        ("::", "one host"),
        ("255.255.255.255", "one host"),
        ("fd00:ec2::254", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("168.63.129.16", "metadata"),
        ("100.100.100.200", "metadata"),
        ("192.0.0.192", "reserved"),
        ("64:ff9b::a9fe:a9fe", "another form"),
        ("64:ff9b:1::a9fe:a9fe", "another form"),
        ("::10.244.1.5", "another form"),
        ("2002:a9fe:a9fe::1", "another form"),
        ("2001:0:53aa:64c::1", "another form"),
        ("240.0.0.1", "reserved"),
        ("0.1.2.3", "one host"),
        ("192.168.1.10", "nodes"),
        ("::ffff:192.168.1.10", "nodes"),
        ("example.org", "no IP address"),
        ("010.0.0.1", "no IP address"),
        ("", "no IP address"),
        (None, "no IP address"),
        (2130706433, "no IP address"),
    ],
)
def test_refused(address, why):
    assert why in (addresses.refuse(address, OWN, NODES) or "")


@pytest.mark.parametrize("address", ["10.10.0.1", "192.168.1.11", "8.8.8.8", "fd00:11::5"])
def test_taken(address):
    assert addresses.refuse(address, OWN, NODES) is None


@pytest.mark.parametrize(
    ("address", "allowed", "taken"),
    [
        ("10.10.0.1", ("10.10.0.0/16",), True),
        ("::ffff:10.10.0.1", ("10.10.0.0/16",), True),
        ("10.11.0.1", ("10.10.0.0/16",), False),
        ("fd00:11::5", ("10.10.0.0/16", "fd00:11::/64"), True),
        ("10.10.0.1", (), False),
        ("fd00:ec2::254", ("fd00::/8",), False),
    ],
)
def test_only_the_peers_own_networks_are_believed(address, allowed, taken):
    assert (addresses.refuse(address, allowed=allowed) is None) is taken


@given(st.ip_addresses())
def test_no_list_lets_in_what_is_special(anywhere):
    everything = ("0.0.0.0/0", "::/0")
    listed = addresses.refuse(str(anywhere), allowed=everything)
    assert listed == addresses.refuse(str(anywhere))


@given(st.ip_addresses(), st.ip_addresses(network="10.0.0.0/8"))
def test_never_one_of_our_own(anywhere, inside):
    assert addresses.refuse(str(inside), ("10.0.0.0/8",)) is not None
    if addresses.refuse(str(anywhere), ("10.0.0.0/8",)) is None:
        assert anywhere not in ipaddress.ip_network("10.0.0.0/8")
        assert not anywhere.is_loopback


def test_family():
    assert addresses.family("10.0.0.1") == "IPv4"
    assert addresses.family("fd00::1") == "IPv6"
    assert addresses.family("example.org") == ""
