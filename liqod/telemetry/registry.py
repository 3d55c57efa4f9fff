"""Registers the queues and informers that work in one daemon now, for those who look at it.

A queue that runs, a controller's or not, and an informer that follows enter themselves, and leave
when they end. A task inherits the registry, as it does the peer that it works for: of several
daemons in one process each has its own, and no component has to pass it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Entries(Generic[T]):
    """Things of one type, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: dict[object, T] = {}

    @contextmanager
    def holding(self, entry: T) -> Iterator[None]:
        """Have something in here while the block lasts."""
        place = object()  # the same thing may be in here twice
        self._entries[place] = entry
        try:
            yield
        finally:
            del self._entries[place]

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


class Registry:
    """The queues and informers that work now, by type; a reader changes nothing."""

    def __init__(self) -> None:
        self._entries: dict[type[Any], Entries[Any]] = {}

    def of(self, kind: type[T]) -> Entries[T]:
        """Those of one type, such as the informers that follow."""
        return self._entries.setdefault(kind, Entries())


_REGISTRY: ContextVar[Registry] = ContextVar("registry", default=Registry())  # noqa: B039


def current() -> Registry:
    """The registry that this task and its children enter themselves in."""
    return _REGISTRY.get()


def new_registry() -> Registry:
    """A registry of its own for this task, and for the children that it starts from now on."""
    registry = Registry()
    _REGISTRY.set(registry)
    return registry
