"""Real Helm upgrades a release of an older chart, definitions and all, and goes back.

The older one has `liqod node` in the namespace of liqod, and definitions of the revision before.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.chart import CHART
from liqod.apimachinery.labels import CRD_REVISION as REVISION
from liqod.kube.definitions import name_of
from liqod.resources import CRD_REVISION
from liqod.resources import DEFINITIONS as KINDS
from liqod.resources.about import CLUSTER, CLUSTER_SET
from tests.cluster.test_chart import DEPLOYMENT, NODES, PROPERTIES, Helm
from tests.cluster.test_install import DEFINITIONS, fresh
from tests.testbed import former, inventory, programs
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Member
from tests.testbed.fixtures import give_up

pytestmark = [pytest.mark.cluster, pytest.mark.release]

COMMIT = "f518440d~1"
"""The last one whose definitions are of the revision before."""
NOW = dict.fromkeys([name_of(each.resource.KIND) for each in KINDS], str(CRD_REVISION))
"""The revisions of our definitions, by their names."""
UPGRADE = ("upgrade", "liqod", str(CHART), "--reset-then-reuse-values")
"""The command of the page: what the older chart had no value of is as the new one has it."""
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


def definitions(member: Member) -> dict[str, str]:
    """The revision of each definition of ours, by its name."""
    found = member.api.get(DEFINITIONS)["items"]
    marks = {each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in found}
    return {name: noted[REVISION] for name, noted in marks.items() if REVISION in noted}


def test_definitions_are_upgraded_and_liqod_node_goes_to_its_namespace_and_back(
    helm: Helm, older: Path, member: Member
) -> None:
    before = member.inventory()
    known = ("--set", "clusterID=genoa")
    helm.at(member, "install", "liqod", str(older), *known, "--create-namespace")
    assert is_in_former_namespace(member)
    former_ones = definitions(member)
    assert set(former_ones.values()) == {str(CRD_REVISION - 1)}
    assert former_ones.keys() < NOW.keys()

    helm.at(member, *UPGRADE)
    assert definitions(member) == NOW
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
    assert definitions(member).keys() == NOW.keys(), "with one of them all its objects would go"
    assert former_ones.items() <= definitions(member).items()

    helm.at(member, *UPGRADE)
    assert definitions(member) == NOW
    assert member.api.exists(NODES)
    assert not member.api.exists(FORMER_NODES)
    helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)


def test_the_ids_of_a_set_come_with_an_upgrade_and_go_with_the_way_back(
    helm: Helm, older: Path, member: Member, tmp_path: Path
) -> None:
    before = member.inventory()
    quiet = ("--set", "clusterID=genoa,networking.enabled=false")
    helm.at(member, "install", "liqod", str(older), *quiet, "--create-namespace")
    named = ("--set", "clusterset.enabled=true,clusterset.name=europe")
    refused = helm.at(member, *UPGRADE, *named, check=False)
    assert 'no matches for kind "ClusterProperty"' in refused

    kind = tmp_path / "kind.yaml"
    kind.write_text(helm.run("show", "crds", str(CHART)).stdout)
    member.plane.kubectl("apply", "--server-side", "-f", str(kind))
    member.plane.kubectl("wait", "--for", "condition=Established", "-f", str(kind))
    helm.at(member, *UPGRADE, *named)
    assert member.names(PROPERTIES) == {CLUSTER, CLUSTER_SET}
    helm.at(member, "rollback", "liqod", "1")
    assert member.names(PROPERTIES) == set()

    helm.at(member, "uninstall", "liqod", "--no-hooks")
    member.liqod("uninstall", "--yes", "--purge")
    member.plane.kubectl("delete", "namespace", "liqo")
    inventory.wait_for(member.api, before, 60)
