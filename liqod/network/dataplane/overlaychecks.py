"""Checks the addresses, ranges and numbers of an overlay before a kernel is given any. Pure.

Those who send them may be wrong, or taken over: text goes into rules of nftables, and a range that
is too wide draws packets of others to itself.
"""

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from liqod.model.crossing.addresses import IPNetwork, parse
from liqod.model.network import rangechecks
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.network.dataplane.overlayplan import MOST_NODES, Overlay, OverlayNode

MOST_PODS: Final = 256
MOST_OF_NODE: Final = 16
"""Ranges of one node's pods; Kubernetes has two."""
MOST_MTU: Final = 65535


def address(text: str) -> str:
    """The address of a node. Raises ValueError: it cannot be one."""
    parsed = parse(text)
    if (
        parsed is None
        or "%" in text  # a zone is any text
        or parsed.is_loopback
        or parsed.is_unspecified
        or parsed.is_multicast
        or parsed.is_link_local
        or parsed.is_reserved
    ):
        raise ValueError(f"{text!r} is no address of a node")
    return str(parsed)


def within(what: str, number: int, least: int, most: int) -> None:
    """Raises ValueError where a number is out of bounds."""
    if not least <= number <= most:
        raise ValueError(f"{what} {number} is not from {least} to {most}")


def node(name: str, at: str, index: int) -> OverlayNode:
    """A node without pods. Raises ValueError: its address or its number cannot be."""
    within("index", index, 1, MOST_NODES)
    return OverlayNode(name=name, address=address(at), index=index)


def pods(claimed: tuple[str, ...]) -> tuple[str, ...]:
    """The ranges of a cluster's pods. Raises ValueError: one of them cannot be."""
    if not claimed:
        raise ValueError("no range of this cluster's pods is said")
    if len(claimed) > MOST_PODS:
        raise ValueError(f"{len(claimed)} ranges of pods are more than {MOST_PODS}")
    for text in claimed:
        problem = rangechecks.malformed(text)
        if not problem and ip_network(text).prefixlen == 0:
            problem = f"{text} is every address there is"
        if problem:
            raise ValueError(problem)
    return tuple(dict.fromkeys(str(ip_network(text)) for text in claimed))


def device(mtu: int, vni: int, port: int) -> None:
    """Raises ValueError where a parameter of the overlay's device cannot be."""
    within("mtu", mtu, LEAST_MTU, MOST_MTU)
    within("vni", vni, 1, (1 << 24) - 1)
    within("port", port, 1, 65535)


class RangeIndex:
    """Ranges in which others lie: thousands of these are looked up in a moment.

    Args:
        ranges: valid ones.
    """

    def __init__(self, ranges: Iterable[str]) -> None:
        self._kept = {_prefix(each, each.prefixlen) for each in map(ip_network, ranges)}
        self._lengths = {(version, length) for version, length, _ in self._kept}

    def __contains__(self, network: IPNetwork) -> bool:
        """True if a network lies in one of them, or is it."""
        return any(
            _prefix(network, length) in self._kept
            for version, length in self._lengths
            if version == network.version and length <= network.prefixlen
        )


def _prefix(network: IPNetwork, length: int) -> tuple[int, int, int]:
    rest = network.max_prefixlen - length
    return network.version, length, int(network.network_address) >> rest


def lead(gateway: OverlayNode, nodes: Iterable[OverlayNode], overlay: Overlay) -> None:
    """Check an order to be the gateway of an overlay.

    Raises:
        ValueError: a part cannot be; nothing of the order is to be carried out.
    """
    device(overlay.mtu, overlay.vni, overlay.port)
    own = RangeIndex(pods(overlay.pods))
    seen: dict[str, str] = {}
    for each in {one.name: one for one in (*nodes, gateway)}.values():
        found = node(each.name, each.address, each.index)
        for has in (f"address {found.address}", f"number {found.index}"):
            if seen.setdefault(has, each.name) != each.name:
                raise ValueError(f"{each.name} has the {has} of the node {seen[has]}")
        if len(each.pods) > MOST_OF_NODE:
            raise ValueError(
                f"{len(each.pods)} ranges of the node {each.name} are more than {MOST_OF_NODE}"
            )
        for text in each.pods:
            problem = rangechecks.malformed(text)
            if not problem and ip_network(text) not in own:
                problem = f"{text} of the node {each.name} is none of this cluster's pods"
            if problem:
                raise ValueError(problem)
