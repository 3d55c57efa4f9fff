"""The pages of what `make` makes, typed in a checkout by one who has root on Debian."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy import deb, lock
from liqod import __version__
from tests.testbed import checkout, shownblocks
from tests.testbed.debian import Debian
from tests.testbed.pages import Terminal
from tests.testbed.processes import Child, free_ports, plain_environment

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(1200)]

VERSION = {"VERSION": __version__}
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
    terminal: Terminal, debian: Debian, tmp_path: Path
) -> None:
    terminal.section(shownblocks.commands("how-to/image", "1. Build"))
    terminal.type("make image ARCH=arm64")
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
