"""The date of what `make wheels` builds, in a clean checkout, in a changed one, and in none."""

import os
import subprocess
from pathlib import Path

import pytest

from deploy import wheels

COMMITTED = 1_700_000_000
CHANGED = 1_700_000_500


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one file and one commit."""
    monkeypatch.delenv(wheels.EPOCH, raising=False)
    root = tmp_path / "checkout"
    (root / "liqod").mkdir(parents=True)
    write(root, "liqod/__init__.py", COMMITTED)
    date = f"{COMMITTED} +0000"
    names = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True, env={**os.environ, **names, **dates})
    return root


def write(root: Path, name: str, date: int) -> None:
    file = root / name
    file.write_text(f"{date}")
    os.utime(file, (date, date))


def test_a_clean_checkout_has_the_date_of_its_commit(
    checkout: Path, capsys: pytest.CaptureFixture[str]
):
    assert wheels.date(checkout, checkout) == COMMITTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["liqod/__init__.py", "liqod/new.py"])
def test_changes_are_named_and_have_the_date_of_the_commit(
    checkout: Path, capsys: pytest.CaptureFixture[str], name: str
):
    write(checkout, name, CHANGED)
    assert wheels.date(checkout, checkout) == COMMITTED
    assert "changed since the last commit" in capsys.readouterr().err


def test_changes_of_what_is_not_shipped_do_not_matter(
    checkout: Path, capsys: pytest.CaptureFixture[str]
):
    write(checkout, "notes.txt", CHANGED)
    assert wheels.date(checkout, checkout) == COMMITTED
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("without", ["repository", "program"])
def test_without_git_it_is_the_date_of_the_newest_file(
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    without: str,
):
    write(checkout, "liqod/__init__.py", CHANGED)
    if without == "repository":
        (checkout / ".git").rename(checkout.parent / "git")
    else:
        (checkout / ".git").rename(checkout.parent / "git")
        (checkout / ".git").touch()
        monkeypatch.setenv("PATH", "")
    assert wheels.date(checkout / "liqod", checkout) == CHANGED
    assert wheels.EPOCH in capsys.readouterr().err


def test_a_date_that_is_given_is_that(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(wheels.EPOCH, "1600000000")
    assert wheels.date(checkout, checkout) == 1_600_000_000


@pytest.mark.parametrize("given", ["yesterday", "-1", "1.5", "٣"])
def test_a_date_that_is_none_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str
):
    monkeypatch.setenv(wheels.EPOCH, given)
    target = tmp_path / "dist"
    assert wheels.main([str(target)]) == 1
    assert "give seconds since 1970" in capsys.readouterr().err
    assert not target.exists()
