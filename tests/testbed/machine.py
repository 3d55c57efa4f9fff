"""One pretended machine: network, mount and process namespaces that live as long as one process.

Everything inside goes when that process goes: pods, mounts, interfaces, and the link to the rest of
the machine, which is a veth pair with addresses from 198.18.0.0/15 (RFC 2544, for tests) and, in
IPv6, from the unique local addresses fd00:198:18::/48. The host
reaches the machine at `address`, it reaches the host at `gateway`. cgroups are the only thing
shared with the host, so their owner removes those.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.testbed.errors import TestbedError, Unavailable
from tests.testbed.processes import Child

CGROUPS = Path("/sys/fs/cgroup")
NETWORK6 = "fd00:198:18"
"""Begins the addresses of IPv6; the index of the machine follows."""

CABLES = ("up", "to")
"""How the names of links to other machines begin."""

# The first process of the machine: it adopts what daemons leave behind and reaps it. Python ignores
# nothing by default but SIGPIPE; process 1 of a namespace is not killed by signals it does not
# handle.
_INIT = """
import os, time
print("up", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.2)
"""


class Machine:
    """Namespaces made by the constructor, gone with `destroy` or with this process."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self._init = Child(
            f"{name}/init",
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL"),
                *("--mount-proc", sys.executable, "-I", "-S", "-u", "-c", _INIT),
            ],
            folder / "init.log",
        )
        self.pid = self._first_process()
        # What daemons write where they please stays inside.
        for folder_of_daemons in ("/run", "/var/lib", "/var/log"):
            self.run("mount", "-t", "tmpfs", "tmpfs", folder_of_daemons)
        self.index, self.interface = self._connect()
        self._link = _link(self.interface)
        self.address = f"198.18.{self.index}.2"
        self.gateway = f"198.18.{self.index}.1"
        self.address6 = f"{NETWORK6}:{self.index:x}::2"

    def _first_process(self) -> int:
        """The host's id of the machine's process 1, once that is up."""
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children")
        log = self.folder / "init.log"
        deadline = time.monotonic() + 10
        while not log.exists() or log.read_text() != "up\n":
            if not self._init.alive or time.monotonic() > deadline:
                self._init.kill()
                raise Unavailable(f"no namespaces of our own: {log.read_text().strip()}")
            time.sleep(0.01)
        return int(children.read_text().split()[0])

    def _connect(self) -> tuple[int, str]:
        """Links the machine to the host; the first free index names interface and network."""
        for index in range(1, 255):
            interface = f"liqod{index}"
            pair = ["ip", "link", "add", interface, "type", "veth"]
            answer = subprocess.run(
                [*pair, "peer", "name", "up0", "netns", str(self.pid)],
                capture_output=True,
                text=True,
                check=False,
            )
            if answer.returncode == 0:
                break
            if "exists" not in answer.stderr:
                raise Unavailable(f"no link to the machine's own network: {answer.stderr.strip()}")
        else:
            raise Unavailable("254 test machines run already")
        run("ip", "address", "add", f"198.18.{index}.1/24", "dev", interface)
        run("ip", "link", "set", interface, "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"198.18.{index}.2/24", "dev", "up0")
        self.run("ip", "address", "add", f"{NETWORK6}:{index:x}::2/64", "dev", "up0", "nodad")
        self.run("ip", "link", "set", "up0", "up")
        self.run("ip", "route", "add", "default", "via", f"198.18.{index}.1")
        # Nobody is there; but what is for a Service is sent only where there is a way at all.
        nobody = ("via", f"{NETWORK6}:{index:x}::1", "dev", "up0", "onlink")
        self.run("ip", "-6", "route", "add", "default", *nobody)
        return index, interface

    def join(self, other: Machine) -> None:
        """Lays a cable to another machine: each reaches the other's address by it, not by the
        host."""
        here, there = f"to{other.index}", f"to{self.index}"
        pair = ("ip", "link", "add", here, "netns", str(self.pid), "type", "veth")
        run(*pair, "peer", "name", there, "netns", str(other.pid))
        for one, name, far in ((self, here, other), (other, there, self)):
            one.run("ip", "link", "set", name, "up")
            one.run("ip", "route", "add", far.address, "dev", name, "src", one.address)
            # A neighbour of IPv6 answers for addresses of the very interface only.
            one.run("ip", "-6", "address", "add", f"{one.address6}/128", "dev", name, "nodad")
            one.run("ip", "-6", "route", "add", far.address6, "dev", name, "src", one.address6)

    def unplug(self) -> None:
        """Has nothing come in or go out by any of its links, and nobody told of it."""
        links = [each["ifname"] for each in json.loads(self.run("ip", "-j", "link"))]
        devices = ", ".join(name for name in links if name.startswith(CABLES))
        words = "type filter hook {0} devices = {{ {1} }} priority -500; policy drop;"
        for hook in ("ingress", "egress"):
            self.run("nft", "add", "table", "netdev", "unplugged")
            chain = f"{{ {words.format(hook, devices)} }}"
            self.run("nft", "add", "chain", "netdev", "unplugged", hook, chain)

    def plug(self) -> None:
        """Has all come and go again."""
        self.run("nft", "delete", "table", "netdev", "unplugged")

    @property
    def network(self) -> tuple[str, ...]:
        """Starts a program in the machine's network only, its process id as seen from the host."""
        # Not `ip netns exec`: it mounts a new /sys and hides the cgroups.
        return ("nsenter", f"--net=/proc/{self.pid}/ns/net")

    @property
    def inside(self) -> tuple[str, ...]:
        """Starts a program wholly inside, where it ends with the machine."""
        return ("nsenter", "--target", str(self.pid), "--net", "--mount", "--pid")

    def run(self, *command: str) -> str:
        """The output of a command inside; raises `TestbedError` on failure."""
        return run(*self.inside, *command)

    def destroy(self) -> None:
        """Kills every process inside; the kernel takes down the rest."""
        self._init.kill()
        # A program that is only in the network would keep it, and the link, alive. Else the kernel
        # takes it away at any moment, and another machine may get its name.
        with suppress(TestbedError):
            if _link(self.interface) == self._link:
                run("ip", "link", "delete", self.interface)
        if _link(self.interface) == self._link:
            raise TestbedError(f"{self.interface} stays")


def _link(interface: str) -> int:
    """The kernel's index of a link, which no later one gets; 0 where there is none."""
    try:
        return int(Path(f"/sys/class/net/{interface}/ifindex").read_text())
    except OSError:
        return 0


def make_cgroups(name: str) -> None:
    """A cgroup of this name in every hierarchy, so that each kubelet has a root of its own."""
    for hierarchy in hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    # A new cpuset (v1) has no CPUs and takes no process until it is given some.
    cpuset = CGROUPS / "cpuset"
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (cpuset / name / file).exists():
            (cpuset / name / file).write_text((cpuset / file).read_text())


def remove_cgroups(name: str) -> None:
    """Removes what `make_cgroups` made and whatever is below it."""
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / name, topdown=False):
            remove_cgroup(Path(folder))


def hierarchies() -> list[Path]:
    """The roots under which cgroups are made: one for each v1 controller, or the only v2 one."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()]


def remove_cgroup(folder: Path) -> None:
    """Removes one cgroup once its processes, killed already, are gone."""
    deadline = time.monotonic() + 5
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def run(*command: str) -> str:
    """The output of a command; raises `TestbedError` with its complaint on failure."""
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise TestbedError(f"{' '.join(command)}: {(answer.stderr or answer.stdout).strip()}")
    return answer.stdout
