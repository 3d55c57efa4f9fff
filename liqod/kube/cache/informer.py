"""A store that follows one kind at one API server: list, watch, resume, list again if necessary.

The reading task only reads, stores and notifies: handlers are synchronous and cheap, queues do the
work. Objects are read a few at a time, so that a flood of them delays other tasks little.
No object is dropped because of a list alone if the list looks like a mistake: see ``suspect``.
"""

import logging
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial, newer
from liqod.apimachinery.rawobjects import Key, encode, slim_raw
from liqod.errors import (
    Expired,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    Overloaded,
    ProtocolError,
    TransientError,
    Unauthorized,
    Unreachable,
)
from liqod.kube.cache.handlers import Handler, Handlers
from liqod.kube.cache.memoryquota import StoreUsage
from liqod.kube.cache.relist import Relist, RelistBackoff, await_room, find_existing
from liqod.kube.cache.store import Index, IndexedStore
from liqod.kube.cache.troublelog import TroubleLog
from liqod.kube.client import Client
from liqod.kube.selection import EVERY, Selection
from liqod.kube.watch import Bookmark, WatchStream
from liqod.telemetry import registry

TURN_OBJECTS = 64
"""Objects stored before other tasks get a turn."""
UNPROVEN_SECONDS = (300, 600)
"""Seconds that a watch lives, random for each, so that many do not end at once."""
WATCH_SECONDS = (1800, 3600)
"""The same where bookmarks reveal a dead watch before its end: a new watch costs a TLS
handshake, some 4 kB and 2 ms."""
SILENCE = 150.0
"""Seconds without a byte after which a watch at a server with bookmarks, sent every minute, is
dead."""
SLACK = 15.0
"""Seconds that a server may take to end a watch after its lifetime."""
INITIAL_SILENCE = 60.0
"""The same while the initial objects are due."""
SUSPECT_ABOVE = 10
"""An empty list is doubted if the store had more objects than this."""
SUSPECT_GRACE = 30.0
"""Seconds for which a list that looks like a mistake must persist to be believed."""
SUSPECT_RETRY = 5.0
"""Seconds between checks of such a list."""

log = logging.getLogger(__name__)


class _Doubtful(TransientError):
    """A list that is not believed yet."""


