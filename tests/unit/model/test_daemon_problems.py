"""Problems that only the daemon knows: plugins, their reasons, clusters that wait."""

from collections.abc import Iterable

import pytest

from liqod.cli.report import daemon_problems
from liqod.model.view.daemonfacts import PluginFacts, ReasonFacts, SightingFacts
from liqod.model.view.problems import Problem
from liqod.model.view.state import LiveState

FINE = PluginFacts("pods", "reflector")
WAITS = "mdns sees it, and it is not peered with, as nobody has said so"
REASON = ReasonFacts("milan", "gadgets", "NoPaint", "the ConfigMap is missing", 3, "shop/lamp")


def told(
    plugins: Iterable[PluginFacts],
    reasons: Iterable[ReasonFacts],
    sightings: Iterable[SightingFacts],
) -> tuple[Problem, ...]:
    state = LiveState(
        plugins={f"{each.kind}/{each.name}": each for each in plugins},
        reasons={f"{number}": each for number, each in enumerate(reasons)},
        sightings={f"{number}": each for number, each in enumerate(sightings)},
    )
    return daemon_problems(state)


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (
            PluginFacts("gadgets", "reflector", failure="parked for 54 s more: a call took 6.0 s"),
            "the reflector plugin gadgets fails: parked for 54 s more: a call took 6.0 s",
        ),
        (
            PluginFacts("gadgets", "plugin", state="left out", why="SystemExit: 3"),
            "the plugin gadgets is left out: SystemExit: 3",
        ),
    ],
)
def test_a_plugin_that_does_not_work_is_a_problem(plugin, said):
    (problem,) = told([FINE, plugin], (), ())
    assert problem.what == said
    assert not problem.hint


def test_a_reason_is_a_hint_with_one_of_its_objects():
    (problem,) = told((), [REASON], ())
    assert problem.what == "gadgets shop/lamp and 2 others: NoPaint: the ConfigMap is missing"
    assert (problem.peer, problem.hint) == ("milan", True)


@pytest.mark.parametrize(
    ("seen", "what", "remedy"),
    [
        (SightingFacts("turin", "mdns"), "", ""),
        (SightingFacts("turin", "mdns", waits=True), WAITS, "[[peers]] entry"),
        (SightingFacts("turin", "mdns", problem="403"), "peering with it fails: 403", "kubeconfig"),
    ],
)
def test_a_cluster_that_waits_for_a_word_says_which(seen, what, remedy):
    found = told((), (), [seen])
    assert [what in each.what and remedy in each.remedy for each in found] == [True] * bool(what)


def test_of_any_number_of_clusters_that_wait_a_few_are_named():
    rows = [
        SightingFacts(cluster_id=f"c-{number}", plugin="mdns", waits=True) for number in range(9)
    ]
    found = told((), (), rows)
    assert len(found) == 6
    assert found[0].what == "4 other sightings of clusters that nobody named"
