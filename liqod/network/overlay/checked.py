"""Checks the overlay's resources on a node, which accepts only what makes sense on it. Pure.

A writer of them could otherwise have a node send its API server's packets, or all of its pods', to
a machine of his. Each refusal is named; an alias that is refused leaves the others as they are.
"""

from ipaddress import ip_network
from typing import Final

import msgspec

from liqod.model import ids
from liqod.model.crossing.addresses import overlap
from liqod.model.network import rangechecks
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.network.dataplane import names, overlaychecks
from liqod.network.dataplane.families import family_of
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.resources.fabric import InternalFabricSpec, InternalNodeSpec

MOST_ALIASES: Final = 8192


class CheckedOverlay(msgspec.Struct, frozen=True):
    """The part of the overlay's resources that a node accepts.

    Attributes:
        me, gateway: the two nodes.
        overlay: what all have in common, without what was refused.
        refused: the reason for each refused alias, a sentence each.
    """

    me: OverlayNode
    gateway: OverlayNode
    overlay: Overlay
    refused: tuple[str, ...] = ()


def believe(
    name: str,
    node: InternalNodeSpec,
    fabric: InternalFabricSpec,
    api_servers: tuple[str, ...] = (),
    reserved: tuple[str, ...] = (),
) -> CheckedOverlay:
    """Accepts the valid parts of both resources, on a node that is not the gateway.

    Args:
        name: the node's.
        node: its own InternalNode.
        fabric: the InternalFabric.
        api_servers: addresses at which this node reaches its API server.
        reserved: ranges that no alias may overlap on this node.

    Raises:
        ValueError: nothing of it can be, and why.
    """
    problem = ids.cluster_id_problem(fabric.cluster)
    if problem is not None:
        raise ValueError(f"the cluster's id {fabric.cluster!r} is none: {problem}")
    told = fabric.gateway
    me = overlaychecks.node(name, node.address, node.index)
    gateway = overlaychecks.node(told.node, told.address, told.index)
    if me.address == gateway.address or me.index == gateway.index:
        raise ValueError(f"the gateway {gateway.name} has the address or the number of this node")
    if family_of(me.address) != family_of(gateway.address):
        raise ValueError(f"{me.address} and {gateway.address} are not of one family")
    overlaychecks.device(fabric.mtu, fabric.vni, fabric.port)
    pods = overlaychecks.pods(fabric.pod_cidrs)
    aliases, refused = _aliases(fabric, pods, (me.address, gateway.address), api_servers, reserved)
    overlay = Overlay(pods=pods, aliases=aliases, vni=fabric.vni, port=fabric.port, mtu=fabric.mtu)
    return CheckedOverlay(me, gateway, overlay, refused)


def _aliases(
    fabric: InternalFabricSpec,
    pods: tuple[str, ...],
    nodes: tuple[str, ...],
    api_servers: tuple[str, ...],
    reserved: tuple[str, ...],
) -> tuple[dict[str, int], tuple[str, ...]]:
    if len(fabric.aliases) > MOST_ALIASES:
        raise ValueError(f"{len(fabric.aliases)} aliases are more than {MOST_ALIASES}")
    own = [(text, ip_network(text)) for text in pods]
    found: dict[str, int] = {}
    refused: list[str] = []
    for each in fabric.aliases:
        problem = _problem(each.cidr, nodes, api_servers)
        problem = problem or rangechecks.refuse_overlap(each.cidr, reserved)
        if not problem:
            alias = ip_network(each.cidr)
            problem = next(
                (
                    f"{each.cidr} overlaps this cluster's own pods ({text})"
                    for text, network in own
                    if overlap(network, alias)
                ),
                "",
            )
        if not problem and not LEAST_MTU <= each.mtu <= fabric.mtu:
            problem = f"the MTU {each.mtu} of {each.cidr} is not from {LEAST_MTU} to {fabric.mtu}"
        if problem:
            refused.append(problem)
        else:
            found[str(ip_network(each.cidr))] = each.mtu
    return found, tuple(refused)


def _problem(cidr: str, nodes: tuple[str, ...], api_servers: tuple[str, ...]) -> str:
    if problem := rangechecks.refuse_range(cidr, nodes, *api_servers):
        return problem
    if overlap(ip_network(cidr), ip_network(names.OVERLAY_NETWORK6)):
        return f"{cidr} has addresses of the overlay itself in it"
    return ""
