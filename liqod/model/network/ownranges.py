"""The ranges of this cluster's pods, from what its nodes say. Pure.

A node names the range of its own pods alone, and the next node another beside it. The ranges that
peers are notified of should last, so each is rounded up to what clusters commonly have, where
nothing else lies in it.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

from liqod.model.crossing.addresses import IPNetwork

USUAL: Final[dict[int, int]] = {4: 16, 6: 56}
"""The prefix length of a whole cluster's pods, by family, where each node has a part of them."""
NODE: Final[dict[int, int]] = {4: 24, 6: 64}
"""The usual one of a node's; shorter ones belong to clusters that were set up with care."""


def whole(of_nodes: Iterable[str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """The ranges of all pods, of each family.

    Args:
        of_nodes: the ranges that nodes name.
        others: addresses and ranges that are no pods': of nodes and services.
    """
    nodes = _networks(of_nodes)
    strange = _networks(others)
    found: list[str] = []
    for version in (4, 6):
        parts = [each for each in nodes if each.version == version]
        taken = [each for each in strange if each.version == version]
        wide = {_widened(each, taken) for each in parts}
        found += (str(each) for each in _collapsed(wide))
    return tuple(found)


def uncovered(prefixes: Iterable[str], told: Iterable[str]) -> tuple[str, ...]:
    """The prefixes that lie in none of those that were announced, in their order."""
    known = _networks(told)
    return tuple(
        text
        for text in prefixes
        for each in (ipaddress.ip_network(text, strict=False),)
        if not any(_within(each, other) for other in known)
    )


def _widened(network: IPNetwork, taken: Iterable[IPNetwork]) -> IPNetwork:
    """A node's part as the usual whole, where nothing else lies in that."""
    usual = USUAL[network.version]
    if network.prefixlen < NODE[network.version] or network.prefixlen <= usual:
        return network
    wide = network.supernet(new_prefix=usual)
    return network if any(_within(each, wide) or _within(wide, each) for each in taken) else wide


def _collapsed(networks: Iterable[IPNetwork]) -> list[IPNetwork]:
    ordered = sorted(networks, key=lambda each: (int(each.network_address), each.prefixlen))
    return [
        each
        for at, each in enumerate(ordered)
        if not any(_within(each, other) for other in ordered[:at])
    ]


def _networks(texts: Iterable[str]) -> list[IPNetwork]:
    return [ipaddress.ip_network(text, strict=False) for text in texts]


def _within(inner: IPNetwork, outer: IPNetwork) -> bool:
    if inner.version != outer.version or inner.prefixlen < outer.prefixlen:
        return False
    return int(inner.network_address) >> (outer.max_prefixlen - outer.prefixlen) == (
        int(outer.network_address) >> (outer.max_prefixlen - outer.prefixlen)
    )
