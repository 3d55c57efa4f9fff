"""What ``/metrics`` tells of Events that peers tell of what is reflected there."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from liqod.inspect.family import Family, Sample

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector


def _counts(inspector: "Inspector") -> Iterator[Sample]:
    for peer, borrowing in inspector.home.rooms.borrowing().items():
        for (type, outcome), count in borrowing.engine.context.events.writer.counts.items():
            yield (peer, type, outcome), float(count)


FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_remote_events", "counter", ("peer", "type", "outcome")),
        "Events of objects at a peer: written here, merged into one that waits, left out where "
        "more come than are written, refused by this cluster's API server.",
        _counts,
    ),
)
