"""The pages of what `make` makes, typed in a checkout by one who has root on Debian."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from deploy import deb, lock, release
from liqod import __version__
from liqod.install.workload import OF_NODES
from tests.testbed import checkout, ownimages, shownblocks
from tests.testbed.debian import Debian
from tests.testbed.pages import Terminal
from tests.testbed.processes import Child, free_ports, plain_environment

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(2400)]

VERSION = {"VERSION": __version__}
ARM = 183
"""EM_AARCH64 of elf.h: byte 18 of a program or library names its machine."""
REGISTRY = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "localhost:{port}"}}
"""
REACHED = """\
[[registry]]
location = "localhost:{port}"
insecure = true
"""
STORED = """\
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A shell in a checkout; what was downloaded before is found again."""
    folder = tmp_path_factory.mktemp("reader")
    checkout.committed(folder / "liqod")
    made = Terminal(folder / "liqod")
    made.has_prepared = False
    made.environment |= {"HOME": str(folder), "XDG_CACHE_HOME": str(lock.cache().parent)}
    yield made
    made.close()


@pytest.fixture(autouse=True)
def in_checkout(terminal: Terminal) -> Iterator[None]:
    """Each test begins in the checkout, with the programs that a shell has."""
    before = dict(terminal.environment)
    yield
    terminal.environment = before
    terminal.place = str(terminal.folder)


def test_the_demo_goes_on_until_it_is_ended(terminal: Terminal) -> None:
    [page, _] = shownblocks.commands("start/demo", "")
    terminal.glance(page.line, "rome: its daemon is up")


@pytest.mark.usefixtures("packagers", "readers")
def test_wheels_are_installed_as_their_page_says(terminal: Terminal) -> None:
    home = Path(terminal.environment["HOME"])
    terminal.section(shownblocks.commands("how-to/wheels", ""))
    terminal.type("cd dist")
    terminal.section(shownblocks.commands("how-to/wheels", "Installing"), VERSION)
    assert terminal.type("command -v liqod").startswith(f"{home}/.local/share/liqod/bin/")
    assert terminal.type("liqod --version") == f"liqod {__version__}\n"

    terminal.environment["PATH"] = f"{home}/.local/bin:{terminal.environment['PATH']}"
    assert terminal.type("liqod --version") == f"liqod {__version__}\n"
    assert terminal.type("kubectl-liqod --version") == f"liqod {__version__}\n"
    for said in terminal.section(shownblocks.commands("how-to/wheels", "Man pages")):
        assert f"liqod {__version__}" in said
    terminal.section(shownblocks.commands("how-to/wheels", "The demo", only="pipx"), VERSION)
    [demo] = shownblocks.commands("how-to/wheels", "The demo", only="liqod demo")
    terminal.glance(demo.line, "rome: its daemon is up")


def test_a_package_is_made_as_its_page_says(terminal: Terminal) -> None:
    [said] = terminal.section(shownblocks.commands("how-to/deb", ""))
    file = Path(said.split()[-1])
    assert file == Path("dist") / deb.chosen().file
    asked = terminal.type(f"dpkg-deb --field {file} Version")
    assert asked.startswith(f"{__version__}+deb")


@pytest.fixture(scope="module")
def released(terminal: Terminal) -> Path:
    """The folder of a release, as `make release` writes it."""
    said = terminal.type("make release")
    made = terminal.folder / "dist" / release.NAME
    archive = made.with_name(f"{made.name}.tar")
    with archive.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    assert said.endswith(f"{digest}  {archive.relative_to(terminal.folder)}\n")
    return made


def test_a_release_has_all_that_its_page_names(terminal: Terminal, released: Path) -> None:
    with tarfile.open(released.with_name(f"{released.name}.tar")) as opened:
        names = {each.name.partition("/")[2] for each in opened if each.isfile()}
    assert names == release.tree(released).keys()
    terminal.place = str(released)
    check = shownblocks.commands("how-to/release", "From it", only="sha256sum")
    assert terminal.section(check) == [""]
    sums = (released / release.SUMS).read_text().splitlines()
    assert {line.split("  ")[1] for line in sums} == names - {release.SUMS}

    listed = re.findall(r"`([\w.]+/?)`", (shownblocks.DOCS / "how-to/release.md").read_text())
    assert {re.sub("/.*", "/", each) for each in names} <= {*listed}
    made = {each.name for each in (*released.glob("deb/*"), *released.glob("chart/*"))}
    packages = itertools.starmap(deb.Package, itertools.product(deb.RELEASES, deb.ARCHITECTURES))
    assert made == {f"liqod-{__version__}.tgz", *(each.file for each in packages)}
    for python, machine in (("311", "x86_64"), ("313", "aarch64")):
        assert list(released.glob(f"wheels/*cp{python}*{machine}*"))


