"""What is in a release is enough where a machine reaches nothing but its cluster's API server.

Each has a network namespace with the loopback device alone, and a doorway to the API server.
"""

from __future__ import annotations

import filecmp
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from deploy import deb, release
from deploy.release import NAME, PARTS, Built
from liqod import __version__
from tests.netns.lab import run
from tests.simulated.install.test_deb import SETTINGS, UNIT, leads, until
from tests.simulated.processes import Site, sites
from tests.testbed import shownblocks
from tests.testbed.daemon import toml
from tests.testbed.debian import EPOCH, Debian, Machine, booted
from tests.testbed.machineshell import MachineShell
from tests.testbed.netns import Networks, doorway, fails
from tests.testbed.wheels import Installation

pytestmark = [pytest.mark.netns, pytest.mark.release]

ELSEWHERE = ("deb", "images")
"""Parts that other tests make twice, and that take minutes."""
LIGHT = {name: make for name, make in PARTS.items() if name not in ELSEWHERE}


@pytest.fixture(scope="module")
def archive(
    installation: Installation, debian: Debian, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A release of this checkout, with a package for this machine alone and without images."""
    package = {debian.package.name: debian.package.read_bytes()}
    parts = {**LIGHT, "deb": lambda built: package}
    files = release.contents(Built(installation.built, EPOCH), parts)
    return release.write(files, EPOCH, tmp_path_factory.mktemp("release"))


@contextmanager
def cut(networks: Networks, site: Site) -> Iterator[str]:
    """A namespace in which there is a cluster's API server, and no way to anything else."""
    name = networks.make("cut")
    with doorway(name, site.cluster.port):
        assert run("ip", "-n", name, "route", "show", "table", "all", "type", "unicast") == ""
        assert fails(name, f"{sys.executable} -m pip download --no-deps --retries 0 liqod")
        yield name


def test_the_same_files_make_the_same_release(installation: Installation, tmp_path: Path) -> None:
    made = []
    for folder in (installation.built, installation.again):
        files = release.contents(Built(folder, EPOCH), LIGHT)
        made.append(release.write(files, EPOCH, tmp_path / folder.name))
    one, other = made
    assert filecmp.cmp(one, other, shallow=False)


async def test_wheels_are_installed_with_all_that_they_need(
    archive: Path, networks: Networks, tmp_path: Path
) -> None:
    run("tar", "--extract", f"--file={archive}", f"--directory={tmp_path}")
    environment, wheels = tmp_path / "environment", tmp_path / NAME / "wheels"
    found = ("--no-index", "--no-cache-dir", f"--find-links={wheels}", "liqod")
    async with sites(tmp_path, "rome") as (rome,):
        with cut(networks, rome) as name:
            inside = partial(trio.to_thread.run_sync, partial(run, namespace=name))
            await inside(sys.executable, "-m", "venv", str(environment))
            await inside(f"{environment}/bin/pip", "install", *found)
            liqod = f"{environment}/bin/liqod"
            assert __version__ in await inside(liqod, "--version")
            await inside(liqod, "install", "--kubeconfig", str(rome.kubeconfig))


async def test_the_package_is_installed_and_its_daemon_leads(
    archive: Path, debian: Debian, networks: Networks, tmp_path: Path
) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    async with sites(tmp_path, "rome") as (rome,):
        with cut(networks, rome) as name:
            options = (
                f"--network-namespace-path=/run/netns/{name}",
                f"--bind-ro={archive}:/root/{NAME}.tar",
            )
            with booted(debian, layer, *options) as machine:
                await trio.to_thread.run_sync(begin, machine, rome)
                await until(machine, partial(leads, machine))


def begin(machine: Machine, rome: Site) -> None:
    """What an administrator does."""
    shell = MachineShell(machine, "/root")
    shell.section(shownblocks.commands("how-to/release", "From it"), {"VERSION": __version__})
    assert shell.place == f"/root/{NAME}"
    machine.run("dpkg", "--install", f"/root/{NAME}/deb/{deb.chosen().file}")
    folder = machine.root / "etc/liqod"
    (machine.root / "root/admin").write_text(rome.kubeconfig.read_text())
    written = ("--write-kubeconfig", "/etc/liqod/kubeconfig")
    machine.run("liqod", "install", "--kubeconfig", "/root/admin", *written)
    (folder / "liqod.toml").write_text(toml(SETTINGS))
    machine.run("systemctl", "start", UNIT)
