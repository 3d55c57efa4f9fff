"""What ``/metrics`` tells of meetings with other daemons and of what discovery sees."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from liqod.inspect.family import Family, Sample

if TYPE_CHECKING:
    from collections import Counter

    from liqod.handshake.figures import Figures
    from liqod.inspect.inspector import Inspector


def _requests(inspector: "Inspector") -> Iterator[Sample]:
    """Requests that there are, by direction and phase."""
    handshake = inspector.rooms.handshake
    if handshake is not None:
        for direction, phases in handshake.requests().items():
            for phase, count in phases.items():
                yield (direction, phase or "new"), count


def _of(read: Callable[["Figures"], float]) -> Callable[["Inspector"], Iterable[Sample]]:
    """One figure of all meetings."""

    def one(inspector: "Inspector") -> Iterator[Sample]:
        handshake = inspector.rooms.handshake
        if handshake is not None:
            yield (), read(handshake.figures)

    return one


def _by(
    read: Callable[["Figures"], "Counter[str]"],
) -> Callable[["Inspector"], Iterable[Sample]]:
    """Counts of all meetings, by peer or by reason."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        handshake = inspector.rooms.handshake
        if handshake is not None:
            for name, count in read(handshake.figures).items():
                yield (name,), count

    return each


def _sightings(inspector: "Inspector") -> Iterator[Sample]:
    """Sightings that are kept, by plugin."""
    discovery = inspector.rooms.discovery
    if discovery is not None:
        for plugin, count in discovery.book.counts.items():
            yield (plugin,), count


FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_peering_requests", "gauge", ("direction", "phase")),
        "Requests that others make (in) and that this cluster makes (out), by their phase.",
        _requests,
    ),
    Family(
        *("liqod_peering_answers", "counter", ("answer",), "Answers to those who asked."),
        _by(lambda figures: figures.answers),
    ),
    Family(
        *("liqod_meetings_refused", "counter", ("reason",)),
        "Meetings with other daemons that this one has ended, by the hand-shake's code.",
        _by(lambda figures: figures.refused),
    ),
    Family(
        *("liqod_channels", "gauge", ("peer",), "Channels between daemons that are open."),
        _by(lambda figures: figures.channels),
    ),
    Family(
        *("liqod_channel_streams", "gauge", ("peer",), "Streams that are open in channels."),
        _by(lambda figures: figures.streams),
    ),
    Family(
        *("liqod_channel_received_bytes", "counter", (), "Bytes from all channels."),
        _of(lambda figures: figures.received),
    ),
    Family(
        *("liqod_channel_sent_bytes", "counter", (), "Bytes into all channels."),
        _of(lambda figures: figures.sent),
    ),
    Family(
        *("liqod_sightings", "gauge", ("plugin",), "Sightings that are kept, by who sees."),
        _sightings,
    ),
)
