"""Requests of the handshake in ``status``: those that wait for a person, and those that failed."""

import pytest
from msgspec.structs import replace

from liqod.cli.report import overview
from liqod.model.view.problems import Problem
from liqod.model.view.requests import RequestRow
from tests.unit.model.test_overview import healthy

WORDS = "copper-lantern-otter-plum"


def told(
    *, incoming: tuple[RequestRow, ...] = (), outgoing: tuple[RequestRow, ...] = ()
) -> list[Problem]:
    return list(overview(healthy(incoming=incoming, outgoing=outgoing)).problems)


def asks(cluster: str, state: str = "Waiting") -> RequestRow:
    asked = {"memory": "8Gi", "cpu": "4"}
    return RequestRow(f"{cluster}-5a3c9e01", cluster, WORDS, asked, state=state)


def asked(state: str, reason: str = "") -> RequestRow:
    return RequestRow("milan", "milan", WORDS, state=state, reason=reason)


def test_who_waits_for_an_answer_is_told_with_the_words_and_is_no_fault():
    (problem,) = told(incoming=(asks("rome"),))
    assert problem.hint
    assert problem.peer == "rome"
    assert problem.what == f"asks to borrow cpu 4, memory 8Gi; words: {WORDS}"
    assert "liqod inbox accept rome-5a3c9e01" in problem.remedy


@pytest.mark.parametrize("state", ["", "Accepted", "Denied", "Expired", "Cancelled", "Done"])
def test_who_does_not_wait_is_not_told(state: str):
    assert told(incoming=(asks("rome", state),)) == []


def test_a_flood_of_requests_takes_a_few_lines():
    lines = told(incoming=tuple(asks(f"c{number:04}") for number in range(200)))
    assert len(lines) == 6
    assert any("195 more clusters" in each.what for each in lines)


def test_what_this_cluster_waits_for_is_told_with_the_words():
    (problem,) = told(outgoing=(asked("Waiting", "milan has not answered"),))
    assert problem.hint
    assert problem.what == f"is asked to lend: milan has not answered; words: {WORDS}"


def test_where_the_two_talk_the_reason_alone_says_what_to_do_with_the_words():
    message = f"milan agrees; compare the words with its operator: {WORDS}"
    (problem,) = told(outgoing=(replace(asked("Waiting", message), met=True),))
    assert problem.what == f"is asked to lend: {message}"


def offered(state: str, reason: str = "") -> RequestRow:
    return RequestRow("invitation-1", "rome", WORDS, state=state, reason=reason, lends=True)


def test_whom_this_cluster_dials_to_lend_to_it_is_told_as_such():
    (waits,) = told(outgoing=(offered("Waiting", "rome asks"),))
    assert waits.hint
    assert waits.what == f"is dialled to lend to it: rome asks; words: {WORDS}"
    assert "`liqod inbox`" in waits.remedy
    (failed,) = told(outgoing=(offered("Refused", "the invitation has expired"),))
    assert not failed.hint
    assert failed.what == "the offer invitation-1 to lend has failed: the invitation has expired"
    (cut,) = told(outgoing=(offered("Done", "rome.example:6446: cannot connect"),))
    assert "not there: rome.example:6446: cannot connect" in cut.what
    assert told(outgoing=(offered("Done"), offered("Denied", "no"))) == []


@pytest.mark.parametrize("state", ["Refused", "Failed"])
def test_what_failed_is_a_problem_and_says_why(state: str):
    (problem,) = told(outgoing=(asked(state, "milan shows another key"),))
    assert not problem.hint
    assert "milan shows another key" in problem.what


@pytest.mark.parametrize("state", ["Done", "Cancelled", "Denied", "Expired"])
def test_what_is_over_is_not_told(state: str):
    assert told(outgoing=(asked(state),)) == []
