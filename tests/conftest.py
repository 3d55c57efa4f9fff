"""What every test shares: the fixtures of the real clusters and what a missing one means."""

from __future__ import annotations

import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.testbed import evidence, fixtures, order
from tests.testbed.fixtures import (  # noqa: F401 - pytest finds fixtures by these names
    control_plane,
    control_planes,
    namespace,
    networks,
    new_control_plane,
    real_node_cluster,
    viewers,
)

# What takes how long says nothing on a machine that has other work, and these tests judge values.
settings.register_profile("values", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("values")

REASON = 25
"""Lines of a failure's message that its end in the summary shows."""


def pytest_configure() -> None:
    """Ctrl-C reaches what tests start, also where a shell has put this run into the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See `order.arrange`."""
    order.arrange(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the selected tests need before the clock of the first one runs."""
    if not session.config.option.collectonly:
        fixtures.prepare(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object],
) -> Generator[None, object, object]:
    """See `evidence.owned_by`."""
    with evidence.owned_by(fixturedef.argname):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """See `fixtures.judge`."""
    report = yield
    fixtures.judge(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says once more why each test failed, below the logs that fill many screens."""
    said = terminalreporter.getreports
    reasons = [
        (report.nodeid, crash.message)
        for report in (*said("failed"), *said("error"))
        if (crash := getattr(report.longrepr, "reprcrash", None)) is not None
    ]
    if reasons:
        terminalreporter.section("why")
    for name, message in reasons:
        terminalreporter.write_line(f"{name}:")
        for line in message.splitlines()[:REASON]:
            terminalreporter.write_line(f"    {line[:300]}")
