"""Examines the facts of a cluster and its peers with the checks that need no daemon.

The result is a ladder for each, and the one list of problems: each fault that a check finds.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from liqod.model.view.facts import ClusterFacts, PeerFacts
from liqod.model.view.problems import Fault, Problem, rank
from liqod.model.view.rows import CheckRow, Ladder
from liqod.plugins import diagnosis
from liqod.plugins.checks import cluster, clusterset, objects, peers, services
from liqod.plugins.diagnosis import Check

LAYERS: Final = tuple(
    sorted(
        (
            *services.CHECKS,
            *clusterset.CHECKS,
            *(each for part in (cluster, peers) for each in part.liqod_checks() if each.by_objects),
        ),
        key=lambda each: each.order,
    )
)
"""The doctor's layers that objects show."""


def ladder(facts: ClusterFacts | PeerFacts) -> Ladder:
    """The ladder of these facts, which are of objects."""
    checks = [each for each in LAYERS if each.scope == _scope(facts)]
    rows = (
        CheckRow(check.name, check.title, found.verdict, 0.0, found.evidence, found.remedy)
        for check, found in diagnosis.examine(
            checks, lambda check: check.look(facts), independent=True
        )
    )
    return Ladder(_peer(facts), tuple(rows))


def problems(own: ClusterFacts, others: Iterable[PeerFacts]) -> tuple[Problem, ...]:
    """All problems, the worst first: each fault, also of a layer above one that fails.

    Args:
        own: of this cluster.
        others: of each peer, and of others that its objects name.
    """
    every: tuple[ClusterFacts | PeerFacts, ...] = (own, *others)
    found = (each for facts in every for each in _problems(facts))
    return tuple(sorted(dict.fromkeys(found)))


def _problems(facts: ClusterFacts | PeerFacts) -> Iterator[Problem]:
    for check in (*LAYERS, *objects.CHECKS):
        finding = check.look(facts) if check.scope == _scope(facts) else None
        if finding is None:
            continue
        failing = finding.verdict == "failing"
        faults = finding.faults
        if failing and not faults:
            faults = (Fault(f"{check.title} fails: {finding.evidence}", finding.remedy),)
        for fault in faults:
            yield _problem(check, fault, _peer(facts), failing=failing)


def _problem(check: Check, fault: Fault, whose: str, *, failing: bool) -> Problem:
    return Problem(
        rank(whose, check.name) if fault.rank is None else fault.rank,
        fault.peer or whose,
        fault.what,
        fault.remedy,
        check.name if failing and not fault.hint else "",
        objects=fault.objects,
    )


def _scope(facts: ClusterFacts | PeerFacts) -> str:
    return "peer" if isinstance(facts, PeerFacts) else "cluster"


def _peer(facts: ClusterFacts | PeerFacts) -> str:
    return facts.peer if isinstance(facts, PeerFacts) else ""
