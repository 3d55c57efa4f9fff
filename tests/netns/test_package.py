"""Debian's package on a gateway: no end of its programs costs a packet, a purge leaves nothing.

The gateway is a machine of Debian's with systemd as PID 1, in the network namespace of rome's node.
Both API servers are embedded, and each node has a doorway to them.
"""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.model import ids
from liqod.network.dataplane.names import PeerNames
from liqod.resources import CONFIGURATIONS, Configuration
from tests.netns.flows import flowing
from tests.netns.lab import Cluster, Lab, Pod, run
from tests.netns.test_floods import has_ranges
from tests.simulated.borrower import eventually
from tests.simulated.install.test_deb import NODE, UNIT, WATCHED, leads, until
from tests.simulated.processes import Site, sites
from tests.testbed.daemon import toml
from tests.testbed.debian import NEWER, Debian, Machine, booted
from tests.testbed.netns import Networks, doorway, state

pytestmark = [
    *(pytest.mark.netns, pytest.mark.release, pytest.mark.timeout(1200)),
    pytest.mark.usefixtures("networks"),
]

PROGRAM = "/usr/local/bin/wireguard"
GATEWAY = "/usr/share/doc/liqod/examples/liqod-gateway.conf"
PID = "PID"
WAYS = {
    ("kill", "-KILL", PID): "killed",
    ("kill", "-STOP", PID): "watchdog",
    ("systemctl", "reload-or-restart", NODE): "stopping on SIGTERM",
}
"""Commands that end `liqod node`, whose process is in the place of a word, and what is logged."""
DROP_IN = "/etc/systemd/system/liqod-node.service.d/gateway.conf"


def settings(number: int, program: str) -> dict[str, Any]:
    """The configuration of one of both daemons; each has a machine's ports for itself."""
    return {
        "cluster": {"pod_cidrs": ["10.244.0.0/16"]},
        "webhook": {"enabled": False},
        "network": {"advertise": [f"198.51.100.{number}"], "daemon": "liqod"},
        "plugins": {"settings": {"wireguard": {"program": program, "kernel": False}}},
    }


@dataclass
class Joined:
    """Rome's daemon in a machine of Debian's, milan's as a process, and a pod of each."""

    rome: Site
    milan: Site
    machine: Machine
    node: Cluster
    pods: tuple[Pod, Pod]

    async def alias(self) -> str:
        """The address under which rome's pod is seen by milan."""
        place = ids.tenant_namespace(self.rome.name)
        found = await self.milan.admin.get(
            CONFIGURATIONS, self.rome.name, place, decode=Configuration
        )
        assert found.status.remote is not None
        return str(ip_network(found.status.remote.cidr.pod[0])[5])


def nodes(lab: Lab) -> tuple[Pod, Pod]:
    """Gives both clusters a node on one network, and a pod."""
    one, other = lab.rome.node, lab.milan.node
    for node in (one, other):
        lab.make(node)
    run(*f"ip -n {one} link add wan type veth peer name wan netns {other}".split())
    for number, node in enumerate((one, other), 1):
        run("ip", "-n", node, "addr", "add", f"198.51.100.{number}/24", "dev", "wan")
        run("ip", "-n", node, "link", "set", "wan", "up")
        run("ip", "-n", node, "route", "add", "default", "via", f"198.51.100.{3 - number}")
    return lab.rome.pod("pod", 5), lab.milan.pod("pod", 6)


