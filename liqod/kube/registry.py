"""What works in one daemon now: queues and informers, for those who look at it.

A queue that runs, a controller's or not, and an informer that follows enter themselves, and leave
when they end. Which registry that is, a task inherits, as it does the peer that it works for: of
several daemons in one process each has its own, and no room has to pass it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from liqod.log import PEER

if TYPE_CHECKING:
    from liqod.kube.cache.informer import Informer
    from liqod.kube.queue import KeyedQueue

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


class RunningQueue(NamedTuple):
    """A queue that is worked on.

    Attributes:
        queue: the queue; its name says what for.
        peer: whom its tasks work for, if anybody.
    """

    queue: "KeyedQueue[Any]"
    peer: str


class Registry:
    """What works now; whoever reads it changes nothing.

    Attributes:
        queues: those that are worked on, a controller's or not.
        informers: those that follow.
    """

    def __init__(self) -> None:
        self.queues: Entries[RunningQueue] = Entries()
        self.informers: Entries[Informer] = Entries()


_REGISTRY: ContextVar[Registry] = ContextVar("registry", default=Registry())  # noqa: B039


def current() -> Registry:
    """The registry that this task and its children enter themselves in."""
    return _REGISTRY.get()


def begin() -> Registry:
    """A registry of its own for this task, and for the children that it starts from now on."""
    registry = Registry()
    _REGISTRY.set(registry)
    return registry


@contextmanager
def running(queue: "KeyedQueue[Any]") -> Iterator[None]:
    """Enter a queue for as long as it is worked on."""
    with current().queues.holding(RunningQueue(queue, PEER.get())):
        yield


@contextmanager
def following(informer: "Informer") -> Iterator[None]:
    """Enter an informer for as long as it follows."""
    with current().informers.holding(informer):
        yield
