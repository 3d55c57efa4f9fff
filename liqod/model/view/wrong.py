"""Merges the problems of a cluster and its peers into one list. Pure.

``liqod status``, ``liqod doctor`` and ``liqod top`` read it, so that they agree on the problems,
and the commands on their exit status. Problems in custom resources (:mod:`.problems`), those that
only a daemon knows (:mod:`.told`) and failing layers of the doctor come together here; a problem
that several of them see is reported once.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from liqod.model.view.problems import Problem

if TYPE_CHECKING:
    from liqod.model.view.rows import Ladder

NETWORK = "network"
GROUPS = {
    "policies": "installation",
    **dict.fromkeys(
        ("underlay", "tunnel", "mtu", "routes", "translation", "pods", NETWORK), NETWORK
    ),
}
"""Layers that one problem reports together, by their common part; others are on their own."""
OWN = {"server": 0, "installation": 0, "leader": 0, "identity": 1, "watches": 1, "policies": 1}
"""How bad it is that a layer of this cluster's fails; others are of rank 2."""
PEERS = {"task": 1, "api": 1, "daemon": 1, "credentials": 1, "reflection": 3, "replication": 2}
"""The same of a peer's."""


def failing(ladders: "Iterable[Ladder]") -> tuple[Problem, ...]:
    """Each layer that fails, as a problem, with the time at which that was seen."""
    return tuple(
        Problem(
            (PEERS if ladder.peer else OWN).get(check.layer, 2),
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


def wrong(known: Iterable[Problem], ladders: "Iterable[Ladder]") -> tuple[Problem, ...]:
    """All that is wrong, the worst first.

    Args:
        known: what custom resources show, and what only the daemon knows.
        ladders: what the doctor found, of the daemon or by the API server alone.
    """
    listed = dict.fromkeys(known)
    layers = failing(ladders)
    # Of a network the doctor knows which part it is; the Connection only that it does not work.
    parts = {each.peer for each in layers if _group(each.layer) == NETWORK}
    kept = [each for each in listed if not (each.layer == NETWORK and each.peer in parts)]
    told = {(each.peer, _group(each.layer)) for each in kept if each.layer}
    more = (each for each in layers if (each.peer, _group(each.layer)) not in told)
    return tuple(sorted((*kept, *more)))


def well(found: Iterable[Problem]) -> bool:
    """True if all problems are hints: the exit status of the commands that show the list."""
    return all(each.hint for each in found)


def beside(found: Iterable[Problem], ladders: "Iterable[Ladder]") -> tuple[Problem, ...]:
    """The problems, but for hints, that no failing layer of these ladders covers already."""
    told = {(each.peer, _group(each.layer)) for each in failing(ladders)}
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
