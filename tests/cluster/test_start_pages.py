"""The pages of `docs/start` that need clusters, word for word, on two real control planes.

The commands are read out of the pages, and what these show is what is printed. The page of the
package and those of each day are walked in every run, the chart's and its application's where what
is released has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.test_chart_uninstall import as_account
from tests.testbed import inventory, pages, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.controlplane import ControlPlane
from tests.testbed.federation import Member
from tests.testbed.pages import Terminal, Typed

pytestmark = pytest.mark.cluster


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


@pytest.mark.timeout(1200)  # some seventy commands, each a program of its own
def test_two_clusters_by_package(clusters: list[Member], terminal: Terminal) -> None:
    before = {member.name: liqods_part(member) for member in clusters}
    offloaded, step, rest = shownblocks.whole("start/by-package").partition("\n## 5.")
    done = terminal.follow(offloaded, {})
    day_by_day(terminal)
    away = {"liqod uninstall --purge --yes": terminal.stop_daemons}
    done += terminal.follow(step + rest, away)
    typed = dict(done)
    # Two daemons on one host do not take each other's ports.
    assert "already in use" not in typed["liqod status"]
    verbs = {line.split()[1] for line, _ in done if line.startswith("liqod ")}
    assert verbs >= {"install", "generate", "peer", "offload", "status", "unoffload", "unpeer"}
    assert "uninstall" in verbs
    for member in clusters:
        there = before[member.name]
        wait_until(f"{member.name} as before", partial(is_as_before, member, there), 60)


def day_by_day(terminal: Terminal) -> None:
    """The commands of how-to pages, where rome borrows from milan and shop is offloaded."""
    terminal.section(shownblocks.commands("how-to/peering", "3. Look", only="kubectl"))
    terminal.section(shownblocks.commands("how-to/peering", "3. Look", only="liqod status"))
    terminal.section(shownblocks.commands("how-to/manifests", "Look"))
    terminal.section(shownblocks.commands("how-to/invitation", "While it waits"))
    for pod in ("web-0", "web-1"):
        terminal.type(f"kubectl -n shop run {pod} --image=nginx")
        terminal.type(f"kubectl -n shop wait --for=condition=Ready pod/{pod}")
    diagnosis(terminal)
    terminal.section(shownblocks.commands("how-to/discovery", "", "By DNS", "By an inventory"))
    seen = shownblocks.commands("how-to/invitation", "By a request", only="liqod discover")
    terminal.section(seen)
    terminal.type("kubectl -n shop get deployment web -o yaml > web.yaml")
    terminal.section(shownblocks.commands("how-to/explain", "", "A virtual node's numbers"))
    terminal.section(shownblocks.commands("how-to/volumes", ""))
    terminal.type("kubectl -n shop create ingress web --rule=shop.example/=web:80")
    exposed = shownblocks.commands("how-to/expose", "To pods in both clusters", "By an Ingress")
    terminal.section([*exposed, *shownblocks.commands("how-to/expose", "Look", only="kubectl")])
    terminal.section(shownblocks.commands("how-to/gitops", "A repository"))
    (terminal.folder / "rome").symlink_to(pages.ROOT / "examples" / "gitops" / "rome")
    changes = shownblocks.commands("how-to/gitops", "What a change would do", only="liqod")
    changes += shownblocks.commands("how-to/gitops", "What a change would do", only="kubectl")
    terminal.section(changes, statuses=(2,))
    terminal.section(shownblocks.commands("how-to/offload", "2. Offload it", only="kubectl"))
    terminal.section(shownblocks.commands("how-to/offload", "Look"))
    first = shownblocks.commands("how-to/offload", "Have its pods wait for a place here first")
    terminal.section(first)
    terminal.type("kubectl annotate namespaceoffloading offloading -n shop liqod.io/home-first-")
    terminal.section(shownblocks.commands("how-to/returns", "See why", "Try it again at once"))
    terminal.section(shownblocks.commands("how-to/returns", "Have pods wait at their peer"))
    terminal.type("kubectl annotate namespaceoffloading offloading -n shop liqod.io/return-")
    terminal.section(shownblocks.commands("how-to/returns", "Have pods of a Job return"))
    terminal.section(shownblocks.commands("how-to/wheels", "Completion"))
    again, _ = shownblocks.commands("how-to/upgrades", "2. Install")  # the other is for pods
    terminal.section([again, *shownblocks.commands("how-to/upgrades", "5. Look")])
    terminal.section(shownblocks.commands("how-to/rotate-key", "Steps", "Look"))
    own = "rome-at-milan.kubeconfig"
    terminal.section(
        shownblocks.commands("how-to/peering", "More from the same peer"), {"FILE": own}
    )
    terminal.section(shownblocks.commands("how-to/virtual-nodes", "2. rome asks for the nodes"))
    terminal.section(shownblocks.commands("how-to/take-away", "Look"))


def diagnosis(terminal: Terminal) -> None:
    """The page's commands for a daemon of this host. Its pods run in name only, without a log."""
    terminal.section(
        shownblocks.commands("how-to/diagnose", "1. What is wrong here", "2. Which layer fails")
    )
    for shown in (
        shownblocks.commands(
            "how-to/diagnose", "3. Why a pod is where it is", only="liqod explain"
        ),
        shownblocks.commands("how-to/diagnose", "3. Why a pod is where it is", only="kubectl"),
        shownblocks.commands("how-to/diagnose", "3. Why a pod is where it is", only="liqod diff"),
        shownblocks.commands("how-to/diagnose", "5. What the daemon does", only="liqod tasks"),
        shownblocks.commands("how-to/diagnose", "5. What the daemon does", only="liqod history"),
        shownblocks.commands("how-to/diagnose", "7. Report it"),
    ):
        terminal.section(shown)
    # Both go on until a key ends them.
    [top] = shownblocks.commands("how-to/diagnose", "5. What the daemon does", only="liqod top")
    terminal.glance(top.line, "milan", "q")
    [events] = shownblocks.commands(
        "how-to/diagnose", "5. What the daemon does", only="liqod events"
    )
    terminal.glance(events.line, "milan")


