"""Makes the desired overlay of this cluster from its Nodes and the networks with peers. Pure.

A node's kubelet writes its own Node: its claims there may not take anything from
another node. So a known node keeps what it has, and later claims to it are refused.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.crossing.addresses import IPNetwork, overlap, parse, within
from liqod.model.network import rangechecks
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.model.objects.partial import Node
from liqod.network.dataplane import overlaychecks
from liqod.network.dataplane.families import Family, family_of
from liqod.network.dataplane.overlayplan import (
    OVERHEAD,
    Overlay,
    OverlayNode,
    numbered,
)
from liqod.network.gateway import gatewayplan
from liqod.resources.fabric import InternalFabricSpec, InternalNodeSpec
from liqod.resources.networking import (
    RANGES_REFUSED,
    Configuration,
    GatewayClient,
    GatewayServer,
)

INTERNAL: Final = "InternalIP"
EVERYBODY: Final = "all"
"""Stands for all nodes, in place of a label, in ``[network] candidates``."""


class Member(msgspec.Struct, frozen=True):
    """A Node, as far as the overlay goes by it.

    Attributes:
        name: of the Node.
        addresses: at which other nodes reach it, the preferred one first.
        pods: ranges of its pods; empty where the CNI does not report them.
    """

    name: str
    addresses: tuple[str, ...]
    pods: tuple[str, ...] = ()


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """The overlay as it is to be.

    Attributes:
        gateway: the node that has the tunnels.
        nodes: all of them, the gateway among them, by name.
        overlay: what they have in common.
        refused: why a Node, or a range of one, is left out, by its name.
    """

    gateway: OverlayNode
    nodes: Mapping[str, OverlayNode]
    overlay: Overlay
    refused: Mapping[str, str] = {}


def member(body: bytes, *, says_pods: bool = True) -> Member | None:
    """The member that a Node describes; None for a virtual one, and one without an address.

    Args:
        body: the Node.
        says_pods: whether the ranges that it has are those of its pods.
    """
    try:
        node = msgspec.json.decode(body, type=Node)
    except msgspec.DecodeError:
        return None
    if node.metadata.labels.get(labels.TYPE) == labels.VIRTUAL_NODE_TYPE:
        return None
    addresses = tuple(
        each.address for each in node.status.addresses if each.type == INTERNAL and each.address
    )
    spec = node.spec
    pods = spec.pod_cidrs or ((spec.pod_cidr,) if spec.pod_cidr else ())
    return Member(node.metadata.name, addresses, pods if says_pods else ()) if addresses else None


def aliases(
    configurations: Iterable[Configuration], gateways: Iterable[GatewayServer | GatewayClient]
) -> dict[str, int]:
    """The aliases of all peers with a gateway, and the MTU of the path to each, in bytes."""
    mtus: dict[str, int] = {}
    for gateway in gateways:
        if not gateway.leaving:
            mtu = gateway.spec.mtu or gatewayplan.MTU
            mtus[gateway.namespace] = min(mtus.get(gateway.namespace, mtu), mtu)
    found: dict[str, int] = {}
    for each in configurations:
        remote = each.status.remote
        refused = any(told.reason == RANGES_REFUSED for told in each.status.conditions)
        if each.leaving or refused or remote is None or each.namespace not in mtus:
            continue
        mtu = max(mtus[each.namespace], LEAST_MTU)
        for prefix in filter(None, (*remote.cidr.pod, *remote.cidr.external)):
            found[prefix] = min(found.get(prefix, mtu), mtu)
    return found


def local(members: Iterable[Member], name: str, addresses: Iterable[str]) -> str:
    """The Node that this machine is: the one that is named, or has one of its addresses.

    Args:
        members: all of them.
        name: from the configuration; empty for none.
        addresses: of this machine.

    Returns:
        The name; empty for none.
    """
    if name:
        return name
    own = {parsed for each in addresses if (parsed := parse(each)) is not None}
    for each in sorted(members, key=lambda one: one.name):
        if own & {parse(address) for address in each.addresses}:
            return each.name
    return ""


def is_candidate(selector: str, marks: Mapping[str, str]) -> bool:
    """True if a Node with these labels is among the candidates that the configuration names."""
    if not selector or selector == EVERYBODY:
        return bool(selector)
    key, _, value = selector.partition("=")
    has = marks.get(key)
    return has is not None and (not value or has == value)


def address(me: str, members: Iterable[Member]) -> str:
    """Where other nodes reach one.

    Raises:
        ValueError: there is no such Node, or none of its addresses can be used.
    """
    found = next((each for each in members if each.name == me), None)
    if found is None:
        raise ValueError(f"there is no Node {me} with an address, which the gateway is to be on")
    for each in found.addresses:
        if _is_usable(each):
            return each
    raise ValueError(f"the Node {me} has no InternalIP that other nodes can use")


def fabric(
    me: str,
    members: Iterable[Member],
    known: Mapping[str, InternalNodeSpec],
    reached: Mapping[str, int],
    pods: Iterable[str],
    mtu: int,
) -> Fabric | None:
    """The overlay; None where there is none, with one node or nothing to reach.

    Args:
        me: the Node that is the gateway.
        members: the Nodes.
        known: the present InternalNodes, by name.
        reached: aliases and MTUs (:func:`aliases`).
        pods: the ranges of all pods of this cluster.
        mtu: of the network between the nodes, in bytes.

    Raises:
        ValueError: the gateway's Node cannot be it, or there are too many nodes.
    """
    by_name = {each.name: each for each in members}
    if not reached or not by_name.keys() - {me}:
        return None
    family = family_of(address(me, by_name.values()))
    every = tuple(sorted(pods))
    refused: dict[str, str] = {}
    found = _nodes(me, by_name, known, family, every, refused)
    gateway = found[me]
    device = max(mtu - OVERHEAD[family_of(gateway.address)], LEAST_MTU)
    ways = {prefix: min(each, device) for prefix, each in reached.items()}
    overlay = Overlay(pods=every, aliases=ways, mtu=device)
    return Fabric(gateway=gateway, nodes=found, overlay=overlay, refused=refused)


def node_spec(node: OverlayNode) -> dict[str, Any]:
    """``spec`` of an InternalNode; every field is set, since it is merged into what is there."""
    return {"index": node.index, "address": node.address, "podCIDRs": list(node.pods)}


def fabric_spec(
    cluster: str, found: Fabric, holder: str, live: InternalFabricSpec | None
) -> dict[str, Any]:
    """``spec`` of the InternalFabric, whose epoch goes up where the gateway is another.

    Args:
        cluster: this cluster's id.
        found: its desired content.
        holder: the daemon that is the gateway.
        live: its present content.
    """
    epoch = 1
    if live is not None:
        same = (live.gateway.node, live.gateway.holder) == (found.gateway.name, holder)
        epoch = live.gateway.epoch + (not same)
    return {
        "cluster": cluster,
        "gateway": {
            "node": found.gateway.name,
            "index": found.gateway.index,
            "address": found.gateway.address,
            "epoch": epoch,
            "holder": holder,
        },
        "aliases": [
            {"cidr": prefix, "mtu": found.overlay.aliases[prefix]}
            for prefix in sorted(found.overlay.aliases)
        ],
        "podCIDRs": list(found.overlay.pods),
        "vni": found.overlay.vni,
        "port": found.overlay.port,
        "mtu": found.overlay.mtu,
    }


def _nodes(
    me: str,
    members: Mapping[str, Member],
    known: Mapping[str, InternalNodeSpec],
    family: Family,
    every: tuple[str, ...],
    refused: dict[str, str],
) -> dict[str, OverlayNode]:
    numbers = numbered({name: spec.index for name, spec in known.items()}, members)
    addresses: dict[str, str] = {}
    ranges: list[tuple[str, IPNetwork]] = []
    within_these = [ip_network(text) for text in every]
    found: dict[str, OverlayNode] = {}
    # The gateway first, then the known nodes: a newcomer can take nothing from them.
    for name in sorted(members, key=lambda one: (one != me, one not in known, one)):
        at = next((each for each in members[name].addresses if _is_usable(each, family)), "")
        if not at:
            refused[name] = f"it has no InternalIP that nodes can use for IPv{family}"
            continue
        if at in addresses:
            refused[name] = f"{at} is the address of the node {addresses[at]}"
            continue
        addresses[at] = name
        pods = _ranges(name, members[name].pods, within_these, ranges, refused)
        found[name] = OverlayNode(name=name, address=at, index=numbers[name], pods=pods)
    return found


def _ranges(
    name: str,
    claimed: tuple[str, ...],
    every: Iterable[IPNetwork],
    taken: list[tuple[str, IPNetwork]],
    refused: dict[str, str],
) -> tuple[str, ...]:
    """Those ranges of a node that are the cluster's, and no other node's."""
    kept = []
    for text in claimed:
        if problem := rangechecks.malformed(text):
            refused[name] = problem
            continue
        claim = ip_network(text)
        owner = next((who for who, other in taken if overlap(claim, other)), "")
        if not any(within(claim, each) for each in every):
            refused[name] = f"{text} is not in this cluster's ranges of pods"
        elif owner:
            refused[name] = f"{text} overlaps pods of the node {owner}"
        else:
            taken.append((name, claim))
            kept.append(text)
    return tuple(kept)


def _is_usable(text: str, family: Family | None = None) -> bool:
    """True if nodes take it for the address of another, as it is written, of a family or of any."""
    try:
        return overlaychecks.address(text) == text and family in (None, family_of(text))
    except ValueError:
        return False
