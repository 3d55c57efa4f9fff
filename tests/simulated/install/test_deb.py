"""The package for Debian, in a root of Debian's own and under systemd as PID 1 (needs root)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from liqod import __version__
from liqod.apimachinery.kinds import NODES
from tests.simulated.processes import sites
from tests.testbed import shownblocks
from tests.testbed.api import wait_until
from tests.testbed.daemon import toml
from tests.testbed.debian import NEWER, Debian, Machine, booted, layered
from tests.testbed.machineshell import MachineShell

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(1200)]

UNIT = "liqod.service"
ROOT = Path(__file__).parents[3]
SECURITY = ROOT / "docs" / "background" / "security.md"
GATEWAY = Path("/etc/systemd/system/liqod-node.service.d/gateway.conf")
NODE = "liqod-node.service"
EXPOSED = {UNIT: 1.5, NODE: 2.0}
"""By systemd's measure, which ends at 10."""
EXPOSED_GATEWAY = 5.5
PACKAGE = "liqod_VERSION+deb12_amd64.deb"
"""As the page calls it."""
SETTINGS = {
    "webhook": {"host": "127.0.0.1", "port": 0},
    "kubelet": {"host": "127.0.0.1", "listen": "127.0.0.1", "port": 0},
    "handshake": {"host": "127.0.0.1", "port": 0},
    "health": {"port": 0},
    "network": {"enabled": False},
}
"""Those of a daemon beside others on one machine."""
WATCHED = "[Service]\nWatchdogSec=8\n"
OTHERS = ("/packages", "/proc", "/sys", "/dev", "/run", "/tmp", "/var/log", "/var/cache")
"""Folders that are nobody's, or that others write meanwhile."""
KEPT = ("/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-")
"""What Debian's own programs keep of each change of users."""


BEGUN = """
import sys, time
from pathlib import Path
from tests.testbed.debian import Debian, booted
*debian, folder = map(Path, sys.argv[1:])
with booted(Debian(*debian), folder) as machine:
    print(machine.enter()[1].partition("=")[2], flush=True)
    time.sleep(600)
"""
"""A run with a machine, which prints its PID 1."""


def files(machine: Machine) -> set[str]:
    """The files and folders of a machine that a package could leave behind."""
    pruned = [word for each in OTHERS for word in ("-path", each, "-prune", "-o")]
    found = machine.run("find", "/", "-xdev", *pruned, "-print").splitlines()
    theirs = (
        "/var/lib/dpkg/",
        "/var/lib/apt/",
        "/var/lib/systemd/",
        "/var/tmp/systemd-private",
        "/root",
    )
    return {each for each in found if not each.startswith(theirs)} - set(KEPT)


class States(NamedTuple):
    """Properties of the daemon's unit, all of one moment."""

    state: str
    text: str
    process: str


def states(machine: Machine) -> States:
    seen = machine.properties(UNIT, "ActiveState", "StatusText", "MainPID")
    return States(seen["ActiveState"], seen["StatusText"], seen["MainPID"])


async def until(machine: Machine, seen: Callable[[], bool]) -> None:
    """Wait until something is so; fails with what the daemon has logged."""
    for _ in range(240):
        if await trio.to_thread.run_sync(seen):
            return
        await trio.sleep(0.25)
    pytest.fail(f"{states(machine)}\n{machine.log(UNIT)[-4000:]}")


def leads(machine: Machine, other_than: str = "0") -> bool:
    """True if the daemon leads its cluster, as another process than one before."""
    seen = states(machine)
    leading = seen.state == "active" and seen.text.startswith("leading")
    # While none runs, the unit has the number 0, which `kill` takes for the group of its caller.
    return leading and seen.process not in (other_than, "0")


