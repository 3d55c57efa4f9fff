"""``make wheels``: liqod and liqod-simulator as source distributions and wheels.

Run as `python -m deploy.wheels FOLDER`. What is built is the checkout as it stands, without what is
left there of other builds, and with the man pages. Its date is that of the last commit, so that the
same tools make the same bytes of one commit each time.
"""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from deploy import manual
from deploy.outcome import Unbuildable, show

ROOT: Final = Path(__file__).parents[1]
SHIPPED: Final = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "liqod",
    "tui",
    "simulator",
)
"""The files and folders of which the distributions are made."""
LEFTOVERS: Final = ("__pycache__", "*.pyc", "*.egg-info", "build", "dist", ".*")
EPOCH: Final = "SOURCE_DATE_EPOCH"
EARLIEST: Final = 315532800
"""The beginning of 1980, before which a wheel, which is a ZIP file, has no dates."""


def make(target: Path) -> list[Path]:
    """Build both distributions into a folder; the files, in the order of their names.

    Raises:
        Unbuildable: a tool is missing, the date is none, or the build failed.
    """
    with tempfile.TemporaryDirectory(prefix="liqod-wheels-") as name:
        folder = Path(name)
        checkout = folder / "checkout"
        _copy(checkout)
        epoch = max(date(checkout), EARLIEST)
        _add_pages(checkout / "man", epoch)
        _level(checkout, epoch)
        built = folder / "built"
        for source in (checkout, checkout / "simulator"):
            _build(source, built, epoch)
        target.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(each, target)) for each in sorted(built.iterdir())]


def _copy(checkout: Path) -> None:
    """Copy what is shipped; the simulator is a distribution of its own and has the licence too."""
    checkout.mkdir()
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns(*LEFTOVERS))
        else:
            shutil.copy2(source, checkout)
    shutil.copy2(ROOT / "LICENSE", checkout / "simulator")


def date(copied: Path, root: Path = ROOT) -> int:
    """The date of what is built, in seconds since 1970; says where it is no commit's.

    Args:
        copied: a copy of what is shipped, with the dates of its files.
        root: the checkout.

    Raises:
        Unbuildable: a date was given that is none.
    """
    given = os.environ.get(EPOCH, "")
    if given:
        if not (given.isascii() and given.isdecimal()):
            raise Unbuildable(f"{EPOCH}={given!r} is no date: give seconds since 1970, or unset it")
        return int(given)
    committed = git(root, "log", "-1", "--format=%ct")
    if not committed:
        _say(f"no commit is known: the date is that of the newest file; {EPOCH} gives another")
        return max(int(each.stat().st_mtime) for each in copied.rglob("*") if each.is_file())
    if git(root, "status", "--porcelain", "--", *SHIPPED):
        _say("what was changed since the last commit is built, too, and has the date of that")
    return int(committed)


def date_of(source: Path) -> int:
    """The date that a source distribution has, in seconds since 1970."""
    with tarfile.open(source) as archive:
        return int(archive.getmembers()[0].mtime)


def revision(root: Path = ROOT) -> str:
    """The commit that is built; none without git, or where what is shipped was changed since."""
    changed = git(root, "status", "--porcelain", "--", *SHIPPED)
    return "" if changed else git(root, "rev-parse", "HEAD")


def git(root: Path, *words: str) -> str:
    """The output of git; nothing where this is no checkout of git's, or there is no git."""
    if not (root / ".git").exists() or shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _add_pages(folder: Path, epoch: int) -> None:
    folder.mkdir()
    for name, text in manual.pages(epoch).items():
        (folder / name).write_text(text)


def _level(folder: Path, epoch: int) -> None:
    """Give each file the same rights and date, whoever has made the checkout."""
    for each in folder.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
        os.utime(each, (epoch, epoch))


def _build(source: Path, built: Path, epoch: int) -> None:
    """Build one source distribution, and of that the wheel."""
    before = set(built.glob("*.tar.gz"))
    _run_build("--sdist", source, built, epoch)
    (packed,) = set(built.glob("*.tar.gz")) - before
    _repack(packed, epoch)
    unpacked = source.with_name(f"{source.name}-unpacked")
    with tarfile.open(packed) as archive:
        archive.extractall(unpacked, filter="data")
    (inner,) = unpacked.iterdir()
    _run_build("--wheel", inner, built, epoch)


def _run_build(what: str, source: Path, built: Path, epoch: int) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", what, "--outdir", str(built)]
    done = subprocess.run(
        [*command, str(source)],
        cwd=source.parent,
        env={**os.environ, EPOCH: str(epoch)},
        umask=0o022,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Unbuildable(f"{done.stdout.strip()}\n`make wheels` brings the tools that are needed")


def _repack(packed: Path, epoch: int) -> None:
    """Write a source distribution anew, in the order of names and with nobody's traces."""
    with tarfile.open(packed) as archive:
        members = sorted(archive.getmembers(), key=lambda each: each.name)
        files = {each.name: archive.extractfile(each) for each in members}
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as anew:
            for each in members:
                member = tarfile.TarInfo(each.name)
                member.type, member.size, member.mtime = each.type, each.size, epoch
                member.mode = 0o755 if each.isdir() else 0o644
                anew.addfile(member, files[each.name])
    with packed.open("wb") as file, gzip.GzipFile("", "wb", 9, file, epoch) as pressed:
        pressed.write(written.getvalue())


def _say(text: str) -> None:
    sys.stderr.write(f"wheels: {text}\n")


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, and print the files with their SHA-256."""
    return show("wheels", lambda: make(Path(*arguments[:1])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
