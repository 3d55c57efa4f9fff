"""A watch of a controller: an informer, and the keys that each change maps to."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Generic

import trio

from liqod.apimachinery.kinds import Kind
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.memoryquota import Stub
from liqod.kube.cache.store import Index, IndexedStore, Key, StoreChange
from liqod.kube.client import Client
from liqod.kube.definitions import is_defined
from liqod.kube.queue import K, KeyedQueue
from liqod.kube.selection import EVERY, Selection

DOUBT: Final = 5.0
"""Seconds until an object is checked again for being :meth:`surely gone <Watched.surely_gone>`.
A change of that object comes sooner."""
RESYNC: Final = 600.0
"""Seconds after which an object without a watch is reconciled again: nothing reports its end."""

KeysOf = Callable[[StoreChange], Iterable[K]]
"""Maps a change to the keys to reconcile; it may note the change, too."""


def by_name(change: StoreChange) -> tuple[str]:
    """The changed object's name, for controllers of one namespace or of kinds without one."""
    return (change.key[1],)


def by_key(change: StoreChange) -> tuple[Key]:
    """The changed object's namespace and name."""
    return (change.key,)


def always(key: K) -> Callable[..., tuple[K]]:
    """Maps each change, and whatever else happens, to the one key that a controller has."""
    return lambda change=None: (key,)


class Watched(Generic[K]):
    """A kind that a controller follows, or only reads (without ``keys``).

    Args:
        kind: the kind to follow.
        keys: maps a change to keys; each existing object counts as a change, too.
        selection: the objects that the informer follows; users of the same selection share it.
        within: the namespaces whose changes it observes, if not all; :meth:`follow` adds.
        debounce: seconds in which changes are taken together.
        apart: seconds between two reconciliations of a key for its changes: the first change is
            followed at once, and those that come soon after it are taken together.
        indexes, keep, trim, counted: as :meth:`liqod.kube.cache.informers.Informers.share`.
        client: client of another cluster: then the informer is the controller's own.
        wait: whether the controller waits until all objects have been read.
    """

    def __init__(
        self,
        kind: Kind,
        keys: KeysOf[K] | None = None,
        selection: Selection = EVERY,
        *,
        within: tuple[str, ...] | None = None,
        debounce: float = 0.0,
        apart: float = 0.0,
        indexes: Mapping[str, Index] | None = None,
        keep: Callable[[bytes], bool] | None = None,
        trim: Callable[[bytes], bytes] | None = None,
        counted: Stub | None = None,
        client: Client | None = None,
        wait: bool = True,
    ) -> None:
        self.kind = kind
        self._keys = keys
        self._within = within
        self._debounce = debounce
        self._apart = apart
        self._selection = selection
        self._how: dict[str, Any] = {"indexes": indexes, "keep": keep, "trim": trim}
        self._counted = counted
        self._client = client
        self._wait = wait
        self._informer: SharedInformer | None = None
        self._queue: KeyedQueue[K] | None = None
        self._ends: dict[str | None, Callable[[], None]] = {}

    @property
    def informer(self) -> SharedInformer:
        """The informer that follows the kind, while the controller runs."""
        assert self._informer is not None, "the controller does not run"
        return self._informer

    @property
    def store(self) -> IndexedStore:
        """The store of the kind's known objects."""
        return self.informer.store

    @property
    def opened(self) -> bool:
        """True if there is an informer: the controller runs, or has run."""
        return self._informer is not None

    @property
    def problem(self) -> str | None:
        """The reason that the kind cannot be followed now; None if it can, or was not tried."""
        return None if self._informer is None else self._informer.problem

    @property
    def doubtful(self) -> bool:
        """True if the store may lack an object that exists: a list looks like a mistake."""
        return not self.store.synced or self.informer.suspect is not None

    def follow(self, namespace: str | None) -> None:
        """Observe the objects and each change in one more namespace (None: in all)."""
        if self._keys is not None and namespace not in self._ends:
            # Existing objects are notified before the end is set: the entry marks the beginning.
            self._ends[namespace] = lambda: None
            self._ends[namespace] = self.informer.subscribe(self._enqueue_keys, namespace=namespace)

    def unfollow(self, namespace: str | None) -> None:
        """Stop observing a namespace."""
        if namespace in self._ends:
            self._ends.pop(namespace)()

    async def surely_gone(
        self, key: Key, *, ending: bool = True, counts: Callable[[Partial], bool] | None = None
    ) -> bool:
        """True if the API server confirms that an object is gone: checked before anything is
        destroyed because the store lacks it (rule 3 of docs/background/architecture.md).

        Args:
            key: of the object.
            ending: whether an object that is being deleted counts as gone.
            counts: decides if an existing object counts; one that does not is treated as gone.
        """
        if self.doubtful:
            return False
        client, (namespace, name) = self.informer.client, key
        live = await client.find(self.kind, name, namespace or None, decode=Partial)
        as_good_as_gone = (
            live is None
            or (ending and live.metadata.deletion_timestamp is not None)
            or (counts is not None and not counts(live))
        )
        return as_good_as_gone and await is_defined(client, self.kind)

    async def open(
        self,
        stack: AsyncExitStack,
        nursery: trio.Nursery,
        informers: Informers,
        queue: KeyedQueue[K],
    ) -> None:
        """Open the informer until the stack ends; not yet observed, perhaps not yet synced."""
        self._queue = queue
        if self._client is not None:
            self._informer = SharedInformer(self._client, self.kind, self._selection, **self._how)
            nursery.start_soon(self._informer.run)
            return
        shared = informers.share(
            self.kind, self._selection, **self._how, counted=self._counted, wait=False
        )
        self._informer = await stack.enter_async_context(shared)

    async def synced(self) -> None:
        """Wait until all objects have been read, if ``wait`` is set."""
        if self._wait:
            await self.informer.synced()

    def start(self) -> None:
        """Notify the queue from now on."""
        for namespace in (None,) if self._within is None else self._within:
            self.follow(namespace)

    def end(self) -> None:
        """Stop notifying."""
        for namespace in tuple(self._ends):
            self.unfollow(namespace)

    def _enqueue_keys(self, change: StoreChange) -> None:
        assert self._keys is not None
        assert self._queue is not None
        for key in self._keys(change):
            self._queue.add(key, after=self._debounce, apart=self._apart)
