"""Real Helm upgrades a release that has `liqod node` in the namespace of liqod, and goes back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chart import CHART
from tests.cluster.test_chart import DEPLOYMENT, NODES, Helm
from tests.cluster.test_install import fresh
from tests.testbed import former, inventory, programs
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Member
from tests.testbed.fixtures import give_up

pytestmark = [pytest.mark.cluster, pytest.mark.release]

COMMIT = "f018b776~1"
"""The last one whose chart has `liqod node` there."""
FORMER_NODES = "/apis/apps/v1/namespaces/liqo/daemonsets/liqod-node"
PLACE = "/api/v1/namespaces/liqo-nodes"
POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/liqod-restricted-pods"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart of before."""
    packed = ["git", "-C", str(former.ROOT), "archive", COMMIT, "deploy/helm/liqod"]
    done = subprocess.run(packed, capture_output=True, check=False)
    if done.returncode != 0:
        give_up(Unavailable(f"git has no {COMMIT}: {done.stderr.decode().strip()}"))
    subprocess.run(
        ["tar", "--extract", "--directory", str(tmp_path)], input=done.stdout, check=True
    )
    return tmp_path / "deploy/helm/liqod"


@pytest.fixture(params=programs.HELMS, ids="helm{}".format)
def helm(request: pytest.FixtureRequest, helms: dict[int, str], tmp_path: Path) -> Helm:
    """Each major version of Helm."""
    return Helm(helms[request.param], tmp_path)


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """A cluster into which nothing is installed yet, and which each test leaves like that."""
    yield from fresh("genoa", 9)


def is_in_former_namespace(member: Member) -> bool:
    """True if `liqod node` is in liqod's own namespace, and in no other."""
    return member.api.exists(FORMER_NODES) and not member.api.exists(NODES)


def test_liqod_node_goes_to_its_namespace_and_back(helm: Helm, older: Path, member: Member) -> None:
    before = member.inventory()
    known = ("--set", "clusterID=genoa")
    helm.at(member, "install", "liqod", str(older), *known, "--create-namespace")
    assert is_in_former_namespace(member)

    helm.at(member, "upgrade", "liqod", str(CHART), *known)
    assert not member.api.exists(FORMER_NODES)
    assert not member.api.exists("/api/v1/namespaces/liqo/configmaps/liqod-node")
    assert member.api.exists(NODES)
    assert member.api.exists(POLICY)
    marks = member.api.get(PLACE)["metadata"]["labels"]
    assert marks["pod-security.kubernetes.io/enforce"] == "privileged"

    helm.at(member, "rollback", "liqod", "1")
    member.comes_to(DEPLOYMENT, lambda one: one["spec"]["replicas"] == 1)
    assert is_in_former_namespace(member)
    assert not member.api.exists(POLICY), "it would refuse the former pods"

    helm.at(member, "upgrade", "liqod", str(CHART), *known)
    assert member.api.exists(NODES)
    assert not member.api.exists(FORMER_NODES)
    helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)
