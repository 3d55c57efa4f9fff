"""Compares a grant with the capacity of nodes, for a warning: of this cluster's before it is made,
and of a provider's afterwards, as far as that reports it.

It refuses nothing: nodes may be added, or made as they are needed.
"""

from collections.abc import Mapping

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES
from liqod.errors import Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Node
from liqod.model.peering import capacity
from liqod.model.view.viewrows import owner
from liqod.resources import RESOURCE_SLICES, ResourceSlice


async def beyond(client: Client, grant: Mapping[str, int | str], consumer: str = "") -> str:
    """The excess of all grants, with a new one, over the nodes' capacity, in words; empty for none.

    Args:
        client: its rights may not be enough to look; then the result is empty.
        grant: the grant.
        consumer: the grant's consumer, if known: its present slices are a part of the grant.
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


async def beyond_there(client: Client, provider: str, name: str = "") -> str:
    """The resources of which a slice is granted more than its provider's nodes have.

    Args:
        client: of the cluster that borrows.
        provider: the provider's id.
        name: the slice's; empty for that of the provider's name.
    """
    which = Selection(labels=f"{labels.REMOTE_CLUSTER_ID}={provider}")
    for each in await client.list(RESOURCE_SLICES, which, decode=ResourceSlice):
        if each.name == (name or provider) and owner(each) == (provider, False):
            found = capacity.overcommit_warning(each.metadata.annotations, each.status.resources)
            return f"{found}: what does not fit waits there for a place" if found else ""
    return ""
