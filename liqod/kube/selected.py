"""What a label selector names, deleted object by object."""

from collections.abc import Container

from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial


async def delete_selected(
    client: Client,
    kind: Kind,
    selector: str,
    namespace: str | None = None,
    *,
    spared: Container[str] = (),
) -> int:
    """Delete each object that was found, by its UID; what is on its way out already is left to it.

    Args:
        client: may list and delete objects of the kind.
        kind: what they are.
        selector: their labels.
        namespace: where, None for everywhere.
        spared: names that are left alone, asked for when their turn comes.

    Returns:
        How many went.

    Raises:
        LiqodError: as the client raises.
    """
    found = await client.list(kind, namespace, labels=selector, metadata_only=True, decode=Partial)
    gone = 0
    for each in found:
        meta = each.metadata
        if meta.deletion_timestamp is None and meta.name not in spared:
            gone += await client.delete(kind, meta.name, meta.namespace or None, uid=meta.uid)
    return gone
