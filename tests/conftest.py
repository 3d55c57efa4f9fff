"""What every test shares: the fixtures of the real clusters and what a missing one means."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.testbed import fixtures, order
from tests.testbed.fixtures import (  # noqa: F401 - pytest finds fixtures by these names
    control_plane,
    control_planes,
    namespace,
    new_control_plane,
    real_node_cluster,
    viewers,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See `order.arrange`."""
    order.arrange(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the selected tests need before the clock of the first one runs."""
    if not session.config.option.collectonly:
        fixtures.prepare(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See `fixtures.judge`."""
    report = yield
    fixtures.judge(item, report)
    return report
