"""Bounds the bytes of each peer's objects in memory, over all stores together.

Each object has its bound, and so has the number of each kind; their product is more than a machine
has. So the bytes held are counted by namespace, and summed up for the peer that the namespace
belongs to. Beyond the limit an object is kept as a stub, and far beyond not at all: readers of the
store treat that as doubt, never as a deletion. No watch reports such an object again, so it is
noted that one was left out, and the kind is read anew once it fits. A namespace that is no peer's
counts by itself, and nothing of it is kept far beyond: by a label any user can have objects held
here.
"""

import logging
from collections import Counter
from collections.abc import Callable

from liqod.apimachinery.rawobjects import Key
from liqod.runtime.log import Seldom

OVERHEAD = 600
"""Bytes that an object costs beside its JSON: its keys, and its table entries."""
STUBS = 1.25
"""Limit of stubs, as a factor of the limit."""
NOBODY = "/"
"""Prefix of the owner of a namespace that is no peer's; no cluster id begins with it."""

Stub = Callable[[bytes], bytes | None]
"""Gives the part that is kept of an object beyond the quota; None for nothing."""

log = logging.getLogger(__name__)


def drop_excess(body: bytes) -> None:
    """Keep nothing."""


def keep_excess(body: bytes) -> bytes:
    """Keep a peer's object in spite of the quota: it is counted, and leaves less for others."""
    return body


class MemoryQuota:
    """Counts the bytes held of each owner's objects.

    Args:
        limit: bytes for each owner.
        setting: name of the setting of the limit, for the log.
        owner: owner of all namespaces, if they have a single one.
    """

    def __init__(self, limit: int, setting: str, owner: str = "") -> None:
        self.limit = limit
        self._owner = owner
        self._setting = setting
        self._owners: dict[str, str] = {}
        self._sums: Counter[str] = Counter()
        self._parts: list[StoreUsage] = []
        self._seldom = Seldom()

    def belongs(self, namespace: str, owner: str | None) -> None:
        """Set the owner of a namespace; unset, or None, the namespace counts by itself."""
        before, after = self.owner(namespace), owner or NOBODY + namespace
        if before == after:
            return
        moved = sum(part.spaces[namespace] for part in self._parts)
        self._change(before, -moved)
        self._change(after, moved)
        if owner is None:
            del self._owners[namespace]
            for part in self._parts:
                part.left_out.pop(namespace, None)
        else:
            self._owners[namespace] = owner

    def owner(self, namespace: str) -> str:
        """The owner of a namespace."""
        return self._owner or self._owners.get(namespace, NOBODY + namespace)

    def __str__(self) -> str:
        return f"{self.limit} bytes ({self._setting})"

    def used(self, owner: str) -> int:
        """Bytes held of an owner."""
        return self._sums[owner]

    def part(self, stub: Stub) -> "StoreUsage":
        """The part of another store; ``stub`` gives the part of an object kept beyond the quota."""
        made = StoreUsage(self, stub)
        self._parts.append(made)
        return made

    def remove(self, part: "StoreUsage") -> None:
        """Remove a store, with its bytes."""
        if part in self._parts:
            self._parts.remove(part)
            for namespace, held in part.spaces.items():
                self._change(self.owner(namespace), -held)
            part.spaces.clear()

    def change(self, namespace: str, more: int) -> None:
        """Add to the bytes of a namespace."""
        self._change(self.owner(namespace), more)

    def log_full(self, owner: str) -> None:
        """Log now and then that the quota of an owner is used up."""
        if self._seldom.allows(owner):
            extra = {"of": owner, "bytes": self.limit, "setting": self._setting}
            log.warning("no room for more objects", extra=extra)

    def _change(self, owner: str, more: int) -> None:
        self._sums[owner] += more
        if not self._sums[owner]:
            del self._sums[owner]


