"""Files with credentials: for their owner only, whatever lay there and whatever the umask is."""

import os
from pathlib import Path

import pytest

from liqod.cli import files
from liqod.errors import ConfigError
from liqod.kube import candidates


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def anybody():
    """A umask that lets everybody read."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_that_everybody_reads_becomes_private(tmp_path: Path, anybody: None):
    path = tmp_path / "k"
    path.write_text("old")
    path.chmod(0o644)
    files.write_private(path, b"secret")
    assert (path.read_bytes(), mode(path)) == (b"secret", 0o600)
    assert os.listdir(tmp_path) == ["k"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    target, path = tmp_path / "target", tmp_path / "k"
    target.write_text("another's")
    path.symlink_to(target)
    files.write_private(path, b"secret")
    assert target.read_text() == "another's"
    assert not path.is_symlink()
    assert (path.read_bytes(), mode(path)) == (b"secret", 0o600)


def test_a_draft_that_was_laid_ready_is_not_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its name cannot be guessed; if it could, what is there would still not be taken."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "0")
    trap = tmp_path / "trap"
    (tmp_path / ".k.0").symlink_to(trap)
    with pytest.raises(ConfigError, match="cannot write"):
        files.write_private(tmp_path / "k", b"secret")
    assert not trap.exists()
    assert not (tmp_path / "k").exists()


def test_two_processes_of_one_host_and_id_have_two_names():
    assert candidates.new_identity() != candidates.new_identity()
