"""Registers the running queues and informers of one daemon, for the inspector.

Running queues, those of controllers and others, and running informers register themselves, and
unregister when they end. A task inherits the registry, as it does the peer that it works for: of
several daemons in one process each has its own, and no component has to pass it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Entries(Generic[T]):
    """The registered objects of one type, the oldest first."""

    def __init__(self) -> None:
        self._entries: dict[object, T] = {}

    @contextmanager
    def holding(self, entry: T) -> Iterator[None]:
        """Register an object while the block runs."""
        place = object()  # the same object may be registered twice
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
    """The running queues and informers, by type; a reader changes nothing."""

    def __init__(self) -> None:
        self._entries: dict[type[Any], Entries[Any]] = {}

    def of(self, kind: type[T]) -> Entries[T]:
        """The entries of one type, such as the running informers."""
        return self._entries.setdefault(kind, Entries())


_REGISTRY: ContextVar[Registry] = ContextVar("registry", default=Registry())  # noqa: B039


def current() -> Registry:
    """The registry in which this task and its children register."""
    return _REGISTRY.get()


def new_registry() -> Registry:
    """Set a new registry for this task, and for the children that it starts from now on."""
    registry = Registry()
    _REGISTRY.set(registry)
    return registry
