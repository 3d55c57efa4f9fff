"""Steps of a procedure on stderr: one that says more of itself stays one step."""

import pytest

from liqod.cli.progressdisplay import ProgressDisplay
from liqod.runtime.progress import Step, name_of


def test_the_detail_of_a_step_is_shown_and_is_no_step_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = ProgressDisplay()
    progress("wait for milan")
    progress(Step("wait for milan", "it does not answer"))
    assert (progress.step, progress.name) == (
        "wait for milan: it does not answer",
        "wait for milan",
    )
    progress("make the gateway: of rome")
    progress("make the gateway: of milan")
    progress(Step("make the gateway: of milan", "no port is free"))
    progress.failed()
    lines = [line.rpartition(" (")[0] or line for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "  … wait for milan: it does not answer",
        "  ✓ wait for milan",
        "  ✓ make the gateway: of rome",
        "  … make the gateway: of milan: no port is free",
        "  ✗ make the gateway: of milan: no port is free",
    ]


def test_a_step_without_a_detail_is_its_name() -> None:
    assert Step("wait for milan", "") == "wait for milan"
    assert name_of("a: b") == "a: b"
    assert name_of(Step("a", "b")) == "a"
