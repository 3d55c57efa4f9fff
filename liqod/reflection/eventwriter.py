"""Writes to this cluster the Events of one peer about the objects that are reflected there.

An Event is history, not state: no pod may wait for it, and its memory is bounded. So
the waiting Events are bounded in bytes, and written at a pace, Normals and Warnings each by
their own, so that no flood of the one displaces the other. An Event that comes again and again is
written now and then, each time as it is by then. Events beyond these bounds are left out and
counted.

The bounds are those of a kubelet, whose role this is: so many a second, and of one object so many
at once and few afterwards, whatever the peer sends.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import EVENTS
from liqod.errors import AlreadyExists, NotFound, PermanentError
from liqod.kube.client import Client
from liqod.kube.queue import KeyedQueue
from liqod.model.objects.remoteevents import NORMAL, TYPES, WARNING, Json, again
from liqod.reflection.view import Key
from liqod.runtime.backoff import Backoff
from liqod.runtime.log import Seldom
from liqod.runtime.tokenbucket import TokenBucket

OBJECTS: Final = 4096
"""Number of objects whose Events are counted."""
OVERHEAD: Final = 300
"""Bytes that one takes in addition to its JSON."""
RETRY: Final = Backoff(first=1.0, last=60.0)

WRITTEN: Final = "written"
MERGED: Final = "merged"
LEFT_OUT: Final = "left-out"
REFUSED: Final = "refused"
OUTCOMES: Final = (WRITTEN, MERGED, LEFT_OUT, REFUSED)

log = logging.getLogger(__name__)


class EventLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the writes of one peer's Events, each for Normals and Warnings by themselves.

    Attributes:
        rate: writes a second in the long run; a kubelet's ``eventRecordQPS``.
        burst: writes at once; a kubelet's ``eventBurst``.
        object_rate: new Events a second about one object in the long run: client-go's spam filter
            (``tools/record/events_cache.go``), as the next.
        object_burst: new Events at once about one object.
        pace: seconds between two writes of one Event: a probe fails every 10 s.
        most_bytes: that may wait: the five Normals of each of 1,000 pods that start at once.
    """

    rate: float = 50.0
    burst: float = 100.0
    object_rate: float = 1 / 300
    object_burst: float = 25
    pace: float = 30.0
    most_bytes: int = 6 << 20


ORDINARY = EventLimits()
"""Those of a daemon."""


class _PendingEvent(NamedTuple):
    body: bytes
    seen: bool
    """True if the Event was seen before: it may already exist."""

    @property
    def size(self) -> int:
        return len(self.body) + OVERHEAD


