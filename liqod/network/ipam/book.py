"""Records the address ranges that are taken in this cluster, by all its Networks and Nodes."""

import ipaddress
from collections.abc import Iterable
from typing import Final

from liqod.configsections import NetworkSettings as Settings
from liqod.kube.cache.store import Key
from liqod.network.dataplane.families import addresses_of, family_of
from liqod.network.dataplane.names import OVERLAY_NETWORK, OVERLAY_NETWORK6
from liqod.network.ipam.pools import POOLS, Prefixes

AROUND: Final = {4: 24, 6: 64}
"""Length of the prefix around a node's address that counts as the node's network, by family."""

NODES: Final = ("", "nodes")
SETTINGS: Final = ("", "settings")
KEPT: Final = (NODES, SETTINGS)
"""Owners that are no Networks: their names are none that an object can have."""


class Book:
    """All ranges, by owner: Networks by their namespace and name.

    Args:
        settings: pools, and what else is not to be used.

    Attributes:
        ranges: each owner's range.
        full: the reason a waiting Network has none, by its namespace and name.
    """

    def __init__(self, settings: Settings) -> None:
        self.ranges = Prefixes[Key](settings.pools or POOLS)
        self.full: dict[Key, str] = {}
        fixed = (*settings.reserved, OVERLAY_NETWORK, OVERLAY_NETWORK6)
        self.ranges.take(SETTINGS, *fixed)

    def nodes(self, addresses: Iterable[str]) -> None:
        """Nodes have these addresses: the ranges around them are no aliases."""
        around = {
            str(ipaddress.ip_network((each, AROUND[family_of(each)]), strict=False))
            for each in addresses_of(addresses)
        }
        self.ranges.take(NODES, *sorted(around))
