"""The annotation by which a Service asks for endpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.crossing.preference import MOST, NO_PREFERENCE, Preference, preference

KEY = "liqod.io/endpoint-preference"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("own-first", Preference(order="own-first")),
        ("own-only", Preference(order="own-only")),
        ("milan=20", Preference(shares={"milan": 20})),
        ("milan=20, turin=80", Preference(shares={"milan": 20, "turin": 80})),
        ("milan=0", Preference(shares={"milan": 0})),
        ("milan=100", Preference(shares={"milan": 100})),
    ],
)
def test_what_can_be_asked(text, wanted):
    assert preference({KEY: text}) == wanted
    assert preference({KEY: text}).asked


def test_nothing_is_asked_without_it():
    assert preference({}) == preference(None) == NO_PREFERENCE
    assert not NO_PREFERENCE.asked


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "neither"),
        ("Own-First", "neither"),
        ("own-first,milan=2", "neither"),
        ("milan", "neither"),
        ("milan=", "neither"),
        ("milan=-1", "neither"),
        ("milan=101", "neither"),
        ("milan=020", "neither"),
        ("milan=٢", "neither"),
        ("Milan=20", "neither"),
        ("milan=20,", "neither"),
        ("milan=20\n", ""),
        ("milan=60,turin=60", "more than 100 percent"),
        ("milan=10,milan=20", "names milan twice"),
        (",".join(f"c{each}=1" for each in range(MOST + 1)), "more than 32 clusters"),
    ],
)
def test_what_is_not_understood_is_said(text, problem):
    found = preference({KEY: text})
    assert problem in found.problem
    assert bool(found.problem) == bool(problem)
    assert found.problem == "" or not (found.order or found.shares)


@given(st.text(max_size=200_000) | st.integers())
def test_no_text_breaks_it_or_is_repeated_at_length(text):
    assert len(preference({KEY: text}).problem) < 400
