"""The endpoints that a Service keeps where nothing gets through to any of its clusters. Pure.

Endpoints of a silent cluster are not ready. Where these would be all that are left, clients find
none; a Service may rather have those that were told last, since a probe can err.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.model.clusterset.exports import Endpoint, Export

Json = dict[str, Any]

KEPT: Final = "liqod.io/EndpointsKept"
"""Condition of a ServiceImport, where its Service has the annotation and it matters."""
UNREACHED: Final = "NothingReached"
INVALID: Final = "InvalidAnnotation"
_SHOWN: Final = 64


class Keeping(msgspec.Struct, frozen=True):
    """The wish of a Service.

    Attributes:
        last: the endpoints that were told last are kept, where no other one is ready.
        problem: the reason why its annotation asks for nothing, as a clause; empty for none.
    """

    last: bool = False
    problem: str = ""


NOTHING: Final = Keeping()


def keeping(annotations: Mapping[str, str]) -> Keeping:
    """The wish that the annotations of a Service have."""
    text = annotations.get(labels.KEEP_LAST_ENDPOINTS)
    if text is None or text == "false":
        return NOTHING
    if text == labels.TRUE:
        return Keeping(last=True)
    return Keeping(problem=f"{text[:_SHOWN]!r} is neither `true` nor `false`")


def kept(
    wish: Keeping, exports: Iterable[Export], reached: Mapping[str, bool | None], others: int
) -> tuple[str, ...]:
    """The silent clusters whose endpoints stay as they were told last; none while any other is.

    Args:
        wish: of the Service.
        exports: of all clusters.
        reached: by cluster, whether anything gets through to it; None while that is not known.
        others: the number of ready endpoints that are of none of these exports.
    """
    ready = [each.cluster for each in exports if any(_ready(each))]
    if not wish.last or others or any(reached[each] is not False for each in ready):
        return ()
    return tuple(sorted(ready))


def _ready(export: Export) -> Iterable[Endpoint]:
    return (one for each in export.slices for one in each.endpoints if one.ready)


def condition(wish: Keeping, clusters: Collection[str]) -> Json | None:
    """The condition of the ServiceImport, without its time; None where there is nothing to say.

    Args:
        wish: of the Service.
        clusters: those whose endpoints are kept (:func:`kept`).
    """
    if wish.problem:
        message = f"{labels.KEEP_LAST_ENDPOINTS} is not followed: {wish.problem}"
        return {"type": KEPT, "status": "False", "reason": INVALID, "message": message}
    if not clusters:
        return None
    message = f"nothing gets through to {', '.join(clusters)}; the endpoints told last are kept"
    return {"type": KEPT, "status": "True", "reason": UNREACHED, "message": message}
