"""The one sentence on top: the right peer, the lowest layer, since when, and what waits."""

from dataclasses import dataclass

import pytest

from liqod.model.view.daemonfacts import ProcessFacts, SightingFacts
from liqod.model.view.headline import Condition, condition, counts, every, first_failing, worst
from liqod.model.view.problems import Problem
from liqod.model.view.rows import Pulse
from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, failing, peer, state


@dataclass(frozen=True)
class Case:
    """A state and the sentence for it."""

    state: LiveState
    level: str
    text: str


DOWN = peer("turin", link="down", since=NOW - 14, reason="connection refused", pods_out=37)
LAYER = peer("bern", layer="reflection", layer_since=NOW - 600, verdict="12 changes waiting")

CASES = {
    "well": Case(state(peer(), peer("oslo")), "well", "all is well: 2 peers, 6 pods out, 0 in"),
    "none": Case(state(), "notice", "no peers yet"),
    "inbox": Case(
        state(sightings={"mdns/oslo": SightingFacts("oslo", "mdns")}),
        "notice",
        "no peers yet; 1 in the inbox",
    ),
    "standby": Case(
        state(daemon=ProcessFacts(state="standing by; b leads")),
        "notice",
        "the daemon is standing by; b leads",
    ),
    "down": Case(
        state(peer(), DOWN),
        "critical",
        "turin: API unreachable for 14 s (connection refused), 37 pods there out of reach",
    ),
    "down before degraded": Case(
        state(LAYER, DOWN),
        "critical",
        "turin: API unreachable for 14 s (connection refused), 37 pods there out of reach"
        " (and 1 other peer)",
    ),
    "degraded": Case(
        state(LAYER), "warning", "bern: reflection fails for 10 min: 12 changes waiting"
    ),
    "failed": Case(
        state(peer(failure="no certificate", retry_at=NOW + 30)),
        "critical",
        "milan: its task fails: no certificate, next try in 30 s",
    ),
    "silent": Case(
        state(peer(), pulses={"milan": Pulse(heard=NOW - 9, backlog=2)}),
        "warning",
        "milan: not heard of for 9 s, 3 pods there out of reach, 2 changes waiting",
    ),
    "own": Case(
        state(DOWN, ladders={"": failing("", "api", evidence="timeout")}),
        "critical",
        "this cluster: the api fails for 60 s: timeout",
    ),
    "problem": Case(
        state(peer(), problems=(Problem(2, "milan", "slice denied", "ask"),)),
        "warning",
        "milan: slice denied",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_says_what_is_worst(case: Case):
    found = worst(case.state, NOW)
    assert (found.level, found.text) == (case.level, case.text)


def test_of_peers_that_are_down_the_one_with_most_pods_comes_first():
    others = [peer(f"p{n}", link="down", pods_out=n) for n in range(3)]
    assert worst(state(*others), NOW).peer == "p2"


@pytest.mark.parametrize(
    ("changes", "heard", "expected"),
    [
        ({}, NOW - 1, "up"),
        ({}, NOW - 6, "silent"),
        ({}, None, "silent"),
        ({"link": "down"}, NOW - 1, "down"),
        ({"link": "idle"}, None, "idle"),
        ({"link": "idle", "layer": "tenant"}, None, "degraded"),
        ({"state": "leaving", "link": "down"}, None, "leaving"),
        ({"failure": "x"}, NOW, "failed"),
    ],
)
def test_nobody_is_connected_without_a_round_trip_lately(
    changes: dict[str, str], heard: float | None, expected: Condition
):
    assert condition(peer(**changes), Pulse(heard=heard), NOW) == expected


def test_counts_are_those_of_the_header():
    found = counts(state(peer(), LAYER, DOWN, peer("oslo", link="idle", pods_in=4)), NOW)
    assert (found.up, found.degraded, found.down) == (2, 1, 1)
    assert (found.out, found.inward) == (46, 4)


def test_the_first_failing_layer_is_the_lowest():
    ladder = failing("milan", "api")
    assert first_failing(ladder) is ladder.checks[1]
    assert first_failing(None) is None


def test_a_trouble_is_told_with_its_peer_and_without():
    told = "milan: a word and: another"
    problems = (Problem(2, "milan", told, "ask"), Problem(2, "", told, "ask"))
    found = every(state(peer(), problems=problems), NOW)
    assert {(each.what, each.text) for each in found} == {
        (told, told),
        (told, f"milan: {told}"),
    }
