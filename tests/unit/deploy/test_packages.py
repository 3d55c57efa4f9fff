"""The lock file of Debian's packages names what images are made of, and nothing else is taken."""

import hashlib
from pathlib import Path

import pytest

from deploy import packages
from deploy.outcome import Undownloadable
from tests.unit.deploy.test_image import write_package

DATA = b"a package"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the cache, and a lock file that names one package."""
    monkeypatch.setattr(packages, "LOCK", tmp_path / "packages.lock")
    packages.LOCK.write_text(f"# how\nlibc6 1 amd64 {DIGEST}\nlibc6 1 arm64 {'0' * 64}\n")
    return tmp_path / "kept"


def serve(monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[str]:
    """Have apt bring this; what it is asked for."""
    asked: list[str] = []

    def apt(_: str, folder: Path, *words: str) -> str:
        asked.extend(words)
        (folder / "libc6_1_amd64.deb").write_bytes(data)
        return ""

    monkeypatch.setattr(packages, "_apt", apt)
    return asked


@pytest.mark.parametrize("architecture", packages.ARCHITECTURES)
def test_the_lock_file_has_every_package_for_every_machine(architecture: str):
    named = [each.name for each in packages.locked(architecture)]
    assert sorted(named) == sorted((*packages.BASE, *packages.NETWORK))


def test_a_package_is_downloaded_once(kept: Path, monkeypatch: pytest.MonkeyPatch):
    asked = serve(monkeypatch, DATA)
    [file] = packages.packages("amd64", ["libc6"], kept)
    assert asked == ["download", "libc6=1"]
    monkeypatch.setattr(packages, "_apt", pytest.fail)
    assert packages.packages("amd64", ["libc6"], kept) == [file]
    assert packages.packages("amd64", [], kept) == []


def test_another_package_than_the_named_one_is_refused(kept: Path, monkeypatch: pytest.MonkeyPatch):
    serve(monkeypatch, b"another")
    with pytest.raises(Undownloadable, match=r"libc6 1 is not what deploy/packages\.lock names"):
        packages.packages("amd64", ["libc6"], kept)
    assert not [*(kept / "packages").glob("*.deb")]


def test_a_package_that_was_changed_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch):
    serve(monkeypatch, DATA)
    [file] = packages.packages("amd64", ["libc6"], kept)
    file.write_bytes(b"changed")
    with pytest.raises(Undownloadable, match="was changed: remove it"):
        packages.packages("amd64", ["libc6"], kept)


@pytest.mark.parametrize(("missing", "said"), [("SOURCES", "sources of apt"), ("PATH", "apt-get")])
def test_on_another_system_it_says_where_to_build(
    kept: Path, monkeypatch: pytest.MonkeyPatch, missing: str, said: str
):
    if missing == "SOURCES":
        monkeypatch.setattr(packages, "SOURCES", ())
    else:
        monkeypatch.setattr(packages, "SOURCES", (str(packages.LOCK),))
        monkeypatch.setenv("PATH", "")
    with pytest.raises(Undownloadable, match=f"no {said}.*build the image on Debian 12"):
        packages.packages("amd64", ["libc6"], kept)


def test_programs_and_libraries_of_the_root_lie_below_usr(tmp_path: Path):
    package = write_package(tmp_path, "x", "bin/a", "sbin/b", "lib64/c", "lib/d/e", "etc/f")
    found = [name for name, _ in packages.unpacked(package)]
    assert found == ["usr/bin/a", "etc/f", "usr/lib/d/e", "usr/lib64/c", "usr/sbin/b"]
    assert packages.fields(package)["Version"] == "1:2+b3"