class StoreUsage:
    """The bytes held by one store.

    Attributes:
        spaces: bytes by namespace.
        left_out: the namespaces of which objects were not kept, and the bytes of their owner's
            other objects beside which one fits.
    """

    def __init__(self, holdings: MemoryQuota, stub: Stub) -> None:
        self.spaces: Counter[str] = Counter()
        self.left_out: dict[str, float] = {}
        self._holdings = holdings
        self._stub = stub

    def fit(self, key: Key, old: bytes | None, body: bytes) -> bytes | None:
        """The bytes to keep of an object that replaces ``old``; None for none."""
        owner = self._holdings.owner(key[0])
        others = self._holdings.used(owner) - cost(key, old)
        return self.within(owner, others, key, body, self.left_out)

    def crowded(self) -> set[str]:
        """The peers of which objects were left out."""
        owners = {self.owner(namespace) for namespace in self.left_out}
        return {each for each in owners if not each.startswith(NOBODY)}

    def room_again(self) -> bool:
        """True if an object of a peer that was left out fits now."""
        return any(
            self._holdings.used(owner) <= most
            for namespace, most in self.left_out.items()
            if not (owner := self.owner(namespace)).startswith(NOBODY)
        )

    def draft(self) -> "RelistUsage":
        """The usage of a complete list that is to replace the content of this store."""
        return RelistUsage(self)

    def swap(self, key: Key, old: bytes | None, new: bytes | None) -> None:
        """Count the replacement of one object by another; None for none."""
        more = cost(key, new) - cost(key, old)
        self.spaces[key[0]] += more
        if not self.spaces[key[0]]:
            del self.spaces[key[0]]
        self._holdings.change(key[0], more)

    def fits(self, key: Key, old: bytes | None, size: int) -> bool:
        """True if so many bytes could replace those that are kept."""
        owner = self._holdings.owner(key[0])
        others = self._holdings.used(owner) - cost(key, old)
        return others + size + OVERHEAD <= self._holdings.limit

    def close(self) -> None:
        """Remove the store from the quota."""
        self._holdings.remove(self)

    def used(self, owner: str) -> int:
        """Bytes held of an owner, in all stores."""
        return self._holdings.used(owner)

    def owner(self, namespace: str) -> str:
        """The owner of a namespace."""
        return self._holdings.owner(namespace)

    def within(
        self, owner: str, others: int, key: Key, body: bytes, left_out: dict[str, float]
    ) -> bytes | None:
        """The bytes to keep of an object; None, and noted in ``left_out``, for none.

        Args:
            owner: its owner.
            others: bytes of the owner's other objects.
            key, body: the object.
            left_out: as the attribute.
        """
        limit = self._holdings.limit
        if others + cost(key, body) <= limit:
            return body
        self._holdings.log_full(owner)
        stub = self._stub(body)
        if stub is body and not owner.startswith(NOBODY):
            return stub
        whole = limit - cost(key, body)
        most = whole if stub is None else max(whole, STUBS * limit - cost(key, stub))
        if others <= most:
            return stub
        left_out[key[0]] = max(left_out.get(key[0], most), most)
        return None


class RelistUsage:
    """The bytes that a store holds together with a new list, which is to replace its content.

    That content stays until then, so each object of it counts until the list has it, too. A list in
    another order than objects came in would otherwise hold in full those that are stubs in the
    store, beside those that the store has in full.

    Attributes:
        left_out: as of :class:`StoreUsage`, of the objects of the list.
    """

    def __init__(self, part: StoreUsage) -> None:
        self.left_out: dict[str, float] = {}
        self._part = part
        self._sums: dict[str, int] = {}
        self._replaced: set[Key] = set()

    def fit(self, key: Key, known: bytes | None, before: bytes | None, body: bytes) -> bytes | None:
        """The bytes to keep of an object of the list, which may contain it twice.

        Args:
            key, body: the object.
            known: the bytes that the store has of it.
            before: those that were kept of it when it was listed before.
        """
        owner = self._part.owner(key[0])
        if owner not in self._sums:
            self._sums[owner] = self._part.used(owner)
        again = key in self._replaced
        self._replaced.add(key)
        if known == body and not again:
            return body  # as it is held already
        self._sums[owner] -= cost(key, before if again else known)
        kept = self._part.within(owner, self._sums[owner], key, body, self.left_out)
        self._sums[owner] += cost(key, kept)
        return kept

    def commit(self) -> None:
        """Replace what was left out before: the list is complete."""
        self._part.left_out = self.left_out

    def drop(self, key: Key, before: bytes | None) -> None:
        """Subtract the bytes that were kept of an object."""
        if before is not None:
            self._sums[self._part.owner(key[0])] -= cost(key, before)


def cost(key: Key, body: bytes | None) -> int:
    """Bytes of an object, with its keys and table entries."""
    return 0 if body is None else OVERHEAD + 2 * len(key[1]) + len(body)
