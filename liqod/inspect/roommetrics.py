"""Metrics of meetings, discovery, peers' Events and places of callers, for ``/metrics``."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import TYPE_CHECKING

from liqod.inspect.family import Family, Sample
from liqod.model.objects.remoteevents import TYPES
from liqod.reflection.eventwriter import OUTCOMES
from liqod.runtime.connectionlimit import Places

if TYPE_CHECKING:
    from collections import Counter

    from liqod.handshake.transport.sessioncounters import SessionCounters
    from liqod.inspect.inspector import Inspector


def _requests(inspector: "Inspector") -> Iterator[Sample]:
    """Requests that there are, by direction and phase."""
    handshake = inspector.components.handshake
    if handshake is not None:
        for direction, phases in handshake.requests().items():
            for phase, count in phases.items():
                yield (direction, phase or "new"), count


def _of_meetings(
    read: Callable[["SessionCounters"], float],
) -> Callable[["Inspector"], Iterable[Sample]]:
    """One figure of all meetings."""

    def one(inspector: "Inspector") -> Iterator[Sample]:
        handshake = inspector.components.handshake
        if handshake is not None:
            yield (), read(handshake.counters)

    return one


def _by_name(
    read: Callable[["SessionCounters"], "Counter[str]"],
) -> Callable[["Inspector"], Iterable[Sample]]:
    """Counts of all meetings, by peer or by reason."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        handshake = inspector.components.handshake
        if handshake is not None:
            for name, count in read(handshake.counters).items():
                yield (name,), count

    return each


def _sightings(inspector: "Inspector") -> Iterator[Sample]:
    """Sightings that are kept, by plugin."""
    discovery = inspector.components.discovery
    if discovery is not None:
        for plugin, count in discovery.book.counts.items():
            yield (plugin,), count


def _events(inspector: "Inspector") -> Iterator[Sample]:
    for peer, borrowing in inspector.components.borrowing().items():
        counts = borrowing.engine.context.events.writer.counts
        for type, outcome in product(TYPES, OUTCOMES):
            yield (peer, type, outcome), float(counts[type, outcome])


def _of_places(read: Callable[[Places], int | None]) -> Callable[["Inspector"], Iterable[Sample]]:
    """One figure of each face; None where there is none."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        for face, _, places in inspector.callers.faces():
            value = read(places)
            if value is not None:
                yield (face,), value

    return each


def _refused_places(inspector: "Inspector") -> Iterator[Sample]:
    """How many were refused, by the sort of their source: of an address, or what else counts."""
    for face, share, places in inspector.callers.faces():
        for (sort, why), count in places.refused.items():
            yield (face, sort or share.source, why), count


_FACE = ("face",)

FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_peering_requests", "gauge", ("direction", "phase")),
        "Requests that others make (in) and that this cluster makes (out), by their phase.",
        _requests,
    ),
    Family(
        *("liqod_peering_answers", "counter", ("answer",), "Answers to those who asked."),
        _by_name(lambda figures: figures.answers),
    ),
    Family(
        *("liqod_meetings_refused", "counter", ("reason",)),
        "Meetings with other daemons that this one has ended, by the handshake's code.",
        _by_name(lambda figures: figures.refused),
    ),
    Family(
        *("liqod_channels", "gauge", ("peer",), "Channels between daemons that are open."),
        _by_name(lambda figures: figures.channels),
    ),
    Family(
        *("liqod_channel_streams", "gauge", ("peer",), "Streams that are open in channels."),
        _by_name(lambda figures: figures.streams),
    ),
    Family(
        *("liqod_channel_received_bytes", "counter", (), "Bytes from all channels."),
        _of_meetings(lambda figures: figures.received),
    ),
    Family(
        *("liqod_channel_sent_bytes", "counter", (), "Bytes into all channels."),
        _of_meetings(lambda figures: figures.sent),
    ),
    Family(
        *("liqod_sightings", "gauge", ("plugin",), "Sightings that are kept, by who sees."),
        _sightings,
    ),
    Family(
        *("liqod_remote_events", "counter", ("peer", "type", "outcome")),
        "Events of objects at a peer: written here, merged into one that waits, left out where "
        "more come than are written, refused by this cluster's API server.",
        _events,
    ),
    Family(
        *("liqod_places_taken", "gauge", _FACE, "Places of a face that callers have."),
        _of_places(len),
    ),
    Family(
        "liqod_places", "gauge", _FACE, "Places of a face.", _of_places(lambda places: places.most)
    ),
    Family(
        *("liqod_places_of_one", "gauge", _FACE, "Places of a face that one source may have."),
        _of_places(lambda places: places.of_one),
    ),
    Family(
        *("liqod_places_held_bytes", "gauge", _FACE),
        "Bytes kept of what was sent and is not answered; absent where nobody counts.",
        _of_places(lambda places: places.held),
    ),
    Family(
        *("liqod_places_held_limit_bytes", "gauge", _FACE, "As many may be."),
        _of_places(lambda places: places.may_hold),
    ),
    Family(
        *("liqod_places_refused", "counter", ("face", "source", "reason")),
        "Callers that were refused or put out, by the sort of their source.",
        _refused_places,
    ),
)
