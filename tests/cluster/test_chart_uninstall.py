"""`helm uninstall` of a cluster with peers: the chart's Job leaves them, and never holds Helm up.

No kubelet is here: what the Job's pod would run is run as a process, with exactly the rights of the
pod's ServiceAccount, and so is the release's daemon.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.chart import CHART
from deploy.charthooks import DEADLINE
from liqod.install.departurerights import ACCOUNT, CLUSTER_RULES, RULES
from tests.cluster.test_chart import DEPLOYMENT, RELEASES, Helm
from tests.cluster.test_install import DEFINITIONS
from tests.testbed import audit, evidence, inventory, programs, shownblocks
from tests.testbed.api import wait_until
from tests.testbed.clusters import FOREIGN_CLUSTERS, pod_cidr
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Federation, Member
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.pages import Terminal
from tests.testbed.processes import plain_environment

pytestmark = [pytest.mark.cluster, pytest.mark.release]

OFFLOADINGS = "/apis/offloading.liqo.io/v1beta1/namespaceoffloadings"
JOBS = "/apis/batch/v1/namespaces/liqo/jobs"
NETWORKS = ("configurations", "gatewayclients", "gatewayservers", "publickeies")
AGREEMENTS = ("incomingpeerings", "invitations", "outgoingpeerings", "secrets")
UNUSED = {(each, "delete") for each in (*NETWORKS, *AGREEMENTS)}
"""No networks are joined here, and nobody peers by invitation."""
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=programs.HELMS, ids="helm{}".format)
def helm(request: pytest.FixtureRequest, helms: dict[int, str], tmp_path: Path) -> Helm:
    """Each major version of Helm."""
    return Helm(helms[request.param], tmp_path)


@pytest.fixture
def newest(helms: dict[int, str], tmp_path: Path) -> Helm:
    """Helm of the newest major version."""
    return Helm(helms[max(programs.HELMS)], tmp_path)


@pytest.fixture(scope="module")
def planes() -> Iterator[list[ControlPlane]]:
    """rome, for the release, and milan."""
    try:
        made = [
            ControlPlane(name, Settings(audit=True, pod_cidr=pod_cidr(index)))
            for index, name in enumerate(("rome", "milan"))
        ]
    except Unavailable as reason:
        give_up(reason)
    start_all(made)
    yield made
    for plane in made:
        evidence.remove(plane.name, plane.logs)
        plane.destroy()


@pytest.fixture
def federation(planes: list[ControlPlane]) -> Iterator[Federation]:
    """milan with liqod, whose daemon runs; rome, into which nothing is installed."""
    made = Federation()
    made.members["rome"] = Member(planes[0])
    milan = made.join(planes[1], nodes=0)
    yield made
    # What a peer keeps of its own half, and the next rome has another key.
    milan.liqod("unpeer", "rome", "--yes", check=False)
    made.close()


def as_account(member: Member, name: str) -> Path:
    """A kubeconfig with the rights of a ServiceAccount of the release, and no others."""
    kubectl = member.plane.kubectl
    token = kubectl("create", "token", name, "--namespace", "liqo").strip()
    config = yaml.safe_load(member.plane.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = member.folder / f"{name}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


class JobsNode:
    """Stands for the node of the Job's pod.

    Attributes:
        said: the program's output.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._ended = threading.Event()
        self.said = ""

    def run(self) -> None:
        """Waits for the pod, runs its program and writes the pod's end."""
        kubectl = self._member.plane.kubectl
        which = ("--namespace", "liqo", "--selector", f"job-name={ACCOUNT}", "-o", "json")
        while not self._ended.wait(0.2):
            for pod in json.loads(kubectl("get", "pods", *which))["items"]:
                if pod["status"]["phase"] == "Pending":
                    self._work(pod)

    def _work(self, pod: dict[str, Any]) -> None:
        [container] = pod["spec"]["containers"]
        config = as_account(self._member, pod["spec"]["serviceAccountName"])
        answer = subprocess.run(
            [sys.executable, *container["command"][1:]],
            env={**plain_environment(), "KUBECONFIG": str(config), "LIQOD_NAMESPACE": "liqo"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        self.said = answer.stdout + answer.stderr
        phase = "Failed" if answer.returncode else "Succeeded"
        name = pod["metadata"]["name"]
        change = ("--type", "merge", "--patch", json.dumps({"status": {"phase": phase}}))
        kubectl = self._member.plane.kubectl
        kubectl("patch", "pod", name, "--namespace", "liqo", "--subresource", "status", *change)

    def end(self) -> None:
        """Ends it."""
        self._ended.set()


@contextmanager
def jobs_node(member: Member) -> Iterator[JobsNode]:
    """A node that runs the Job, while the block lasts."""
    made = JobsNode(member)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.end()
        thread.join()


def install(helm: Helm, rome: Member) -> None:
    """Installs the release, and runs its daemon as a process with the rights of its account."""
    named = (str(CHART), "--set", "clusterID=rome", "--create-namespace")
    helm.at(rome, "install", "liqod", *named)
    rome.kubeconfig.write_text(as_account(rome, "liqod").read_text())
    rome.daemon.start()


def uninstall(helm: Helm, rome: Member, *arguments: str) -> tuple[str, float]:
    """`helm uninstall`; what the Job said, and how long it took."""
    began = time.monotonic()
    with jobs_node(rome) as node:
        helm.at(rome, "uninstall", "liqod", *arguments)
    took = time.monotonic() - began
    print(f"helm uninstall took {took:.1f} s")
    assert not rome.api.exists(DEPLOYMENT)
    assert not [name for name in rome.names("/api/v1/secrets") if name.startswith(RELEASES)]
    for kind in ("clusterroles", "clusterrolebindings"):
        assert ACCOUNT not in rome.names(f"/apis/rbac.authorization.k8s.io/v1/{kind}")
    return node.said, took


def taken_out(rome: Member, *arguments: str) -> None:
    """The second command of the documentation, after which nothing is left."""
    rome.liqod("uninstall", "--yes", "--purge", *arguments)
    rome.plane.kubectl("delete", "namespace", "liqo")


def test_peers_are_left_by_the_job(helm: Helm, federation: Federation) -> None:
    rome, milan = federation.members["rome"], federation.members["milan"]
    before = rome.inventory()
    install(helm, rome)
    federation.peer(rome, milan)
    federation.peer(milan, rome)
    said, took = uninstall(helm, rome)
    rome.daemon.stop()
    assert "milan keeps its virtual nodes and slices, its Tenant rome until" in said
    assert rome.names(FOREIGN_CLUSTERS) == set()
    assert took < 60
    taken_out(rome)
    inventory.wait_for(rome.api, before, 60)


def test_the_page_about_the_chart_is_typed(
    helms: dict[int, str], federation: Federation, tmp_path: Path
) -> None:
    """By its Job peers are left; without it they stay for the next release."""
    rome, milan = federation.members["rome"], federation.members["milan"]
    before = rome.inventory()
    programs_of_reader = tmp_path / "bin"
    programs_of_reader.mkdir()
    (programs_of_reader / "helm").symlink_to(helms[max(helms)])
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    terminal = Terminal(tmp_path, programs_of_reader)
    terminal.environment["KUBECONFIG"] = str(rome.plane.kubeconfig)
    named = {"https://rome.example:6443": rome.plane.server}
    changes, goes = shownblocks.parted(
        shownblocks.commands("how-to/chart", "Upgrades, and away with it"), "helm uninstall"
    )
    uninstall, purge, without_job = ([each] for each in goes)

    terminal.section(shownblocks.commands("how-to/chart", ""), named)
    rome.kubeconfig.write_text(as_account(rome, "liqod").read_text())
    rome.daemon.start()
    terminal.section(changes)
    federation.peer(rome, milan)
    terminal.section(without_job)
    assert rome.names(FOREIGN_CLUSTERS) == {"milan"}
    rome.daemon.kill()

    terminal.section(shownblocks.commands("how-to/chart", ""), named)
    rome.kubeconfig.write_text(as_account(rome, "liqod").read_text())
    rome.daemon.start()
    wait_until("the node", lambda: rome.node_is_ready("milan"), 40)
    with jobs_node(rome) as node:
        terminal.section(uninstall)
    rome.daemon.stop()
    assert "milan keeps its Tenant rome until" in node.said
    terminal.section(purge)
    rome.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(rome.api, before, 60)


def test_a_dead_peer_and_an_offloaded_namespace_hold_nothing_up(
    newest: Helm, federation: Federation
) -> None:
    rome, milan = federation.members["rome"], federation.members["milan"]
    install(newest, rome)
    federation.peer(rome, milan)
    rome.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rome.liqod("offload", "namespace", "shop")
    milan.plane.stop()
    said, took = uninstall(newest, rome)
    rome.daemon.stop()
    assert "milan does not answer: what it has of this cluster goes when liqod is here" in said
    assert took < DEADLINE
    assert rome.names(OFFLOADINGS) == set()
    refused = rome.liqod("uninstall", "--yes", check=False)
    assert "`liqod uninstall --forget`" in refused.stderr
    rome.plane.kubectl("delete", "namespace", "shop")

    # The release is back: what is at the peer goes when it answers.
    milan.plane.start()
    install(newest, rome)
    rome.goes(f"{FOREIGN_CLUSTERS}/milan", 60)
    uninstall(newest, rome)
    rome.daemon.stop()
    taken_out(rome)


def test_without_a_daemon_or_the_job_peers_stay_for_the_next_release(
    newest: Helm, federation: Federation
) -> None:
    rome, milan = federation.members["rome"], federation.members["milan"]
    install(newest, rome)
    federation.peer(rome, milan)
    # Nobody answers at its webhook, either.
    rome.daemon.kill()
    said, took = uninstall(newest, rome)
    assert said == "no daemon works here: milan stays as it is\n"
    assert took < 30
    refused = rome.liqod("uninstall", "--yes", check=False)
    assert "this cluster is peered with milan" in refused.stderr

    install(newest, rome)
    wait_until("the node", lambda: rome.node_is_ready("milan"), 40)
    newest.at(rome, "uninstall", "liqod", "--no-hooks")
    rome.daemon.kill()
    refused = rome.liqod("uninstall", "--yes", check=False)
    assert "this cluster is peered with milan" in refused.stderr

    install(newest, rome)
    said, _ = uninstall(newest, rome)
    rome.daemon.stop()
    assert "milan keeps its Tenant rome until" in said
    taken_out(rome)


def test_an_image_that_cannot_be_had_holds_helm_up_for_the_jobs_time_alone(
    newest: Helm, federation: Federation
) -> None:
    """To Helm and the Job's controller a pod without its image is one that nobody starts."""
    rome = federation.members["rome"]
    before = rome.inventory()
    named = (str(CHART), "--set", "clusterID=rome,image=registry.invalid/liqod:1")
    waiting = ("--create-namespace", "--wait", "--timeout", "20s")
    said = newest.at(rome, "install", "liqod", *named, *waiting, check=False)
    assert "INSTALLATION FAILED" in said
    assert "resource Deployment/liqo/liqod not ready" in said
    assert "STATUS: failed" in newest.at(rome, "status", "liqod")
    newest.at(rome, "upgrade", "liqod", *named)
    assert "STATUS: deployed" in newest.at(rome, "status", "liqod")

    # Longer than Helm's own five minutes, in whose words it would not be the Job that failed.
    said = newest.at(rome, "uninstall", "liqod", check=False, within=3 * DEADLINE)
    assert "resource Job/liqo/liqod-uninstall not ready. status: Failed" in said
    [ended] = rome.api.get(f"{JOBS}/{ACCOUNT}")["status"]["conditions"][-1:]
    assert (ended["type"], ended["reason"]) == ("Failed", "DeadlineExceeded")
    assert rome.api.exists(DEPLOYMENT)
    assert ACCOUNT not in rome.names("/apis/rbac.authorization.k8s.io/v1/clusterroles")
    newest.at(rome, "uninstall", "liqod", "--no-hooks")
    taken_out(rome)
    inventory.wait_for(rome.api, before, 60)


def test_without_definitions_nothing_is_held_up(helm: Helm, federation: Federation) -> None:
    """Somebody deletes liqod's definitions first, and with them every object of theirs."""
    rome, milan = federation.members["rome"], federation.members["milan"]
    before = rome.inventory()
    install(helm, rome)
    federation.peer(rome, milan)
    kubectl = rome.plane.kubectl
    names = [each for each in rome.names(DEFINITIONS) if each.endswith("liqo.io")]
    kubectl("delete", "customresourcedefinitions", *names, "--wait=false")
    said, took = uninstall(helm, rome)
    rome.daemon.stop()
    assert "`liqod unpeer rome` at milan ends what is there of this cluster" in said
    assert took < DEADLINE
    milan.liqod("unpeer", "rome", "--yes")
    taken_out(rome)
    inventory.wait_for(rome.api, before, 60)


def test_the_job_has_the_rights_that_it_needs_and_no_others(planes: list[ControlPlane]) -> None:
    """By all that it has done above."""
    asked = audit.of_user(planes[0].folder / "audit.log", f"system:serviceaccount:liqo:{ACCOUNT}")
    assert sorted(one for one in asked if one.code == audit.FORBIDDEN) == []
    assert audit.unused((*CLUSTER_RULES, *RULES), asked) == UNUSED
