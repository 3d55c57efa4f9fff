"""``make image``: liqod as images without a base image, and without a shell.

Run as `python -m deploy.image FOLDER [ARCHITECTURE [WHEEL ...]]`. They have Debian's own packages
and the Python packages that liqod needs, all by their hashes, liqod's own wheel as `make wheels`
builds it, and the wheels that are named. No builder and no rights are needed, and the same commit
gives the same bytes. One image is for the daemon; the one for `liqod node` has a layer more, with
the programs of joined networks.
"""

import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from deploy import deb, environment, lock, needed, oci, packages, prune, sbom, wheels
from deploy.archives import Content, link, tar, text
from deploy.bytecode import Compiler
from deploy.outcome import Unbuildable, show
from liqod import __version__
from liqod.install.workload import IMAGE, OF_NODES

PYTHON: Final = deb.RELEASES["bookworm"].python
USER: Final = 65532
LABEL: Final = "org.opencontainers.image"
NAME: Final = f"docker.io/library/{IMAGE}"
"""The one that `liqod install` means where it is given none."""
EMPTY: Final[Mapping[str, int]] = {
    **dict.fromkeys(("dev", "etc/liqod", "proc", "run", "sys", "var/lib"), 0o755),
    "tmp": 0o1777,
}
CERTIFICATES: Final = "usr/share/ca-certificates/"
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"
WRITTEN: Final[Mapping[str, Content]] = {
    "etc/passwd": text(f"root:x:0:0:root:/:/nonexistent\nliqod:x:{USER}:{USER}::/:/nonexistent\n"),
    "etc/group": text(f"root:x:0:\nliqod:x:{USER}:\n"),
    "etc/nsswitch.conf": text("passwd: files\ngroup: files\nhosts: files dns\n"),
    # Where the OpenSSL of Python and of cryptography looks.
    "usr/lib/ssl/cert.pem": link(f"/{BUNDLE}"),
    "usr/lib/ssl/certs": link("/etc/ssl/certs"),
    "var/run": link("/run"),
    "usr/bin/python3": link(f"python{PYTHON}"),
    # The environment's, so that `python -m liqod` finds its packages.
    f"{environment.HOME}/bin/python": link("python3"),
}
MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Folders of the root that are links to those in ``usr``."""
CONFIG: Final[Mapping[str, Any]] = {
    "User": f"{USER}:{USER}",
    "Env": [
        f"PATH=/{environment.HOME}/bin:/usr/bin:/usr/sbin",
        "PYTHONUNBUFFERED=1",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "Entrypoint": ["liqod"],
    "Cmd": ["run"],
    "WorkingDir": "/",
}

Files = dict[str, Content]


class Parts(NamedTuple):
    """What images are made of.

    Attributes:
        debian: files of Debian's packages that all images have.
        network: files of those that joined networks need.
        locked: wheels by their hashes.
        own: liqod's wheel.
        plugins: wheels that somebody adds.
    """

    debian: Sequence[Path]
    network: Sequence[Path]
    locked: Sequence[Path]
    own: Path
    plugins: Sequence[Path] = ()


class Layers(NamedTuple):
    """The layers of both images.

    Attributes:
        common: those that both have.
        network: that of the programs of joined networks, above them: where both are, a node has
            the others once.
    """

    common: Sequence[oci.Layer]
    network: oci.Layer


def make(target: Path, architecture: str = "", *plugins: str) -> list[Path]:
    """Build the images into a folder; their archives, and the lists of what is in them.

    Args:
        target: the folder.
        architecture: Debian's name of the machine that runs them; this one's where none is named.
        plugins: wheels that are added.

    Raises:
        Unbuildable: there are none for this, or something is missing.
        Undownloadable: a package or a wheel could not be had.
    """
    architecture = architecture or deb.here()[1]
    if architecture not in deb.ARCHITECTURES:
        known = ", ".join(deb.ARCHITECTURES)
        reason = f"there is no image for {architecture or 'this machine'}: name one by ARCH=, of"
        raise Unbuildable(f"{reason} {known}")
    with tempfile.TemporaryDirectory(prefix="liqod-image-") as name:
        built = wheels.make(Path(name))
        (own,) = (each for each in built if each.match("liqod-*.whl"))
        (source,) = (each for each in built if each.match("liqod-*.tar.gz"))
        parts = gathered(architecture, own, [Path(each) for each in plugins])
        epoch = wheels.date_of(source)
        return written(target, architecture, parts, layers(parts, epoch), epoch)


def gathered(architecture: str, own: Path, plugins: Sequence[Path] = ()) -> Parts:
    """The parts of the images for a machine.

    Raises:
        Unbuildable: a plugin needs what is not there.
        Undownloadable: a package or a wheel could not be had.
    """
    locked = lock.wheels(lock.Target(PYTHON, deb.ARCHITECTURES[architecture]))
    contained = needed.of(own, locked, prune.REQUIREMENTS, PYTHON)
    needed.check(plugins, [*contained, own], PYTHON)
    return Parts(
        packages.packages(architecture, packages.BASE),
        packages.packages(architecture, packages.NETWORK),
        contained,
        own,
        plugins,
    )


def layers(parts: Parts, epoch: int) -> Layers:
    """The layers of both images.

    Raises:
        Unbuildable: this machine cannot make bytecode.
        Undownloadable: a package could not be had.
    """
    with tempfile.TemporaryDirectory(prefix="liqod-python-") as name:
        compiler = Compiler(Path(name), _python(), PYTHON)

        def packed(files: Files, empty: Mapping[str, int] | None = None) -> oci.Layer:
            return oci.layer(tar({**files, **compiler.compiled(files)}, epoch, empty))

        above = [packed(_environment(parts.locked)), packed(_own(parts.own))]
        if parts.plugins:
            above.append(packed(_modules(parts.plugins)))
        system = packed(_system(parts.debian), EMPTY)
        return Layers([system, *above], packed(_debian(parts.network)))


def written(target: Path, architecture: str, parts: Parts, made: Layers, epoch: int) -> list[Path]:
    """Write the images of these layers into a folder; their archives, and what is in them."""
    target.mkdir(parents=True, exist_ok=True)
    files = []
    for ending, more, debian in (
        ("", [], [*parts.debian]),
        (OF_NODES, [made.network], [*parts.debian, *parts.network]),
    ):
        image = oci.Image(
            f"{NAME}{ending}",
            architecture,
            epoch,
            [*made.common, *more],
            CONFIG,
            _labels(epoch),
        )
        stem = f"liqod-{__version__}{ending}-{architecture}"
        files += [target / f"{stem}.oci.tar", target / f"{stem}.spdx.json"]
        files[-2].write_bytes(oci.archive(image))
        python = [*parts.locked, parts.own, *parts.plugins]
        listed = sbom.document(f"liqod{ending}", __version__, [*_parts(debian, python)], epoch)
        files[-1].write_bytes(oci.as_json(listed))
    return files


def _labels(epoch: int) -> dict[str, str]:
    labels = {
        f"{LABEL}.title": "liqod",
        f"{LABEL}.description": "joins Kubernetes clusters, peer to peer",
        f"{LABEL}.version": __version__,
        f"{LABEL}.created": oci.moment(epoch),
        f"{LABEL}.licenses": "Apache-2.0",
    }
    if revision := wheels.revision():
        labels[f"{LABEL}.revision"] = revision
    return labels


def _parts(debian: Iterable[Path], python: Iterable[Path]) -> Iterable[sbom.Part]:
    for each in debian:
        about = packages.fields(each)
        qualifiers = f"?arch={about['Architecture']}&distro=debian-12"
        digest = oci.digest(each.read_bytes())
        yield sbom.Part("deb/debian", about["Package"], about["Version"], digest, qualifiers)
    for each in python:
        yield sbom.wheel(each.name, oci.digest(each.read_bytes()))


def _python() -> Iterable[tuple[str, Content]]:
    """Debian's Python for this machine."""
    for each in packages.packages(deb.here()[1], packages.BASE):
        yield from packages.unpacked(each)


