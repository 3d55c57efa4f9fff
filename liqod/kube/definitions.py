"""Checks if a custom resource's kind is defined: without definition, its objects are unknown.

Deleting a definition deletes all objects of its kind, mostly by mistake. Objects made for
them are left alone until the definition is back and its owners have had time to act.
"""

from typing import Final

import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.kube import times
from liqod.kube.client import Client

RETURN: Final = 75.0
"""Seconds after its return for which a kind still counts as missing: the writers of its objects
try again within a minute."""


async def is_defined(client: Client, kind: Kind) -> bool:
    """True if the kind is defined, and its definition is not in deletion and was not recently.

    Kubernetes' own kinds are always defined.
    """
    if "." not in kind.group or kind.group.endswith(".k8s.io"):
        return True
    found = await client.find(CUSTOM_RESOURCES, name_of(kind), decode=Partial)
    now = trio.current_time()
    if found is None or found.metadata.deletion_timestamp is not None:
        client.missing[kind] = now
        return False
    if client.definitions.setdefault(kind, found.metadata.uid) != found.metadata.uid:
        # It was deleted and created again between two checks.
        client.definitions[kind] = found.metadata.uid
        returned = now - _age(found.metadata)
        client.missing[kind] = max(returned, client.missing.get(kind, returned))
    return now - client.missing.get(kind, float("-inf")) >= RETURN


def _age(meta: ObjectMeta) -> float:
    """Seconds since an object was created, as far as the two clocks agree; 0 if not given."""
    try:
        return times.age(meta.creation_timestamp or "")
    except (TypeError, ValueError):
        return 0.0


def name_of(kind: Kind) -> str:
    """The name of a kind's definition."""
    return f"{kind.plural}.{kind.group}"
