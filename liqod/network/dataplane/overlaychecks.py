"""Checks the addresses, ranges and numbers of an overlay before a kernel is given any. Pure.

Those who send them may be wrong, or taken over: text goes into rules of nftables, and a range that
is too wide draws packets of others to itself.
"""

from collections.abc import Iterable
from ipaddress import ip_network
from typing import Final

from liqod.model.crossing import addresses
from liqod.model.crossing.addresses import parse
from liqod.model.network import rangechecks
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.network.dataplane.overlayplan import MOST_NODES, Overlay, OverlayNode

MOST_PODS: Final = 256
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


def lead(gateway: OverlayNode, nodes: Iterable[OverlayNode], overlay: Overlay) -> None:
    """Check an order to be the gateway of an overlay.

    Raises:
        ValueError: a part cannot be; nothing of the order is to be carried out.
    """
    device(overlay.mtu, overlay.vni, overlay.port)
    every = [ip_network(text) for text in pods(overlay.pods)]
    seen: dict[str, str] = {}
    for each in {one.name: one for one in (*nodes, gateway)}.values():
        found = node(each.name, each.address, each.index)
        for has in (f"address {found.address}", f"number {found.index}"):
            if seen.setdefault(has, each.name) != each.name:
                raise ValueError(f"{each.name} has the {has} of the node {seen[has]}")
        for text in each.pods:
            problem = rangechecks.malformed(text)
            if not problem and not any(addresses.within(ip_network(text), one) for one in every):
                problem = f"{text} of the node {each.name} is none of this cluster's pods"
            if problem:
                raise ValueError(problem)