def test_lintian_finds_nothing(debian: Debian):
    said = subprocess.run(
        ["lintian", "--allow-root", "--fail-on=warning,error", str(debian.package)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout) == (0, ""), said.stderr


def test_a_copy_gives_the_same_package(debian: Debian):
    assert debian.package.read_bytes() == debian.again.read_bytes()


def test_what_a_killed_run_left_is_swept_by_the_next(debian: Debian, tmp_path: Path):
    killed, ours = tmp_path / "killed", tmp_path / "ours"
    for each in (killed, ours):
        each.mkdir()
    command = [sys.executable, "-c", BEGUN, *(str(each) for each in (*debian, killed))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        init = run.stdout.readline().strip()
        run.kill()
    assert init.isdigit()
    wait_until("the machine ends with its run", lambda: not Path(f"/proc/{init}").exists(), 30)
    mounted = Path("/proc/self/mounts")
    assert f" {killed}/root " in mounted.read_text()
    with layered(debian, ours):
        assert f" {killed}/root " not in mounted.read_text()
        assert f" {ours}/root " in mounted.read_text()


async def test_a_machine_installs_runs_upgrades_and_purges_it(debian: Debian, tmp_path: Path):
    layer = tmp_path / "layer"
    layer.mkdir()
    async with sites(tmp_path, "rome", "milan") as (rome, milan):
        await milan.start()
        with booted(debian, layer) as machine:
            before = await trio.to_thread.run_sync(files, machine)
            shell = MachineShell(machine, "/root")
            (shell.folder / "rome.kubeconfig").write_text(rome.kubeconfig.read_text())
            await trio.to_thread.run_sync(install, shell, debian)
            await until(machine, partial(leads, machine))
            user = await milan.user_for("rome")
            await rome.liqod("peer", "--remote-kubeconfig", str(user))
            nodes = await rome.admin.list(NODES)
            assert any("milan" in each["metadata"]["name"] for each in nodes)

            await reload(machine)
            await restart_by(machine, "STOP", "watchdog")
            await restart_by(machine, "KILL", "killed")
            await upgrade(machine, debian)
            for one, other in ((rome, "milan"), (milan, "rome")):
                await one.liqod("unpeer", other, "--yes")
            shell.answers = "y\n"
            stop, *away = shownblocks.commands("how-to/deb", "Upgrade, and away with it")
            await trio.to_thread.run_sync(shell.section, [stop])
            assert machine.shows(UNIT, "Result") == "success"
            await trio.to_thread.run_sync(shell.section, away)
            left = await trio.to_thread.run_sync(files, machine) - before
            assert left == {str(GATEWAY.parent), str(GATEWAY)}, "what the administrator made"
            assert "liqod" not in (machine.root / "etc/passwd").read_text()


def install(shell: MachineShell, debian: Debian) -> None:
    """As the page says; without a kubeconfig nothing starts, and nothing fails."""
    own, rest = shownblocks.parted(
        shownblocks.commands("how-to/deb", "Installing"), "sudo systemctl start"
    )
    [package, *kubeconfig], [*begin, gateway] = own, rest
    (shell.folder / "dist").mkdir()
    shutil.copy(debian.package, shell.folder / "dist")
    shell.section([package], {PACKAGE: debian.package.name})
    installed(shell.machine)
    shell.section(kubeconfig)
    configure(shell.machine)
    shell.section(begin)
    shell.section([gateway])
    shell.machine.run("systemctl", "daemon-reload")
    open_to_a_gateway = exposure(shell.machine, NODE)
    assert f"and {open_to_a_gateway} with the drop-in of a gateway" in SECURITY.read_text()
    assert open_to_a_gateway <= EXPOSED_GATEWAY


def installed(machine: Machine) -> None:
    """What the package brings, before there is a kubeconfig."""
    assert machine.shows(UNIT, "ActiveState") == "inactive"
    assert machine.shows(UNIT, "ConditionResult") == "no"
    assert machine.run("systemctl", "is-enabled", UNIT).strip() == "enabled"
    assert machine.run("systemctl", "list-units", "--failed", "--no-legend") == ""
    assert "liqod peer" in machine.run("liqod", "peer", "--help")
    for each in (UNIT, "liqod@rome.service", NODE, "liqod-node@rome.service"):
        machine.run("systemd-analyze", "verify", "--man=no", each)
    told = {unit: exposure(machine, unit) for unit in EXPOSED}
    assert f"`systemd-analyze security liqod` says {told[UNIT]} " in SECURITY.read_text()
    assert f"Of `liqod-node` it says {told[NODE]}, " in SECURITY.read_text()
    assert [unit for unit, most in EXPOSED.items() if told[unit] > most] == []


def exposure(machine: Machine, unit: str) -> float:
    """How much a unit leaves open."""
    said = machine.run("systemd-analyze", "security", "--no-pager", unit)
    [figure] = re.findall(rf"exposure level for {unit}: ([\d.]+)", said)
    return float(figure)


def configure(machine: Machine) -> None:
    """Ports of its own, and a watchdog that this test need not wait for."""
    (machine.root / "etc/liqod/liqod.toml").write_text(toml(SETTINGS))
    dropin = machine.root / "run/systemd/system/liqod.service.d"
    machine.run("mkdir", "-p", f"/{dropin.relative_to(machine.root)}")
    machine.run("sh", "-c", f"printf '{WATCHED}' > /run/systemd/system/liqod.service.d/test.conf")
    machine.run("systemctl", "daemon-reload")


async def reload(machine: Machine) -> None:
    """The same process reads the configuration again."""
    process = machine.shows(UNIT, "MainPID")
    await trio.to_thread.run_sync(machine.run, "systemctl", "reload", UNIT)
    await until(machine, lambda: "reloaded; peers" in machine.log(UNIT))
    assert machine.shows(UNIT, "MainPID") == process


async def restart_by(machine: Machine, signal: str, said: str) -> None:
    """What ends or stops the process has systemd start another."""
    process = states(machine).process
    assert int(process) > 1
    machine.run("kill", f"-{signal}", process)
    await until(machine, partial(leads, machine, process))
    assert said in machine.log(UNIT)


async def upgrade(machine: Machine, debian: Debian) -> None:
    """The daemon runs on until the newer one takes its place, also by an upgrade that was broken
    off and is done again; and until the older one does. Its configuration stays."""
    ours = (machine.root / "etc/liqod/liqod.toml").read_text()
    older, newer = (f"/packages/{each.name}" for each in (debian.package, debian.newer))
    process = machine.shows(UNIT, "MainPID")
    await trio.to_thread.run_sync(machine.run, "dpkg", "--unpack", newer)
    assert machine.shows(UNIT, "MainPID") == process
    for package, version in ((newer, NEWER), (older, __version__)):
        process = machine.shows(UNIT, "MainPID")
        await trio.to_thread.run_sync(machine.run, "dpkg", "--install", package)
        await until(machine, partial(leads, machine, process))
        assert (machine.root / "etc/liqod/liqod.toml").read_text() == ours
        told = machine.run("dpkg-query", "--show", "--showformat=${Status} ${Version}", "liqod")
        assert told.startswith(f"install ok installed {version}")
