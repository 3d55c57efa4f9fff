"""One kind in one mapped namespace at the peer: what is there of ours, and what we just wrote.

The watch runs behind the writes; an object that was created or patched a moment ago is shown as
the write's answer left it until the watch has caught up, so that nothing is written twice. Objects
are found by the local object they were made from (:mod:`liqod.reflection.marks`).

A kind that holds nothing of ours is listed now and then instead of watched; the first write to it
starts the watch.
"""

from collections.abc import Callable, Iterable
from typing import NoReturn

import msgspec
import trio

from liqod.kube.client import Client
from liqod.kube.informer import Informer
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.kube.store import Change
from liqod.plugins.contracts import Json, Reflector, Watch
from liqod.reflection.marks import Marked, selector, source_of
from liqod.reflection.steps import version

Source = tuple[str, str]
"""Reflector and name of the local object."""

QUIET_PERIOD = 300.0
"""Seconds between two looks at a kind that holds nothing of ours."""
OWN_WRITE_SEEN = 60.0
"""Seconds after which the watch must have shown a write, or it is taken for lost."""


class _Meta(msgspec.Struct):
    metadata: Marked = Marked()


_marked = msgspec.json.Decoder(_Meta)
_partial = msgspec.json.Decoder(Partial)


class _Written(msgspec.Struct):
    partial: Partial
    source: Source
    until: float


def newer(one: str, other: str) -> bool:
    """Whether resource version ``one`` is at least as new as ``other`` (both of one kind)."""
    if one.isdecimal() and other.isdecimal():
        return int(one) >= int(other)
    return one == other


