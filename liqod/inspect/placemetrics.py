"""What ``/metrics`` tells of the places that callers have, by face."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from liqod.inspect.family import Family, Sample
from liqod.places import Places

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector


def _of(read: Callable[[Places], int | None]) -> Callable[["Inspector"], Iterable[Sample]]:
    """One figure of each face; None where there is none."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        for face, _, places in inspector.home.account.faces():
            value = read(places)
            if value is not None:
                yield (face,), value

    return each


def _refused(inspector: "Inspector") -> Iterator[Sample]:
    """How many were refused, by the sort of their source: of an address, or what else counts."""
    for face, share, places in inspector.home.account.faces():
        for (sort, why), count in places.refused.items():
            yield (face, sort or share.source, why), count


_FACE = ("face",)

FAMILIES: tuple[Family, ...] = (
    Family(
        *("liqod_places_taken", "gauge", _FACE, "Places of a face that callers have."),
        _of(len),
    ),
    Family("liqod_places", "gauge", _FACE, "Places of a face.", _of(lambda places: places.most)),
    Family(
        *("liqod_places_of_one", "gauge", _FACE, "Places of a face that one source may have."),
        _of(lambda places: places.of_one),
    ),
    Family(
        *("liqod_places_held_bytes", "gauge", _FACE),
        "Bytes kept of what was sent and is not answered; absent where nobody counts.",
        _of(lambda places: places.held),
    ),
    Family(
        *("liqod_places_held_limit_bytes", "gauge", _FACE, "As many may be."),
        _of(lambda places: places.may_hold),
    ),
    Family(
        *("liqod_places_refused", "counter", ("face", "source", "reason")),
        "Callers that were refused or put out, by the sort of their source.",
        _refused,
    ),
)
