"""The hub of what happens: the daemon's rooms publish each decision, and others look on.

Publishing never blocks and never fails; a slow subscriber loses its subscription, not the
publisher its time. Nobody reads the hub to decide anything.
"""

import logging
from collections import deque
from collections.abc import Callable

import msgspec
import trio

KEPT_EVENTS = 1000

logger = logging.getLogger("liqod.events")


class Event(msgspec.Struct, frozen=True):
    """One thing that was decided.

    Attributes:
        sequence: rises by one with each event of a daemon's life.
        at: trio time, seconds.
        topic: what it is about, dotted, such as ``peer.link``.
        facts: values that JSON can hold.
    """

    sequence: int
    at: float
    topic: str
    facts: dict[str, object]


class Hub:
    """A bounded history of events and the functions that are told of new ones."""

    def __init__(self) -> None:
        self.history: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._sequence = 0
        self._listeners: set[Callable[[Event], None]] = set()

    def publish(self, topic: str, **facts: object) -> None:
        """Record one decision and tell the listeners; a listener that raises is dropped."""
        self._sequence += 1
        event = Event(self._sequence, trio.current_time(), topic, facts)
        self.history.append(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._listeners.discard(listener)
                logger.exception("a listener of the hub failed and was dropped")

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call ``listener`` with each new event; the result ends that."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)
