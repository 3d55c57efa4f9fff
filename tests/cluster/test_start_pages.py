"""The pages of `docs/start` that need clusters, word for word, on two real control planes.

The commands are read out of the pages, and what these show is what is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.test_chart_uninstall import as_account
from tests.testbed import inventory, pages
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.federation import Member
from tests.testbed.pages import Terminal, Typed

pytestmark = pytest.mark.cluster

START = pages.ROOT / "docs" / "start"
BY_PACKAGE = START / "by-package.md"


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
    """The folder that the pages suppose."""
    for member in clusters:
        (tmp_path / f"{member.name}.kubeconfig").write_text(member.plane.kubeconfig.read_text())
    made = Terminal(tmp_path, Path(clusters[0].plane.programs.path("kubectl")).parent)
    yield made
    made.close()


def test_two_clusters_by_package(clusters: list[Member], terminal: Terminal) -> None:
    before = {member.name: liqods_part(member) for member in clusters}
    done = terminal.follow(
        BY_PACKAGE.read_text(), {"liqod uninstall --purge --yes": terminal.stop_daemons}
    )
    typed = dict(done)
    # Two daemons on one host do not take each other's ports.
    assert "already in use" not in typed["liqod status"]
    verbs = {line.split()[1] for line, _ in done if line.startswith("liqod ")}
    assert verbs >= {"install", "generate", "peer", "offload", "status", "unoffload", "unpeer"}
    assert "uninstall" in verbs
    for member in clusters:
        there = before[member.name]
        wait_until(f"{member.name} as before", partial(is_as_before, member, there), 60)


def liqods_part(member: Member) -> set[inventory.Item]:
    """Returns the objects of a cluster, without the user's own namespace and its contents."""
    return {item for item in member.inventory() if "shop" not in item}


def is_as_before(member: Member, before: set[inventory.Item]) -> bool:
    """True if nothing of liqod's is left."""
    return liqods_part(member) == before


@pytest.fixture
def helm(helms: dict[int, str], terminal: Terminal) -> None:
    """The newest Helm, as a newcomer has it."""
    folder = terminal.folder / "bin"
    folder.mkdir()
    (folder / "helm").symlink_to(helms[max(helms)])
    terminal.environment["PATH"] = f"{folder}:{terminal.environment['PATH']}"


@pytest.fixture
def checkout(terminal: Terminal) -> None:
    """The folder of the pages that are typed in a checkout."""
    for name in ("deploy", "examples"):
        (terminal.folder / name).symlink_to(pages.ROOT / name)


@pytest.mark.usefixtures("checkout")
def test_one_application_over_two_clusters(clusters: list[Member], terminal: Terminal) -> None:
    clusters[0].run_nodes()
    peered, _, offloaded = BY_PACKAGE.read_text().partition("\n## 4.")
    assert "offload namespace" in offloaded
    terminal.follow(peered, {})
    terminal.follow((START / "one-application.md").read_text(), {})
    assert not clusters[1].api.exists("/api/v1/namespaces/shop-rome")


@pytest.mark.usefixtures("checkout", "helm")
def test_two_clusters_by_chart(clusters: list[Member], terminal: Terminal) -> None:
    """The pods of the charts run in name only: their daemons are processes with the same rights."""
    clusters[0].run_nodes()

    def daemons() -> None:
        for member in clusters:
            member.kubeconfig.write_text(as_account(member, "liqod").read_text())
            member.daemon.start()

    def ended() -> None:
        for member in clusters:
            member.daemon.stop()

    text = (START / "by-chart.md").read_text()
    first, leaves = (
        next(
            each.line
            for each in pages.steps(text)
            if isinstance(each, Typed) and each.line.startswith(words)
        )
        for words in ("liqod generate", "helm uninstall")
    )
    terminal.follow(text, {first: daemons, leaves: ended})
    for member in clusters:
        assert not member.api.exists("/api/v1/nodes/milan")
