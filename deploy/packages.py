"""``deploy/packages.lock``: Debian's packages of which the image is made, each by its hash.

`python -m deploy.packages` writes it anew, of what Debian 12 has today, by apt. `packages` has
those of one architecture, and none that the file does not name; `unpacked` has the files of one.
"""

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from deploy import outcome
from deploy.archives import AR_HEAD, Content
from deploy.lock import cache
from deploy.outcome import Undownloadable

LOCK: Final = Path(__file__).with_name("packages.lock")
ARCHITECTURES: Final = ("amd64", "arm64")
BASE: Final = (
    *("base-files", "ca-certificates", "netbase", "tzdata"),
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libc6", "libgcc-s1", "zlib1g", "libssl3", "libbz2-1.0", "liblzma5"),
    *("libcrypt1", "libexpat1", "libffi8", "libuuid1", "libsqlite3-0"),
)
"""What Python and TLS need: apt would bring a shell and Perl along."""
NETWORK: Final = (
    *("wireguard-go", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libxtables12"),
    *("libjansson4", "libgmp10", "libedit2", "libbsd0", "libmd0", "libtinfo6"),
)
"""What joined networks need: nft, and WireGuard for nodes whose kernel has none."""
SOURCES: Final = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
HEADER: Final = (
    "# Written by `python -m deploy.packages`: package, version, architecture, SHA-256.\n"
)
FAILED: Final = """\
{reason}
Some of Debian's packages could not be had. apt-get gets them from the mirror that this machine \
uses, which has to be one of Debian 12: see whether `apt-get update` works. Where the mirror has \
newer versions only, write deploy/packages.lock anew by `python -m deploy.packages`."""


class Locked(NamedTuple):
    """A line of the lock file."""

    name: str
    version: str
    architecture: str
    sha256: str


def locked(architecture: str) -> list[Locked]:
    """The packages that the lock file names for an architecture."""
    lines = (line.split() for line in LOCK.read_text().splitlines() if not line.startswith("#"))
    return [each for each in (Locked(*words) for words in lines) if each[2] == architecture]


def packages(architecture: str, names: Sequence[str], kept: Path | None = None) -> list[Path]:
    """The packages of these names, in the order of the lock file; each is downloaded once.

    Args:
        architecture: Debian's name of the machine.
        names: of packages.
        kept: the folder that keeps them.

    Raises:
        Undownloadable: one could not be had, or is not what the lock file names.
    """
    folder = (kept or cache()) / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        folder / f"{each.sha256}.deb": each for each in locked(architecture) if each.name in names
    }
    missing = [each for file, each in wanted.items() if not file.is_file()]
    if missing:
        _download(architecture, missing, folder)
    for file, each in wanted.items():
        if hashlib.sha256(file.read_bytes()).hexdigest() != each.sha256:
            raise Undownloadable(f"{file} was changed: remove it, and try again")
    return list(wanted)


def _download(architecture: str, missing: list[Locked], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".packages-", dir=folder) as scratch:
        names = [f"{each.name}={each.version}" for each in missing]
        _apt(architecture, Path(scratch), "download", *names)
        got = {hashlib.sha256(x.read_bytes()).hexdigest(): x for x in Path(scratch).glob("*.deb")}
        for each in missing:
            if each.sha256 not in got:
                differs = f"{each.name} {each.version} is not what deploy/packages.lock names"
                raise Undownloadable(
                    f"{differs}, so it is not used: another mirror may have the right one"
                )
            got[each.sha256].rename(folder / f"{each.sha256}.deb")


def _apt(architecture: str, folder: Path, *words: str) -> str:
    """The output of apt-get with indices of its own, of which this machine's apt sees nothing."""
    source = next((each for each in SOURCES if Path(each).is_file()), None)
    if source is None:
        raise Undownloadable("this machine has no sources of apt: build the image on Debian 12")
    for each in ("lists/partial", "cache/archives/partial"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::State::status": "/dev/null",
        "Dir::Etc::sourcelist": source,
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
    }
    command = ["apt-get", "-q", *(f"-o{name}={value}" for name, value in options.items())]
    _run([*command, "update"], folder)
    return _run([*command, *words], folder)


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        reason = "this machine has no apt-get: build the image on Debian 12"
        raise Undownloadable(reason) from None
    if done.returncode != 0:
        raise Undownloadable(FAILED.format(reason=done.stderr.strip()))
    return done.stdout


def write() -> str:
    """The text of a lock file: the newest versions that the mirror has.

    Raises:
        Undownloadable: the mirror lacks one.
    """
    lines = [HEADER]
    for architecture in ARCHITECTURES:
        with tempfile.TemporaryDirectory(prefix="liqod-packages-") as name:
            said = _apt(architecture, Path(name), "download", "--print-uris", *BASE, *NETWORK)
        for file, digest in sorted(re.findall(r"^'\S+' (\S+)\.deb \d+ SHA256:(\w+)$", said, re.M)):
            package, version, _ = file.split("_")
            lines.append(f"{package} {version.replace('%3a', ':')} {architecture} {digest}\n")
    return "".join(lines)


def unpacked(package: Path) -> Iterator[tuple[str, Content]]:
    """The files of a package, with programs and libraries below ``usr`` alone."""
    with tarfile.open(fileobj=io.BytesIO(_member(package, "data.tar"))) as archive:
        for each in archive:
            name = each.name.removeprefix("./")
            name = f"usr/{name}" if name.startswith(("bin/", "lib", "sbin/")) else name
            if each.issym():
                yield name, Content(each.linkname.encode(), 0o777, link=True)
            elif (file := archive.extractfile(each)) is not None:
                yield name, Content(file.read(), each.mode & 0o755)


@lru_cache
def control(package: Path) -> str:
    """What a package says of itself."""
    with tarfile.open(fileobj=io.BytesIO(_member(package, "control.tar"))) as archive:
        file = archive.extractfile("./control")
        assert file is not None
        return file.read().decode()


def fields(package: Path) -> dict[str, str]:
    """What a package says of itself in one line each."""
    lines = (x.partition(": ") for x in control(package).splitlines() if not x.startswith(" "))
    return {name: value for name, _, value in lines}


def _member(package: Path, prefix: str) -> bytes:
    data = package.read_bytes()
    place = len(AR_HEAD)
    while place < len(data):
        name, size = data[place : place + 16].decode(), int(data[place + 48 : place + 58])
        if name.startswith(prefix):
            return data[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    raise Undownloadable(f"{package} has no {prefix}: remove it, and try again")


if __name__ == "__main__":
    sys.exit(outcome.write(LOCK, write))
