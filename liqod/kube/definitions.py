"""Checks if a custom resource's kind is defined: without it, nothing is known of its objects.

With a definition all objects of its kind are deleted, and seldom is that meant. Objects made for
them are left alone until the definition is back and its owners have had their say.
"""

from typing import Final

import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.kube import times
from liqod.kube.client import Client

RETURN: Final = 75.0
"""Seconds after its return for which a kind still counts as missing: those who make its objects
try again within a minute."""


async def is_defined(client: Client, kind: Kind) -> bool:
    """True if the kind is defined, its definition is not being deleted, and was not of late.

    Kubernetes' own kinds always are.
    """
    if "." not in kind.group or kind.group.endswith(".k8s.io"):
        return True
    found = await client.find(CUSTOM_RESOURCES, name_of(kind), decode=Partial)
    now = trio.current_time()
    if found is None or found.metadata.deletion_timestamp is not None:
        client.missing[kind] = now
        return False
    if client.definitions.setdefault(kind, found.metadata.uid) != found.metadata.uid:
        # It went and came back before anybody asked.
        client.definitions[kind] = found.metadata.uid
        returned = now - _age(found.metadata)
        client.missing[kind] = max(returned, client.missing.get(kind, returned))
    return now - client.missing.get(kind, float("-inf")) >= RETURN


def _age(meta: ObjectMeta) -> float:
    """Seconds since an object was made, as far as the two clocks agree; 0 if it does not say."""
    try:
        return times.age(meta.creation_timestamp or "")
    except (TypeError, ValueError):
        return 0.0


def name_of(kind: Kind) -> str:
    """The name of a kind's definition."""
    return f"{kind.plural}.{kind.group}"
