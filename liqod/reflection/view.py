"""What a reflector sees while it decides, and the memory of what it looked at.

Every look at another object is remembered as a dependency of the object at hand; when that object
changes, :class:`Dependencies` says whose decision it was part of, and the engine takes those again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from liqod.errors import PluginError
from liqod.kube.cache.store import Store
from liqod.kube.kinds import Kind
from liqod.plugins.contracts import Json, Names, Need, Reflector, Refusal

Key = tuple[str, str]
"""Namespace and name of a local object."""


class Subject(NamedTuple):
    """One local object as one reflector handles it."""

    reflector: str
    namespace: str
    name: str


class Seen(NamedTuple):
    """What was looked at: an object, or with an empty name all of a namespace."""

    kind: Kind
    namespace: str
    name: str


class Dependencies:
    """Who looked at what."""

    def __init__(self) -> None:
        self._readers: dict[Seen, set[Subject]] = {}
        self._looked: dict[Subject, frozenset[Seen]] = {}

    def record(self, subject: Subject, seen: Iterable[Seen]) -> None:
        """Replace what a subject depends on by what it looked at this time."""
        new = frozenset(seen)
        old = self._looked.get(subject, frozenset())
        if new == old:
            return
        for gone in old - new:
            readers = self._readers[gone]
            readers.discard(subject)
            if not readers:
                del self._readers[gone]
        for added in new - old:
            self._readers.setdefault(added, set()).add(subject)
        if new:
            self._looked[subject] = new
        else:
            self._looked.pop(subject, None)

    def leave(self, reflector: str, namespace: str) -> None:
        """A reflector has nothing more to do with a namespace."""
        for subject in [each for each in self._looked if each[:2] == (reflector, namespace)]:
            self.record(subject, ())

    def readers(self, kind: Kind, key: Key) -> frozenset[Subject]:
        """Whose decisions a change of this object may alter."""
        one = self._readers.get(Seen(kind, key[0], key[1]), ())
        every = self._readers.get(Seen(kind, key[0], ""), ())
        return frozenset(one).union(every)


class LiveView:
    """A view of the stores, for one call of a reflector.

    Args:
        reflector: whose view it is.
        names: names and settings.
        settings: the reflector's own.
        now: RFC 3339 time.
        ahead: seconds by which the peer's clock is ahead of it.
        refusals: why the last writes failed.
        stores: finds the local store of a kind and namespace; None where it is not watched.
        remote: what the object at hand has at the peer, by kind.
        answers: what has been fetched.

    Attributes:
        seen: the local objects that were looked at.
        used: the needs that were asked for.
        asked: whether it was asked what the object at hand has at the peer.
    """

    def __init__(
        self,
        reflector: Reflector,
        *,
        names: Names,
        now: str,
        ahead: float = 0.0,
        refusals: tuple[Refusal, ...],
        stores: Callable[[Kind, str], Store | None],
        remote: Mapping[Any, tuple[Json, ...]],
        answers: Callable[[Need], Any],
        settings: Any = None,
    ) -> None:
        self.names = names
        self.settings = settings
        self.now = now
        self.ahead = ahead
        self.refusals = refusals
        self.seen: set[Seen] = set()
        self.used: set[Need] = set()
        self.asked = False
        self._reads = frozenset(reads.kind for reads in reflector.reads)
        self._reflector = reflector.name
        self._stores = stores
        self._remote = remote
        self._answers = answers

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """A local object of a declared kind; raises PluginError for another."""
        store, where = self._look(kind, namespace)
        self.seen.add(Seen(kind, where, name))
        body = None if store is None else store.get((where, name))
        return None if body is None else msgspec.json.decode(body)

    def all(self, kind: Kind, namespace: str | None = None) -> tuple[Json, ...]:
        """All objects of a declared kind in a namespace, by name; raises as :meth:`get`."""
        store, where = self._look(kind, namespace)
        self.seen.add(Seen(kind, where, ""))
        if store is None:
            return ()
        keys = sorted(store.indexed("namespace", where))
        bodies = (store.get(key) for key in keys)
        return tuple(msgspec.json.decode(body) for body in bodies if body is not None)

    def remote(self, kind: Kind) -> tuple[Json, ...]:
        """What the object at hand has at the peer, by name."""
        self.asked = True
        return self._remote.get(kind, ())

    def fulfilled(self, need: Need) -> Any:
        """What fulfils a need; None until it has been fetched."""
        self.used.add(need)
        return self._answers(need)

    def _look(self, kind: Kind, namespace: str | None) -> tuple[Store | None, str]:
        if kind not in self._reads:
            raise PluginError(f"{self._reflector} does not declare that it reads {kind.name}")
        where = (namespace or self.names.namespace) if kind.namespaced else ""
        return self._stores(kind, where), where
