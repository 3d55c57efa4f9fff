"""The annotation by which a Service asks which clusters' endpoints its clients use. Pure.

A Service cannot say it by a field: ``trafficDistribution`` knows zones and nodes, not clusters, and
its values are checked by the API server.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels

Json = dict[str, Any]

OWN_FIRST: Final = "own-first"
OWN_ONLY: Final = "own-only"
ALL: Final = 100
MOST: Final = 32
"""Clusters that one annotation names."""
ELSEWHERE: Final = "elsewhere.liqod.io"
"""Zone for which endpoints of other clusters are hinted: no node is in it."""
MOST_HINTS: Final = 8
"""Zones for which an API server lets an endpoint be hinted (``discovery/v1 EndpointHints``)."""
NO_ZONE: Final = "NodesWithoutZone"
"""Reason why a wish for a cluster's own endpoints first is not fulfilled, or not everywhere."""
_SHOWN: Final = 64
_SHARE: Final = re.compile(r"([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=(0|[1-9][0-9]?|100)")


NO_ZONE_THERE: Final[Json] = {"forZones": [{"name": ELSEWHERE}]}
"""Hints of an endpoint of another cluster than the one whose clients are to use their own first."""


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


def quotas(wanted: Mapping[str, int], ready: Mapping[str, int]) -> dict[str, int]:
    """The number of endpoints of each group that come nearest to the shares, as many as can be.

    Args:
        wanted: shares, which need not make a whole.
        ready: the number of ready endpoints.
    """
    there = {each: share for each, share in wanted.items() if share and ready[each]}
    if not there:
        return dict(ready)  # better anyone than nobody
    scarce = min(there, key=lambda each: ready[each] / there[each])
    most, share_of = ready[scarce], there[scarce]
    found = dict.fromkeys(wanted, 0)
    for each, share in there.items():
        near = (2 * most * share + share_of) // (2 * share_of)
        found[each] = min(max(near, 1), ready[each])
    return found


def lot(address: str) -> str:
    """A place in an order that nothing else changes, so that few endpoints are replaced."""
    return hashlib.sha256(address.encode()).hexdigest()


def told(asked: Preference, peer: str, natives: int, endpoints: Sequence[Json]) -> list[Json]:
    """The endpoints of one slice of an offloaded Service to tell a peer, as the Service asks.

    The peer's clients have those that run there anyway.

    Args:
        asked: the wish of the Service.
        peer: the peer's id.
        natives: the number of ready endpoints of the slice that run at the peer.
        endpoints: those that do not.
    """
    if asked.order == OWN_ONLY:
        return []
    if asked.order == OWN_FIRST:
        return [{**each, "hints": NO_ZONE_THERE} for each in endpoints]
    if not asked.shares:
        return list(endpoints)
    share = asked.shares.get(peer, ALL - sum(asked.shares.values()))
    ready = sorted((each for each in endpoints if is_ready(each)), key=_lot_of)
    numbers = quotas({"": ALL - share, peer: share}, {"": len(ready), peer: natives})
    left_out = ready[numbers[""] :]
    return [each for each in endpoints if each not in left_out]


def unfollowed(endpoints: Sequence[Json], *, unzoned: bool) -> str:
    """The clause that says where a peer's own endpoints do not come first; empty for nowhere.

    Args:
        endpoints: another cluster's, as they are told.
        unzoned: whether a node of the peer has no zone.
    """
    if not unzoned or not any(each.get("hints") == NO_ZONE_THERE for each in endpoints):
        return ""
    return (
        f"it has nodes without the label {labels.ZONE}, whose clients use the endpoints of all "
        "clusters, and not its own first"
    )


def is_ready(endpoint: Json) -> bool:
    """True if an endpoint takes traffic; one that says nothing does (``discovery/v1``)."""
    return (endpoint.get("conditions") or {}).get("ready") is not False


def _lot_of(endpoint: Json) -> str:
    return lot("".join(endpoint.get("addresses") or ()))
