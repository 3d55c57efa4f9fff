"""Logs that explain a failure: everything that runs beside a test registers where its log ends.

Clusters outlive the test for which they were started, and their logs are long: a failed test shows
those that its own fixtures have started, and those that it has started itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterator
from typing import NamedTuple

import pytest


class Source(NamedTuple):
    """Where a log ends; `owner` is the fixture that started what writes it, None is a test."""

    title: str
    read: Callable[[], str]
    owner: str | None


_sources: list[Source] = []
_owners: list[str] = []


def add(title: str, source: Callable[[], str]) -> None:
    """From now on a failed test that uses this shows `source()` under `title`."""
    _sources.append(Source(title, source, _owners[-1] if _owners else None))


def remove(title: str, source: Callable[[], str]) -> None:
    """Takes back an `add`; does nothing without one."""
    _sources[:] = [one for one in _sources if (one.title, one.read) != (title, source)]


def collect(fixtures: Collection[str]) -> list[tuple[str, str]]:
    """The titles, each with its text of this moment, for a test that uses these fixtures."""
    return [
        (one.title, one.read()) for one in _sources if one.owner is None or one.owner in fixtures
    ]


@contextlib.contextmanager
def owned_by(fixture: str) -> Iterator[None]:
    """Assigns everything that is added within to this fixture."""
    _owners.append(fixture)
    try:
        yield
    finally:
        _owners.pop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object],
) -> Generator[None, object, object]:
    """Have what is added while a fixture is set up be that fixture's.

    This module is a plugin for it: no conftest below the root is asked about a session's fixtures.
    """
    with owned_by(fixturedef.argname):
        return (yield)
