"""liqod's own image, made of this machine's files: as deploy/Containerfile, without a builder.

Two layers: Python with what liqod needs, `nft` and a WireGuard, kept in the cache; and the wheel of
the sources as they are now. Libraries are those that the programs name, found as `ldd` finds them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.testbed import image, programs
from tests.testbed.errors import TestbedError, Unavailable

NAME = "localhost/liqod:test"
ROOT = Path(__file__).parents[2]
PREFIX = Path("opt/liqod")
"""Where Python is in the image, its packages among the rest of it."""
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
LEFT_OUT = ("__pycache__", "test", "tests", "idlelib", "tkinter", "ensurepip", "site-packages")
SCRIPT = f"#!/{PREFIX}/bin/python\nimport sys\nfrom liqod.__main__ import main\nsys.exit(main())\n"
CURL = f"""#!/{PREFIX}/bin/python
# The head of what a URL, the last word, gives; of options it knows the deadline alone.
import http.client, sys, urllib.parse
url = sys.argv[-1]
place = urllib.parse.urlsplit(url if "//" in url else "//" + url)
asked = http.client.HTTPConnection(place.netloc, timeout=5)
asked.request("HEAD", place.path or "/")
answer = asked.getresponse()
print(f"HTTP/1.0 {{answer.status}} {{answer.reason}}")
"""
FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65532:65532:nobody:/:/bin/sh\n",
    "etc/group": b"root:x:0:\nnobody:x:65532:\n",
    f"{PREFIX}/bin/liqod": SCRIPT.encode(),
}
ENVIRONMENT = [f"PATH=/{PREFIX}/bin:/usr/sbin:/bin", "PYTHONUNBUFFERED=1"]
FOLDERS = ("proc", "sys", "dev", "run", "var", "tmp", "etc/liqod")


def write(target: Path) -> None:
    """Writes the image as an archive that `ctr images import` reads.

    Raises:
        Unavailable: this machine has no `nft` or no WireGuard, or pip makes no wheel.
    """
    config = {
        "Env": ENVIRONMENT,
        "Entrypoint": ["liqod"],
        "Cmd": ["run"],
        "User": "65532:65532",
    }
    image.pack(target, NAME, [base().read_bytes(), _sources()], config)


def with_curl() -> list[bytes]:
    """Layers of an image that has `python3` and `curl`, as Liqo's tests of networks want it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        _link(layer, f"{PREFIX}/bin/python3", "python")
        image.add(layer, f"{PREFIX}/bin/curl", CURL.encode(), 0o755)
    return [base().read_bytes(), stream.getvalue()]


@cache
def base() -> Path:
    """The layer of everything but the sources, in the cache under what goes into it."""
    wireguard, nft = programs.find_wireguard(), shutil.which("nft")
    if nft is None:
        raise Unavailable("there is no nft (Debian's package nftables)")
    packages = sorted(_needed("liqod"))
    parts = [*packages, str(wireguard), nft, sys.version, Path(__file__).read_text()]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    target = programs.cache() / f"image-{digest}.tar"
    with programs.alone("image.lock", "liqod's image"):
        if not target.exists():
            _write_base(target, packages, wireguard, Path(nft))
    return target


def _write_base(target: Path, packages: Iterable[str], wireguard: Path, nft: Path) -> None:
    with (
        tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as scratch,
        tarfile.open(fileobj=scratch, mode="w") as layer,
    ):
        elves = list(_add_python(layer, packages))
        layer.add(nft, "usr/sbin/nft")
        layer.add(wireguard, f"{PREFIX}/bin/wireguard")
        layer.add(image.busybox(), "bin/busybox")
        for applet in (*image.APPLETS, "test"):
            _link(layer, f"bin/{applet}", "busybox")
        for library in sorted(_libraries([*elves, nft])):
            layer.add(library.resolve(), str(library).lstrip("/"))
        for folder in FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(entry)
        _link(layer, "var/run", "/run")
        for name, content in FILES.items():
            image.add(layer, name, content, 0o755 if "/bin/" in name else 0o644)
    os.rename(scratch.name, target)


def _add_python(layer: tarfile.TarFile, packages: Iterable[str]) -> Iterator[Path]:
    """Adds the interpreter, its library and the packages; the files that name libraries."""
    program = Path(sys.executable).resolve()
    layer.add(program, f"{PREFIX}/bin/python")
    yield program
    standard = Path(sysconfig.get_path("stdlib"))
    for path in _below(standard):
        layer.add(path, f"{PREFIX}/lib/{VERSION}/{path.relative_to(standard)}")
        if path.suffix == ".so":
            yield path
    for package in packages:
        for file in importlib.metadata.distribution(package).files or ():
            path = Path(str(file.locate()))
            if ".." in file.parts or "__pycache__" in file.parts or not path.is_file():
                continue
            layer.add(path, f"{PREFIX}/lib/{VERSION}/site-packages/{file}")
            if ".so" in path.suffixes:
                yield path


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in LEFT_OUT or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.is_file():
            yield path


def _libraries(elves: Iterable[Path]) -> set[Path]:
    """The shared libraries that these files need, the loader among them."""
    found: set[Path] = set()
    for path in elves:
        said = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
        found |= {Path(each) for each in re.findall(r"(/\S+) \(0x", said.stdout)}
    return found


def _needed(package: str) -> set[str]:
    """Returns the installed packages that a package requires, directly or not; not itself."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for line in importlib.metadata.requires(waiting.pop()) or ():
            name = re.match(r"[\w.-]+", line)
            if name is None or "extra ==" in line or name[0] in found:
                continue
            try:
                importlib.metadata.distribution(name[0])
            except importlib.metadata.PackageNotFoundError:
                continue  # for another Python or system than this one
            found.add(name[0])
            waiting.append(name[0])
    return found


def _sources() -> bytes:
    """The layer of liqod itself: its wheel, unpacked."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        source.mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        for name in ("liqod", "tui"):
            shutil.copytree(ROOT / name, source / name, ignore=lambda *_: ["__pycache__"])
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        answer = subprocess.run(
            [*command, "--wheel-dir", scratch, str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(scratch).glob("*.whl"))
        if not wheels:
            raise TestbedError(f"no wheel: {answer.stderr}")
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as layer, zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                if not name.endswith("/"):
                    place = f"{PREFIX}/lib/{VERSION}/site-packages/{name}"
                    image.add(layer, place, wheel.read(name))
    return stream.getvalue()


def _link(layer: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    layer.addfile(entry)
