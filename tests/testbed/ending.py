"""Summary at the end of a run, below the logs that fill many screens.

Why each test failed; and of each that was run again, why it failed the first time: it has passed
since, or it would be among the failed, and its cause is not to be lost with that.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

REASON = 25
"""Lines of a failure's message that are shown."""
RERUN = "rerun"
"""The outcome of a try that is followed by another (pytest-rerunfailures)."""


def say(reporter: pytest.TerminalReporter) -> None:
    """Writes both sections, where there is anything to say."""
    said = reporter.getreports
    _section(reporter, "run again, and why", said(RERUN))
    _section(reporter, "why", (*said("failed"), *said("error")))


def reason(report: pytest.TestReport) -> str:
    """Why a test, or what it was set up with, failed; empty where there is nothing to tell."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr or "")


def _section(
    reporter: pytest.TerminalReporter, title: str, reports: Iterable[pytest.TestReport]
) -> None:
    found = [(each, text) for each in reports if (text := reason(each))]
    if found:
        reporter.section(title)
    for report, text in found:
        phase = "" if report.when == "call" else f" ({report.when})"
        reporter.write_line(f"{report.nodeid}{phase}:")
        for line in text.splitlines()[:REASON]:
            reporter.write_line(f"    {line[:300]}")
