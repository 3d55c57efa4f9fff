"""One kind in one mapped namespace at the peer: our objects there, and our latest writes.

The watch runs behind the writes; an object that was created or patched a moment ago is shown as
the write's answer left it until the watch has caught up, so that nothing is written twice. Objects
are found by the local object they were made from (:mod:`liqod.reflection.ownership`), and each
change of one has the worker of its reflector reconcile that object.

A kind that holds nothing of ours is listed now and then instead of watched; the first write to it
starts the watch.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial, newer
from liqod.consumer.degradations import Degradation
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Json, Reflector, Watch
from liqod.reflection.contents import differs
from liqod.reflection.ownership import OwnershipMeta, selector, source_of, version

Source = tuple[str, str]
"""Reflector and name of the local object."""
Stamps = tuple[tuple[str, int], ...]
"""Names of objects, each with a number that changes with each of its changes."""
Debounce = Callable[[bytes], float]
"""Seconds for which a changed object (as JSON) may wait for its next change."""

QUIET_PERIOD = 300.0
"""Seconds between two checks of a kind that holds nothing of ours."""
WATCH_LATE = 15.0
"""Seconds after which a watch that has not shown a write of ours is begun anew."""
OWN_WRITE_SEEN = 60.0
"""Seconds after which the watch must have shown a write, or it is taken for lost."""


class _OwnedObject(msgspec.Struct):
    metadata: OwnershipMeta = OwnershipMeta()


_marked = msgspec.json.Decoder(_OwnedObject)
_partial = msgspec.json.Decoder(Partial)


class _PendingWrite(msgspec.Struct):
    partial: Partial
    until: float


class RemoteCache:
    """The peer's objects of one kind in one mapped namespace.

    Args:
        client: with the identity of a slice.
        watch: how much of the objects is kept.
        namespaces: the mapped namespace, by its local and its remote name.
        reflectors: those that write or watch this kind.
        owners: this cluster's id, and the peer's.
        enqueue: has a local object reconciled after so many seconds, by the reflector's name.
        pause: the seconds for which a changed object of a reflector may wait for its next change.
        own: whether any of the reflectors is part of liqod.
        fields: a field selector; objects that it leaves out count as missing.

    Attributes:
        namespace: the mapped namespace, by its remote name.
        has_synced: set once the peer's objects are known.
        used: set once an object of ours exists, or is about to: then it is watched.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        watch: Watch,
        namespaces: tuple[str, str],
        reflectors: Sequence[Reflector],
        owners: tuple[str, str],
        *,
        enqueue: Mapping[str, Callable[[tuple[str, str], float], None]],
        pause: Callable[[str, Debounce, bytes], float] = lambda reflector, debounce, body: 0.0,
        own: bool = True,
        fields: str = "",
    ) -> None:
        self.kind = kind
        self.watch = watch
        self._local, self.namespace = namespaces
        self._client = client
        self._reflectors = tuple(reflectors)
        self._enqueues, self._pause_of, self._own = enqueue, pause, own
        self._selector = selector(*owners)
        self._fields = fields
        self._debounce = {
            reflector.name: remote.debounce
            for reflector in self._reflectors
            for remote in reflector.remote
            if remote.kind == kind and remote.debounce is not None
        }
        self._informer: SharedInformer | None = None
        self._sources: dict[str, Source] = {}
        self._names: dict[Source, set[str]] = {}
        self._written: dict[str, _PendingWrite] = {}
        self._settled: dict[str, str] = {}
        self._stamps: dict[str, int] = {}
        self._gone: dict[Source, bytes] = {}
        self._numbers = itertools.count(1)
        self._empty = False
        self._renewed = float("-inf")
        self._awake = trio.Event()
        self._waiting: set[Source] = set()
        self.has_synced = trio.Event()
        self.used = trio.Event()

    @property
    def synced(self) -> bool:
        """True if everything of ours at the peer is known."""
        return self._empty or (self._informer is not None and self._informer.store.synced)

    @property
    def suspect(self) -> str | None:
        """The reason why a missing object may exist all the same; None normally."""
        return None if self._informer is None else self._informer.suspect

    @property
    def trouble(self) -> Degradation | None:
        """The reason why the known state may be late; None normally.

        Grave only for the kinds of liqod itself, and where the server is at fault: a kind that the
        peer lacks, or gives no right to, holds up only the objects of that kind.
        """
        informer = self._informer
        if informer is None or informer.trouble is None:
            return None
        what = f"{self.kind.plural} there cannot be followed: {informer.trouble}"
        grave = self._own and informer.problem is not None and not self.lacks
        return Degradation(what, grave, blind=grave)

    @property
    def lacks(self) -> str:
        """The fault that the peer has no such kind, or gives no right to it; empty without it."""
        informer = self._informer
        return (informer.problem or "") if informer is not None and informer.lacking else ""

    def wake(self) -> None:
        """Try again now, if waiting after a failure: the server seems to be back."""
        if self._informer is not None:
            self._informer.wake()

    def restart(self) -> None:
        """Watch anew: the connection was lost, and a watch over it may stay silent for ever."""
        if self._informer is not None:
            self._informer.restart()

    def mend(self) -> None:
        """Begin the watch anew where it should have shown a write of ours long ago.

        A write that it has not shown in all its time is no longer relied on: the object went
        before we had the answer.
        """
        now = trio.current_time()
        for name in [name for name, each in self._written.items() if each.until <= now]:
            source = self._sources.get(name)
            if self.find(name) is None:
                self._settled.pop(name, None)
            if source is not None:
                self._enqueue(source, 0.0)
        latest = now - WATCH_LATE
        late = any(each.until - OWN_WRITE_SEEN < latest for each in self._written.values())
        if late and self._informer is not None and self._renewed < latest:
            self._renewed = now
            self._informer.restart()

    @property
    def sources(self) -> frozenset[Source]:
        """The local objects that the peer's objects were made from."""
        return frozenset(self._names)

    def find(self, name: str) -> Partial | None:
        """The metadata of an object of ours, our own last write included."""
        written = self._written.get(name)
        body = self._body(name)
        if written is not None:
            if written.until > trio.current_time():
                return written.partial
            del self._written[name]
            if body is None:
                self._forget(name)
        return None if body is None else _partial.decode(body)

    def of(self, source: Source) -> list[Partial]:
        """The metadata of everything that a local object has at the peer, by name."""
        found = (self.find(name) for name in sorted(self._names.get(source, ())))
        return [partial for partial in found if partial is not None]

    def state(self, source: Source) -> Stamps:
        """The versions of a local object's objects at the peer; another after any change of one.

        Where only metadata is watched, a change of the status alone does not count.
        """
        names = sorted(self._names.get(source, ()))
        return tuple((name, self._stamps.get(name, 0)) for name in names)

    def bodies(self, source: Source) -> tuple[Json, ...]:
        """The objects of :meth:`of` as JSON: whole objects or metadata, as they are watched."""
        found = (self._body(name) for name in sorted(self._names.get(source, ())))
        return tuple(msgspec.json.decode(each) for each in found if each is not None)

    def gone(self, source: Source) -> bytes | None:
        """The last object, watched in full, that a local one lost there, until it was judged."""
        return self._gone.get(source)

    def judged(self, source: Source, gone: bytes) -> None:
        """Drop an object that is gone, unless another has gone since."""
        if self._gone.get(source) is gone:
            del self._gone[source]

    def settled(self, name: str) -> str | None:
        """The version at which an object last was as wanted."""
        return self._settled.get(name)

    def settle(self, partial: Partial) -> None:
        """Note that an object is as wanted."""
        self._settled[partial.metadata.name] = version(partial.metadata)

    def wrote(self, source: Source, partial: Partial) -> bool:
        """Note our write of an object; ``partial`` is the answer.

        The watch may have been faster than the answer, or slower: this version, if it shows it,
        or a later one counts, and until then the answer does. False where it has shown that the
        object has gone: its deletion was notified before the answer, and is not notified again.
        """
        meta = partial.metadata
        body = self._body(meta.name)
        if body is None and self._shows_all_of(meta.resource_version):
            self._settled.pop(meta.name, None)
            self._forget(meta.name)
            return False
        self.settle(partial)
        if body is not None:
            seen = _partial.decode(body).metadata
            if seen.uid == meta.uid and newer(seen.resource_version, meta.resource_version):
                return True
        self._written[meta.name] = _PendingWrite(partial, trio.current_time() + OWN_WRITE_SEEN)
        self._remember(meta.name, source)
        return True

    def ready_for(self, source: Source) -> bool:
        """True if something may be written now; if not, the source is reconciled when it may.

        A write needs the watch, so a kind that was only listed now and then is watched from now on.
        """
        if self._informer is not None and self._informer.store.synced:
            return True
        # Not known to be empty any more, although nothing was listed since: the coming write
        # would make that wrong before the watch is established and can show it.
        self._empty = False
        self._awake.set()
        self._waiting.add(source)
        return False

    def source(self, name: str) -> Source | None:
        """The local object that an object of ours was made from."""
        return self._sources.get(name)

    def enqueue_all(self) -> None:
        """Have everything reconciled that exists at the peer."""
        for source in self.sources:
            self._enqueue(source, 0.0)

    def _enqueue(self, source: Source, after: float) -> None:
        self._enqueues[source[0]]((self._local, source[1]), after)

    async def run(self) -> NoReturn:
        """List now and then while the kind is empty, and watch once it is not.

        Raises:
            LiqodError: the first list failed; the watch itself goes on by itself.
        """
        while self.watch is Watch.METADATA and not self._awake.is_set():
            if await self._holds_something():
                break
            self._empty = not self._awake.is_set()
            if self._empty:
                self.has_synced.set()
            with trio.move_on_after(QUIET_PERIOD):
                await self._awake.wait()
        self._empty = False
        self.used.set()
        informer = self._informer = SharedInformer(
            self._client,
            self.kind,
            Selection(
                self.namespace,
                labels=self._selector,
                fields=self._fields,
                metadata_only=self.watch is Watch.METADATA,
            ),
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(informer.run)
            # In one step with what follows: waiting objects are reconciled when all are
            # known.
            informer.subscribe(self._on_change)
            self.has_synced.set()
            for source in self._waiting:
                self._enqueue(source, 0.0)
            self._waiting.clear()
        raise AssertionError("an informer runs until it is cancelled")

    async def _holds_something(self) -> bool:
        async for page in self._client.pages(
            self.kind, Selection(self.namespace, labels=self._selector, metadata_only=True), limit=1
        ):
            return bool(page.items)
        return False

    def _body(self, name: str) -> bytes | None:
        if self._informer is None:
            return None
        return self._informer.store.get((self.namespace, name))

    def _shows_all_of(self, version: str) -> bool:
        """True if all objects of a version are shown: one that is not shown did not exist then."""
        return self._informer is not None and not self._fields and self._informer.shows(version)

    def _on_change(self, change: StoreChange) -> None:
        name = change.key[1]
        body = change.new if change.new is not None else change.old
        assert body is not None
        echo = self._caught_up(name, change)
        if change.new is None:
            self._stamps.pop(name, None)
        elif self._differs(change.old, change.new):
            self._stamps[name] = next(self._numbers)
        known = self._sources.get(name)
        source = source_of(_marked.decode(body).metadata, self.kind, self._reflectors)
        if change.new is None and source is not None and self.watch is Watch.FULL:
            self._gone[source] = body
        gone = change.new is None and name not in self._written
        if gone or known not in (None, source):
            self._forget(name)
        if source is not None and change.new is not None:
            self._remember(name, source)
        if echo and known == source:
            return  # our own write: the turn that wrote it has gone on from the answer
        for concerned in {known, source} - {None}:
            assert concerned is not None
            self._enqueue(concerned, self._pause(concerned, change.new))

    def _pause(self, source: Source, body: bytes | None) -> float:
        """Seconds for which a change may wait for the next one."""
        debounce = self._debounce.get(source[0])
        if debounce is None or body is None:
            return 0.0
        return self._pause_of(source[0], debounce, body)

    def _differs(self, old: bytes | None, new: bytes) -> bool:
        """True unless only the status of an object watched by its metadata changed."""
        return old is None or self.watch is Watch.FULL or differs(old, new)

    def _caught_up(self, name: str, change: StoreChange) -> bool:
        """Drop the memory of our own write once the watch shows it, or a later change.

        True where it shows exactly our write.
        """
        written = self._written.get(name)
        if change.new is None:
            gone = _partial.decode(change.old or b"{}").metadata
            self._settled.pop(name, None)
            if written is not None and written.partial.metadata.uid == gone.uid:
                del self._written[name]
            return False
        if written is None:
            return False
        seen, ours = _partial.decode(change.new).metadata, written.partial.metadata
        if seen.uid == ours.uid and newer(seen.resource_version, ours.resource_version):
            del self._written[name]
        return (seen.uid, seen.resource_version) == (ours.uid, ours.resource_version)

    def _remember(self, name: str, source: Source) -> None:
        self._sources[name] = source
        self._names.setdefault(source, set()).add(name)

    def _forget(self, name: str) -> None:
        source = self._sources.pop(name, None)
        if source is None:
            return
        names = self._names.get(source, set())
        names.discard(name)
        if not names:
            self._names.pop(source, None)
