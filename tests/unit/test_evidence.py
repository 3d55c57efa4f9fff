"""A failed test shows the logs of what its own fixtures have started, and of no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed import evidence

TITLE = "the log of a test of logs"


def text() -> str:
    return "something ran"


@pytest.fixture
def of_a_test() -> Iterator[str]:
    yield from added("of_a_test")


@pytest.fixture(scope="module")
def of_a_file() -> Iterator[str]:
    yield from added("of_a_file")


@pytest.fixture(scope="session")
def of_the_run() -> Iterator[str]:
    yield from added("of_the_run")


def added(fixture: str) -> Iterator[str]:
    title = f"{TITLE}: {fixture}"
    evidence.add(title, text)
    yield title
    evidence.remove(title, text)


@pytest.mark.parametrize("fixture", ["of_a_test", "of_a_file", "of_the_run"])
def test_a_log_is_shown_where_its_fixture_is_used(
    fixture: str, request: pytest.FixtureRequest
) -> None:
    title = request.getfixturevalue(fixture)
    assert (title, "something ran") in evidence.collect([fixture])
    assert title not in dict(evidence.collect(["another"]))
