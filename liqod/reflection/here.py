"""Writes in this cluster: status, objects made from what is there, events, and the end of a pod.

The status of a local object is patched with its UID, so that an object of the same name that came
meanwhile is not given the status of the one before. Objects made here are owned by the local
object they belong to, and go with it.
"""

from contextlib import suppress

import msgspec

from liqod.errors import Conflict, Invalid, NotFound, PermanentError
from liqod.kube import events
from liqod.kube.cache.store import Store
from liqod.kube.client import Client
from liqod.kube.ensure import ensure
from liqod.kube.kinds import EVENTS, Kind
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.plugins.contracts import Json, Reason


async def patch_status(client: Client, kind: Kind, source: Json, status: Json) -> Partial | None:
    """Merge a patch into an object's status; None where it is gone or another by now.

    A list of conditions is written as a whole, with those of others in it: if the object has
    changed since it was read, nothing is written, and its change brings us here again.
    """
    meta = source["metadata"]
    only = {"uid": meta["uid"]}
    if "conditions" in status:
        only["resourceVersion"] = meta["resourceVersion"]
    patch = {"metadata": only, "status": status}
    try:
        return await client.patch(
            kind, meta["name"], patch, meta.get("namespace"), subresource="status"
        )
    except (NotFound, Conflict):
        return None
    except Invalid as error:
        # A wrong UID is refused as the change of a field that cannot change.
        if "metadata.uid" in str(error):
            return None
        raise


async def finish(client: Client, kind: Kind, source: Json) -> bool:
    """Delete an object that only waits for its end; False if others did."""
    meta = source["metadata"]
    try:
        return await client.delete(
            kind, meta["name"], meta.get("namespace"), uid=meta["uid"], grace=0
        )
    except Conflict:
        return False


def owned(made: Json, kind: Kind, source: Json, reflector: str, peer: str) -> Json:
    """An object to be made here: in the place of its owner, with the marks of its making."""
    own, meta = source["metadata"], made.get("metadata", {})
    return {
        **made,
        "metadata": {
            **meta,
            "namespace": own.get("namespace", ""),
            "labels": {**(meta.get("labels") or {}), labels.ORIGIN: peer},
            "annotations": {
                **(meta.get("annotations") or {}),
                labels.SOURCE: f"{reflector}/{own['name']}",
            },
            "ownerReferences": [
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.name,
                    "name": own["name"],
                    "uid": own["uid"],
                    "controller": False,
                    "blockOwnerDeletion": False,
                }
            ],
        },
    }


def made_from(found: Partial, reflector: str, name: str, uid: str) -> bool:
    """Whether an object here was made by a reflector from the object of that name and UID."""
    meta = found.metadata
    marked = meta.annotations.get(labels.SOURCE) == f"{reflector}/{name}"
    return marked and any(owner.uid == uid for owner in meta.owner_references)


async def make(
    client: Client, kind: Kind, wanted: Json, source: Json, reflector: str, store: Store
) -> None:
    """Make one object here be as wanted, also where another peer's engine made it.

    Raises:
        Conflict: it exists and was made by somebody else, or of another object.
    """
    meta, own = wanted["metadata"], source["metadata"]
    key = (meta["namespace"], meta["name"])
    found = store.decode(key, Partial)
    ours = found is not None and made_from(found, reflector, own["name"], own["uid"])
    await ensure(client, kind, wanted, live=store.get(key), namespace=meta["namespace"], adopt=ours)


async def sweep(
    client: Client,
    kind: Kind,
    source: Json,
    reflector: str,
    peer: str,
    wanted: set[str],
    store: Store,
) -> None:
    """Remove what was made here from an object for a peer, and is no longer wanted."""
    own = source["metadata"]
    for key in store.indexed("namespace", own.get("namespace", "")):
        found = store.decode(key, Partial)
        if found is None or key[1] in wanted:
            continue
        if found.metadata.labels.get(labels.ORIGIN) == peer and made_from(
            found, reflector, own["name"], own["uid"]
        ):
            await client.delete(kind, key[1], key[0], uid=found.metadata.uid)


async def tell(client: Client, kind: Kind, source: Json, reason: Reason, now: str) -> None:
    """Write a Warning on an object: one Event for each object and reason, however often it is.

    One that the API server refuses is let go: its namespace may be going, and what is told there
    must not hold that up.
    """
    meta = msgspec.convert(source, Partial).metadata
    made = events.event(kind, meta, reason.code, reason.message, at=now)
    with suppress(PermanentError):
        await client.create(EVENTS, made)
