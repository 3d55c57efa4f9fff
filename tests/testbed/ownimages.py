"""liqod's own images, as `make image` makes them of the distributions of `wheels`.

They are in a folder of the cache that is named after what they are made of, and made twice: the
second time of distributions that were built of a copy.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from deploy import image, wheels
from deploy.deb import here
from deploy.outcome import Unbuildable
from liqod.install import workload
from tests.testbed import image as busybox
from tests.testbed import programs
from tests.testbed import wheels as distributions
from tests.testbed.errors import Unavailable

TITLE = "liqod's images"
NAME = image.NAME
OF_NODES = f"{NAME}{workload.OF_NODES}"
PYTHON = "/usr/bin/python3"
CURL = f"""#!{PYTHON}
# The head of what a URL, the last word, gives; of options it knows the deadline alone.
import http.client, sys, urllib.parse
url = sys.argv[-1]
place = urllib.parse.urlsplit(url if "//" in url else "//" + url)
asked = http.client.HTTPConnection(place.netloc, timeout=5)
asked.request("HEAD", place.path or "/")
answer = asked.getresponse()
print(f"HTTP/1.0 {{answer.status}} {{answer.reason}}")
"""


class Images(NamedTuple):
    """The folder of liqod's images."""

    folder: Path

    @property
    def daemon(self) -> Path:
        """The archive of the daemon's image."""
        return _of(self.folder, f"*-{_machine()}.oci.tar", nodes=False)

    @property
    def node(self) -> Path:
        """The archive of the image of `liqod node`."""
        return _of(self.folder, f"*-{_machine()}.oci.tar", nodes=True)

    @property
    def made(self) -> list[tuple[Path, Path]]:
        """Each file that `make image` makes, and the same one made of a copy."""
        files = sorted(each for each in self.folder.iterdir() if each.is_file())
        return [(each, self.folder / "again" / each.name) for each in files]


def find() -> Images:
    """The images, made where they are not there."""
    installation = distributions.find()
    digest = installation.folder.name.rpartition("-")[2]
    found = programs.cache() / f"images-{digest}"
    programs.builds.make(found, TITLE, partial(_make, installation, found))
    return Images(found)


def _make(installation: distributions.Installation, target: Path) -> None:
    programs.say("making liqod's images")
    distributions.take_away_unused("images-*")
    scratch = target.with_name(f".{target.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        for built, folder in (
            (installation.built, scratch),
            (installation.again, scratch / "again"),
        ):
            (own,) = built.glob("liqod-*.whl")
            (source,) = built.glob("liqod-*.tar.gz")
            epoch = wheels.date_of(source)
            parts = image.gathered(_machine(), own)
            image.written(folder, _machine(), parts, image.layers(parts, epoch), epoch)
    except Unbuildable as reason:
        raise Unavailable(str(reason)) from reason
    scratch.rename(target)


def _machine() -> str:
    return here()[1]


def _of(folder: Path, pattern: str, *, nodes: bool) -> Path:
    (found,) = (x for x in folder.glob(pattern) if (workload.OF_NODES in x.name) == nodes)
    return found


def configuration(archive: Path) -> dict[str, Any]:
    """The configuration of an image: its machine, and what containers of it run."""
    with tarfile.open(archive) as opened:
        found = json.loads(_blob(opened, _manifest(opened)["config"]))
    assert isinstance(found, dict)
    return found


def layers(archive: Path) -> list[bytes]:
    """The layers of an image, each a tar archive, the lowest one first."""
    with tarfile.open(archive) as opened:
        return [gzip.decompress(_blob(opened, each)) for each in _manifest(opened)["layers"]]


def _manifest(opened: tarfile.TarFile) -> dict[str, Any]:
    (entry,) = json.loads(_member(opened, "index.json"))["manifests"]
    found = json.loads(_blob(opened, entry))
    assert isinstance(found, dict)
    return found


def _blob(opened: tarfile.TarFile, described: dict[str, Any]) -> bytes:
    return _member(opened, f"blobs/{described['digest'].replace(':', '/')}")


def _member(opened: tarfile.TarFile, name: str) -> bytes:
    file = opened.extractfile(f"./{name}")
    assert file is not None
    return file.read()


def with_curl(archive: Path) -> list[bytes]:
    """Layers of an image that has `python3` and `curl`, as Liqo's tests of networks want it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as layer:
        busybox.add(layer, "usr/bin/curl", CURL.encode(), 0o755)
    return [layers(archive)[0], stream.getvalue()]
