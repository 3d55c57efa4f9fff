"""Complete lists for a store: their content, their pace, and the check of an empty one.

For an empty list, some of the known objects are requested from the API server, one by one. A
single object is read from the database itself, a list perhaps from a cache before it. So an
object that exists disproves an empty list, for as long as it exists.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import UNREADABLE, Key, Slim
from liqod.errors import PermanentError
from liqod.kube.cache.memoryquota import StoreUsage
from liqod.kube.cache.store import IndexedStore
from liqod.kube.client import Client
from liqod.runtime.backoff import Backoff


class Relist:
    """The objects of a list so far; an unchanged object is not held twice.

    Args:
        store: the store that it will replace.

    Attributes:
        found: the part of each object to keep.
        left_out: number of objects beyond the quota.
    """

    def __init__(self, store: IndexedStore) -> None:
        self.found: dict[Key, bytes] = {}
        self.left_out = 0
        self._store = store
        self._draft = None if store.part is None else store.part.draft()

    def add(self, item: Slim) -> None:
        """Add an object."""
        known, body = self._store.get(item.key), self._store.trimmed(item.body)
        if self._draft is not None:
            kept = self._draft.fit(item.key, known, self.found.get(item.key), body)
            if kept is None:
                self.found.pop(item.key, None)
                self.left_out += 1
                return
            body = kept
        self.found[item.key] = known if known == body and known is not None else body

    def drop(self, key: Key) -> None:
        """Drop an object that was deleted meanwhile."""
        before = self.found.pop(key, None)
        if self._draft is not None:
            self._draft.drop(key, before)

    def commit(self) -> None:
        """Note that the list is complete, and what it left out."""
        if self._draft is not None:
            self._draft.commit()


REREAD: Final = 120.0
"""Seconds between two checks for room: a consumer can cause no more lists of a kind than that."""


async def await_room(part: StoreUsage, relist: Callable[[], None]) -> NoReturn:
    """Have a kind listed anew whenever an object fits that was left out."""
    while True:
        await trio.sleep(REREAD)
        if part.room_again():
            relist()


HEALTHY_AFTER = 10.0
"""Seconds a watch must have lived for the next to follow without a pause."""
PAUSES = Backoff(first=0.2, last=10.0)
REFUSED = Backoff(first=0.2, last=30.0)
"""Pauses after failures, and after refusals that last until a change of rights or kinds."""
BRIEF = 1.0
"""Most seconds between two watches of which the later resumes the earlier."""
RESTLESS = 4
"""Number of turns in a row with an early end that counts as a problem."""


class RelistBackoff:
    """The pace of one follower.

    Attributes:
        through: whether the current turn has reached the server.
        refused: whether it was refused until rights or kinds change.
    """

    def __init__(self) -> None:
        self.through = self.refused = False
        self._began = float("-inf")
        self._failures = self._cuts = 0

    def start(self) -> None:
        """Begin a turn."""
        self.through = self.refused = False
        self._began = trio.current_time()

    def anew(self) -> None:
        """Restart the pauses as the server is back: failures are retried soon, then less often."""
        self._failures = 0

    def pause(self, least: float, *, goes_on: bool) -> float:
        """Seconds to wait after a turn.

        Args:
            least: seconds that the server requests.
            goes_on: the next turn resumes where this one ended: no new list is necessary.
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
        """True if turns repeatedly reach the server and end early."""
        return self._cuts >= RESTLESS and not self._lasted

    @property
    def _lasted(self) -> bool:
        return trio.current_time() - self._began >= HEALTHY_AFTER


MOST_CHECKED: Final = 3
"""Most objects that are requested; all would be many requests for one result."""


async def find_existing(
    client: Client, kind: Kind, store: IndexedStore, *, selected: bool
) -> str | None:
    """Find a known object that still exists; its name, or None without evidence.

    Args:
        client: client of the API server.
        kind: of the objects.
        store: the known objects.
        selected: whether only objects with some labels or fields are followed: a changed object
            may have lost them, and is no evidence.

    Raises:
        TransientError: the server cannot be reached now.
    """
    for key in list(islice(store, MOST_CHECKED)):
        body = store.get(key)
        if body is None:
            continue
        try:
            known = msgspec.json.decode(body, type=Partial).metadata
            live = await client.find(kind, key[1], key[0] or None, decode=Partial)
        except (PermanentError, *UNREADABLE):
            continue  # reading it is forbidden or impossible
        if live is None or live.metadata.uid != known.uid:
            continue
        if not selected or live.metadata.resource_version == known.resource_version:
            return "/".join(filter(None, key))
    return None
