"""`liqod install` and `uninstall` on a cluster of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from liqod.install import installerrights
from liqod.install.installerrights import InstallerRight
from liqod.install.manifests import Options, manifests
from tests.testbed import commands, evidence, inventory
from tests.testbed.api import wait_until
from tests.testbed.clusters import pod_cidr
from tests.testbed.controlplane import ControlPlane, Settings
from tests.testbed.errors import Unavailable
from tests.testbed.federation import Member
from tests.testbed.fixtures import give_up, start_all
from tests.testbed.inventory import Item
from tests.testbed.processes import plain_environment

pytestmark = pytest.mark.cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    """A cluster into which nothing is installed yet.

    The first test leaves it like that, and from the second on liqod is in it.
    """
    yield from fresh("genoa", 9)


@pytest.fixture
def another() -> Iterator[Member]:
    """Another one, for one test."""
    yield from fresh("pisa", 8)


def fresh(name: str, index: int) -> Iterator[Member]:
    """A fresh cluster that ends afterwards."""
    try:
        plane = ControlPlane(name, Settings(pod_cidr=pod_cidr(index)))
    except Unavailable as reason:
        give_up(reason)
    start_all([plane])
    made = Member(plane)
    yield made
    made.close()
    evidence.remove(plane.name, plane.logs)
    plane.destroy()


def versions(member: Member, items: set[Item]) -> dict[str, str]:
    """The resourceVersion of what belongs to liqod among some objects of the core group."""
    return {
        str(item): str(
            member.api.get(f"/api/v1/namespaces/{item.namespace}/{item.resource}/{item.name}")[
                "metadata"
            ]["resourceVersion"]
        )
        for item in items
        if item.namespace == "liqo" and item.resource in {"configmaps", "serviceaccounts"}
    }


def test_all_of_it_can_be_taken_out_again(member: Member) -> None:
    before = member.inventory()
    member.install()
    installed = member.inventory()
    assert member.names(DEFINITIONS)
    # The daemon makes its own keys, Lease and webhook with its own rights.
    member.daemon.start()
    assert member.daemon.stop() < 10

    refused = member.liqod("uninstall", check=False)
    assert refused.returncode != 0, "it asks before it deletes"
    assert "--yes" in refused.stderr
    assert installed <= member.inventory()

    member.liqod("uninstall", "--yes", "--purge")
    inventory.wait_for(member.api, before, 60)


def test_dry_run_prints_what_kubectl_can_apply(member: Member) -> None:
    before = member.inventory()
    printed = member.liqod("install", "--cluster-id", "genoa", "--dry-run", "-o", "yaml").stdout
    assert member.inventory() == before
    documents = [one for one in yaml.safe_load_all(printed) if one]
    assert {"CustomResourceDefinition", "ClusterRole", "ServiceAccount"} <= {
        one["kind"] for one in documents
    }
    path = member.folder / "all.yaml"
    path.write_text(printed)
    member.plane.kubectl("apply", "--server-side", "-f", str(path))
    member.liqod("install", "--cluster-id", "genoa")

    # So is the workload, whose pod, where it joins no networks, is let in where only those of the
    # level `restricted` are.
    how = ("--in-cluster", "--networking-disabled", "-o", "yaml")
    printed = member.liqod("install", "--cluster-id", "genoa", *how).stdout
    (workload,) = (one for one in yaml.safe_load_all(printed) if one["kind"] == "Deployment")
    level = "pod-security.kubernetes.io/enforce=restricted"
    member.plane.kubectl("label", "namespace", "liqo", level)
    tried = "dryRun=All&fieldValidation=Strict"
    pods = f"/api/v1/namespaces/liqo/pods?{tried}"
    template = workload["spec"]["template"]
    pod = {"metadata": {**template["metadata"], "name": "liqod"}, "spec": template["spec"]}
    root = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
    wait_until("the level", lambda: member.api.raw("POST", pods, root)[0] == 403, 40)
    member.create(pods, pod)
    member.create(f"/apis/apps/v1/namespaces/liqo/deployments?{tried}", workload)


def test_again_it_upgrades_and_writes_only_what_differs(member: Member) -> None:
    member.install()
    installed = member.inventory()
    known = versions(member, installed)
    assert known
    definition = f"{DEFINITIONS}/tenants.authentication.liqo.io"
    generation = member.api.get(definition)["metadata"]["generation"]
    member.liqod("install")
    assert member.inventory() == installed
    assert versions(member, installed) == known
    assert member.api.get(definition)["metadata"]["generation"] == generation

    # What somebody took away comes back; what somebody added to a definition stays.
    member.plane.kubectl("delete", "runtimeclass", "liqo")
    member.liqod("install")
    assert member.api.exists("/apis/node.k8s.io/v1/runtimeclasses/liqo")


def test_another_cluster_id_is_refused(member: Member) -> None:
    member.install()
    refused = member.liqod("install", "--cluster-id", "elsewhere", check=False)
    assert refused.returncode != 0
    assert "genoa" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_beside_liqo_itself_nothing_is_touched(another: Member) -> None:
    member = another
    labels = {
        "app.kubernetes.io/name": "controller-manager",
        "app.kubernetes.io/component": "controller-manager",
        "app.kubernetes.io/part-of": "liqo",
    }
    member.plane.kubectl("create", "namespace", "liqo")
    container = {
        "name": "controller-manager",
        "image": "ghcr.io/liqotech/liqo-controller-manager:v1.2.0",
    }
    deployment = {
        "metadata": {"name": "liqo-controller-manager", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    member.create("/apis/apps/v1/namespaces/liqo/deployments", deployment)
    before = {
        item for item in member.inventory() if item.resource not in {"pods", "replicasets.apps"}
    }
    refused = member.liqod("install", "--cluster-id", "pisa", check=False)
    assert refused.returncode != 0
    assert "Liqo" in refused.stderr
    assert {
        item for item in member.inventory() if item.resource not in {"pods", "replicasets.apps"}
    } == before


INSTALLER = "installer"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def installer(member: Member) -> Path:
    """The kubeconfig of a user who has no right yet."""
    path = member.folder / "installer.kubeconfig"
    path.write_text(member.plane.kubeconfig_of(member.plane.authority.client(INSTALLER, INSTALLER)))
    return path


def give(member: Member, rights: set[InstallerRight]) -> None:
    """Let the installer have these rights, in every namespace: that of liqod is yet to be made."""
    rules = [
        {"apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb]}
        for each in sorted(rights)
    ]
    role = f"{RBAC}/clusterroles"
    named = {"metadata": {"name": INSTALLER}}
    if member.api.exists(f"{role}/{INSTALLER}"):
        member.patch(f"{role}/{INSTALLER}", {"rules": rules})
        return
    member.create(role, {**named, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": INSTALLER}
    who = {"apiGroup": ref["apiGroup"], "kind": "User", "name": INSTALLER}
    member.create(f"{RBAC}/clusterrolebindings", {**named, "roleRef": ref, "subjects": [who]})


def test_the_rights_that_are_missing_are_named_and_those_that_are_named_are_enough(
    another: Member,
) -> None:
    member = another
    kubeconfig = str(installer(member))
    install = ("install", "--cluster-id", "pisa", "--kubeconfig", kubeconfig, "-o", "json")
    options = Options(cluster_id="pisa")
    before = member.inventory()

    def refused() -> str:
        answer = commands.run(install, plain_environment(), 60)
        assert answer.returncode == 1, answer.stderr
        (found,) = json.loads(answer.stdout)["refused"]
        assert found["reason"] == "rights"
        return str(found["problem"])

    every = installerrights.needed(manifests(options, []), options)
    giving = {each for each in every if each.verb in ("bind", "escalate")}
    assert refused() == f"the user of the kubeconfig may not {installerrights.described(every)}"
    give(member, every - giving)
    problem = refused()
    assert "bind, escalate clusterroles.rbac.authorization.k8s.io" in problem
    assert "secrets" not in problem
    assert {each for each in member.inventory() if each.name != INSTALLER} == before

    give(member, every)
    # The second finds definitions that are served, and may not take anything for a change.
    for _ in range(2):
        answer = commands.run(install, plain_environment(), 120)
        assert answer.returncode == 0, answer.stderr
        assert json.loads(answer.stdout) == {"clusterID": "pisa"}