class _Lane:
    """The Events of one type that wait to be written.

    Args:
        client: of this cluster.
        type: ``Normal`` or ``Warning``.
        peer: whose Events they are; in each of their labels.
        count: called with the outcome of each.
        limits: see :class:`EventLimits`.
    """

    def __init__(
        self,
        client: Client,
        type: str,
        peer: str,
        count: Callable[[str], None],
        limits: EventLimits,
    ) -> None:
        self.type = type
        self._limits = limits
        self.queue = KeyedQueue[Key](RETRY, name=f"events {type}")
        self._client = client
        self._peer = peer
        self._count = count
        self._bucket = TokenBucket(limits.rate, limits.burst)
        self._waiting: dict[Key, _PendingEvent] = {}
        self._size = 0
        self._written: dict[Key, float] = {}
        self._objects: dict[str, TokenBucket] = {}
        self._full = False
        self._seldom = Seldom()

    def enqueue(self, event: Json, *, seen: bool) -> None:
        """Queue an Event to be written in its turn."""
        meta, now = event["metadata"], trio.current_time()
        key = (meta["namespace"], meta["name"])
        before = self._waiting.get(key)
        written = self._written.get(key, float("-inf"))
        seen |= written > float("-inf") or (before is not None and before.seen)
        entry = _PendingEvent(msgspec.json.encode(event), seen)
        size = self._size - (before.size if before else 0) + entry.size
        room = size <= self._limits.most_bytes
        new = before is None and not seen
        if not room or (new and not self._allowed(event["involvedObject"]["uid"], now)):
            self._count(LEFT_OUT)
            self._log_once(key)
            return
        if before is not None:
            self._count(MERGED)
        self._put(key, entry)
        self.queue.add(key, after=max(0.0, written + self._limits.pace - now))

    async def run(self) -> NoReturn:
        """Write until cancelled."""
        await self.queue.run(self._work, on_error=self._failed)

    async def _work(self, key: Key) -> None:
        if (pause := self._bucket.take(trio.current_time())) > 0:
            await trio.sleep(pause)
        entry = self._take(key)
        if entry is None:
            return
        try:
            await self._write(key, entry)
        except PermanentError as error:
            self._count(REFUSED)
            if not isinstance(error, NotFound) and self._seldom.allows(type(error).__name__):
                log.warning("an Event of a peer's is not taken here", extra={"reason": str(error)})
        except BaseException:
            # Neither written nor refused, or the task ends. What came meanwhile is newer.
            if key not in self._waiting:
                self._put(key, entry)
            raise
        else:
            self._count(WRITTEN)
            self._note(key)

    async def _write(self, key: Key, entry: _PendingEvent) -> None:
        event = msgspec.json.decode(entry.body)
        namespace, name = key
        if not entry.seen:
            try:
                await self._client.create(EVENTS, entry.body, namespace)
            except AlreadyExists:
                await self._client.patch(EVENTS, name, again(event), namespace)
            return
        try:
            await self._client.patch(EVENTS, name, again(event), namespace)
        except NotFound:  # it was left out, or has expired in this cluster
            await self._client.create(EVENTS, entry.body, namespace)

    def _failed(self, key: Key, error: Exception) -> None:
        if self._seldom.allows(str(error)):
            log.warning("an Event of a peer's waits", extra={"reason": str(error)})

    def _put(self, key: Key, entry: _PendingEvent) -> None:
        self._take(key)
        self._waiting[key] = entry
        self._size += entry.size

    def _take(self, key: Key) -> _PendingEvent | None:
        entry = self._waiting.pop(key, None)
        if entry is not None:
            self._size -= entry.size
        if not self._waiting:
            self._full = False
        return entry

    def _note(self, key: Key) -> None:
        """Keep the time of an Event's write for as long as its next write has to wait."""
        now = trio.current_time()
        self._written.pop(key, None)
        self._written[key] = now
        since = now - self._limits.pace
        while (oldest := next(iter(self._written))) and self._written[oldest] < since:
            del self._written[oldest]

    def _allowed(self, uid: str, now: float) -> bool:
        """True if one more Event of an object may be written."""
        bucket = self._objects.pop(uid, None)
        if bucket is None:
            bucket = TokenBucket(self._limits.object_rate, self._limits.object_burst)
        self._objects[uid] = bucket
        if len(self._objects) > OBJECTS:
            del self._objects[next(iter(self._objects))]
        return bucket.takes(now)

    def _log_once(self, key: Key) -> None:
        if not self._full:
            self._full = True
            if self._seldom.allows(LEFT_OUT):
                facts = {"peer": self._peer, "type": self.type, "first": "/".join(key)}
                log.warning("a peer tells more Events than are written here", extra=facts)


class EventWriter:
    """The Events of one peer that wait to be written to this cluster.

    Args:
        client: of this cluster.
        peer: the peer's id.
        limits: see :class:`EventLimits`.

    Attributes:
        counts: the Events received, by type and outcome.
    """

    def __init__(self, client: Client, peer: str, limits: EventLimits = ORDINARY) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._lanes = {
            each: _Lane(client, each, peer, self._counter(each), limits) for each in TYPES
        }

    def enqueue(self, event: Json, *, seen: bool = False) -> None:
        """Queue an Event to be written in its turn; one that is left out takes no turn.

        Args:
            event: as :func:`~liqod.model.objects.remoteevents.local_event` makes it.
            seen: whether it was seen before: it may already exist.
        """
        self._lanes[event["type"]].enqueue(event, seen=seen)

    @property
    def waiting(self) -> int:
        """The number of Events that wait."""
        return sum(len(each.queue) for each in self._lanes.values())

    async def run(self) -> NoReturn:
        """Write until cancelled: Warnings and Normals independently of each other."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lanes[WARNING].run)
            nursery.start_soon(self._lanes[NORMAL].run)
        raise AssertionError("queues run until they are cancelled")

    def _counter(self, type: str) -> Callable[[str], None]:
        def count(outcome: str) -> None:
            self.counts[type, outcome] += 1

        return count
