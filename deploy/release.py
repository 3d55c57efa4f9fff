"""``make release``: all that an installation takes where there is no internet, of one version.

Run as `python -m deploy.release FOLDER [--dirty]`. It makes a folder and an archive of that, both
with the version in their names: wheels with all that they need, the packages for Debian, images,
the chart, the pages and the site that is made of these. The same commit gives the same bytes.
:data:`PARTS` decides what is in it.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from deploy import archives, chart, deb, image, lock, site, wheels
from deploy.archives import Content
from deploy.outcome import Unbuildable, show
from liqod import __version__

ROOT: Final = Path(__file__).parents[1]
NAME: Final = f"liqod-{__version__}"
SUMS: Final = "SHA256SUMS"
DIRTY: Final = "--dirty"

Files = dict[str, bytes]
"""What each file holds, by its name."""


class Built(NamedTuple):
    """What a release is made of.

    Attributes:
        distributions: the folder of both distributions, as `make wheels` makes them.
        epoch: the date of all of it, in seconds since 1970.
    """

    distributions: Path
    epoch: int

    @property
    def own(self) -> Path:
        """The wheel of liqod itself."""
        (found,) = self.distributions.glob("liqod-*.whl")
        return found


def python(built: Built) -> Files:
    """Both distributions, and the wheels that liqod needs on each machine that has a package."""
    found = list(built.distributions.iterdir())
    for target in lock.TARGETS:
        found += lock.wheels(target)
    return {each.name: each.read_bytes() for each in found}


def debian(built: Built) -> Files:
    """A package for each release of Debian and each architecture."""
    made = {}
    for release in deb.RELEASES:
        for architecture, machine in deb.ARCHITECTURES.items():
            package = deb.Package(release, architecture)
            locked = lock.wheels(lock.Target(package.python, machine))
            made[package.file] = deb.assemble(package, built.own, locked, built.epoch)
    return made


def images(built: Built) -> Files:
    """The images for each architecture, with the lists of what is in them."""
    with tempfile.TemporaryDirectory(prefix="liqod-images-") as name:
        for architecture in deb.ARCHITECTURES:
            parts = image.gathered(architecture, built.own)
            layers = image.layers(parts, built.epoch)
            image.written(Path(name), architecture, parts, layers, built.epoch)
        return tree(Path(name))


def helm(built: Built) -> Files:
    """The chart, as `helm package` would name it."""
    stale = [name for name, text in chart.files().items() if _read(chart.CHART / name) != text]
    if stale:
        raise Unbuildable(f"{', '.join(stale)} of the chart is stale: `make chart` mends it")
    files = {f"liqod/{name}": Content(data) for name, data in tree(chart.CHART).items()}
    return {f"{NAME}.tgz": archives.tar_gz(files, built.epoch)}


def pages(built: Built) -> Files:
    """The pages, with their pictures."""
    return tree(ROOT / "docs")


def html(built: Built) -> Files:
    """The pages as a site that reads without a server, in an archive."""
    with tempfile.TemporaryDirectory(prefix="liqod-pages-") as name:
        site.build(ROOT, Path(name) / "site")
        found = tree(Path(name) / "site")
    packed = {f"{NAME}-site/{path}": Content(data) for path, data in found.items()}
    return {f"{NAME}-site.tar": archives.tar(packed, built.epoch, root="")}


def about(built: Built) -> Files:
    """What lies on top."""
    return {name: (ROOT / name).read_bytes() for name in ("README.md", "CHANGELOG.md", "LICENSE")}


PARTS: Final[Mapping[str, Callable[[Built], Files]]] = {
    "wheels": python,
    "deb": debian,
    "images": images,
    "chart": helm,
    "docs": pages,
    "site": html,
    "": about,
}
"""What is in a release, by the folder in which it lies."""


def tree(folder: Path) -> Files:
    """All files below a folder, by their paths in it, without those that begin with a dot."""
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    names = {each: each.relative_to(folder) for each in found}
    shown = {each: name for each, name in names.items() if not _is_hidden(name)}
    return {name.as_posix(): each.read_bytes() for each, name in shown.items()}


def _is_hidden(name: Path) -> bool:
    return any(part.startswith(".") for part in name.parts)


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def refuse(root: Path = ROOT) -> None:
    """Raise where a release would not be of a commit.

    Raises:
        Unbuildable: no commit is known, or something was changed since.
    """
    if not wheels.git(root, "log", "-1", "--format=%H"):
        raise Unbuildable("no commit is known here: `make release DIRTY=1` does without")
    changed = wheels.git(root, "status", "--porcelain")
    if changed:
        raise Unbuildable(
            f"since the last commit was changed:\n{changed}\ncommit it, or have it in the release "
            "by `make release DIRTY=1`"
        )


def contents(built: Built, parts: Mapping[str, Callable[[Built], Files]] = PARTS) -> Files:
    """All files of a release by their paths in it, with their sums.

    The parts are made side by side: packages and images take minutes, most of it to be pressed.

    Raises:
        Unbuildable: a part cannot be made of what there is.
        Undownloadable: a wheel cannot be had.
    """
    with ThreadPoolExecutor(len(parts)) as pool:
        making = {folder: pool.submit(make, built) for folder, make in parts.items()}
        files = {
            f"{folder}/{name}" if folder else name: data
            for folder, made in making.items()
            for name, data in made.result().items()
        }
    sums = (f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return {**files, SUMS: "".join(sums).encode()}


def write(files: Files, epoch: int, target: Path) -> Path:
    """Write a release into a folder of its name, and the archive of that beside it; the archive."""
    folder = target / NAME
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    archive = target / f"{NAME}.tar"
    # Not pressed: what is large in it is already.
    named = {f"{NAME}/{name}": Content(data) for name, data in files.items()}
    archive.write_bytes(archives.tar(named, epoch, root=""))
    return archive


def make(target: Path) -> Path:
    """Build a release into a folder; the archive.

    Raises:
        Unbuildable: something could not be built.
        Undownloadable: a wheel could not be had.
    """
    for each in lock.TARGETS:
        # Three parts, made side by side, would each download what is not there yet.
        lock.wheels(each)
    with tempfile.TemporaryDirectory(prefix="liqod-release-") as name:
        folder = Path(name)
        made = wheels.make(folder)
        (source,) = (each for each in made if each.match("liqod-*.tar.gz"))
        built = Built(folder, wheels.date_of(source))
        return write(contents(built), built.epoch, target)


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, and print the archive with its SHA-256."""
    folder = next(each for each in arguments if each != DIRTY)

    def made() -> list[Path]:
        if DIRTY not in arguments:
            refuse()
        return [make(Path(folder))]

    return show("release", made)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
