"""Compares a grant with the capacity of this cluster's nodes, for a warning before it is made.

It refuses nothing: nodes may be added, or made as they are needed.
"""

from collections.abc import Mapping

from liqod.apimachinery.kinds import NODES
from liqod.errors import Forbidden, NotFound
from liqod.kube.client import Client
from liqod.model.objects.partial import Node
from liqod.model.peering import capacity
from liqod.model.view.detail import owner
from liqod.resources import RESOURCE_SLICES, ResourceSlice


async def beyond(client: Client, grant: Mapping[str, int | str], consumer: str = "") -> str:
    """Says by how much all grants, with a new one, exceed the nodes' capacity; empty for nothing.

    Args:
        client: whose rights may not be enough to look; then nothing is said.
        grant: the grant.
        consumer: whose it is, if that is known: what it has already is part of it.
    """
    try:
        nodes = await client.list(NODES, decode=Node)
        slices = await client.list(RESOURCE_SLICES, decode=ResourceSlice)
    except (Forbidden, NotFound):
        return ""
    peers = ((each.status.resources, *owner(each)) for each in slices)
    others = [granted for granted, peer, lent in peers if lent and peer != consumer]
    found = capacity.beyond(capacity.of_nodes(nodes), [grant, *others])
    return f"{found}: what does not fit will wait there for a place" if found else ""
