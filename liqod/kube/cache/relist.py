"""A complete list on its way into a store."""

from liqod.apimachinery.objects import Key, Slim
from liqod.kube.cache.store import IndexedStore


class Relist:
    """The objects that a list has named so far; one that did not change is not held twice.

    Args:
        store: into which it goes.

    Attributes:
        found: what of each object is to be kept.
        left_out: how many there is no room for.
    """

    def __init__(self, store: IndexedStore) -> None:
        self.found: dict[Key, bytes] = {}
        self.left_out = 0
        self._store = store
        self._draft = None if store.part is None else store.part.draft()

    def add(self, item: Slim) -> None:
        """Note an object."""
        known, body = self._store.get(item.key), self._store.trimmed(item.body)
        if self._draft is not None:
            kept = self._draft.fit(item.key, self.found.get(item.key), body)
            if kept is None:
                self.found.pop(item.key, None)
                self.left_out += 1
                return
            body = kept
        self.found[item.key] = known if known == body and known is not None else body

    def drop(self, key: Key) -> None:
        """Drop an object that has gone meanwhile."""
        before = self.found.pop(key, None)
        if self._draft is not None:
            self._draft.drop(key, before)
