"""Deletes objects: sets the finalizers that hold them back, and deletes by UID."""

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
    """Add finalizers to an object and remove others, at the version that was read.

    Returns:
        True if that changed anything.

    Raises:
        Conflict: the object was changed meanwhile; the watch brings the change.
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
        return False  # it was deleted meanwhile
    return True


async def delete_all(client: Client, kind: Kind, found: Iterable[Partial]) -> list[Partial]:
    """Delete objects, each by the UID that was read; those already in deletion are left alone.

    Returns:
        The objects that existed and were deleted.

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
