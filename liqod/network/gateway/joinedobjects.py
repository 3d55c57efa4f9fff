"""The objects by which the networks of two clusters are joined, and whether they are there."""

from typing import Final

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.resources.networking import (
    CONFIGURATIONS,
    GATEWAY_CLIENTS,
    GATEWAY_SERVERS,
    PUBLIC_KEYS,
)

MADE_OF: Final = ((GATEWAY_SERVERS, GATEWAY_CLIENTS), (PUBLIC_KEYS,), (CONFIGURATIONS,))
"""Kinds that a joining is made of: at least one object of each group."""


async def is_there(client: Client, namespace: str, *kinds: Kind) -> bool:
    """True if there is an object of one of these kinds that nobody has deleted.

    Args:
        client: of this cluster.
        namespace: the peer's tenant namespace.
        kinds: any of them counts.
    """
    for kind in kinds:
        found = await client.list(kind, Selection(namespace), decode=Partial)
        if any(one.metadata.deletion_timestamp is None for one in found):
            return True
    return False
