"""The hub of what happens: the daemon's rooms publish each decision, and others look on.

Publishing never blocks and never fails; a listener that raises is dropped. Nobody reads the hub to
decide anything.
"""

import logging
import time
from collections import deque
from collections.abc import Callable

from liqod.model.view.rows import Event

KEPT_EVENTS = 1000
KEPT_OBJECTS = 300
"""Events about single objects, kept apart so that a busy hour does not push out the rest."""
OBJECTS = "peer.reflection"

Listener = Callable[[Event], None]

logger = logging.getLogger("liqod.events")


class Hub:
    """A bounded history of events, and the functions that are told of new ones."""

    def __init__(self) -> None:
        self._rooms: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._objects: deque[Event] = deque(maxlen=KEPT_OBJECTS)
        self._sequence = 0
        self._listeners: dict[Listener, None] = {}

    def publish(self, topic: str, **facts: object) -> None:
        """Record one decision and tell the listeners."""
        self._sequence += 1
        peer = facts.pop("peer", "")
        event = Event(self._sequence, time.time(), topic, str(peer), facts)
        (self._objects if topic == OBJECTS else self._rooms).append(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._listeners.pop(listener, None)
                logger.exception("a listener of the hub failed and was dropped")

    @property
    def history(self) -> tuple[Event, ...]:
        """The events that are kept, oldest first."""
        both = (*self._rooms, *self._objects)
        return tuple(sorted(both, key=lambda event: event.sequence))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each new event; the result ends that."""
        self._listeners[listener] = None
        return lambda: self._listeners.pop(listener, None) and None
