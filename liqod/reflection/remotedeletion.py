"""Deletes objects at the peer, by their UID, with the grace that their pods may take."""

from contextlib import suppress

from liqod.apimachinery.meta import Partial
from liqod.errors import Conflict, Forbidden, Invalid, NotFound
from liqod.kube.client import Client
from liqod.model.crossing import graces
from liqod.plugins.contracts import RemoteKind
from liqod.reflection.remotecache import RemoteCache


async def delete_remote(
    remote: RemoteKind, live: Partial, cache: RemoteCache, client: Client, grace: int | None = None
) -> bool:
    """Delete an object of ours; False if that is not due, or others did it already.

    Args:
        remote: how its kind is written.
        live: the object.
        cache: the peer's objects of its kind.
        client: for removing it.
        grace: seconds that its pod may take to end, where the pod's own do not apply.
    """
    meta = live.metadata
    if meta.deletion_timestamp is not None:
        return False
    try:
        if grace is not None and graces.noted(meta.annotations) != grace:
            patch = {"metadata": {"uid": meta.uid, "annotations": graces.note(grace)}}
            with suppress(Forbidden, Invalid):  # then it has its own
                await client.patch(remote.kind, meta.name, patch, cache.namespace)
        return await client.delete(remote.kind, meta.name, cache.namespace, uid=meta.uid)
    except (Conflict, NotFound):
        return False
