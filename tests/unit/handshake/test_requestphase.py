"""Transitions of a request: every pair of a state and an event, on either side."""

from itertools import product
from typing import Literal, get_args

from liqod.handshake.protocol.requestphase import (
    FINAL_PHASES,
    RequestEvent,
    RequestPhase,
    next_phase,
)

Side = Literal["consumer", "provider"]
EVERY: list[tuple[Side, RequestPhase, RequestEvent]] = list(
    product(get_args(Side), get_args(RequestPhase), get_args(RequestEvent))
)


def test_nothing_is_accepted_but_what_waits_and_was_decided():
    for side, before, event in EVERY:
        found = next_phase(side, before, event)
        if found == "Accepted" != before:
            assert (before, event) == ("Waiting", "accepted")
        if found == "Done" != before:
            assert event == "done"
            assert before == "Accepted" or (side, before) == ("provider", "Expired")
        if found == "Waiting" != before:
            assert (before, event) == ("", "asked")


def test_an_end_is_for_ever_but_for_what_the_consumer_says_of_its_own_side():
    for side, before, event in EVERY:
        if before in FINAL_PHASES and next_phase(side, before, event) != before:
            assert side == "provider"
            assert before in ("Denied", "Expired")
            assert event in ("cancelled", "done", "failed")


def test_what_happens_twice_has_happened_once():
    for side, before, event in EVERY:
        once = next_phase(side, before, event)
        assert next_phase(side, once, event) == once


def test_what_is_reported_is_taken_wherever_the_answer_was_lost():
    """The provider follows, whatever it received before, unless the consumer states otherwise."""
    told: dict[RequestPhase, RequestEvent] = {
        "Cancelled": "cancelled",
        "Done": "done",
        "Failed": "failed",
    }
    for end, event in told.items():
        before: RequestPhase = "Waiting" if end == "Cancelled" else "Accepted"
        assert next_phase("provider", before, event) == end
    assert next_phase("provider", "", "cancelled") == "Cancelled"
