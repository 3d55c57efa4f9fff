"""The pages about machines, typed by root on one of Debian's under systemd, in their order."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import NODES
from tests.simulated.install.test_deb import UNIT, leads, until
from tests.simulated.processes import Site, sites
from tests.testbed import checkout, shownblocks
from tests.testbed.daemon import toml
from tests.testbed.debian import Debian, Machine, booted
from tests.testbed.machineshell import MachineShell
from tests.testbed.netns import Networks, doorway, state
from tests.testbed.shownblocks import Shown

pytestmark = [pytest.mark.netns, pytest.mark.release, pytest.mark.timeout(1200)]

PLACE = "/root/liqod"
NODE = "liqod-node.service"
NODES_OF_ROME = ("gateway-1", "worker-1")
OWN = "/opt/liqod/bin/liqod"
OWN_PORTS = {
    "webhook": {"port": 9444},
    "kubelet": {"port": 10280},
    "health": {"port": 10281},
    "handshake": {"port": 6447},
    "network": {"daemon": "liqod-rome"},
}
"""Those of the second daemon of a machine."""


class Steps:
    """The pages about machines on one machine, whose cluster is rome."""

    def __init__(self, machine: Machine, rome: Site) -> None:
        self.machine = machine
        checkout.copy(machine.root / PLACE.lstrip("/"))
        self.shell = MachineShell(machine, PLACE)
        kubeconfig = self.shell.folder / "rome.kubeconfig"
        kubeconfig.write_text(rome.kubeconfig.read_text())
        pip = "[global]\nno-index = true\nfind-links = /wheels\n"
        (machine.root / "etc/pip.conf").write_text(pip)
        # nspawn locks it, also for what is a network namespace's own.
        machine.run("mount", "--options", "remount,bind,rw", "/proc/sys")

    async def type(self, shown: list[Shown]) -> list[str]:
        """Types commands; what each printed."""
        return await trio.to_thread.run_sync(self.shell.section, shown)

    def left(self) -> list[str]:
        """The processes of liqod's."""
        return [each for each in self.machine.run("ps", "-eo", "args").splitlines() if OWN in each]

    async def until_active(self, unit: str) -> None:
        """Wait until a unit is up."""
        await until(self.machine, lambda: self.machine.shows(unit, "ActiveState") == "active")


async def test_the_pages_about_machines(debian: Debian, networks: Networks, tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    async with sites(tmp_path, "rome") as (rome,):
        for each in NODES_OF_ROME:
            await rome.admin.create(NODES, {"metadata": {"name": each}})
        name = networks.make("gateway")
        options = (
            f"--network-namespace-path=/run/netns/{name}",
            "--capability=CAP_NET_ADMIN",
            "--bind=/dev/net/tun",
            f"--bind-ro={debian.wheels}:/wheels",
        )
        with doorway(name, rome.cluster.port), booted(debian, layer, *options) as machine:
            steps = await trio.to_thread.run_sync(Steps, machine, rome)
            before = state(name)
            await by_package(steps)
            await one_daemon(steps)
            await several_clusters(steps)
            await joined_networks(steps)
            await away(steps)
            assert state(name) == before


async def by_package(steps: Steps) -> None:
    """A newcomer's environment, in a shell of its own."""
    old = dict(steps.shell.environment)
    await steps.type(shownblocks.commands("start/by-package", "1. Install", only="python3"))
    await steps.type(shownblocks.commands("start/by-package", "1. Install", only="export"))
    [program] = await steps.type([Shown("", "command -v liqod")])
    assert program.startswith(f"{PLACE}/.venv/bin/")
    steps.shell.environment = old


async def one_daemon(steps: Steps) -> None:
    await steps.type(shownblocks.commands("how-to/systemd", "Steps"))
    await until(steps.machine, partial(leads, steps.machine))
    process = steps.machine.shows(UNIT, "MainPID")
    await steps.type(shownblocks.commands("how-to/upgrades", "3. Replace the program, on a host"))
    await until(steps.machine, partial(leads, steps.machine, process))
    [said] = await steps.type(
        shownblocks.commands("how-to/diagnose", "5. What the daemon does", only="journalctl")
    )
    assert "leading" in said


async def several_clusters(steps: Steps) -> None:
    """The first daemon goes on beside the second one."""
    await steps.type(written("rome-daemon.kubeconfig"))
    (steps.shell.folder / "rome.toml").write_text(toml(OWN_PORTS))
    await steps.type(shownblocks.commands("how-to/systemd", "Several clusters on one host"))
    for unit in ("liqod@rome", "liqod-node@rome"):
        await steps.until_active(unit)
    await steps.type([Shown("", "systemctl disable --now liqod@rome liqod-node@rome")])


async def joined_networks(steps: Steps) -> None:
    """A machine that is a node as others first, and then the gateway."""
    shown = shownblocks.commands("how-to/systemd", "Joined networks")
    gateway, worker = shownblocks.parted(shown, "liqod generate node worker-1")
    named = steps.machine.root / "etc/liqod/node.env"
    named.write_text("LIQOD_NODE_NAME=worker-1\n")
    await steps.type(worker)
    await steps.until_active(NODE)
    assert "worker-1: " in steps.machine.shows(NODE, "StatusText")
    assert steps.machine.shows(NODE, "User") != "root"
    await steps.type([Shown("", "systemctl disable --now liqod-node")])

    named.write_text("LIQOD_NODE_NAME=gateway-1\n")
    (steps.machine.root / "etc/liqod/liqod.toml").write_text('[network]\ndaemon = "liqod"\n')
    await steps.type(gateway)
    await steps.until_active(NODE)
    assert steps.machine.shows(NODE, "User") == "root"
    await until(steps.machine, partial(leads, steps.machine))
    # Of the sockets that there are now, those of the other program are no daemon's.
    await steps.type(shownblocks.commands("how-to/systemd", "Steps", only="sudo liqod doctor"))
    await steps.type(shownblocks.commands("how-to/upgrades", "4. Then liqod node"))
    await steps.until_active(NODE)


async def away(steps: Steps) -> None:
    """Both pages that say how; the second finds little left to do."""
    steps.shell.environment["KUBECONFIG"] = f"{PLACE}/rome.kubeconfig"
    await steps.type(shownblocks.commands("how-to/take-away", "liqod itself"))
    assert not steps.left()
    await steps.type(shownblocks.commands("how-to/systemd", "Upgrade, and away with it"))
    assert not (steps.machine.root / "opt/liqod").exists()
    assert not (steps.machine.root / "etc/liqod").exists()


def written(file: str) -> list[Shown]:
    """The command of the page that writes a file."""
    shown = shownblocks.commands("how-to/systemd", "Steps", only="liqod install")
    return [each for each in shown if each.line.endswith(file)]
