"""How objects end: finalizers that hold them back, and deletion by UID."""

from collections.abc import Iterable

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.errors import NotFound
from liqod.kube.client import Client


async def set_finalizers(
    client: Client,
    kind: Kind,
    meta: ObjectMeta,
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> bool:
    """Put finalizers on an object and take others off, over the very version that was read.

    Returns:
        Whether that changed anything.

    Raises:
        Conflict: somebody else wrote meanwhile; the watch brings what.
    """
    without = frozenset(remove)
    kept = [each for each in meta.finalizers if each not in without]
    wanted = [*kept, *(each for each in add if each not in kept)]
    if tuple(wanted) == meta.finalizers:
        return False
    patch = {"metadata": {"finalizers": wanted, "resourceVersion": meta.resource_version}}
    try:
        await client.patch(kind, meta.name, patch, meta.namespace or None)
    except NotFound:
        return False  # it has gone meanwhile
    return True


async def delete_all(client: Client, kind: Kind, found: Iterable[Partial]) -> list[Partial]:
    """Delete objects, each by the UID that was read; what is on its way out already is left to it.

    Returns:
        Those that were there and went.

    Raises:
        Conflict: one was replaced.
    """
    gone = []
    for each in found:
        meta = each.metadata
        if meta.deletion_timestamp is None and await client.delete(
            kind, meta.name, meta.namespace or None, uid=meta.uid
        ):
            gone.append(each)
    return gone
