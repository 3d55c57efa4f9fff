"""Makes, recognizes and removes objects in this cluster that belong to a local object.

Their marks name the object they were made from and its peer; the local object is their owner.
"""

from typing import Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import AlreadyExists, Conflict
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.kube.ensure import ensure
from liqod.plugins.contracts import Json

SHOWN_WITHIN: Final = 30.0
"""Seconds after which a made object is taken to have been shown, or to be gone."""


def owned(made: Json, kind: Kind, source: Json, reflector: str, peer: str) -> Json:
    """An object to be made: in the namespace of its owner, with the marks of its making."""
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
    """True if a local object was made by a reflector from the object of that name and UID."""
    meta = found.metadata
    marked = meta.annotations.get(labels.SOURCE) == f"{reflector}/{name}"
    return marked and any(owner.uid == uid for owner in meta.owner_references)


class Lately:
    """The objects that were made a moment ago, which a watch may not have shown yet."""

    def __init__(self) -> None:
        self._made: dict[tuple[Kind, str, str], float] = {}

    def note(self, kind: Kind, namespace: str, name: str) -> None:
        """Note that an object was made, or exists."""
        now = trio.current_time()
        for key, at in list(self._made.items()):
            if now - at <= SHOWN_WITHIN:
                break  # those behind it are younger
            del self._made[key]
        self._made.pop((kind, namespace, name), None)
        self._made[kind, namespace, name] = now

    def has(self, kind: Kind, namespace: str, name: str) -> bool:
        """True if an object was made so lately that it may exist unseen."""
        at = self._made.get((kind, namespace, name))
        return at is not None and trio.current_time() - at <= SHOWN_WITHIN


async def make(
    client: Client,
    kind: Kind,
    wanted: Json,
    source: Json,
    reflector: str,
    store: IndexedStore,
    lately: Lately,
) -> None:
    """Make one local object be as wanted, also where another peer's engine made it.

    An object that was made lately and is not shown yet is read, and not made a second time.

    Raises:
        Conflict: it exists and was made by another, or of another object.
    """
    namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    live, own = store.get((namespace, name)), source["metadata"]

    def ours(body: bytes | None) -> bool:
        found = None if body is None else msgspec.json.decode(body, type=Partial)
        return found is not None and made_from(found, reflector, own["name"], own["uid"])

    if live is None and lately.has(kind, namespace, name):
        live = await _read(client, kind, name, namespace)
        if live is not None and not ours(live):
            raise Conflict(f"{kind.name} {namespace}/{name} exists, made of something else")
    try:
        await ensure(client, kind, wanted, live=live, namespace=namespace, adopt=ours(live))
    except AlreadyExists:
        # Made a moment ago by another peer's engine, perhaps.
        live = await _read(client, kind, name, namespace)
        if not ours(live):
            raise
        await ensure(client, kind, wanted, live=live, namespace=namespace, adopt=True)
    if store.get((namespace, name)) is None:
        lately.note(kind, namespace, name)


async def _read(client: Client, kind: Kind, name: str, namespace: str) -> bytes | None:
    there = await client.find(kind, name, namespace)
    return None if there is None else msgspec.json.encode(there)


async def sweep(
    client: Client,
    kind: Kind,
    source: Json,
    reflector: str,
    peer: str,
    wanted: set[str],
    store: IndexedStore,
) -> None:
    """Remove the objects made from one for a peer that are no longer wanted."""
    own = source["metadata"]
    for key in store.indexed("namespace", own.get("namespace", "")):
        found = store.decode(key, Partial)
        if found is None or key[1] in wanted:
            continue
        if found.metadata.labels.get(labels.ORIGIN) == peer and made_from(
            found, reflector, own["name"], own["uid"]
        ):
            await client.delete(kind, key[1], key[0], uid=found.metadata.uid)
