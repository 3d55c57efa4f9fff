"""The annotation by which a Service asks which clusters' endpoints its clients use. Pure.

A Service cannot say it by a field: ``trafficDistribution`` knows zones and nodes, not clusters, and
its values are checked by the API server.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels

OWN_FIRST: Final = "own-first"
OWN_ONLY: Final = "own-only"
ALL: Final = 100
MOST: Final = 32
"""Clusters that one annotation names."""
ELSEWHERE: Final = "elsewhere.liqod.io"
"""Zone for which endpoints of other clusters are hinted: no node is in it."""
MOST_HINTS: Final = 8
"""Zones for which an API server lets an endpoint be hinted (``discovery/v1 EndpointHints``)."""
_SHOWN: Final = 64
_SHARE: Final = re.compile(r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=(0|[1-9][0-9]?|100)")


class Preference(msgspec.Struct, frozen=True):
    """The wish of a Service, as its annotation has it.

    Attributes:
        order: ``own-first``, ``own-only``, or empty.
        shares: by cluster, the percentage of connections that it is to get.
        problem: the reason why the annotation asks for nothing, as a clause; empty for none.
    """

    order: str = ""
    shares: dict[str, int] = {}
    problem: str = ""

    @property
    def asked(self) -> bool:
        """True if there is an annotation, sound or not."""
        return bool(self.order or self.shares or self.problem)


NO_PREFERENCE: Final = Preference()


def preference(annotations: Mapping[str, Any] | None) -> Preference:
    """The wish that the annotations of a Service have; none without the annotation."""
    text = (annotations or {}).get(labels.ENDPOINT_PREFERENCE)
    if text is None:
        return NO_PREFERENCE
    if text in (OWN_FIRST, OWN_ONLY):
        return Preference(order=text)
    return _shares(str(text))


def _shares(text: str) -> Preference:
    found: dict[str, int] = {}
    parts = text.split(",", MOST)
    if len(parts) > MOST:
        return Preference(problem=f"it names more than {MOST} clusters")
    for part in parts:
        match = _SHARE.fullmatch(part.strip())
        if match is None:
            said = f"{part.strip()[:_SHOWN]!r} is neither `{OWN_FIRST}` nor `{OWN_ONLY}`"
            return Preference(problem=f"{said}, nor a share such as `milan=20`")
        if match[1] in found:
            return Preference(problem=f"it names {match[1]} twice")
        found[match[1]] = int(match[2])
    if sum(found.values()) > ALL:
        return Preference(problem=f"its shares are more than {ALL} percent together")
    return Preference(shares=found)
