"""A store that follows one kind at one API server: list, watch, resume, list again when it must.

The task that reads does nothing but read, store and tell: handlers are synchronous and cheap, work
is done by queues. Objects are read a few at a time, so that a flood here delays nobody else much.
Nothing is dropped on a list's word alone when that looks like a mistake: see ``suspect``.
"""

import logging
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

import trio

from liqod.errors import (
    Expired,
    Invalid,
    LiqodError,
    NotFound,
    Overloaded,
    ProtocolError,
    TransientError,
)
from liqod.kube.backoff import Backoff
from liqod.kube.client import Client
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.kube.objects import Key, Slim
from liqod.kube.store import Change, Index, Store
from liqod.kube.watch import Bookmark, Watch

Handler = Callable[[Change], None]

TURN_OBJECTS = 64
"""Objects taken in before other tasks get a turn."""
WATCH_SECONDS = (300, 600)
"""A watch lives this long, drawn for each, so that many do not end at once."""
SILENCE = 150.0
"""Seconds without a byte after which a watch that had bookmarks, sent every minute, is dead."""
SLACK = 15.0
"""Seconds that a server may take to end a watch when its time is over."""
INITIAL_SILENCE = 60.0
"""Seconds without a byte while the first objects are due."""
HEALTHY_AFTER = 10.0
"""Seconds a watch must have lived for the next to follow without a pause."""
SUSPECT_ABOVE = 10
"""An empty list is doubted where more objects than this were known."""
SUSPECT_GRACE = 30.0
"""Seconds for which what looks like a mistake must stay so to be believed."""
SUSPECT_RETRY = 5.0
"""Seconds between looks at it meanwhile."""
PAUSES = Backoff(first=0.2, last=30.0)

log = logging.getLogger(__name__)


class _Doubtful(TransientError):
    """A list that is not believed yet."""


