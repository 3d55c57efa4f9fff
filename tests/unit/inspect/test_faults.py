"""Reports of ``status`` and ``doctor`` on each fault: the same, and how they end.

A row is a fault of docs/background/failures.md as it is seen in custom resources, by the daemon's
doctor, and by what else the daemon knows. Both commands are shown what they would be given, with
the daemon at hand and, where the fault is seen there, by the API server alone.
"""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from liqod.cli import clusterdiagnosis, report, statustext
from liqod.cli.commands import doctor as doctor_command
from liqod.cli.report import Seen, overview
from liqod.inspect.components import Components
from liqod.inspect.doctor import Doctor
from liqod.inspect.probing import CheckProbes
from liqod.inspect.protocol import Examine
from liqod.model.view import headline, problems
from liqod.model.view.problems import Problem
from liqod.model.view.rows import CheckRow, Ladder
from liqod.plugins.checks import cluster, network, peers
from liqod.plugins.diagnosis import (
    ClusterFacts,
    LinkFacts,
    NodeFacts,
    PeerFacts,
    QueueFacts,
    ReflectionFacts,
    Trip,
)
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.telemetry.hub import Hub
from tests.unit.inspect.faults import FAULTS, Fault
from tests.unit.model.states import NOW, state
from tests.unit.model.states import peer as peer_row
from tests.unit.model.test_overview import healthy
from tests.unit.plugins.test_network_checks import WELL as JOINED

HERE = ClusterFacts(
    now=NOW,
    api=Trip(1.0, 0.01),
    version="v1.35.4",
    skew=0.0,
    policies=(),
    webhook="reachable",
    proved=60.0,
    met_at=6446,
)
LINK = LinkFacts(
    state="up",
    silence=0.5,
    answered=4.0,
    rtt=0.002,
    loss=0.0,
    daemon="runs",
    daemon_renewed=12.0,
    daemon_looked=11.0,
    daemon_quiet=1.0,
)
THERE = PeerFacts(
    now=NOW,
    peer="milan",
    cluster=HERE,
    lends=True,
    link=LINK,
    reflection=ReflectionFacts(nodes=(NodeFacts("milan", lease=3.0),), namespaces=1),
    certificates={"control plane": 9e6},
    identities=1,
    replication=QueueFacts(worked=3.0),
    network=JOINED,
    probed=peers.Served("v1.35.4", ()),
)
LAYERS = sorted(
    (each for part in (cluster, peers, network) for each in part.liqod_checks()),
    key=lambda each: each.order,
)


async def examined(fault: Fault) -> tuple[Ladder, ...]:
    """The findings of the daemon's doctor."""
    known = {"plugins": fault.knows["plugins"]} if "plugins" in fault.knows else {}
    here = msgspec.structs.replace(HERE, **fault.here, **known)
    joined = msgspec.structs.replace(JOINED, **fault.joined)
    there = msgspec.structs.replace(
        THERE,
        cluster=here,
        link=msgspec.structs.replace(LINK, **fault.link),
        **{"network": joined, **fault.there},
    )

    class Told:
        """The facts of the row."""

        async def refresh(self) -> None:
            """Nothing to take in."""

        def peers(self) -> list[str]:
            return ["milan"]

        def cluster(self) -> ClusterFacts:
            return here

        def peer(self, name: str, cluster: ClusterFacts) -> PeerFacts:
            return there

    plugins = PluginHost(Plugins(checks=tuple(LAYERS)))
    context: Any = SimpleNamespace(hub=Hub(), client=None)
    told: Any = Told()
    probes = CheckProbes(context, Components(), plugins)
    probes.found = lambda peer, check: THERE.probed  # type: ignore[method-assign]
    doctor = Doctor(context, plugins, told, probes)
    await doctor.round()
    return (doctor.ladders[""], doctor.ladders["milan"])


def shown(fault: Fault, found: tuple[Ladder, ...] | None) -> tuple[str, int, str, int]:
    """The output of ``status`` and ``doctor``, and their exit statuses; None: no daemon answers."""
    snapshot, ask = healthy(**fault.objects), Examine(id=1)
    view = overview(snapshot)
    if found is None:
        figures = None
        diagnosed = clusterdiagnosis.alone(snapshot, ask, "v1.35.4", 0.01, "it has no socket here")
    else:
        seen = Seen("rome", NOW, state(peer_row(), **fault.knows), found)
        figures, view = report.figures(seen), report.joined(view, seen, "")
        own, *others = found
        ladders = (report.completed(own, snapshot), *others)
        diagnosed = clusterdiagnosis.of_daemon(seen, overview(snapshot).problems, ladders, ask)
        listed = (*overview(snapshot).problems, *report.daemon_problems(seen.state))
        ladders_of = {each.peer: each for each in ladders}
        watched = msgspec.structs.replace(seen.state, problems=listed, ladders=ladders_of)
        top = [each for each in headline.every(watched, NOW) if each.level != "notice"]
        for problem in (each for each in view.problems if not each.hint):
            assert any(problem.what in each.text and problem.peer == each.peer for each in top)
        assert bool(top) == (not view.well)
        assert view.well or headline.worst(watched, NOW).level not in ("well", "notice")
    status = statustext.render(view, now=NOW, live=figures)
    doctor = doctor_command.render(diagnosed, NOW)
    assert {each for each in view.problems if not each.hint} == {
        each for each in diagnosed.problems if not each.hint
    }
    for one in diagnosed.ladders:
        for check in one.checks:
            told = [each for each in view.problems if each.peer == one.peer]
            assert check.verdict != "failing" or told, check
    for each in problems.uncovered(diagnosed.problems, diagnosed.ladders):
        assert each.what in doctor
    return status, int(not view.well), doctor, int(doctor_command.unhealthy(diagnosed))


CASES = [
    (fault, asked)
    for fault in FAULTS
    for asked in ("daemon", "API server")
    if (fault.runs if asked == "daemon" else fault.alone is not None)
]


@pytest.mark.parametrize(
    ("fault", "asked"), CASES, ids=[f"{fault.name}, by its {asked}" for fault, asked in CASES]
)
async def test_both_say_the_same_of_a_fault_and_end_alike(fault: Fault, asked: str):
    found = await examined(fault) if asked == "daemon" else None
    wanted = fault.says if found is not None else fault.alone or ()
    status, status_ends, doctor, doctor_ends = shown(fault, found)
    assert (status_ends, doctor_ends) == (fault.ends, fault.ends), status + doctor
    assert not fault.only or not fault.ends
    for text in (status, doctor):
        plain = " ".join(text.split())
        for each in wanted:
            assert each in plain or (fault.only and text is doctor), text
        for each in fault.never:
            assert " ".join(each.split()) not in plain, text
        if fault.ends:
            assert "all is well" not in plain


def test_a_problem_says_how_long_it_lasts_and_how_old_that_knowledge_is():
    seen = CheckRow("api", "the api", "failing", NOW - 125, "no", "mend it", at=NOW - 7)
    here = (Ladder("milan", (seen,)),)
    read = Problem(1, "bern", "it has just been read", "mend it")
    found = problems.dated(problems.merged((read,), here), NOW)
    assert {(each.peer, each.since, each.at) for each in found} == {
        ("milan", NOW - 125, NOW - 7),
        ("bern", 0.0, NOW),
    }
    view = msgspec.structs.replace(overview(healthy()), problems=found)
    lines = " ".join(statustext.render(view, now=NOW).split())
    assert "[milan] the api fails: no (for 2 min, seen 7 s ago) → mend it" in lines
    assert "[bern] it has just been read → mend it" in lines