@asynccontextmanager
async def joined(debian: Debian, folder: Path, wireguard: str) -> AsyncIterator[Joined]:
    """Two clusters that lend to each other, their networks joined."""
    word = f"t{secrets.token_hex(2)}"
    lab = Lab(folder, word)
    layer = folder / "layer"
    layer.mkdir()
    names = (f"{word}r", f"{word}m")
    doors = ExitStack()
    try:
        pods = nodes(lab)
        place = f"/run/netns/{lab.rome.node}"
        options = (
            f"--network-namespace-path={place}",
            "--capability=CAP_NET_ADMIN",
            "--bind=/dev/net/tun",
        )
        async with sites(folder, *names) as (rome, milan):
            for node in (lab.rome.node, lab.milan.node):
                for site in (rome, milan):
                    doors.enter_context(doorway(node, site.cluster.port))
            milan.daemon.settings = settings(2, wireguard)
            milan.daemon.settings["network"].pop("daemon")  # both are root's
            milan.daemon.enter = ("nsenter", f"--net=/run/netns/{lab.milan.node}")
            await milan.start()
            with booted(debian, layer, *options) as machine:
                await trio.to_thread.run_sync(begin, machine, debian, rome, wireguard)
                await until(machine, partial(leads, machine))
                yield Joined(rome, milan, machine, lab.rome, pods)
    finally:
        doors.close()
        lab.close()
        run("ip", "netns", "delete", PeerNames(*names[::-1]).namespace, check=False)


def begin(machine: Machine, debian: Debian, rome: Site, wireguard: str) -> None:
    """Installs the package as on a gateway, and starts it."""
    # nspawn locks it, also for what is a network namespace's own.
    machine.run("mount", "--options", "remount,bind,rw", "/proc/sys")
    shutil.copy(wireguard, machine.root / PROGRAM.lstrip("/"))
    machine.run("dpkg", "--install", f"/packages/{debian.package.name}")
    folder = machine.root / "etc/liqod"
    (folder / "kubeconfig").write_text(rome.daemon.kubeconfig.read_text())
    (folder / "node.kubeconfig").write_text(rome.daemon.kubeconfig.read_text())
    (folder / "liqod.toml").write_text(toml(settings(1, PROGRAM)))
    machine.run("install", "-D", "-m", "0644", GATEWAY, DROP_IN)
    (machine.root / "etc/systemd/system/liqod-node.service.d/test.conf").write_text(WATCHED)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "liqod-node")
    machine.run("systemctl", "start", UNIT)


def is_begun_anew(machine: Machine, process: str) -> bool:
    """True if `liqod node` is ready, as another process than one before."""
    seen = machine.properties(NODE, "ActiveState", "MainPID")
    return seen["ActiveState"] == "active" and seen["MainPID"] not in (process, "0")


async def begins_anew(machine: Machine, *words: str) -> None:
    """Has a command end `liqod node`; systemd starts it again."""
    process = machine.shows(NODE, "MainPID")
    await trio.to_thread.run_sync(
        machine.run, *(process if each == PID else each for each in words)
    )
    await until(machine, partial(is_begun_anew, machine, process))


def left(machine: Machine) -> list[str]:
    """Names of networks, and programs, that the machine still has of liqod."""
    names = machine.run("sh", "-c", "ls /run/netns 2>/dev/null || true").split()
    return names + [each for each in machine.run("ps", "-eo", "args").splitlines() if "lqt" in each]


async def test_an_upgrade_costs_no_packet_and_a_purge_leaves_nothing(
    debian: Debian, tmp_path: Path, wireguard: str, networks: Networks
) -> None:
    async with joined(debian, tmp_path, wireguard) as both:
        machine, node = both.machine, both.node.node
        before = state(node)
        # Networks of clusters that do not know their own ranges yet are joined later.
        for site in (both.rome, both.milan):
            await eventually(partial(has_ranges, site))
        user = await both.milan.user_for(both.rome.name)
        await both.rome.liqod("peer", "--remote-kubeconfig", str(user))
        async with flowing(both.pods[1], await both.alias()) as flow:
            began, process = time.monotonic(), machine.shows(UNIT, "MainPID")
            await begins_anew(machine, "dpkg", "--install", f"/packages/{debian.newer.name}")
            await until(machine, partial(leads, machine, process))
            for way, said in WAYS.items():
                await begins_anew(machine, *way)
                assert said in machine.log(NODE)
            await trio.sleep(2.0)
            await flow.loses_none(began)
        assert NEWER in machine.run("dpkg-query", "--show", "--showformat=${Version}", "liqod")
        assert left(machine)
        await trio.to_thread.run_sync(machine.run, "dpkg", "--purge", "liqod")
        assert left(machine) == []
        assert state(node) == before
