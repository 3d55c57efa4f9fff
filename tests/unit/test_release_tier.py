"""The tests of what is released run where what they depend on has changed since they passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed import beforehand, programs, releasetier, suite
from tests.testbed.errors import Unavailable

TESTS = releasetier.ROOT / "tests"


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that tells what the tier has passed with; not there yet."""
    # Below the checkout, of which what is said is a path.
    monkeypatch.setattr(releasetier, "RAN", file := tmp_path / "ran")
    monkeypatch.setattr(releasetier, "ROOT", tmp_path)
    return file


def test_it_is_due_until_it_has_passed_and_again_after_a_change(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releasetier, "digest", lambda: "one")
    assert releasetier.is_due()
    releasetier.passed()
    assert not releasetier.is_due()
    assert ran.read_text() == "one\n"
    monkeypatch.setattr(releasetier, "digest", lambda: "another")
    assert releasetier.is_due()


def test_the_hash_is_of_names_and_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releasetier, "DEPENDS_ON", ("one", "folder"))
    (tmp_path / "folder" / "__pycache__").mkdir(parents=True)
    (tmp_path / "one").write_text("1")
    (tmp_path / "folder" / "two").write_text("2")
    seen = {releasetier.digest(tmp_path)}
    (tmp_path / "folder" / "__pycache__" / "two.pyc").write_text("x")
    assert releasetier.digest(tmp_path) in seen
    (tmp_path / "folder" / "two").write_text("3")
    seen.add(releasetier.digest(tmp_path))
    (tmp_path / "folder" / "two").rename(tmp_path / "folder" / "three")
    seen.add(releasetier.digest(tmp_path))
    assert len(seen) == 3


def test_all_that_it_depends_on_is_there_and_its_own_tests_are_among_it() -> None:
    for name in releasetier.DEPENDS_ON:
        assert (releasetier.ROOT / name).exists(), name
    marked = {each for each in TESTS.rglob("test_*.py") if "mark.release" in each.read_text()}
    assert marked - {Path(__file__)} <= set(releasetier.files())
    assert len(marked) > 1


class Runs:
    """What the suite would have run.

    Attributes:
        marks: the marks of each run of pytest on real clusters.
        status: how these end.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.marks: list[str] = []
        self.status = 0
        monkeypatch.setattr(suite, "fast", lambda arguments: 0)
        monkeypatch.setattr(suite, "run", self._run)
        monkeypatch.setattr(beforehand, "running", lambda command: self)
        monkeypatch.setattr(programs, "find", self._nothing)

    def _run(self, minor: str, arguments: list[str]) -> int:
        self.marks.append(arguments[arguments.index("-m") + 1])
        return self.status

    def _nothing(self, minor: str) -> None:
        raise Unavailable("nothing is built here")

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def test_the_suite_has_it_where_it_is_due_and_says_where_it_is_not(
    ran: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(monkeypatch)
    runs.status = 1
    assert suite.main([]) == 1
    assert releasetier.is_due(), "it has not passed"
    runs.status = 0
    assert suite.main([]) == 0
    assert not releasetier.is_due()
    capfd.readouterr()
    assert suite.main([]) == 0
    said = "".join(capfd.readouterr())
    assert "nothing that the release tier depends on has changed since it passed" in said
    assert suite.main(["--release"]) == 0
    assert runs.marks == [
        suite.REAL_MARKS,
        suite.REAL_MARKS,
        f"({suite.REAL_MARKS}) and not release",
        "release",
    ]
