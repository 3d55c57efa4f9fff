"""``make deb``: liqod as a package for one Debian release, with the Python packages it needs.

Run as `python -m deploy.deb FOLDER [RELEASE [ARCHITECTURE]]`. It takes liqod's own wheel as `make
wheels` builds it, the other wheels by their hashes, and nothing of this machine, so that the same
commit gives the same bytes everywhere. What is written by hand is in the folder `debian` beside
this file; the units are those in `systemd`.
"""

import gzip
import hashlib
import platform
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Final, NamedTuple

from deploy import environment, lock, wheels
from deploy.archives import Content, ar, folders, link, tar_xz, text
from deploy.environment import Named
from deploy.outcome import Unbuildable, show
from liqod import __version__
from liqod.cli import completion

ROOT: Final = Path(__file__).parents[1]
WRITTEN: Final = Path(__file__).with_name("debian")
UNITS: Final = ROOT / "systemd"
COMPLETIONS: Final[Mapping[str, str]] = {
    "bash": "usr/share/bash-completion/completions/liqod",
    "fish": "usr/share/fish/vendor_completions.d/liqod.fish",
    "zsh": "usr/share/zsh/vendor-completions/_liqod",
}
SCRIPTS: Final = ("postinst", "prerm", "postrm")
ELSEWHERE: Final = "/opt/liqod/bin/liqod"
"""The program of the units as they are in the checkout."""


class Release(NamedTuple):
    """A release of Debian.

    Attributes:
        number: its number.
        python: the minor version of its Python.
    """

    number: int
    python: str


RELEASES: Final[Mapping[str, Release]] = {
    "bookworm": Release(12, "3.11"),
    "trixie": Release(13, "3.13"),
}
ARCHITECTURES: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of each machine, and the machine as ``uname -m`` names it."""


class Package(NamedTuple):
    """What a package is of, and for.

    Attributes:
        release: the release of Debian.
        architecture: Debian's name of the machine.
        version: of liqod.
    """

    release: str
    architecture: str
    version: str = __version__

    @property
    def python(self) -> str:
        """The minor version of Python that it runs with."""
        return RELEASES[self.release].python

    @property
    def full_version(self) -> str:
        """The version as Debian compares it: newer on a newer release."""
        return f"{self.version}+deb{RELEASES[self.release].number}"

    @property
    def file(self) -> str:
        """The file's name."""
        return f"liqod_{self.full_version}_{self.architecture}.deb"

    @property
    def depends(self) -> str:
        """The packages that it cannot do without."""
        major, _, minor = self.python.partition(".")
        return ", ".join(
            (
                f"python3 (>= {self.python}~), python3 (<< {major}.{int(minor) + 1}~)",
                f"libc6 (>= 2.{lock.GLIBC})",
                "libgcc-s1, libstdc++6, init-system-helpers (>= 1.52), passwd",
                "systemd | systemd-standalone-sysusers | systemd-sysusers",
            )
        )


