"""What real tests need is got all at once, and what cannot be had is named."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.testbed import beforehand, programs
from tests.testbed.api import wait_until
from tests.testbed.errors import Unavailable


def test_nothing_waits_for_another() -> None:
    together = threading.Barrier(3, timeout=60)
    assert beforehand.get([together.wait] * 3) == []


def test_every_program_is_built_before_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    finders = {name for name in vars(programs) if name.startswith("find")}
    built = set()
    for name in finders - {"find_liqos"}:
        monkeypatch.setattr(programs, name, lambda *_, name=name: built.add(name))
    for step in programs.beside(["1.35"]):
        step()
    assert built == finders - {"find_liqos"}


def test_what_cannot_be_had_is_named_and_stops_nothing() -> None:
    done = threading.Event()

    def refused() -> None:
        raise Unavailable("there is no compiler")

    assert beforehand.get([refused, done.set]) == ["there is no compiler"]
    assert done.is_set()


def test_what_runs_beside_ends_with_what_it_runs_beside(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    endless = ["sh", "-c", f"sleep 600 & echo $! > {mark}; wait"]

    def interrupted() -> None:
        with beforehand.running(endless):
            while not mark.exists() or not mark.read_text().strip():
                time.sleep(0.01)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    child = Path("/proc", mark.read_text().strip(), "status")

    def ended() -> bool:
        # It may be a zombie where nobody collects orphans.
        try:
            return "State:\tZ" in child.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_until("the child to end, which was told to", ended, 60)