def the_chart_day_by_day(terminal: Terminal) -> None:
    """The commands of how-to pages about a daemon in the cluster, in which the chart is."""
    settings = shownblocks.commands("how-to/in-cluster", "Configuration")
    terminal.section(settings)
    terminal.type("helm get values liqod -n liqo > values.yaml")
    changes = shownblocks.commands("how-to/gitops", "What a change would do", only="helm")
    terminal.section(changes, {"CHART": "deploy/helm/liqod"}, statuses=(0, 2))
    terminal.section(shownblocks.commands("how-to/chart", "What is otherwise than by the command"))
    looks = shownblocks.commands("how-to/in-cluster", "2. Look whether it works")
    terminal.section(looks, statuses=(0, 1))  # nobody answers the webhook in pods by name only
    node = terminal.type("kubectl get nodes -o name").partition("\n")[0].removeprefix("node/")
    drains = shownblocks.commands("how-to/in-cluster", "Drain the gateway's node")
    terminal.section(drains, {"NODE": node})
    terminal.type(f"kubectl uncordon {node}")


def liqods_part(member: Member) -> set[inventory.Item]:
    """Returns the objects of a cluster, without the user's own namespace and its contents."""
    return {item for item in member.inventory() if "shop" not in item}


def is_as_before(member: Member, before: set[inventory.Item]) -> bool:
    """True if nothing of liqod's is left."""
    return liqods_part(member) == before


@pytest.fixture
def helm(newest_helm: str, terminal: Terminal) -> None:
    """The newest Helm, as a newcomer has it."""
    folder = terminal.folder / "bin"
    folder.mkdir()
    (folder / "helm").symlink_to(newest_helm)
    terminal.environment["PATH"] = f"{folder}:{terminal.environment['PATH']}"


@pytest.fixture
def checkout(terminal: Terminal) -> None:
    """The folder of the pages that are typed in a checkout."""
    for name in ("deploy", "examples"):
        (terminal.folder / name).symlink_to(pages.ROOT / name)


@pytest.mark.release
@pytest.mark.usefixtures("checkout")
def test_one_application_over_two_clusters(clusters: list[Member], terminal: Terminal) -> None:
    clusters[0].run_nodes()
    peered, _, offloaded = shownblocks.whole("start/by-package").partition("\n## 4.")
    assert "offload namespace" in offloaded
    terminal.follow(peered, {})
    terminal.follow(shownblocks.whole("start/one-application"), {})
    assert not clusters[1].api.exists("/api/v1/namespaces/shop-rome")


@pytest.mark.release
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

    text = shownblocks.whole("start/by-chart")
    offloaded, step, rest = text.partition("\n## 4.")
    first, leaves = (
        next(
            each.line
            for each in pages.steps(text)
            if isinstance(each, Typed) and each.line.startswith(words)
        )
        for words in ("liqod generate", "helm uninstall")
    )
    terminal.follow(offloaded, {first: daemons})
    the_chart_day_by_day(terminal)
    terminal.follow(step + rest, {leaves: ended})
    for member in clusters:
        assert not member.api.exists("/api/v1/nodes/milan")
