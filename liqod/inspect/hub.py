"""The hub of what happens: the daemon's rooms publish each decision, and others look on.

Publishing never blocks and never fails; a listener that raises is dropped. Rooms also *show* what
they have (a queue, a link, an engine) for as long as they have it, so that an inspector can look
without a reference of its own. Nobody reads the hub to decide anything.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from liqod.model.view.rows import Event

KEPT_EVENTS = 1000
KEPT_OBJECTS = 300
"""Events about single objects, kept apart so that a busy hour does not push out the rest."""
OBJECTS = "peer.reflection"

Listener = Callable[[Event], None]

logger = logging.getLogger("liqod.events")


class Hub:
    """A bounded history of events, the functions that are told of new ones, and what is shown."""

    def __init__(self) -> None:
        self._rooms: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._objects: deque[Event] = deque(maxlen=KEPT_OBJECTS)
        self._sequence = 0
        self._listeners: dict[Listener, None] = {}
        self._shown: dict[str, dict[str, Any]] = {}

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

    @contextmanager
    def showing(self, kind: str, name: str, thing: object) -> Iterator[None]:
        """Let others look at something while the block lasts.

        Args:
            kind: what it is, such as ``queue``.
            name: unique within the kind; by custom ``peer/name``.
            thing: what there is to look at; whoever looks changes nothing.
        """
        table = self._shown.setdefault(kind, {})
        table[name] = thing
        try:
            yield
        finally:
            if table.get(name) is thing:
                del table[name]

    def shown(self, kind: str) -> dict[str, Any]:
        """What is shown of a kind now, by name."""
        return dict(self._shown.get(kind, ()))

    def one(self, kind: str, name: str) -> Any:
        """What is shown of a kind under one name; None where nothing is."""
        return self._shown.get(kind, {}).get(name)