class SharedInformer:
    """Follows the objects of one kind, all or selected. ``run`` does the work.

    Args:
        client: client of the API server.
        kind: the kind to follow.
        selection: the objects to follow.
        indexes: functions that give the values by which objects are found; they get ``partial``.
        keep, trim: whether to keep an object (JSON), others count as absent; the part to keep.
        partial: struct that index functions get, taken from each object on arrival.
        part: counts and bounds the bytes held.

    Attributes:
        store: the known objects.
        last_contact: time (``trio.current_time``) of the last byte from the server.
        suspect: reason that a list is not believed yet; None normally.
        problem: reason that it is not following now; None normally.
        lacking: True if the reason is that the server lacks the kind, or gives no right to it.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        selection: Selection = EVERY,
        *,
        indexes: Mapping[str, Index] | None = None,
        keep: Callable[[bytes], bool] | None = None,
        trim: Callable[[bytes], bytes] | None = None,
        partial: type[Any] = Partial,
        part: StoreUsage | None = None,
    ) -> None:
        self.client = client
        self.kind = kind
        self.selection = selection
        self._bounded = part
        if part is None and client.budget is not None:
            part = client.budget.part()
        self.store = IndexedStore(indexes, partial=partial, keep=keep, trim=trim, part=part)
        self.last_contact = float("-inf")
        self.suspect: str | None = None
        self.problem: str | None = None
        self.lacking = False
        self._handlers = Handlers(kind, self.store)
        self._synced = trio.Event()
        self._wake = trio.Event()
        self._version = ""
        self._broken = self._stale = False
        self._pace = RelistBackoff()
        self._turning = trio.CancelScope()
        self._paged = False
        self._bookmarked = False
        self._doubted_since: float | None = None
        self._trouble_log = TroubleLog(client, kind, self.wake)

    async def synced(self) -> None:
        """Wait until the first complete list is stored."""
        await self._synced.wait()

    @property
    def trouble(self) -> str | None:
        """The reason that the store may be late: the problem, or restless watches; else None."""
        restless = "its watches end early, again and again" if self._pace.restless else None
        return self.problem or restless

    def shows(self, version: str) -> bool:
        """True if the store is at least as new as a resource version of this kind."""
        return self.store.synced and newer(self._version, version)

    def restart(self) -> None:
        """End the current watch and open another: the current one may be dead."""
        self._broken = True
        self._turning.cancel()

    def relist(self) -> None:
        """End the current watch and list anew: there is room for what was left out."""
        self._stale = True
        self.restart()

    def wake(self) -> None:
        """Try again now, if waiting after a failure: the server is reported to be back."""
        self._wake.set()

    def subscribe(self, handler: Handler, *, namespace: str | None = None) -> Callable[[], None]:
        """Notify ``handler`` of every change, starting with all objects in the store.

        Args:
            handler: synchronous and cheap: it puts a key into a queue.
            namespace: only objects in this namespace.

        Returns: a function that ends the subscription.
        """
        return self._handlers.add(handler, namespace)

    async def refresh(self, key: Key) -> None:
        """Read one object again, beside the watch: the quota may now allow all of it.

        Raises LiqodError if it cannot be read.
        """
        before = self.store.get(key)
        found = await self.client.find(self.kind, key[1], key[0])
        if found is not None and before is not None and self.store.get(key) is before:
            slim = slim_raw(encode(found, self.kind)[0])
            self._handlers.notify(self.store.put(key, slim.body))

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Follow until cancelled; started once synced. Failures are retried, with back-off."""
        try:
            with registry.current().of(SharedInformer).holding(self):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._follow)
                    if self._bounded is not None:
                        nursery.start_soon(await_room, self._bounded, self.relist)
                    await self._synced.wait()
                    task_status.started()
        finally:
            self._trouble_log.ends()
            if self.store.part is not None:
                self.store.part.close()
        raise AssertionError("following ends by cancellation only")

    async def _follow(self) -> NoReturn:
        while True:
            least = 0.0
            self._pace.start()
            try:
                with trio.CancelScope() as self._turning:
                    await self._turn()
            except _Doubtful:
                await self._pause(SUSPECT_RETRY)
                continue
            except LiqodError as error:
                self._note(error)
                least = (error.retry_after or 0.0) if isinstance(error, Overloaded) else 0.0
            await self._pause(self._pace.pause(least, goes_on=bool(self._version)))

    async def _pause(self, seconds: float) -> None:
        """Wait, unless woken."""
        if not seconds:
            return
        self._wake = trio.Event()
        with trio.move_on_after(seconds):
            await self._wake.wait()
            self._pace.anew()

    def _note(self, error: LiqodError) -> None:
        """Note the consequences of an error for the next turn."""
        self._broken = True
        # A server that could not be reached may come back from a backup, and its versions be
        # beyond ours by then: its objects are listed again.
        away = isinstance(error, Unreachable) and not self._pace.through
        if away or isinstance(error, Expired | NotFound | ProtocolError):
            self._version = ""
        if isinstance(error, Forbidden | NotFound | Unauthorized):
            self._pace.refused = True
        if isinstance(error, Expired):
            self._pace.through = True
        if isinstance(error, TransientError) and self._pace.through:
            return  # must list again; or cut, a problem only if no other watch can be opened
        if self.problem is None:
            self._trouble_log.fails(error)
        self.problem = str(error) or type(error).__name__
        self.lacking = isinstance(error, Forbidden | NotFound)

    def _well(self) -> None:
        """Note that the server answers normally."""
        if self.problem is None:
            return
        self.problem = None
        self._trouble_log.follows()

    async def _turn(self) -> None:
        """List if necessary, then watch until the watch ends."""
        if self._stale:
            self._version = ""
        if self._version and self._broken:
            await self._check_version()
        self._broken = self._stale = False
        try:
            if not self._version and self.client.watch_list and not self._paged:
                await self._watch(initial=True)
                return
            if not self._version:
                await self._list()
        except NotFound:
            self.client.missing[self.kind] = trio.current_time()
            if self.store.keys():
                self._doubt("the server says that there is no such kind or namespace")
                await self.replace({})
            raise
        await self._watch(initial=False)

    async def _check_version(self) -> None:
        """Start over if the server's versions went back: it was restored from a backup.

        It would accept the watch and send nothing until its versions have caught up with ours.
        """
        now = await self.client.version(self.kind, self.selection.namespace)
        if not newer(now, self._version):
            log.warning("the server has gone back in time", extra={"kind": self.kind.plural})
            self._version = ""

    async def _list(self) -> None:
        listed = Relist(self.store)
        skipped: set[Key] = set()
        version = ""
        async for page in self.client.pages(self.kind, self.selection):
            self._on_contact()
            for item in page.found:
                listed.add(item)
            skipped.update(page.skipped)
            version = page.resource_version
        for key in skipped:
            self._trouble_log.oversize("/".join(key))
        await self._believe(listed, skipped)
        self._version = version

    async def _watch(self, *, initial: bool) -> None:
        seconds = random.randint(*(WATCH_SECONDS if self._bookmarked else UNPROVEN_SECONDS))
        try:
            async with self.client.watch(
                self.kind,
                self.selection,
                resource_version=self._version,
                initial=initial,
                seconds=seconds,
            ) as watch:
                self._on_contact()
                if initial and not await self._read_initial(watch):
                    return
                self._well()
                await self._read(watch, seconds + SLACK)
        except Invalid:
            if not initial:
                raise
            self.client.watch_list = False  # not supported by the server: list and watch instead

    async def _read_initial(self, watch: WatchStream) -> bool:
        """Read the initial objects, up to the bookmark that ends them; False without one."""
        listed = Relist(self.store)
        while (event := await watch.next(INITIAL_SILENCE)) is not None:
            self.last_contact = watch.last_contact
            if isinstance(event, Bookmark):
                if watch.skipped:
                    self._trouble_log.oversize("")
                    self._paged = True  # pages name the objects too large to read, a watch cannot
                elif not event.initial_end:
                    self.client.watch_list = False  # it sends objects, but no end bookmark
                else:
                    await self._believe(listed, ())
                    self._version = event.resource_version
                    return True
                return False
            if event.type == "DELETED":
                listed.drop(event.item.key)
            else:
                listed.add(event.item)
        return False

    async def _read(self, watch: WatchStream, silence: float) -> None:
        """Read changes until the watch ends."""
        silence = SILENCE if self._bookmarked else silence
        while (event := await watch.next(silence)) is not None:
            self.last_contact = watch.last_contact
            self._well()
            if isinstance(event, Bookmark):
                silence, self._bookmarked = SILENCE, True
                self._version = event.resource_version
                continue
            key, version, body = event.item
            gone = event.type == "DELETED"
            self._handlers.notify(self.store.remove(key) if gone else self.store.put(key, body))
            self._version = version
        if watch.skipped:
            self._trouble_log.oversize("")
            self._paged = True
            self._version = ""  # a skipped event may have been a deletion: list again

    async def _believe(self, listed: Relist, spared: Collection[Key]) -> None:
        """Store a complete list, unless it looks like a mistake.

        Raises _Doubtful if it does: the store stays as it is.
        """
        if not listed.found and not listed.left_out and not spared:
            selected = self.selection.selective
            if there := await find_existing(self.client, self.kind, self.store, selected=selected):
                self._doubt(f"the server lists none, but has {there}", proven=True)
            if len(self.store) > SUSPECT_ABOVE:
                self._doubt(f"the server lists none where {len(self.store)} were known")
        listed.commit()
        await self.replace(listed.found, spared)
        if not self.store.synced:
            self.store.synced = True
            self._synced.set()

    def _doubt(self, reason: str, *, proven: bool = False) -> None:
        """Doubt a list until it has persisted for the grace time. Raises _Doubtful meanwhile."""
        now = trio.current_time()
        if self._doubted_since is None:
            self._doubted_since = now
            log.warning("suspicious list", extra={"kind": self.kind.plural, "reason": reason})
        if proven or now - self._doubted_since < SUSPECT_GRACE:
            self.suspect = reason
            raise _Doubtful(reason)

    async def replace(self, found: Mapping[Key, bytes], spared: Collection[Key] = ()) -> None:
        """Replace the content of the store by a list, and notify the handlers.

        Args:
            found: the objects of the list, as JSON.
            spared: keys of objects that stay as they are, though the list lacks them.
        """
        for number, (key, body) in enumerate(found.items(), 1):
            self._handlers.notify(self.store.put(key, body, fits=True))
            if number % TURN_OBJECTS == 0:
                await trio.lowlevel.checkpoint()
        gone = list(self.store.keys() - found.keys() - set(spared))
        for number, key in enumerate(gone, 1):
            change = self.store.remove(key)
            self._handlers.notify(change and change._replace(listed=True))
            if number % TURN_OBJECTS == 0:
                await trio.lowlevel.checkpoint()
        self._doubted_since = self.suspect = None
        self._well()

    def _on_contact(self) -> None:
        self._pace.through = True
        self.last_contact = trio.current_time()
