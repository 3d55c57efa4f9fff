"""Collects the facts of a peer's network from its objects and the machine's newest report.

The ages of a report grow with the time since it came: at rest none comes for some seconds.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from liqod.model.network.pathfigures import PathFigures, TransitFacts
from liqod.model.network.ranges import PeerRanges
from liqod.model.view.figures import span
from liqod.model.view.networkfacts import NetworkFacts, PodTrip
from liqod.network.gateway.tunnelendpoints import TunnelEndpoints
from liqod.network.orders.tunnels import PodsTrip, TunnelFigures

NOT_YET: Final = "there is no gateway of this cluster's for it yet"


def facts(
    problem: str, ends: TunnelEndpoints, ranges: PeerRanges | None, waits: str
) -> NetworkFacts:
    """The facts of one peer's network by its objects.

    Args:
        problem: what this machine lacks.
        ends: both ends of the tunnel.
        ranges: of both clusters.
        waits: the objects awaited while there are none.
    """
    gateway = ends.gateway
    if problem or gateway is None or ranges is None or ends.waits:
        return NetworkFacts(problem=problem, waits=ends.waits or waits or NOT_YET)
    pairs = (
        *zip(ranges.peer.pod, ranges.seen.pod, strict=False),
        *zip(ranges.peer.external, ranges.seen.external, strict=False),
    )
    return NetworkFacts(
        aliases=tuple(f"{theirs} as {alias}" for theirs, alias in pairs),
        backend=gateway.backend,
        side=gateway.side,
        candidates=gateway.endpoints,
        port=gateway.port,
        transport=gateway.transport,
        mtu=gateway.mtu,
    )


def measured(
    found: NetworkFacts, ranges: PeerRanges | None, figures: TunnelFigures, age: float
) -> NetworkFacts:
    """Adds the figures of an existing network to its facts.

    Args:
        found: by the objects; to a network that waits nothing is added.
        ranges: of both clusters.
        figures: as the machine reported them last.
        age: seconds since it did.
    """
    if not found.backend or ranges is None:
        return found
    own = (*ranges.own.pod, *ranges.own.external)
    fields: dict[str, Any] = {
        name: getattr(figures, name) for name in PathFigures.__struct_fields__
    }
    signs = () if figures.alive else ("heard", "echo")
    for name in ("arrived", "handshake", *signs):
        if fields[name] is not None:
            fields[name] += age
    return msgspec.structs.replace(
        found,
        own=tuple(f"{one} as {alias}" for one, alias in zip(own, figures.seen_as, strict=False)),
        pods=_trip(figures.trip, age),
        **fields,
    )


def silent(age: float) -> str:
    """The clause on a machine's side that has reported nothing for some seconds."""
    return f"this machine's side has reported nothing for {span(age)}"


def _trip(trip: PodsTrip | None, age: float) -> PodTrip | None:
    if trip is None:
        return None
    error = "" if trip.took is not None else "nothing came back"
    return PodTrip(ago=trip.ago + age, took=trip.took or 0.0, error=error, way=trip.way)


def relayed(found: NetworkFacts, whose: Callable[[str], str]) -> NetworkFacts:
    """The same, with the peer that passes packets on, where the other gateway is behind one.

    Args:
        found: the known facts.
        whose: the peer among whose aliases an address is; empty for nobody.
    """
    relay = whose(found.endpoint.rpartition(":")[0].strip("[]")) if found.endpoint else ""
    path = f"{found.path}, relayed by {relay}" if relay else found.path
    return msgspec.structs.replace(found, path=path)


def transiting(
    found: NetworkFacts, ranges: PeerRanges | None, others: Iterable[str]
) -> NetworkFacts:
    """The same, with the number of endpoints at each other peer that are opened to this one.

    Args:
        found: the known facts, with what has passed.
        ranges: of both clusters.
        others: ids of the peers that the configuration allows.
    """
    opened = Counter(each.owner for each in ranges.transit) if ranges is not None else Counter()
    passed = {each.owner: each for each in found.transit}
    transit = tuple(
        msgspec.structs.replace(passed.get(owner, TransitFacts(owner)), addresses=opened[owner])
        for owner in sorted({*others, *passed})
    )
    return msgspec.structs.replace(found, transit=transit)
