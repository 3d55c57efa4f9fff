"""What ``/metrics`` tells of Events that peers tell of what is reflected there."""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from liqod.inspect.family import Family, Sample
from liqod.model.objects.remoteevents import TYPES
from liqod.reflection.eventwriter import OUTCOMES

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector


def _counts(inspector: "Inspector") -> Iterator[Sample]:
    for peer, borrowing in inspector.rooms.borrowing().items():
        counts = borrowing.engine.context.events.writer.counts
        for type, outcome in product(TYPES, OUTCOMES):
            yield (peer, type, outcome), float(counts[type, outcome])


FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_remote_events", "counter", ("peer", "type", "outcome")),
        "Events of objects at a peer: written here, merged into one that waits, left out where "
        "more come than are written, refused by this cluster's API server.",
        _counts,
    ),
)