def _system(debian: Iterable[Path]) -> Files:
    """What all images have of Debian's: Python, certificates, and the names of the packages."""
    files = _debian(debian)
    trusted = sorted(name for name in files if name.startswith(CERTIFICATES))
    bundle = b"".join(files.pop(name).data for name in trusted)
    files[BUNDLE] = Content(bundle)
    files.update(WRITTEN)
    for name in MERGED:
        if any(each.startswith(f"usr/{name}/") for each in files):
            files[name] = link(f"usr/{name}")
    return files


def _debian(found: Iterable[Path]) -> Files:
    """The files of packages, and what each says of itself."""
    files: Files = {}
    for each in found:
        files.update(prune.kept(packages.unpacked(each)))
        # Scanners for vulnerabilities look here where an image has no dpkg.
        about = text(packages.control(each))
        files[f"var/lib/dpkg/status.d/{packages.fields(each)['Package']}"] = about
    return files


def _environment(locked: Iterable[Path]) -> Files:
    return {**dict(environment.marks(PYTHON)), **_modules(locked)}


def _own(own: Path) -> Files:
    return {**_modules([own]), **dict(environment.programs())}


def _modules(found: Iterable[Path]) -> Files:
    files: Files = {}
    for each in found:
        files.update(prune.kept(environment.unpacked(each, PYTHON)))
    return files


def main(arguments: list[str]) -> int:
    """Build into the folder that is named, and print the files with their SHA-256."""
    folder, *rest = arguments
    return show("image", lambda: make(Path(folder), *rest))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