class Observed:
    """What the peer has of one kind in one mapped namespace.

    Args:
        client: with the identity of a slice.
        kind: the kind.
        watch: how much of the objects is kept.
        namespace: the mapped namespace, by its name there.
        reflectors: the reflectors that write or watch this kind.
        owners: this cluster's id, and the peer's.
        changed: called with the source of each object that changed.

    Attributes:
        known: set once what is there is known.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        watch: Watch,
        namespace: str,
        reflectors: Iterable[Reflector],
        owners: tuple[str, str],
        changed: Callable[[Source], None],
    ) -> None:
        self.kind = kind
        self.watch = watch
        self.namespace = namespace
        self._client = client
        self._reflectors = tuple(reflectors)
        self._selector = selector(*owners)
        self._changed = changed
        self._informer: Informer | None = None
        self._sources: dict[str, Source] = {}
        self._names: dict[Source, set[str]] = {}
        self._written: dict[str, _Written] = {}
        self._settled: dict[str, str] = {}
        self._empty = False
        self._awake = trio.Event()
        self._waiting: set[Source] = set()
        self.known = trio.Event()

    @property
    def synced(self) -> bool:
        """Whether everything of ours that is there is known."""
        return self._empty or (self._informer is not None and self._informer.store.synced)

    @property
    def suspect(self) -> str | None:
        """Why what is missing must not be believed yet."""
        return None if self._informer is None else self._informer.suspect

    @property
    def sources(self) -> frozenset[Source]:
        """The local objects that what is there was made from."""
        return frozenset(self._names)

    def find(self, name: str) -> Partial | None:
        """The metadata of an object of ours, our own last write included."""
        written = self._written.get(name)
        body = self._body(name)
        if written is not None:
            if written.until > trio.current_time():
                return written.partial
            del self._written[name]
        return None if body is None else _partial.decode(body)

    def of(self, source: Source) -> list[Partial]:
        """The metadata of everything that a local object has there, by name."""
        names = set(self._names.get(source, ()))
        names.update(name for name, it in self._written.items() if it.source == source)
        found = (self.find(name) for name in sorted(names))
        return [partial for partial in found if partial is not None]

    def bodies(self, source: Source) -> tuple[Json, ...]:
        """The same as JSON: whole objects or metadata, as they are watched."""
        names = sorted(self._names.get(source, ()))
        bodies = (self._body(name) for name in names)
        return tuple(msgspec.json.decode(body) for body in bodies if body is not None)

    def settled(self, name: str) -> str | None:
        """The version at which an object last was as wanted."""
        return self._settled.get(name)

    def settle(self, partial: Partial) -> None:
        """An object is as wanted."""
        self._settled[partial.metadata.name] = version(partial.metadata)

    def wrote(self, source: Source, partial: Partial) -> None:
        """We created or changed an object; ``partial`` is the answer."""
        meta = partial.metadata
        self.settle(partial)
        body = self._body(meta.name)
        if body is not None:
            seen = _partial.decode(body).metadata
            if seen.uid == meta.uid and newer(seen.resource_version, meta.resource_version):
                return
        until = trio.current_time() + OWN_WRITE_SEEN
        self._written[meta.name] = _Written(partial, source, until)

    def ready_for(self, source: Source) -> bool:
        """Whether something may be written now; if not, the source is called when it may.

        Somebody who is about to write needs the watch, so a kind that was only looked at now and
        then is watched from here on.
        """
        if self._informer is not None and self._informer.store.synced:
            return True
        self._empty = False
        self._awake.set()
        self._waiting.add(source)
        return False

    def source(self, name: str) -> Source | None:
        """The local object that an object of ours was made from."""
        written = self._written.get(name)
        return self._sources.get(name) or (None if written is None else written.source)

    async def run(self) -> NoReturn:
        """Look now and then while there is nothing, and watch once there is something.

        Raises:
            LiqodError: the first look failed; the watch itself goes on by itself.
        """
        while self.watch is Watch.METADATA and not self._awake.is_set():
            if await self._holds_something():
                break
            self._empty = not self._awake.is_set()
            if self._empty:
                self.known.set()
            with trio.move_on_after(QUIET_PERIOD):
                await self._awake.wait()
        self._empty = False
        informer = self._informer = Informer(
            self._client,
            self.kind,
            namespace=self.namespace,
            labels=self._selector,
            metadata_only=self.watch is Watch.METADATA,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(informer.run)
            informer.subscribe(self._on_change)
            self.known.set()
            for source in self._waiting:
                self._changed(source)
            self._waiting.clear()
        raise AssertionError("an informer runs until it is cancelled")

    async def _holds_something(self) -> bool:
        async for page in self._client.pages(
            self.kind, self.namespace, labels=self._selector, metadata_only=True, limit=1
        ):
            return bool(page.items)
        return False

    def _body(self, name: str) -> bytes | None:
        if self._informer is None:
            return None
        return self._informer.store.get((self.namespace, name))

    def _on_change(self, change: Change) -> None:
        name = change.key[1]
        body = change.new if change.new is not None else change.old
        assert body is not None
        self._caught_up(name, change)
        known = self._sources.get(name)
        source = source_of(_marked.decode(body).metadata, self.kind, self._reflectors)
        if known is not None and (change.new is None or known != source):
            self._forget(name, known)
        if source is not None and change.new is not None:
            self._sources[name] = source
            self._names.setdefault(source, set()).add(name)
        for concerned in {known, source} - {None}:
            assert concerned is not None
            self._changed(concerned)

    def _caught_up(self, name: str, change: Change) -> None:
        """Drop what we remember of our own write once the watch shows it, or what came after."""
        written = self._written.get(name)
        if change.new is None:
            gone = _partial.decode(change.old or b"{}").metadata
            self._settled.pop(name, None)
            if written is not None and written.partial.metadata.uid == gone.uid:
                del self._written[name]
            return
        if written is None:
            return
        seen, ours = _partial.decode(change.new).metadata, written.partial.metadata
        if seen.uid == ours.uid and newer(seen.resource_version, ours.resource_version):
            del self._written[name]

    def _forget(self, name: str, source: Source) -> None:
        self._sources.pop(name, None)
        names = self._names.get(source, set())
        names.discard(name)
        if not names:
            self._names.pop(source, None)
