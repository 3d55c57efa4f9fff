"""README's "Two clusters of your own", word for word, on two real control planes.

The commands are read out of README, so that what it says is what works.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.testbed import inventory
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.daemon import STOP_DEADLINE
from tests.testbed.federation import Member
from tests.testbed.processes import Child, plain_environment, tail

pytestmark = pytest.mark.cluster

README = Path(__file__).parents[2] / "README.md"
SECTION = "Two clusters of your own"
PREPARED = ("python3 -m venv", "export PATH=")
"""How lines begin that make the environment, which is there when tests run."""


def blocks() -> list[list[str]]:
    """The code blocks of the section, each as its lines."""
    text = README.read_text().partition(f"## {SECTION}\n")[2].partition("\n## ")[0]
    found = re.findall(r"(?:^ {4,}(?! *\d\.)\S.*\n)+", text, re.M)
    return [[line.strip() for line in block.splitlines()] for block in found]


class Terminal:
    """A newcomer's folder and what is exported in it; ``liqod run`` stays up until it ends."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.environment = {
            **plain_environment(),
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}",
        }
        self.daemons: list[Child] = []

    def type(self, line: str) -> str:
        """Run a line as a shell does; its output. Fails the test if the line fails."""
        if export := re.fullmatch(r"export (\w+)=(.*)", line):
            self.environment[export[1]] = export[2].replace("$PWD", str(self.folder))
            return ""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        logs = "\n".join(tail(self.folder / f"{child.name}.log", 20) for child in self.daemons)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}\n{logs}"
        return done.stdout

    def run_daemon(self, line: str) -> None:
        """Start a daemon as in a terminal of its own."""
        name = f"daemon-{len(self.daemons)}"
        self.daemons.append(
            Child(
                name,
                ["bash", "-c", f"exec env {line}"],
                self.folder / f"{name}.log",
                cwd=self.folder,
                environment=self.environment,
            )
        )

    def stop_daemons(self) -> None:
        """Ctrl-C in each of their terminals."""
        for child in self.daemons:
            child.signal(2)
        for child in self.daemons:
            assert child.wait(STOP_DEADLINE) == 0

    def close(self) -> None:
        """End whatever still runs."""
        for child in self.daemons:
            child.kill()


@pytest.fixture
def clusters(new_control_plane: Callable[..., ControlPlane]) -> Iterator[list[Member]]:
    """Two clusters without liqod; milan has a node."""
    members = [Member(new_control_plane(name)) for name in ("rome", "milan")]
    try:
        members[1].run_nodes()
        yield members
    finally:
        for member in members:
            member.close()


@pytest.fixture
def terminal(clusters: list[Member], tmp_path: Path) -> Iterator[Terminal]:
    """The folder that README supposes."""
    for member in clusters:
        (tmp_path / f"{member.name}.kubeconfig").write_text(member.plane.kubeconfig.read_text())
    made = Terminal(tmp_path, Path(clusters[0].plane.programs.path("kubectl")).parent)
    yield made
    made.close()


def test_two_clusters_of_your_own(clusters: list[Member], terminal: Terminal) -> None:
    before = {member.name: liqods_part(member) for member in clusters}
    # What an earlier line needs to be seen before the next one makes sense.
    expected: dict[str, Callable[[], None]] = {
        "liqod status": lambda: six_pods_are_ready(terminal),
        "liqod uninstall --purge --yes": terminal.stop_daemons,
    }
    typed = []
    for block in first_files(blocks(), terminal):
        for line in block:
            if line.startswith(PREPARED):
                continue
            if "liqod run" in line:
                terminal.run_daemon(line)
                continue
            expected.get(line, lambda: None)()
            said = terminal.type(line)
            typed.append(line)
            if line == "liqod status":
                # Two daemons on one host do not take each other's ports.
                assert "already in use" not in said, said
            if line == "kubectl get nodes":
                assert re.search(r"^milan +Ready", said, re.M)
    verbs = {line.split()[1] for line in typed if line.startswith("liqod ")}
    assert verbs >= {"install", "generate", "peer", "offload", "status", "unoffload", "unpeer"}
    assert "uninstall" in verbs
    for member in clusters:
        there = before[member.name]
        wait_until(f"{member.name} as before", partial(is_as_before, member, there), 60)


def first_files(found: list[list[str]], terminal: Terminal) -> Iterator[list[str]]:
    """The blocks of commands; those that are a file are written before anything is run."""
    files = [block for block in found if block[0].startswith("[")]
    (terminal.folder / "milan.toml").write_text("\n".join(files[0]) + "\n")
    yield from (block for block in found if block not in files)


def six_pods_are_ready(terminal: Terminal) -> None:
    """Wait until ``status`` shows what README promises."""
    deadline = time.monotonic() + 60

    def ready() -> bool:
        seen = json.loads(terminal.type("liqod status -o json"))
        return bool(seen["nodes"]) and seen["nodes"][0]["pods_ready"] == 6

    wait_until("six ready pods on milan", ready, deadline - time.monotonic())


def liqods_part(member: Member) -> set[inventory.Item]:
    """Returns the objects of a cluster, without the user's own namespace and its contents."""
    return {item for item in member.inventory() if "shop" not in item}


def is_as_before(member: Member, before: set[inventory.Item]) -> bool:
    """True if nothing of liqod's is left."""
    return liqods_part(member) == before