def maintainer() -> str:
    """Who is written to about the package, as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [found] = project["maintainers"]
    return f"{found['name']} <{found['email']}>"


def here() -> tuple[str, str]:
    """The release and the architecture of this machine; an empty name for what Debian has not."""
    try:
        release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        release = ""
    named = {machine: name for name, machine in ARCHITECTURES.items()}
    return release, named.get(platform.machine(), "")


def chosen(release: str = "", architecture: str = "") -> Package:
    """The package for a release and an architecture; for this machine's where none is named.

    Raises:
        Unbuildable: there is none for these.
    """
    ours = here()
    release, architecture = release or ours[0], architecture or ours[1]
    for what, name, known in (
        ("RELEASE", release, RELEASES),
        ("ARCH", architecture, ARCHITECTURES),
    ):
        if name not in known:
            raise Unbuildable(
                f"there is no package for {name or 'this machine'}: name one by {what}=, of "
                f"{', '.join(known)}"
            )
    return Package(release, architecture)


def make(package: Package, target: Path) -> Path:
    """Build a package into a folder; the file.

    Raises:
        Unbuildable: liqod's own wheel could not be built.
        Undownloadable: another wheel could not be had.
    """
    locked = lock.wheels(lock.Target(package.python, ARCHITECTURES[package.architecture]))
    with tempfile.TemporaryDirectory(prefix="liqod-deb-") as name:
        built = wheels.make(Path(name))
        (own,) = (each for each in built if each.match("liqod-*.whl"))
        (source,) = (each for each in built if each.match("liqod-*.tar.gz"))
        made = assemble(package, own, locked, wheels.date_of(source))
    target.mkdir(parents=True, exist_ok=True)
    file = target / package.file
    file.write_bytes(made)
    return file


def assemble(package: Package, own: Path, locked: list[Path], epoch: int) -> bytes:
    """The bytes of a package.

    Args:
        package: which one.
        own: liqod's own wheel.
        locked: the other wheels.
        epoch: its date, in seconds since 1970.
    """
    files = dict(environment.marks(package.python))
    for wheel in (*locked, own):
        files.update(environment.unpacked(wheel, package.python))
    files.update(_pages(own))
    files.update(environment.programs())
    files.update(_completions())
    files.update(_units())
    files.update(_documents(package, epoch))
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar_xz(dict(_control(package, files)), epoch),
        "data.tar.xz": tar_xz(files, epoch),
    }
    return ar(members, epoch)


def _pages(own: Path) -> Named:
    """The man pages, of which liqod's wheel has those of the commands."""
    folder = "usr/share/man/man1"
    with zipfile.ZipFile(own) as archive:
        for name in archive.namelist():
            if "/man/man1/" in name and name.endswith(".1"):
                file = name.rpartition("/")[2]
                yield f"{folder}/{file}.gz", _pressed(archive.read(name))
    for program in environment.PROGRAMS:
        if program != "liqod":
            yield f"{folder}/{program}.1.gz", link("liqod.1.gz")


def _pressed(data: bytes) -> Content:
    return Content(gzip.compress(data, 9, mtime=0))


def _completions() -> Named:
    for shell, path in COMPLETIONS.items():
        yield path, text(completion.script(shell).rstrip() + "\n")


def _units() -> Named:
    for each in sorted(UNITS.glob("*.service")):
        unit = each.read_text().replace(ELSEWHERE, "/usr/bin/liqod")
        yield f"usr/lib/systemd/system/{each.name}", text(unit)
    for each in sorted(UNITS.glob("*.conf")):
        yield f"usr/share/doc/liqod/examples/{each.name}", text(each.read_text())
    yield "usr/lib/sysusers.d/liqod.conf", text((WRITTEN / "sysusers").read_text())
    yield "etc/liqod/liqod.toml", text((WRITTEN / "liqod.toml").read_text())


def _documents(package: Package, epoch: int) -> Named:
    folder = "usr/share/doc/liqod"
    entry = (
        f"liqod ({package.full_version}) {package.release}; urgency=medium\n\n"
        "  * CHANGELOG.md.gz in this folder has what changed.\n\n"
        f" -- {maintainer()}  {formatdate(epoch)}\n"
    )
    yield f"{folder}/changelog.gz", _pressed(entry.encode())
    yield f"{folder}/CHANGELOG.md.gz", _pressed((ROOT / "CHANGELOG.md").read_bytes())
    yield f"{folder}/copyright", text((WRITTEN / "copyright").read_text())
    overrides = (WRITTEN / "lintian-overrides").read_text()
    yield "usr/share/lintian/overrides/liqod", text(overrides)


def _control(package: Package, files: Mapping[str, Content]) -> Named:
    # As dpkg counts it: each file in whole kibibytes, and one for each folder and link.
    sizes = [1 if each.link else -(-len(each.data) // 1024) for each in files.values()]
    control = (WRITTEN / "control").read_text()
    yield (
        "control",
        text(
            control.format(
                version=package.full_version,
                architecture=package.architecture,
                maintainer=maintainer(),
                size=sum(sizes) + len(folders(files)),
                depends=package.depends,
            )
        ),
    )
    conffiles = [f"/{name}\n" for name in sorted(files) if name.startswith("etc/")]
    yield "conffiles", text("".join(conffiles))
    sums = {
        name: hashlib.md5(each.data, usedforsecurity=False).hexdigest()
        for name, each in sorted(files.items())
        if not each.link and not name.startswith("etc/")
    }
    yield "md5sums", text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    for name in SCRIPTS:
        yield name, text((WRITTEN / name).read_text(), 0o755)


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, and print the file with its SHA-256."""
    folder, *rest = arguments
    return show("deb", lambda: [make(chosen(*rest), Path(folder))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
