"""The hub of events: the daemon's components publish each decision, and listeners receive it.

Publishing never blocks and never fails; a listener that raises is dropped. No decision depends on
the hub.
"""

import logging
import time
from collections import deque
from collections.abc import Callable

import msgspec

from liqod.telemetry.events import Reflected, TopicEvent

KEPT_EVENTS = 1000
KEPT_OBJECTS = 300
"""Events about single objects, kept apart so that a busy hour does not push out the rest."""

logger = logging.getLogger("liqod.events")


class Published(msgspec.Struct, frozen=True):
    """A published event of a daemon.

    Attributes:
        sequence: rises by one with each event.
        at: its time, in Unix seconds.
        peer: the peer that it concerns, if any.
        payload: the event itself.
    """

    sequence: int
    at: float
    peer: str
    payload: TopicEvent


Listener = Callable[[Published], None]


class Hub:
    """A bounded history of events, and the functions that are called with new ones."""

    def __init__(self) -> None:
        self._components: deque[Published] = deque(maxlen=KEPT_EVENTS)
        self._objects: deque[Published] = deque(maxlen=KEPT_OBJECTS)
        self._sequence = 0
        self._listeners: dict[Listener, None] = {}

    def publish(self, payload: TopicEvent, peer: str = "") -> None:
        """Record one decision, which may concern a peer, and notify the listeners."""
        self._sequence += 1
        event = Published(self._sequence, time.time(), peer, payload)
        (self._objects if payload.topic == Reflected.TOPIC else self._components).append(event)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._listeners.pop(listener, None)
                logger.exception("a listener of the hub failed and was dropped")

    @property
    def history(self) -> tuple[Published, ...]:
        """The kept events, oldest first."""
        both = (*self._components, *self._objects)
        return tuple(sorted(both, key=lambda event: event.sequence))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each new event; returns a function that ends that."""
        self._listeners[listener] = None
        return lambda: self._listeners.pop(listener, None) and None
