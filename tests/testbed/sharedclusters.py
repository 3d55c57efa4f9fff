"""Ends the clusters that a worker's files share before its next file, if that needs them no more.

A worker has all its files on the same shared clusters one after the other (`order.chosen`), so what
its next file does not need no later one will. Clusters that stood until the end of the run would
take processor time and memory from the tests of all workers.
"""

from __future__ import annotations

import os

import pytest
from _pytest.fixtures import TopRequest

from tests.testbed import order


def end_unneeded(item: pytest.Item, following: pytest.Item | None) -> None:
    """Ends what the file of this test needs and that of the next one does not; who asks for it
    all the same has it made again."""
    if following is None or following.path == item.path:
        return
    # pytest has nothing public that ends a fixture of the run before its end.
    request = TopRequest(item, _ispytest=True)  # type: ignore[arg-type]
    for name in _needed(item) - _needed(following):
        for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
            fixture.finish(request)  # type: ignore[arg-type]


def _needed(item: pytest.Item) -> frozenset[str]:
    return order.needed(os.path.relpath(item.path, order.TESTS))
