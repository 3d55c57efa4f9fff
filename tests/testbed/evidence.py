"""What explains a failure: everything that runs beside a test registers where its log ends."""

from __future__ import annotations

from collections.abc import Callable

_sources: list[tuple[str, Callable[[], str]]] = []


def add(title: str, source: Callable[[], str]) -> None:
    """From now on a failed test shows `source()` under `title`."""
    _sources.append((title, source))


def remove(title: str, source: Callable[[], str]) -> None:
    """Takes back an `add`; does nothing without one."""
    if (title, source) in _sources:
        _sources.remove((title, source))


def collect() -> list[tuple[str, str]]:
    """Every title with its text of this moment."""
    return [(title, source()) for title, source in _sources]
