"""Finds the virtual nodes of a slice: one as a whole, or one for each part of its provider."""

from liqod.apimachinery import labels
from liqod.apimachinery.meta import Partial
from liqod.errors import Forbidden
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.resources import VIRTUAL_NODES


async def nodes_of(client: Client, provider: str, slice_name: str) -> tuple[str, ...]:
    """The names of a slice's virtual nodes, or the one that it gets first.

    Args:
        client: of the cluster that borrows; its rights may not be enough to look.
        provider: the provider's id.
        slice_name: the slice's.
    """
    marks = {labels.REMOTE_CLUSTER_ID: provider, labels.RESOURCE_SLICE_NAME: slice_name}
    which = Selection(labels=",".join(f"{name}={value}" for name, value in marks.items()))
    try:
        found = await client.list(VIRTUAL_NODES, which, decode=Partial)
    except Forbidden:
        return (slice_name,)
    names = sorted(each.metadata.name for each in found if not each.metadata.deletion_timestamp)
    return tuple(names) or (slice_name,)


def named(nodes: tuple[str, ...]) -> str:
    """The nodes in a sentence, such as ``the node milan``."""
    return f"the {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes)}"
