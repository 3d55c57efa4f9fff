"""Checks the addresses that a peer names where pods' own addresses cross (``pod_network``).

An address that lies in this cluster's own networks, is one of its nodes', loopback or link-local
would send traffic to the wrong place, or let a peer name a target inside this cluster. It is
refused with a reason, on both sides.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_ZONE: Final = re.compile(r"[A-Za-z0-9_.-]{0,15}")
"""The name of an interface, or nothing."""

_SPECIAL: Final = tuple(
    (ipaddress.ip_network(prefix), what)
    for prefix, what in (
        ("168.63.129.16/32", "a cloud's metadata service"),
        ("100.100.100.200/32", "a cloud's metadata service"),
        ("192.0.0.0/24", "a reserved address"),
        ("fd00:ec2::/32", "a cloud's metadata service"),
        ("fd20:ce::/32", "a cloud's metadata service"),
        ("fd00:42::42/128", "a cloud's metadata service"),
        ("0.0.0.0/8", "no address of one host"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/96", "an IPv4 address in another form"),
        ("64:ff9b::/96", "an IPv4 address in another form"),
        ("64:ff9b:1::/48", "an IPv4 address in another form"),
        ("2001::/32", "an IPv4 address in another form"),
        ("2002::/16", "an IPv4 address in another form"),
        ("fec0::/10", "a reserved address"),
    )
)
"""Networks of which no address is a pod's: gateways translate some of them to IPv4, and clouds give
credentials to every client at others."""


def refuse(
    address: object,
    own: Iterable[str] = (),
    nodes: Collection[str] = frozenset(),
    allowed: Iterable[str] | None = None,
) -> str | None:
    """The reason why this cluster cannot use an address of a peer, as a clause; None if it can.

    Args:
        address: from the peer.
        own: this cluster's pod and service networks, textual prefixes.
        nodes: addresses of this cluster's nodes.
        allowed: the networks that the peer's pods may be in; None for any.
    """
    parsed = parse(address)
    if parsed is None:
        return "it is no IP address"
    problem = _special(parsed)
    if problem is not None:
        return problem
    if str(address) in nodes or str(parsed) in nodes:
        return "it is the address of one of this cluster's nodes"
    for prefix in own:
        network = _network(prefix)
        if network is not None and parsed in network:
            return f"it lies in this cluster's own network {prefix}"
    if allowed is not None and not any(parsed in _networks(prefix) for prefix in allowed):
        return "it lies in none of the peer's networks (pod_cidrs)"
    return None


def is_network(text: str) -> bool:
    """True if a text is a network, such as ``10.0.0.0/8``."""
    return "/" in text and _network(text) is not None


def parse(address: object) -> IPAddress | None:
    """The address, with IPv4 inside IPv6 as IPv4; None if it is none.

    Python takes any text for the zone of an IPv6 address. Addresses are written into rules of
    nftables and command lines as they came, so only the name of an interface is one here.
    """
    if not isinstance(address, str) or not _ZONE.fullmatch(address.partition("%")[2]):
        return None
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def within(inner: IPNetwork, outer: IPNetwork) -> bool:
    """True if a network lies in another one, or is it."""
    if inner.version != outer.version or inner.prefixlen < outer.prefixlen:
        return False
    rest = outer.max_prefixlen - outer.prefixlen
    return int(inner.network_address) >> rest == int(outer.network_address) >> rest


def overlap(one: IPNetwork, other: IPNetwork) -> bool:
    """True if two networks have an address in common: then one of them lies in the other."""
    return within(one, other) or within(other, one)


def family(address: str) -> str:
    """The address family, ``IPv4`` or ``IPv6`` as in EndpointSlices; empty if it is no address."""
    parsed = parse(address)
    return f"IPv{parsed.version}" if parsed is not None else ""


def _special(address: IPAddress) -> str | None:
    if address.is_loopback:
        return "it is a loopback address"
    if address.is_link_local:
        return "it is a link-local address"
    if address.is_multicast:
        return "it is a multicast address"
    if address.is_unspecified or int(address) == 2**32 - 1:
        return "it is no address of one host"
    for network, what in _SPECIAL:
        if address in network:
            return f"it is {what}"
    return None


def _networks(prefix: str) -> IPNetwork | tuple[()]:
    return _network(prefix) or ()


@lru_cache(maxsize=256)
def _network(prefix: str) -> IPNetwork | None:
    try:
        return ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return None
