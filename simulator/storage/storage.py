"""The objects of one cluster: JSON bytes by kind, namespace and name, and a ring of what happened.

Plays etcd's part and the watch cache's: one counter gives versions, each kind keeps its last
changes so that a watch can start in the past, and listeners inside the process hear each change
as it happens. Objects are bytes because a hundred clusters share one process.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import trio

log = logging.getLogger(__name__)

Json = dict[str, Any]
Place = tuple[str, str, str]
"""The place of an object: (qualified resource, namespace or "", name)."""

HISTORY = 200
"""Changes kept per kind: a watch that starts earlier is answered 410."""


class Item(msgspec.Struct, frozen=True):
    """One object at one version."""

    namespace: str
    name: str
    uid: str
    version: int
    raw: bytes

    def decode(self) -> Json:
        """The object as plain values, the caller's to change."""
        found: Json = msgspec.json.decode(self.raw)
        return found


class Change(NamedTuple):
    """A change of one object: ``after`` None means it is gone, ``before`` None it is new.

    ``last`` is the object as a watch shows it: after a deletion, its last state at the version of
    the deletion.
    """

    version: int
    before: Item | None
    after: Item | None
    last: Item


class _Owners(msgspec.Struct):
    uid: str = ""


class _OwnedMeta(msgspec.Struct, rename="camel"):
    owner_references: list[_Owners] = []


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta = msgspec.field(default_factory=_OwnedMeta)


class Collection:
    """All objects of one kind, in every namespace."""

    def __init__(self, history: int, version: int) -> None:
        self.namespaces: dict[str, dict[str, Item]] = {}
        self.history: deque[Change] = deque(maxlen=history)
        self.oldest = version
        self.changed = trio.Event()
        self.listeners: list[Callable[[Change], None]] = []

    def get(self, namespace: str, name: str) -> Item | None:
        """One object, or None."""
        return self.namespaces.get(namespace, {}).get(name)

    def items(self, namespace: str | None = None) -> Iterator[Item]:
        """The objects of one namespace or all, in the order of their keys."""
        wanted = sorted(self.namespaces) if namespace is None else [namespace]
        for each in wanted:
            found = self.namespaces.get(each, {})
            yield from (found[name] for name in sorted(found))

    def __len__(self) -> int:
        return sum(map(len, self.namespaces.values()))

    def since(self, version: int) -> list[Change] | None:
        """The changes after a version, oldest first; None if they are no longer all known."""
        if version < self.oldest:
            return None
        found: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def record(self, change: Change) -> None:
        """Apply a change, remember it and wake those that wait."""
        last = change.last
        if change.after is None:
            inside = self.namespaces[last.namespace]
            del inside[last.name]
            if not inside:
                del self.namespaces[last.namespace]
        else:
            self.namespaces.setdefault(last.namespace, {})[last.name] = change.after
        if len(self.history) == self.history.maxlen:
            self.oldest = self.history[0].version
        self.history.append(change)
        self.wake()
        for listener in tuple(self.listeners):
            try:
                listener(change)
            except Exception:  # what is stored is stored, also where a listener fails
                log.exception("listener failed", extra={"object": last.name})

    def wake(self) -> None:
        """Have every watch of this kind look again."""
        changed, self.changed = self.changed, trio.Event()
        changed.set()


class Storage:
    """Every object of one cluster."""

    def __init__(self, history: int = HISTORY) -> None:
        self.version = 1
        self.history = history
        self._collections: dict[str, Collection] = {}
        self.listeners: list[Callable[[str, Change], None]] = []
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, set[Place]] = {}

    def of(self, qualified: str) -> Collection:
        """The collection of a kind, by its qualified resource such as ``deployments.apps``."""
        found = self._collections.get(qualified)
        if found is None:
            found = self._collections[qualified] = Collection(self.history, self.version)
        return found

    def names(self) -> list[str]:
        """The kinds that have ever been stored."""
        return list(self._collections)

    def put(self, qualified: str, obj: Json) -> Item:
        """Store an object, new or in place of the one of that name, at the next version."""
        meta = obj["metadata"]
        collection = self.of(qualified)
        namespace, name = meta.get("namespace", ""), meta["name"]
        before = collection.get(namespace, name)
        item = self._stamp(obj)
        self._index(qualified, before, item)
        self._record(qualified, Change(item.version, before, item, item))
        return item

    def remove(self, qualified: str, obj: Json) -> Item:
        """Remove an object; ``obj`` is its last state. Returns it at the version of removal."""
        meta = obj["metadata"]
        collection = self.of(qualified)
        before = collection.get(meta.get("namespace", ""), meta["name"])
        last = self._stamp(obj)
        self._index(qualified, before, None)
        self._record(qualified, Change(last.version, before, None, last))
        return last

    def load(self, contents: Mapping[str, Iterable[Item]], version: int) -> None:
        """Take in what another storage held, as it was there; older changes are not known."""
        self.version = version
        for qualified, items in contents.items():
            collection = self.of(qualified)
            for item in items:
                self._index(qualified, None, item)
                self._record(qualified, Change(item.version, None, item, item))
            collection.history.clear()
            collection.oldest = version

    def wake(self) -> None:
        """Have every watch look again."""
        for collection in self._collections.values():
            collection.wake()

    def _record(self, qualified: str, change: Change) -> None:
        self.of(qualified).record(change)
        for listener in self.listeners:
            listener(qualified, change)

    def forget(self, qualified: str) -> None:
        """Drop an empty collection, as when its CRD goes."""
        found = self._collections.get(qualified)
        if found is not None and not len(found):
            found.history.clear()
            found.oldest = self.version

    def _stamp(self, obj: Json) -> Item:
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        return Item(
            meta.get("namespace", ""),
            meta["name"],
            meta["uid"],
            self.version,
            msgspec.json.encode(obj),
        )

    def _index(self, qualified: str, before: Item | None, after: Item | None) -> None:
        known = after or before
        if known is None:
            return
        place = (qualified, known.namespace, known.name)
        old = owners(before) if before else frozenset()
        new = owners(after) if after else frozenset()
        for uid in old - new:
            dependents = self._dependents.get(uid)
            if dependents is not None:
                dependents.discard(place)
                if not dependents:
                    del self._dependents[uid]
        for uid in new - old:
            self._dependents.setdefault(uid, set()).add(place)
        if after is None:
            self._places.pop(known.uid, None)
        elif before is None:
            self._places[known.uid] = place

    def place(self, uid: str) -> Place | None:
        """The place of the object of that UID, or None if there is none."""
        return self._places.get(uid)

    def dependents(self, uid: str) -> list[Place]:
        """The objects that name this UID as their owner, in a stable order."""
        return sorted(self._dependents.get(uid, ()))


def owners(item: Item) -> frozenset[str]:
    """The UIDs that an object names as its owners."""
    if b'"ownerReferences":[{' not in item.raw:
        return frozenset()
    found = msgspec.json.decode(item.raw, type=_Owned)
    return frozenset(owner.uid for owner in found.metadata.owner_references)
