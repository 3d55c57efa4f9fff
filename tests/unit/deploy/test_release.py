"""What a release holds, and when there is none: made of parts that hold next to nothing."""

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy import archives, chart, release
from deploy.archives import Content
from deploy.outcome import Unbuildable
from deploy.release import NAME, SUMS, Built, Files
from liqod import __version__

EPOCH = 1_700_000_000


def few(built: Built) -> Files:
    return {"one": b"1", "two": b"2"}


def top(built: Built) -> Files:
    return {"README.md": b"read me"}


PARTS = {"things": few, "": top}


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Distributions of nothing."""
    for name in ("liqod-1-py3-none-any.whl", "liqod-1.tar.gz", "liqod_simulator-1.tar.gz"):
        (tmp_path / name).write_bytes(name.encode())
    return Built(tmp_path, EPOCH)


def test_each_part_has_its_folder_and_each_file_its_sum(built: Built) -> None:
    files = release.contents(built, PARTS)
    assert files.keys() == {"things/one", "things/two", "README.md", SUMS}
    named = dict(line.split("  ")[::-1] for line in files[SUMS].decode().splitlines())
    assert named == {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != SUMS
    }


def test_the_archive_is_the_folder_and_its_bytes_are_of_the_files_alone(
    built: Built, tmp_path: Path
) -> None:
    files = release.contents(built, PARTS)
    archive = release.write(files, EPOCH, tmp_path / "dist")
    turned = dict(reversed(files.items()))
    (tmp_path / "dist" / NAME / "of-before").touch()
    again = release.write(turned, EPOCH, tmp_path / "again")
    assert archive.name == f"liqod-{__version__}.tar"
    assert archive.read_bytes() == again.read_bytes()
    with tarfile.open(archive) as opened:
        members = [each for each in opened.getmembers() if each.isfile()]
        found = {each.name: opened.extractfile(each).read() for each in members}  # type: ignore[union-attr]
        assert {each.mtime for each in opened.getmembers()} == {EPOCH}
    assert found == {f"{NAME}/{name}": data for name, data in files.items()}
    assert release.tree(tmp_path / "again" / NAME) == files
    release.write(files, EPOCH, tmp_path / "dist")
    assert release.tree(tmp_path / "dist" / NAME) == files, "nothing of a release before it"


def test_the_chart_is_packed_as_helm_reads_it(built: Built) -> None:
    (packed,) = release.helm(built).items()
    assert packed[0] == f"liqod-{__version__}.tgz"
    assert release.helm(built) == {packed[0]: packed[1]}
    with tarfile.open(fileobj=io.BytesIO(packed[1])) as opened:
        names = {each.name for each in opened.getmembers() if each.isfile()}
        about = opened.extractfile("liqod/Chart.yaml")
        assert about is not None
        assert yaml.safe_load(about)["version"] == __version__
    assert names == {f"liqod/{name}" for name in release.tree(chart.CHART)}
    assert names >= {f"liqod/{name}" for name in chart.files()}


def test_a_chart_that_is_stale_is_not_packed(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {**chart.files(), "Chart.yaml": "version: 0"}
    monkeypatch.setattr(chart, "files", lambda: made)
    with pytest.raises(Unbuildable, match=r"Chart.yaml of the chart is stale: `make chart`"):
        release.helm(built)


def test_pages_lie_in_it_with_their_pictures(built: Built) -> None:
    found = release.pages(built)
    assert {"background/architecture.md", "how-to/upgrades.md"} <= found.keys()
    assert any(name.endswith(".svg") for name in found)


@pytest.mark.long
def test_the_site_lies_in_it_and_its_bytes_are_of_the_pages_alone(built: Built) -> None:
    (packed,) = release.html(built).items()
    assert packed[0] == f"{NAME}-site.tar"
    assert release.html(built) == {packed[0]: packed[1]}
    with tarfile.open(fileobj=io.BytesIO(packed[1])) as opened:
        names = {each.name for each in opened.getmembers() if each.isfile()}
    pages = {f"{NAME}-site/docs/{name}.html" for name in ("how-to/release", "start/demo")}
    assert names >= {f"{NAME}-site/index.html", f"{NAME}-site/search.json", *pages}


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


def test_a_release_is_of_a_commit(tmp_path: Path) -> None:
    with pytest.raises(Unbuildable, match="no commit is known here"):
        release.refuse(tmp_path)
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--message", "One")
    release.refuse(tmp_path)
    (tmp_path / "file").write_text("two")
    with pytest.raises(Unbuildable, match=r"(?s)changed:\nM file\n.*DIRTY=1"):
        release.refuse(tmp_path)
    git(tmp_path, "checkout", "file")
    (tmp_path / "another").touch()
    with pytest.raises(Unbuildable, match="another"):
        release.refuse(tmp_path)


def test_of_changes_nothing_is_made_unless_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise Unbuildable("there are changes")

    def make(target: Path) -> Path:
        target.mkdir()
        archive = target / "archive"
        archive.write_bytes(b"all")
        return archive

    monkeypatch.setattr(release, "refuse", refuse)
    monkeypatch.setattr(release, "make", make)
    target = tmp_path / "dist"
    assert release.main([str(target)]) == 1
    assert "release: there are changes" in capsys.readouterr().err
    assert not target.exists()
    assert release.main([str(target), "--dirty"]) == 0
    digest = hashlib.sha256(b"all").hexdigest()
    assert capsys.readouterr().out == f"{digest}  {target}/archive\n"


def test_the_names_of_all_that_has_a_version_have_the_same(built: Built) -> None:
    named = [f"{NAME}.tar", *release.helm(built)]
    assert named == [f"liqod-{__version__}.tar", f"liqod-{__version__}.tgz"]


def test_a_tar_has_the_folders_before_what_is_in_them() -> None:
    made = archives.tar(
        {"a/b/c": Content(b"x", 0o755), "a/d": archives.link("b/c")}, EPOCH, root=""
    )
    with tarfile.open(fileobj=io.BytesIO(made)) as opened:
        found = [(each.name, oct(each.mode), each.uname) for each in opened.getmembers()]
    assert found == [
        ("a", "0o755", "root"),
        ("a/b", "0o755", "root"),
        ("a/b/c", "0o755", "root"),
        ("a/d", "0o777", "root"),
    ]
