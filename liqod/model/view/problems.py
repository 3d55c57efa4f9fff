"""The problems of a cluster and its peers: the faults that checks find, in one list. Pure.

``liqod status``, ``liqod doctor`` and ``liqod top`` read it, so that they agree on the problems,
and the commands on their exit status. This module joins the faults of the checks of objects and the
failing layers of the daemon's doctor; a problem that both see is reported once.
"""

from collections.abc import Iterable

import msgspec

from liqod.model.view.figures import span
from liqod.model.view.rows import Ladder

HINTS = 4
"""Rank from which on a problem is one of users' pods, or intended, and not of the peering."""
LAST = HINTS + 1
"""Rank of the hints that come after the others."""
NETWORK = "network"
GROUPS = {
    "policies": "installation",
    **dict.fromkeys(
        ("underlay", "tunnel", "mtu", "routes", "translation", "pods", NETWORK), NETWORK
    ),
}
"""Layers that one problem reports together, by their common part; others are on their own."""
OWN = {
    "server": 0,
    "installation": 0,
    "leader": 0,
    "identity": 1,
    "watches": 1,
    "policies": 1,
    "webhook": 3,
    "plugins": 3,
}
"""Rank of the failure of a layer of this cluster's; others are of rank 2."""
PEERS = {"task": 1, "api": 1, "daemon": 1, "credentials": 1, "reflection": 3, "replication": 2}
"""The same of a peer's."""


class Fault(msgspec.Struct, frozen=True):
    """One fault that a check has found, such as that of one object.

    Attributes:
        what: the fault, as a complete clause.
        remedy: the step that ends it.
        objects: the objects that have it, as ``name`` or ``namespace/name``.
        rank: its severity, 0 is worst; from :data:`HINTS` on it is a hint, and a layer does not
            fail by it; None: that of the failure of its layer.
        peer: its peer, if not the peer of the facts.
    """

    what: str
    remedy: str
    objects: tuple[str, ...] = ()
    rank: int | None = None
    peer: str = ""

    @property
    def hint(self) -> bool:
        """True if it is no fault of the peering."""
        return self.rank is not None and self.rank >= HINTS


class Problem(msgspec.Struct, frozen=True, order=True):
    """A problem to mend.

    Attributes:
        rank: its severity; 0 is worst.
        peer: its peer; empty for this cluster's own.
        what: the fault.
        remedy: the step that ends it.
        layer: the doctor's layer that it is about; empty for none.
        at: time of the evidence, in Unix seconds; 0 where it has just been read.
        since: time of its beginning; 0 where that is unknown.
        objects: the objects that have it, as ``name`` or ``namespace/name``.
    """

    rank: int
    peer: str
    what: str
    remedy: str
    layer: str = ""
    at: float = 0.0
    since: float = 0.0
    objects: tuple[str, ...] = ()

    @property
    def hint(self) -> bool:
        """True if the problem is no fault of the peering: a user's pod that waits, or intended."""
        return self.rank >= HINTS


def since_text(problem: Problem, now: float) -> str:
    """Since when a problem is, and when that was seen, in brackets; empty where it is of now."""
    parts = []
    if problem.since and now - problem.since >= 1:
        parts.append(f"for {span(now - problem.since)}")
    if problem.at and now - problem.at >= 1:
        parts.append(f"seen {span(now - problem.at)} ago")
    return f" ({', '.join(parts)})" if parts else ""


def rank(peer: str, layer: str) -> int:
    """The rank of the failure of a layer of a peer, or of this cluster where no peer is named."""
    return (PEERS if peer else OWN).get(layer, 2)


def of_ladders(ladders: Iterable[Ladder]) -> tuple[Problem, ...]:
    """Each layer that fails, as a problem, with the time at which that was seen."""
    return tuple(
        Problem(
            rank(ladder.peer, check.layer),
            ladder.peer,
            f"{check.title} fails: {check.evidence}",
            check.remedy,
            check.layer,
            check.at,
            check.since,
        )
        for ladder in ladders
        for check in ladder.checks
        if check.verdict == "failing"
    )


def merged(found: Iterable[Problem], ladders: Iterable[Ladder]) -> tuple[Problem, ...]:
    """All problems, the worst first.

    Args:
        found: from the objects, and from a daemon's other facts about itself.
        ladders: the doctor's findings, of the daemon or by the API server alone.
    """
    listed = dict.fromkeys(found)
    layers = of_ladders(ladders)
    # The doctor names the failing part of a network; the Connection shows only that it fails.
    parts = {each.peer for each in layers if _group(each.layer) == NETWORK}
    kept = [each for each in listed if not (each.layer == NETWORK and each.peer in parts)]
    told = {(each.peer, _group(each.layer)) for each in kept if each.layer}
    more = (each for each in layers if (each.peer, _group(each.layer)) not in told)
    return tuple(sorted((*kept, *more)))


def well(found: Iterable[Problem]) -> bool:
    """True if all problems are hints: the exit status of the commands that show the list."""
    return all(each.hint for each in found)


def uncovered(found: Iterable[Problem], ladders: Iterable[Ladder]) -> tuple[Problem, ...]:
    """The problems, but for hints, that no failing layer of these ladders covers already."""
    told = {(each.peer, _group(each.layer)) for each in of_ladders(ladders)}
    return tuple(
        each for each in found if not each.hint and (each.peer, _group(each.layer)) not in told
    )


def dated(found: Iterable[Problem], now: float) -> tuple[Problem, ...]:
    """The problems, each with the time of its evidence; ``now`` for those just read."""
    return tuple(each if each.at else msgspec.structs.replace(each, at=now) for each in found)


def of_peer(found: Iterable[Problem], peer: str) -> tuple[Problem, ...]:
    """Those of one peer and of this cluster itself; all where none is named."""
    return tuple(each for each in found if not peer or each.peer in ("", peer))


def _group(layer: str) -> str:
    return GROUPS.get(layer, layer)
