"""A complete list on its way into a store; when lists follow, and when an empty one is believed.

An empty list is checked: the API server is asked for some of the known objects, one by one. A
single object is read from the database itself, a list perhaps from a cache before it. So one that
is there speaks against a list that names none, for as long as it is there.
"""

from itertools import islice
from typing import Final

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import UNREADABLE, Key, Slim
from liqod.errors import PermanentError
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.runtime.backoff import Backoff


class Relist:
    """The objects that a list has named so far; one that did not change is not held twice.

    Args:
        store: into which it goes.

    Attributes:
        found: what of each object is to be kept.
        left_out: how many there is no room for.
    """

    def __init__(self, store: IndexedStore) -> None:
        self.found: dict[Key, bytes] = {}
        self.left_out = 0
        self._store = store
        self._draft = None if store.part is None else store.part.draft()

    def add(self, item: Slim) -> None:
        """Note an object."""
        known, body = self._store.get(item.key), self._store.trimmed(item.body)
        if self._draft is not None:
            kept = self._draft.fit(item.key, self.found.get(item.key), body)
            if kept is None:
                self.found.pop(item.key, None)
                self.left_out += 1
                return
            body = kept
        self.found[item.key] = known if known == body and known is not None else body

    def drop(self, key: Key) -> None:
        """Drop an object that has gone meanwhile."""
        before = self.found.pop(key, None)
        if self._draft is not None:
            self._draft.drop(key, before)


HEALTHY_AFTER = 10.0
"""Seconds a watch must have lived for the next to follow without a pause."""
PAUSES = Backoff(first=0.2, last=10.0)
REFUSED = Backoff(first=0.2, last=30.0)
"""Pauses after failures, and after refusals that somebody has to change."""
BRIEF = 1.0
"""Seconds at most between two watches of which the later goes on where the earlier was cut."""
RESTLESS = 4
"""Turns in a row that end early from which on that is a trouble."""


class RelistBackoff:
    """The pace of one follower.

    Attributes:
        through: whether the turn under way has reached the server.
        refused: whether it was refused until somebody changes something.
    """

    def __init__(self) -> None:
        self.through = self.refused = False
        self._began = float("-inf")
        self._failures = self._cuts = 0

    def start(self) -> None:
        """A turn begins."""
        self.through = self.refused = False
        self._began = trio.current_time()

    def anew(self) -> None:
        """The server is said to be well again: what still fails is tried soon, and then less."""
        self._failures = 0

    def pause(self, least: float, *, goes_on: bool) -> float:
        """Seconds to wait after a turn.

        Args:
            least: what the server asks for.
            goes_on: the next turn goes on where this one ended: nothing has to be listed again.
        """
        if self._lasted:
            self._failures = self._cuts = 0
            return least
        self._failures += 1
        self._cuts = self._cuts + 1 if self.through else 0
        pause = (REFUSED if self.refused else PAUSES).delay(self._failures)
        return max(least, min(pause, BRIEF) if self.through and goes_on else pause)

    @property
    def restless(self) -> bool:
        """True if turns reach the server and end early, again and again."""
        return self._cuts >= RESTLESS and not self._lasted

    @property
    def _lasted(self) -> bool:
        return trio.current_time() - self._began >= HEALTHY_AFTER


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
