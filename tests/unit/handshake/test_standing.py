"""Transitions of a request: every pair of a state and an event, on either side."""

from itertools import product
from typing import Literal, get_args

from liqod.handshake.protocol.requestphase import ENDS, Event, Standing, after

Side = Literal["consumer", "provider"]
EVERY: list[tuple[Side, Standing, Event]] = list(
    product(get_args(Side), get_args(Standing), get_args(Event))
)


def test_nothing_is_accepted_but_what_waits_and_was_decided():
    for side, before, event in EVERY:
        found = after(side, before, event)
        if found == "Accepted" != before:
            assert (before, event) == ("Waiting", "accepted")
        if found == "Done" != before:
            assert event == "done"
            assert before == "Accepted" or (side, before) == ("provider", "Expired")
        if found == "Waiting" != before:
            assert (before, event) == ("", "asked")


def test_an_end_is_for_ever_but_for_what_the_consumer_says_of_its_own_side():
    for side, before, event in EVERY:
        if before in ENDS and after(side, before, event) != before:
            assert side == "provider"
            assert before in ("Denied", "Expired")
            assert event in ("cancelled", "done", "failed")


def test_what_happens_twice_has_happened_once():
    for side, before, event in EVERY:
        once = after(side, before, event)
        assert after(side, once, event) == once


def test_what_is_reported_is_taken_wherever_the_answer_was_lost():
    """The provider follows, whatever it has heard before, unless it was the consumer's own word."""
    told: dict[Standing, Event] = {"Cancelled": "cancelled", "Done": "done", "Failed": "failed"}
    for end, event in told.items():
        before: Standing = "Waiting" if end == "Cancelled" else "Accepted"
        assert after("provider", before, event) == end
    assert after("provider", "", "cancelled") == "Cancelled"
