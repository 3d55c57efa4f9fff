"""The container images of the tests, made by hand: no registry, no builder, two megabytes.

The image holds busybox and links to what tests run. Its `wget` crashes on looking a name up, as any
static glibc program does; `nc` is fine.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.testbed.errors import Unavailable

NAME = "localhost/busybox:1"
APPLETS = (
    "sh",
    "sleep",
    "httpd",
    "wget",
    "nc",
    "cat",
    "ls",
    "echo",
    "ip",
    "hostname",
    "env",
    "true",
    "tar",
)
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "www/index.html": b"hello\n",
}


def busybox() -> Path:
    """The static busybox of this machine; raises `Unavailable` without one."""
    found = shutil.which("busybox")
    if found is None:
        raise Unavailable("there is no busybox (Debian's package busybox-static)")
    return Path(found)


def write(target: Path, name: str = NAME, *variables: str) -> None:
    """Writes the image as an archive that `ctr images import` reads."""
    config = {"Env": ["PATH=/bin", *variables], "Cmd": ["/bin/sleep", "1000000"]}
    pack(target, name, [layer()], config)


def pack(target: Path, name: str, layers: Sequence[bytes], config: Mapping[str, Any]) -> None:
    """Writes an image of these layers, each a tar archive, under a name."""
    digests = [hashlib.sha256(layer).hexdigest() for layer in layers]
    about = described(layers, config)
    config_name = f"{hashlib.sha256(about).hexdigest()}.json"
    places = [f"{each}/layer.tar" for each in digests]
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": places}]
    with tarfile.open(target, "w") as archive:
        for place, layer in zip(places, layers, strict=True):
            add(archive, place, layer)
        add(archive, config_name, about)
        add(archive, "manifest.json", json.dumps(manifest).encode())


def described(layers: Sequence[bytes], config: Mapping[str, Any]) -> bytes:
    """The configuration of an image of these layers."""
    digests = (f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers)
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": dict(config),
            "rootfs": {"type": "layers", "diff_ids": list(digests)},
            "history": [{"created_by": "tests"} for _ in layers],
        }
    ).encode()


def layer() -> bytes:
    """The layer of it: busybox, its links, and a page."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("www", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            made.addfile(entry)
        add(made, "bin/busybox", busybox().read_bytes(), 0o755)
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            made.addfile(link)
        for name, content in _FILES.items():
            add(made, name, content)
    return stream.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    """Adds a file to an archive."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
