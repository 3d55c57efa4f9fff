"""Which addresses of a peer may be believed where pods' own addresses cross (``pod_network``).

An address that lies in this cluster's own networks, is one of its nodes', loopback or link-local
would send traffic to the wrong place, or let a peer name a target inside this cluster. It is
refused by name, on both sides.
"""

import ipaddress
from collections.abc import Collection, Iterable
from functools import lru_cache

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


def refuse(
    address: object, own: Iterable[str] = (), nodes: Collection[str] = frozenset()
) -> str | None:
    """Why an address that a peer names cannot be used here, as a clause; None if it can.

    Args:
        address: what the peer says.
        own: this cluster's pod and service networks, textual prefixes.
        nodes: addresses of this cluster's nodes.
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
    return None


def parse(address: object) -> IPAddress | None:
    """The address, IPv4 inside IPv6 taken for what it is; None if it is none."""
    if not isinstance(address, str):
        return None
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def family(address: str) -> str:
    """``IPv4`` or ``IPv6``, as EndpointSlices say it; empty if it is no address."""
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
    return None


@lru_cache(maxsize=256)
def _network(prefix: str) -> IPNetwork | None:
    try:
        return ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return None