def test_a_package_for_another_machine_is_that_of_the_release(
    terminal: Terminal, released: Path
) -> None:
    """Its native modules are of that machine's wheels, for the Python of that Debian."""
    file = Path(terminal.type("make deb RELEASE=trixie ARCH=arm64").split()[-1])
    assert file.name == deb.Package("trixie", "arm64").file
    assert (terminal.folder / file).read_bytes() == (released / "deb" / file.name).read_bytes()
    assert terminal.type(f"dpkg-deb --field {file} Architecture") == "arm64\n"
    assert "python3 (>= 3.13~)" in terminal.type(f"dpkg-deb --field {file} Depends")
    unpacking = ["dpkg-deb", "--fsys-tarfile", str(terminal.folder / file)]
    data = subprocess.run(unpacking, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        native = {
            each.name: opened.extractfile(each) for each in opened if each.name.endswith(".so")
        }
        assert {each.read(20)[18] for each in native.values() if each} == {ARM}
    tags = {name.split(".")[-2] for name in native}
    assert tags == {"cpython-313-aarch64-linux-gnu", "abi3"}

    for words, said in (
        ("RELEASE=sid", "deb: there is no package for sid: name one by RELEASE=, of bookworm,"),
        ("ARCH=mips", "deb: there is no package for mips: name one by ARCH=, of amd64, arm64"),
    ):
        assert said in terminal.type(f"make deb {words}", statuses=(2,))


@pytest.mark.parametrize("machine", deb.ARCHITECTURES)
@pytest.mark.parametrize("ending", ["", OF_NODES], ids=["daemon", "node"])
def test_an_image_tells_what_it_is_and_what_is_in_it(
    terminal: Terminal, released: Path, ending: str, machine: str
) -> None:
    stem = f"liqod-{__version__}{ending}-{machine}"
    archive = released / "images" / f"{stem}.oci.tar"
    told = ownimages.configuration(archive)
    assert told["architecture"] == machine
    assert told["config"]["User"] == "65532:65532"
    marks = {name.rpartition(".")[2]: text for name, text in told["config"]["Labels"].items()}
    assert marks.keys() == {*("title", "description", "version", "created", "licenses", "revision")}
    assert marks["version"] == __version__
    assert marks["revision"] == terminal.type("git rev-parse HEAD").strip()

    names: set[str] = set()
    for layer in ownimages.layers(archive):
        with tarfile.open(fileobj=io.BytesIO(layer)) as opened:
            names |= {each.name for each in opened if each.isfile()}
    parts = json.loads(archive.with_name(f"{stem}.spdx.json").read_text())["packages"][1:]
    urls = [each["externalRefs"][0]["referenceLocator"] for each in parts]
    listed = {each.partition("@")[0].rpartition("/")[2] for each in urls}
    debian = {each.rpartition("/")[2] for each in names if "/dpkg/status.d/" in each}
    found = (re.search(r"/([^/]+)-[^/-]+\.dist-info/METADATA$", each) for each in names)
    python = {canonicalize_name(each[1]) for each in found if each}
    assert debian | python == listed
    assert ("nftables" in debian) is bool(ending)
    assert "liqod" in python


@contextmanager
def registry(terminal: Terminal, folder: Path) -> Iterator[str]:
    """A registry that anybody may push to, and its name; the terminal's programs know it."""
    [port] = free_ports(1)
    (folder / "registry.yml").write_text(REGISTRY.format(folder=folder / "blobs", port=port))
    reached = Path(terminal.environment["HOME"]) / ".config" / "containers"
    reached.mkdir(parents=True, exist_ok=True)
    (reached / "registries.conf").write_text(REACHED.format(port=port))
    (folder / "storage.conf").write_text(STORED.format(folder=folder))
    terminal.environment["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
    command = ["docker-registry", "serve", str(folder / "registry.yml")]
    child = Child("registry", command, folder / "registry.log", environment=plain_environment())
    try:
        yield f"localhost:{port}"
    finally:
        child.stop()


def architectures(name: str) -> str:
    """What a registry has under a name, as it describes it."""
    shown = ["skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://{name}"]
    return subprocess.run(shown, capture_output=True, text=True, check=True).stdout


@pytest.mark.usefixtures("packagers")
def test_images_are_made_and_pushed_as_their_page_says(
    terminal: Terminal, debian: Debian, released: Path, tmp_path: Path
) -> None:
    terminal.section(shownblocks.commands("how-to/image", "1. Build"))
    for one in released.glob("images/*-arm64.oci.tar"):  # by `make image ARCH=arm64` they are alike
        shutil.copy(one, terminal.folder / "dist")
    for one in released.glob("images/*-amd64.*"):
        assert one.read_bytes() == (terminal.folder / "dist" / one.name).read_bytes()
    with registry(terminal, tmp_path) as name:
        named = {"registry.example": name, **VERSION}
        terminal.section(shownblocks.commands("how-to/image", "2. Push"), named)
        assert "layers" in architectures(f"{name}/liqod:TAG-node")
        terminal.section(shownblocks.commands("how-to/image", "For two architectures"), named)
        both = architectures(f"{name}/liqod:TAG")
    assert both.count('"architecture"') == 2
    one, other = (
        next(debian.wheels.glob(pattern)) for pattern in ("jinja2-*.whl", "markupsafe-*.whl")
    )
    more = {"a.whl": str(one), "b.whl": str(other)}
    terminal.section(shownblocks.commands("how-to/image", "With more in it"), more)
    listed = terminal.folder / "dist" / f"liqod-{__version__}-{deb.here()[1]}.spdx.json"
    assert "jinja2" in listed.read_text().lower()


def test_packages_are_locked_as_the_page_about_images_says(terminal: Terminal) -> None:
    locked = terminal.folder / "deploy" / "packages.lock"
    locked.write_text("")
    terminal.section(shownblocks.commands("how-to/image", "When Debian has replaced a package"))
    assert "python3.11-minimal " in locked.read_text()
