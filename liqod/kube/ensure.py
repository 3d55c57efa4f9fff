"""Brings an object to its wanted state with the fewest writes: create, minimal patch, or nothing.

Rule 4 of the architecture: nothing is written without a difference. The state wanted at the last
write is recorded in two annotations of the object (its hash, and the keys that were written), so
that a key which is no longer wanted is removed without touching those of others. For objects
of liqod; an existing object of another owner is refused.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import AlreadyExists, Conflict, Invalid
from liqod.kube.client import Client
from liqod.model.objects import patches

HASH: Final = labels.APPLIED_HASH
KEYS: Final = labels.APPLIED_KEYS
KEYS_LIMIT: Final = 64 * 1024
"""Longest record of keys; all annotations of an object share 256 KiB."""

Outcome = Literal["created", "patched", "recreated", "unchanged", "terminating"]
_OWNERSHIP: Final = (labels.ORIGIN, labels.DESTINATION, labels.MANAGED_BY_LIQOD)


class Written(msgspec.Struct, frozen=True):
    """The result of :func:`ensure`.

    Attributes:
        outcome: the action taken; ``terminating`` means that the old object must go first.
        partial: metadata after the write; None if nothing was written.
    """

    outcome: Outcome
    partial: Partial | None = None

    @property
    def wrote(self) -> bool:
        """True if anything was written."""
        return self.outcome not in ("unchanged", "terminating")


def stamped(kind: Kind, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted object with its kind and with the annotations that record the write."""
    plain = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        **patches.without_bookkeeping(wanted),
    }
    metadata = dict(plain.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    annotations[HASH] = patches.digest(plain)
    keys = patches.encode_keys(patches.keys_of(plain))
    if len(keys) <= KEYS_LIMIT:
        annotations[KEYS] = keys
    metadata["annotations"] = annotations
    return {**plain, "metadata": metadata}


def is_ours(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """True if liqod wrote the live object: it carries the record or the labels of liqod.

    Labels of origin and destination must be those of the wanted object.
    """
    there = live.get("metadata") or {}
    mine = (wanted.get("metadata") or {}).get("labels") or {}
    owned = {key: mine[key] for key in _OWNERSHIP if key in mine}
    if owned:
        live_labels = there.get("labels") or {}
        return all(live_labels.get(key) == value for key, value in owned.items())
    return HASH in (there.get("annotations") or {})


def change(kind: Kind, wanted: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any] | None:
    """The merge patch that is due, or None if the live object is as wanted."""
    target = stamped(kind, wanted)
    recorded = (live.get("metadata") or {}).get("annotations") or {}
    same = recorded.get(HASH) == target["metadata"]["annotations"][HASH]
    if same and patches.contained(patches.without_bookkeeping(target), live):
        return None
    return patches.owned_patch(live, target, patches.decode_keys(recorded.get(KEYS, "{}"))) or None


async def ensure(
    client: Client,
    kind: Kind,
    wanted: Mapping[str, Any],
    *,
    live: bytes | None,
    namespace: str | None = None,
    recreate: bool = False,
    adopt: bool = False,
) -> Written:
    """Create or change an object so that it is as wanted.

    Args:
        client: the client of its cluster.
        wanted: the object, with ``metadata.name``; its status is not compared.
        live: the object in the store, or None if it has none.
        namespace: its namespace; ``metadata.namespace`` if not given.
        recreate: delete and create again if the server refuses the change (immutable fields).
        adopt: take over an object without the record or labels of liqod.

    Raises:
        Conflict: it exists and is not liqod's; AlreadyExists if the store had not seen it yet.
    """
    metadata = wanted["metadata"]
    name = metadata["name"]
    namespace = namespace or metadata.get("namespace")
    if live is None:
        return Written("created", await client.create(kind, stamped(kind, wanted), namespace))
    current: dict[str, Any] = msgspec.json.decode(live, type=dict[str, Any])
    if not adopt and not is_ours(wanted, current):
        where = f"{namespace}/{name}" if namespace else name
        raise Conflict(f"{kind.name} {where} exists and is not ours: it is left alone")
    if current["metadata"].get("deletionTimestamp"):
        return Written("terminating")
    patch = change(kind, wanted, current)
    if patch is None:
        return Written("unchanged")
    try:
        return Written("patched", await client.patch(kind, name, patch, namespace))
    except Invalid:
        if not recreate:
            raise
    body = stamped(kind, wanted)
    await make_room(client, kind, body, current["metadata"].get("uid"), namespace)
    return Written("recreated", await client.create(kind, body, namespace))


async def make_room(
    client: Client, kind: Kind, body: Mapping[str, Any], uid: str | None, namespace: str | None
) -> None:
    """Delete an object so that another can be created in its place, if the server accepts that.

    A create request is the test: a server refuses an invalid object before it checks if the name
    is free.

    Raises:
        Invalid: the server accepts no such object; the existing one stays.
    """
    try:
        await client.create(kind, body, namespace)
    except AlreadyExists:
        await client.delete(kind, body["metadata"]["name"], namespace, uid=uid)
