"""The lock file of wheels names what liqod runs with, and nothing else is taken."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from deploy import lock
from deploy.outcome import Undownloadable

PINNED = re.compile(r"^(\S+)==(\S+?)(?: \\)?$", re.MULTILINE)
HERE = lock.Target("3.11", "x86_64")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels in place of the cache, and a lock file that names one of them."""
    folder = tmp_path / "kept"
    monkeypatch.setattr(lock, "LOCK", tmp_path / "requirements.lock")
    return folder


def name_in_lock(digest: str) -> None:
    lock.LOCK.write_text(f"nothing==1 \\\n    --hash=sha256:{digest}\n")


def answer(monkeypatch: pytest.MonkeyPatch, stderr: str) -> None:
    """Have pip fail."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)


def test_the_lock_file_has_what_the_project_asks_for():
    pinned = dict(PINNED.findall(lock.LOCK.read_text()))
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(each) for each in project["dependencies"]]
    assert asked
    for each in asked:
        assert pinned[each.name.lower().replace("_", "-")] in each.specifier, each.name
    assert len(lock.hashes()) >= len(pinned)


def test_wheels_that_are_kept_are_not_downloaded_again(kept: Path, monkeypatch: pytest.MonkeyPatch):
    name_in_lock("0" * 64)
    monkeypatch.setattr(lock, "_download", lambda _, folder: folder.mkdir(parents=True))
    assert lock.wheels(HERE, kept) == []
    monkeypatch.setattr(lock, "_download", pytest.fail)
    assert lock.wheels(HERE, kept) == []


def test_a_wheel_that_was_changed_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch):
    def download(_: lock.Target, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "nothing-1-py3-none-any.whl").write_bytes(b"changed")

    name_in_lock("0" * 64)
    monkeypatch.setattr(lock, "_download", download)
    with pytest.raises(Undownloadable, match=r"was changed .*: remove .*kept"):
        lock.wheels(HERE, kept)


def test_a_wheel_with_another_hash_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch):
    name_in_lock("0" * 64)
    answer(monkeypatch, "Expected sha256 00\n             Got        ff")
    with pytest.raises(Undownloadable, match=r"not what deploy/requirements\.lock names"):
        lock.wheels(HERE, kept)
    assert list(kept.iterdir()) == []


def test_where_nothing_is_reached_it_says_what_to_see_to(
    kept: Path, monkeypatch: pytest.MonkeyPatch
):
    name_in_lock("0" * 64)
    answer(monkeypatch, "ERROR: Could not find a version")
    with pytest.raises(Undownloadable, match=r"(?s)ERROR: Could not .* from PyPI.*try again"):
        lock.wheels(HERE, kept)


def test_pip_compares_the_hashes_of_what_it_takes(kept: Path, tmp_path: Path):
    """With pip itself, from a folder in place of PyPI."""
    wheel = tmp_path / "nothing-1-py3-none-any.whl"
    code = (
        "import sys, zipfile; wheel = zipfile.ZipFile(sys.argv[1], 'w'); "
        "wheel.writestr('nothing-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: nothing\\n"
        "Version: 1\\n'); wheel.writestr('nothing-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\n')"
    )
    subprocess.run([sys.executable, "-c", code, wheel], check=True)
    name_in_lock("0" * 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(tmp_path))
        with pytest.raises(Undownloadable, match="so it is not used"):
            lock.wheels(HERE, kept)
