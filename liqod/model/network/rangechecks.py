"""Checks the ranges that a peer claims, and the addresses that are lent to peers. Pure.

A peer's ranges are never routed in this cluster, which uses its own aliases for them. So they may
equal this cluster's own, or its aliases for another peer. Refused are addresses that make no sense
for a pod, or that belong to a host that no packet of a peer may impersonate.
"""

import ipaddress
from collections.abc import Collection, Iterable
from typing import Final

from liqod.model.crossing import addresses
from liqod.model.crossing.addresses import IPNetwork
from liqod.model.network.ranges import ClusterCidrs

MOST: Final = 16
"""Ranges of one cluster."""
SIZES: Final[dict[int, tuple[int, int]]] = {4: (8, 30), 6: (32, 126)}
"""The shortest and the longest prefix of a range, by family."""

_NEVER: Final = tuple(
    (ipaddress.ip_network(prefix), what)
    for prefix, what in (
        ("0.0.0.0/8", "addresses that are no host's"),
        ("127.0.0.0/8", "loopback addresses"),
        ("169.254.169.254/32", "the clouds' metadata service (169.254.169.254)"),
        ("169.254.0.0/16", "link-local addresses"),
        ("168.63.129.16/32", "a cloud's metadata service (168.63.129.16)"),
        ("100.100.100.200/32", "a cloud's metadata service (100.100.100.200)"),
        ("192.0.0.0/24", "reserved addresses"),
        ("224.0.0.0/4", "multicast addresses"),
        ("240.0.0.0/4", "reserved addresses"),
        ("::ffff:0:0/96", "IPv4 addresses in another form"),
        ("::/96", "loopback addresses"),
        ("64:ff9b::/96", "IPv4 addresses in another form"),
        ("64:ff9b:1::/48", "IPv4 addresses in another form"),
        ("2001::/32", "IPv4 addresses in another form"),
        ("2002::/16", "IPv4 addresses in another form"),
        ("fd00:ec2::/32", "a cloud's metadata service"),
        ("fd20:ce::/32", "a cloud's metadata service"),
        ("fd00:42::42/128", "a cloud's metadata service"),
        ("fe80::/10", "link-local addresses"),
        ("fec0::/10", "reserved addresses"),
        ("ff00::/8", "multicast addresses"),
    )
)


def malformed(text: str) -> str:
    """The reason why a text is no range with a length and without host bits; empty if it is one."""
    return _parsed(text)[1]


def refuse_ranges(
    claimed: ClusterCidrs, nodes: Collection[str] = frozenset(), api_server: str = ""
) -> str:
    """The reason to refuse a peer's ranges, with the first bad one; empty where all are valid.

    Args:
        claimed: the ranges by its claim.
        nodes: addresses of this cluster's nodes.
        api_server: address of this cluster's API server; empty where its address is unknown.
    """
    every = (*claimed.pod, *claimed.external)
    if len(every) > MOST:
        return f"{len(every)} ranges are more than the {MOST} that a cluster may have"
    named: list[tuple[str, IPNetwork]] = []
    for text in every:
        problem = refuse_range(text, nodes, api_server)
        if problem:
            return problem
        network = ipaddress.ip_network(text)
        for other, taken in named:
            if addresses.overlap(taken, network):
                return f"{text} overlaps {other} of the same cluster"
        named.append((text, network))
    return ""


def refuse_range(text: str, nodes: Collection[str] = frozenset(), *api_servers: str) -> str:
    """The reason to refuse one range; empty where it is valid. As :func:`refuse_ranges`."""
    network, problem = _parsed(text)
    if network is None:
        return problem
    if network.prefixlen == 0:
        return f"{text} is every address there is"
    for never, what in _NEVER:
        if addresses.overlap(never, network):
            return f"{text} has {what} in it"
    for server in api_servers:
        if _in(server, network):
            return f"{text} has this cluster's API server in it ({server})"
    for node in sorted(nodes):
        if _in(node, network):
            return f"{text} has one of this cluster's nodes in it ({node})"
    least, most = SIZES[network.version]
    if not least <= network.prefixlen <= most:
        return f"{text} is no size for a range: /{least} to /{most} are"
    return ""


def refuse_overlap(text: str, reserved: Iterable[str]) -> str:
    """The reason to refuse a valid range that overlaps reserved ones; empty where it does not."""
    network = ipaddress.ip_network(text)
    for each in reserved:
        kept = ipaddress.ip_network(each)
        if addresses.overlap(kept, network):
            return f"{text} overlaps {each}, which [network] reserved keeps on this machine"
    return ""


def refuse_lent(address: str, nodes: Collection[str] = frozenset(), api_server: str = "") -> str:
    """The reason why an address of this cluster may not be lent to peers; empty where it may.

    Args:
        address: of an ``IP``.
        nodes: addresses of this cluster's nodes.
        api_server: address of its API server.
    """
    parsed = addresses.parse(address)
    if parsed is None or "%" in address:
        # A zone means something on one host only.
        return f"{address!r} is no IP address"
    for never, what in _NEVER:
        if never.version == parsed.version and parsed in never:
            return f"{address} is one of {what}"
    if parsed == addresses.parse(api_server):
        return f"{address} is this cluster's API server"
    if parsed in {addresses.parse(node) for node in nodes}:
        return f"{address} is one of this cluster's nodes"
    return ""


def covered(address: str, prefixes: Iterable[str]) -> bool:
    """True if an address lies in one of some ranges."""
    return any(_in(address, ipaddress.ip_network(each)) for each in prefixes)


def _in(address: str, network: IPNetwork) -> bool:
    parsed = addresses.parse(address)
    return parsed is not None and parsed in network


def _parsed(text: str) -> tuple[IPNetwork | None, str]:
    if "/" not in text:
        return None, f"{text!r} is no range: it has no length"
    if not text.rpartition("/")[2].isdecimal():
        return None, f"{text!r} is no range: its length is no number"
    try:
        loose = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None, f"{text!r} is no range"
    if ipaddress.ip_interface(text).ip != loose.network_address:
        return None, f"{text} has host bits: {loose} is the range"
    return loose, ""
