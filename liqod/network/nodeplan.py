"""A node's part of the overlay that leads from every node to the gateway, as values. Pure.

A cluster of one node has none. In others each node sends what is for an alias of a peer to the
gateway, and the gateway sends what comes from a peer to the node that has the pod. The device
learns nothing from packets: who has which address is said by the cluster's resources alone, so that
no node can draw another's traffic to itself.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from liqod.network import names
from liqod.network.values import Namespace

OVERHEAD: Final[dict[int, int]] = {4: 50, 6: 70}
"""Bytes that the overlay adds to a packet, by the family of the nodes' addresses."""


class OverlayNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node as the overlay knows it.

    Attributes:
        name: of the Node.
        address: where the other nodes reach it.
        index: its number in the overlay, from 1, of which its address there and its link-layer
            address are made; no two nodes have the same.
        pods: the ranges of its pods.
    """

    name: str
    address: str
    index: int
    pods: tuple[str, ...] = ()


class Overlay(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes have in common.

    Attributes:
        pods: the ranges of all pods of this cluster.
        aliases: the MTU of the way to each alias of a peer, in bytes, by its prefix.
        vni: number of the overlay.
        port: UDP port.
        mtu: of the device, in bytes: that of the network between the nodes less
            :data:`OVERHEAD`.
    """

    pods: tuple[str, ...]
    aliases: Mapping[str, int]
    vni: int = names.VNI
    port: int = names.OVERLAY_PORT
    mtu: int = 1430


def plan(
    me: OverlayNode, gateway: OverlayNode, others: tuple[OverlayNode, ...], overlay: Overlay
) -> Namespace:
    """What a node needs of the overlay.

    Args:
        me: the node.
        gateway: the node that has the tunnels; may be the same.
        others: the nodes that are neither; they are of interest on the gateway only.
        overlay: what all have in common.
    """
    raise NotImplementedError