class Informer:
    """Follows the objects of one kind, all or selected. ``run`` does the work.

    Args:
        client: asks the API server.
        kind: what to follow.
        namespace: None for all.
        labels: label selector.
        fields: field selector.
        metadata_only: ask for no more than the metadata.
        indexes: functions that give the values by which objects are found; they get ``partial``.
        keep: whether to keep an object (gets its JSON); the others are as good as not there.
        partial: struct that index functions get, taken from each object on arrival.

    Attributes:
        store: what is known.
        last_contact: time (``trio.current_time``) of the last byte from the server.
        suspect: why a list is not believed yet; None normally.
        problem: why it is not following now; None normally.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        indexes: Mapping[str, Index] | None = None,
        keep: Callable[[bytes], bool] | None = None,
        partial: type[Any] = Partial,
    ) -> None:
        self.client = client
        self.kind = kind
        self.namespace = namespace
        self.store = Store(indexes, partial=partial, keep=keep)
        self.last_contact = float("-inf")
        self.suspect: str | None = None
        self.problem: str | None = None
        self._labels = labels
        self._fields = fields
        self._metadata_only = metadata_only
        self._handlers: dict[str | None, dict[object, Handler]] = {}
        self._synced = trio.Event()
        self._wake = trio.Event()
        self._version = ""
        self._paged = False
        self._doubted_since: float | None = None
        self._oversize: set[str] = set()

    async def synced(self) -> None:
        """Wait until a first complete list is in."""
        await self._synced.wait()

    def wake(self) -> None:
        """Try again now, if waiting after a failure: the server is said to be back."""
        self._wake.set()

    def subscribe(self, handler: Handler, *, namespace: str | None = None) -> Callable[[], None]:
        """Have ``handler`` told of every change, first of all objects that are there.

        Args:
            handler: synchronous and cheap: it puts a key into a queue.
            namespace: only of objects in that one.

        Returns: what ends it.
        """
        token = object()
        self._handlers.setdefault(namespace, {})[token] = handler
        keys = (
            self.store.keys() if namespace is None else self.store.indexed("namespace", namespace)
        )
        for key in list(keys):
            handler(Change(key, None, self.store.get(key)))

        def unsubscribe() -> None:
            handlers = self._handlers.get(namespace, {})
            handlers.pop(token, None)
            if not handlers:
                self._handlers.pop(namespace, None)

        return unsubscribe

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Follow until cancelled; started once synced. What fails is tried again, with back-off."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow)
            await self._synced.wait()
            task_status.started()
        raise AssertionError("following ends by cancellation only")

    async def _follow(self) -> NoReturn:
        failures = 0
        while True:
            began, least = trio.current_time(), 0.0
            try:
                await self._turn()
            except _Doubtful:
                await self._pause(SUSPECT_RETRY)
                continue
            except LiqodError as error:
                self._note(error)
                least = (error.retry_after or 0.0) if isinstance(error, Overloaded) else 0.0
            healthy = trio.current_time() - began >= HEALTHY_AFTER
            failures = 0 if healthy else failures + 1
            if failures or least:
                await self._pause(max(least, PAUSES.delay(max(failures, 1))))

    async def _pause(self, seconds: float) -> None:
        """Wait, unless woken."""
        self._wake = trio.Event()
        with trio.move_on_after(seconds):
            await self._wake.wait()

    def _note(self, error: LiqodError) -> None:
        """What an error means for the next turn."""
        if isinstance(error, Expired | NotFound | ProtocolError):
            self._version = ""
        if isinstance(error, Expired):
            return  # the ordinary way to be told to list again
        if self.problem is None:
            extra = {"kind": self.kind.plural, "server": self.client.server, "reason": str(error)}
            log.warning("not following", extra=extra)
        self.problem = str(error) or type(error).__name__

    def _well(self) -> None:
        """The server answers as it should."""
        if self.problem is not None:
            self.problem = None
            extra = {"kind": self.kind.plural, "server": self.client.server}
            log.info("following again", extra=extra)

    async def _turn(self) -> None:
        """List where that is needed, then watch until it ends."""
        try:
            if not self._version and self.client.watch_list and not self._paged:
                await self._watch(initial=True)
                return
            if not self._version:
                await self._list()
        except NotFound:
            if self.store.keys():
                self._doubt("the server says that there is no such kind or namespace")
                await self._replace({}, ())
            raise
        await self._watch(initial=False)

    async def _list(self) -> None:
        found: dict[Key, bytes] = {}
        skipped: set[Key] = set()
        version = ""
        async for page in self.client.pages(
            self.kind,
            self.namespace,
            labels=self._labels,
            fields=self._fields,
            metadata_only=self._metadata_only,
        ):
            self._heard()
            for item in page.found:
                self._stage(found, item)
            skipped.update(page.skipped)
            version = page.resource_version
        for key in skipped:
            self._tell_oversize("/".join(key))
        await self._believe(found, skipped)
        self._version = version

    async def _watch(self, *, initial: bool) -> None:
        seconds = random.randint(*WATCH_SECONDS)
        try:
            async with self.client.watch(
                self.kind,
                self.namespace,
                labels=self._labels,
                fields=self._fields,
                resource_version=self._version,
                initial=initial,
                metadata_only=self._metadata_only,
                seconds=seconds,
            ) as watch:
                self._heard()
                if initial and not await self._read_initial(watch):
                    return
                await self._read(watch, seconds + SLACK)
        except Invalid:
            if not initial:
                raise
            self.client.watch_list = False  # the server does not know it: list and watch instead

    async def _read_initial(self, watch: Watch) -> bool:
        """The objects that are there, up to the bookmark that ends them; False without one."""
        found: dict[Key, bytes] = {}
        while (event := await watch.next(INITIAL_SILENCE)) is not None:
            self.last_contact = watch.heard
            if isinstance(event, Bookmark):
                if watch.skipped:
                    self._tell_oversize("")
                    self._paged = True  # pages name what is too large, a watch cannot
                elif not event.initial_end:
                    self.client.watch_list = False  # it sends objects, but does not say when all
                else:
                    await self._believe(found, ())
                    self._version = event.resource_version
                    return True
                return False
            if event.type == "DELETED":
                found.pop(event.item.key, None)
            else:
                self._stage(found, event.item)
        return False

    def _stage(self, found: dict[Key, bytes], item: Slim) -> None:
        """Note an object of a list; one that did not change is not held twice."""
        known = self.store.get(item.key)
        found[item.key] = known if known == item.body and known is not None else item.body

    async def _read(self, watch: Watch, silence: float) -> None:
        """Changes, until the watch ends."""
        while (event := await watch.next(silence)) is not None:
            self.last_contact = watch.heard
            self._well()
            if isinstance(event, Bookmark):
                silence = min(silence, SILENCE)
                self._version = event.resource_version
                continue
            key, version, body = event.item
            gone = event.type == "DELETED"
            self._publish(self.store.remove(key) if gone else self.store.put(key, body))
            self._version = version
        if watch.skipped:
            self._tell_oversize("")
            self._paged = True
            self._version = ""  # what was skipped may have been a deletion: list, which names it

    async def _believe(self, found: Mapping[Key, bytes], spared: Collection[Key]) -> None:
        """Take in a complete list, unless it looks like a mistake.

        Raises _Doubtful where it does: the store stays as it is.
        """
        if not found and not spared and len(self.store) > SUSPECT_ABOVE:
            self._doubt(f"the server lists none where {len(self.store)} were known")
        await self._replace(found, spared)
        if not self.store.synced:
            self.store.synced = True
            self._synced.set()

    def _doubt(self, reason: str) -> None:
        """Wait and see, until it has been so for the grace time. Raises _Doubtful meanwhile."""
        now = trio.current_time()
        if self._doubted_since is None:
            self._doubted_since = now
            log.warning("suspicious list", extra={"kind": self.kind.plural, "reason": reason})
        if now - self._doubted_since < SUSPECT_GRACE:
            self.suspect = reason
            raise _Doubtful(reason)

    async def _replace(self, found: Mapping[Key, bytes], spared: Collection[Key]) -> None:
        """Make the store what a list says; objects that are ``spared`` stay as they are."""
        for number, (key, body) in enumerate(found.items(), 1):
            self._publish(self.store.put(key, body))
            if number % TURN_OBJECTS == 0:
                await trio.lowlevel.checkpoint()
        gone = list(self.store.keys() - found.keys() - set(spared))
        for number, key in enumerate(gone, 1):
            self._publish(self.store.remove(key))
            if number % TURN_OBJECTS == 0:
                await trio.lowlevel.checkpoint()
        self._doubted_since = self.suspect = None
        self._well()

    def _publish(self, change: Change | None) -> None:
        """Tell the handlers; one that fails is named and stands in nobody else's way."""
        if change is None:
            return
        for group in (None, change.key[0] or ""):
            for handler in tuple(self._handlers.get(group, {}).values()):
                try:
                    handler(change)
                except Exception:  # a wall: subscribers of a shared informer belong to many peers
                    log.exception("handler failed", extra={"kind": self.kind.plural})

    def _heard(self) -> None:
        self.last_contact = trio.current_time()

    def _tell_oversize(self, name: str) -> None:
        """Name an object that is too large or too deeply nested, once."""
        if name not in self._oversize:
            self._oversize.add(name)
            log.warning("object not readable", extra={"kind": self.kind.plural, "object": name})
