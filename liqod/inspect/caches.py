"""Caches of the shared informers' objects, decoded, for as long as somebody looks.

A cache opens no watch: it sits on an informer that a component has open, or is empty while none
has. A change costs it one entry in a set; decoding waits for :meth:`Cache.refresh`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import trio

from liqod.errors import ProtocolError
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.nodeindex import placement
from liqod.kube.cache.store import Change, Key

T = TypeVar("T")


def itself(found: T) -> T:
    """Keep the whole object."""
    return found


TURN = 200
"""Objects decoded before other tasks get a turn."""


class Cache(Generic[T]):
    """The objects of one informer, decoded.

    Args:
        type: what to decode them as.
        make: what to keep of each.

    Attributes:
        rows: what is kept of the objects, by key.
    """

    def __init__(self, type: type[Any], make: Callable[[Any], T]) -> None:
        self.rows: dict[Key, T] = {}
        self._type = type
        self._make = make
        self._informer: Informer | None = None
        self._dirty: set[Key] = set()
        self._stops: list[Callable[[], None]] = []
        self._changed = False

    def sit_on(self, informer: Informer | None) -> None:
        """Take the objects of this informer from now on; None for none."""
        if informer is self._informer:
            return
        self.leave()
        self._informer = informer
        if informer is not None:
            self._stops.append(informer.subscribe(self._on_change))

    def leave(self) -> None:
        """Release the informer and all objects."""
        for stop in self._stops:
            stop()
        self._stops.clear()
        self._informer = None
        self._changed = bool(self.rows)
        self.rows.clear()
        self._dirty.clear()

    async def refresh(self) -> bool:
        """Decode the changed objects; True if any changed since the last time."""
        dirty, self._dirty = self._dirty, set()
        for number, key in enumerate(dirty, 1):
            self._decode(key)
            if number % TURN == 0:
                await trio.lowlevel.checkpoint()
        changed, self._changed = self._changed or bool(dirty), False
        return changed

    def _decode(self, key: Key) -> None:
        found: T | None = None
        if self._informer is not None and self._wanted(key):
            try:
                decoded = self._informer.store.decode(key, self._type)
                found = None if decoded is None else self._make(decoded)
            except ProtocolError:
                found = None  # its component has named it in the log
        if found is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = found

    def _wanted(self, key: Key) -> bool:
        return True

    def _on_change(self, change: Change) -> None:
        self._dirty.add(change.key)


class Placed(Cache[T]):
    """Of an informer of all pods those that are on some nodes."""

    def __init__(self, type: type[Any], make: Callable[[Any], T]) -> None:
        super().__init__(type, make)
        self._nodes: dict[str, Callable[[], None]] = {}

    def sit_on(self, informer: Informer | None) -> None:
        if informer is not self._informer:
            self.leave()
            self._informer = informer

    def on(self, nodes: Iterable[str]) -> None:
        """Take the pods of these nodes from now on."""
        wanted = set(nodes) if self._informer is not None else set()
        for gone in self._nodes.keys() - wanted:
            self._nodes.pop(gone)()
            self._dirty.update(self.rows)
        for node in wanted - self._nodes.keys():
            assert self._informer is not None
            self._nodes[node] = placement(self._informer).follow(node, self._dirty_key)

    def leave(self) -> None:
        for stop in self._nodes.values():
            stop()
        self._nodes.clear()
        super().leave()

    def _wanted(self, key: Key) -> bool:
        assert self._informer is not None
        placed = placement(self._informer)
        return any(placed.holds(node, key) for node in self._nodes)

    def _dirty_key(self, key: Key) -> None:
        self._dirty.add(key)
