"""Checks an empty list: the API server is asked for some of the known objects, one by one.

A single object is read from the database itself, a list perhaps from a cache before it. So one that
is there speaks against a list that names none, for as long as it is there.
"""

from itertools import islice
from typing import Final

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.objects import UNREADABLE
from liqod.errors import PermanentError
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client

MOST_CHECKED: Final = 3
"""How many objects are asked for, at most; all would be many requests for one answer."""


async def find_existing(
    client: Client, kind: Kind, store: IndexedStore, *, selected: bool
) -> str | None:
    """The name of a known object that is there after all; None where nothing tells.

    Args:
        client: asks the API server.
        kind: of the objects.
        store: what is known.
        selected: whether only objects with some labels or fields are followed: one that has
            changed may have lost them, and says nothing.

    Raises:
        TransientError: the server cannot be asked now.
    """
    for key in list(islice(store, MOST_CHECKED)):
        body = store.get(key)
        if body is None:
            continue
        try:
            known = msgspec.json.decode(body, type=Partial).metadata
            live = await client.find(kind, key[1], key[0] or None, decode=Partial)
        except (PermanentError, *UNREADABLE):
            continue  # it may not be read, or cannot be
        if live is None or live.metadata.uid != known.uid:
            continue
        if not selected or live.metadata.resource_version == known.resource_version:
            return "/".join(filter(None, key))
    return None
