"""Stores objects as the JSON they came in, found by key and by index.

They are decoded on use: ten thousand pods are ten thousand byte strings, not as many
trees of dicts. Indexes hold the few values that are searched for, taken on arrival.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import UNREADABLE, Key
from liqod.errors import ProtocolError
from liqod.kube.cache.memoryquota import StoreUsage

__all__ = ["Index", "IndexedStore", "Key", "StoreChange"]

T = TypeVar("T")

Index = Callable[[Any], Iterable[str]]
"""Maps an object, decoded as the store's ``partial``, to the values it is found by."""

NAMESPACE = "namespace"
"""The index that every store has."""

log = logging.getLogger(__name__)


class StoreChange(NamedTuple):
    """A change of one object: ``old`` None means that it is new, ``new`` None that it is gone.

    Attributes:
        listed: it is gone because a list lacks it, or beyond the quota; no watch has reported
            its deletion.
    """

    key: Key
    old: bytes | None
    new: bytes | None
    listed: bool = False


class IndexedStore:
    """The objects of one informer. Only the informer changes it.

    Args:
        indexes: by name; those of one name must mean the same.
        partial: struct that index functions get.
        keep: whether to keep an object; others count as absent.
        trim: gives the part of an object to keep.
        part: counts the bytes held; objects beyond its quota are not kept.

    Attributes:
        synced: whether a complete list has been stored.
    """

    def __init__(
        self,
        indexes: Mapping[str, Index] | None = None,
        *,
        partial: type[Any] = Partial,
        keep: Callable[[bytes], bool] | None = None,
        trim: Callable[[bytes], bytes] | None = None,
        part: StoreUsage | None = None,
    ) -> None:
        self.synced = False
        self._objects: dict[Key, bytes] = {}
        self._namespaces: dict[str, set[Key]] = {}
        self._functions: dict[str, Index] = {}
        self._indexes: dict[str, dict[str, set[Key]]] = {}
        self._values: dict[Key, dict[str, tuple[str, ...]]] = {}
        self._decoder = msgspec.json.Decoder(partial)
        self._keep = keep
        self._trim = trim
        self.part = part
        self.add_indexes(indexes or {})

    def get(self, key: Key) -> bytes | None:
        """An object as JSON."""
        return self._objects.get(key)

    def decode(self, key: Key, kind: type[T]) -> T | None:
        """An object decoded as ``kind``. Raises ProtocolError if that fails."""
        body = self._objects.get(key)
        if body is None:
            return None
        try:
            return msgspec.json.decode(body, type=kind)
        except UNREADABLE as error:
            raise ProtocolError(f"{'/'.join(key)}: {error}") from error

    def keys(self) -> KeysView[Key]:
        """The keys of all objects; a live view."""
        return self._objects.keys()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def indexed(self, index: str, value: str) -> frozenset[Key]:
        """The keys of the objects that have ``value`` in ``index``. KeyError: no such index."""
        table = self._namespaces if index == NAMESPACE else self._indexes[index]
        return frozenset(table.get(value, ()))

    def values(self, kind: type[T]) -> Iterator[T]:
        """All objects decoded as ``kind``; one that cannot be is logged and left out."""
        decoder = msgspec.json.Decoder(kind)
        for key, body in list(self._objects.items()):
            try:
                yield decoder.decode(body)
            except UNREADABLE as error:
                log.warning("object left out", extra={"key": key, "reason": str(error)})

    def add_indexes(self, indexes: Mapping[str, Index]) -> None:
        """Add the indexes that are missing, over the existing objects."""
        fresh = {name: take for name, take in indexes.items() if name not in self._functions}
        for name, take in fresh.items():
            self._functions[name] = take
            self._indexes[name] = {}
        if fresh:
            for key, body in self._objects.items():
                self._index(key, body, fresh)

    def trimmed(self, body: bytes) -> bytes:
        """The part of an object that is kept."""
        return body if self._trim is None else self._trim(body)

    def put(self, key: Key, body: bytes, *, fits: bool = False) -> StoreChange | None:
        """Store an object; None if nothing changed by it.

        Args:
            body: the object.
            fits: it was checked before that the quota allows it.
        """
        if self._keep is not None and not self._keep(body):
            return self.remove(key)
        body = self.trimmed(body)
        old = self._objects.get(key)
        if old == body:
            return None
        if self.part is not None:
            kept = body if fits else self.part.fit(key, old, body)
            if kept is None:
                change = self.remove(key)
                return change and change._replace(listed=True)
            if kept == old:
                return None
            self.part.swap(key, old, kept)
            body = kept
        self._objects[key] = body
        if old is None:
            self._namespaces.setdefault(key[0], set()).add(key)
        else:
            self._forget(key)
        if self._functions:
            self._index(key, body, self._functions)
        return StoreChange(key, old, body)

    def remove(self, key: Key) -> StoreChange | None:
        """Drop an object; None if it was absent."""
        old = self._objects.pop(key, None)
        if old is None:
            return None
        if self.part is not None:
            self.part.swap(key, old, None)
        _discard(self._namespaces, key[0], key)
        self._forget(key)
        return StoreChange(key, old, None)

    def _index(self, key: Key, body: bytes, functions: Mapping[str, Index]) -> None:
        try:
            part = self._decoder.decode(body)
        except UNREADABLE as error:
            log.warning("object not indexed", extra={"key": key, "reason": str(error)})
            return
        values = self._values.setdefault(key, {})
        for name, take in functions.items():
            values[name] = found = tuple(take(part))
            for value in found:
                self._indexes[name].setdefault(value, set()).add(key)

    def _forget(self, key: Key) -> None:
        for name, values in self._values.pop(key, {}).items():
            for value in values:
                _discard(self._indexes[name], value, key)


def _discard(table: dict[str, set[Key]], value: str, key: Key) -> None:
    keys = table.get(value)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del table[value]
