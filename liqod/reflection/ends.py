"""How an object at the peer is ended: by its UID, and with the word that this is wanted."""

from contextlib import suppress

from liqod.errors import Conflict, Forbidden, Invalid, NotFound
from liqod.kube.client import Client
from liqod.kube.meta import Partial
from liqod.model.crossing import graces
from liqod.plugins.contracts import RemoteKind
from liqod.reflection.remotecache import RemoteCache


async def delete_remote(
    remote: RemoteKind, live: Partial, cache: RemoteCache, client: Client, grace: int | None = None
) -> bool:
    """Delete an object of ours; False if that is not due or was done by others already.

    Args:
        remote: how its kind is written.
        live: the object.
        cache: what is there of its kind.
        client: who removes it.
        grace: seconds that its pod may take to end, where they are not that pod's own.
    """
    meta = live.metadata
    if is_ending(remote, live):
        return False
    try:
        if remote.marked:
            await _say_end(remote, live, cache, client, grace)
            if meta.deletion_timestamp is not None:
                return True
            # A second at least, so that its node says when it has ended.
            lasting = None if grace is None else max(1, grace)
            return await client.delete(
                remote.kind, meta.name, cache.namespace, uid=meta.uid, grace=lasting
            )
        if grace is not None and graces.noted(meta.annotations) != grace:
            patch = {"metadata": {"uid": meta.uid, "annotations": graces.note(grace)}}
            with suppress(Forbidden, Invalid):  # then it has its own
                await client.patch(remote.kind, meta.name, patch, cache.namespace)
        return await client.delete(remote.kind, meta.name, cache.namespace, uid=meta.uid)
    except (Conflict, NotFound):
        return False


def is_ending(remote: RemoteKind, live: Partial) -> bool:
    """Whether an object there ends already, and nothing of ours holds it."""
    meta = live.metadata
    held = bool(remote.finalizer) and remote.finalizer in meta.finalizers
    return meta.deletion_timestamp is not None and not held


async def _say_end(
    remote: RemoteKind, live: Partial, cache: RemoteCache, client: Client, grace: int | None
) -> None:
    """Tell the peer that an object is to end, which makes again what ends without this word.

    One write says so and lets go of it, so that nothing is held that nobody wants. Finalizers are
    written as a whole: over the version that was read, where somebody else has some there too.
    """
    meta = live.metadata
    others = [each for each in meta.finalizers if each != remote.finalizer]
    version = {"resourceVersion": meta.resource_version} if others else {}
    note = graces.note(graces.DEFAULT if grace is None else grace)
    patch = {"uid": meta.uid, "annotations": note, "finalizers": others, **version}
    await client.patch(remote.kind, meta.name, {"metadata": patch}, cache.namespace)
