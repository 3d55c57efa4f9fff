"""`liqod install` and `uninstall` on a cluster of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    member.liqod("install", "--clusterset", "europe")
    properties = "/apis/about.k8s.io/v1alpha1/clusterproperties"
    said = {
        each["metadata"]["name"]: each["spec"]["value"]
        for each in member.api.get(properties)["items"]
    }
    assert said == {"cluster.clusterset.k8s.io": "genoa", "clusterset.k8s.io": "europe"}
    # The daemon makes its own keys, Lease and webhook with its own rights.
    member.daemon.start()
    assert member.daemon.stop() < 10

    refused = member.liqod("uninstall", check=False)
    assert refused.returncode != 0, "it asks before it deletes"
    assert "--yes" in refused.stderr
    assert installed <= member.inventory()

    member.liqod("uninstall", "--yes", "--purge")
    inventory.wait_for(member.api, before, 60)


@pytest.mark.install
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


def stricter(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The daemon's pod with each one thing more than it may have, by the policy's word for it."""

    def pod(**fields: Any) -> dict[str, Any]:
        spec = {**template["spec"], **fields}
        return {"metadata": {**template["metadata"], "name": "liqod"}, "spec": spec}

    [container] = template["spec"]["containers"]
    plain = {key: value for key, value in container.items() if not key.endswith("Probe")}
    security = container["securityContext"]

    def held(**fields: Any) -> dict[str, Any]:
        return pod(containers=[{**plain, "securityContext": {**security, **fields}}])

    def volume(path: str) -> dict[str, Any]:
        host = {"name": "more", "hostPath": {"path": path}}
        return pod(containers=[plain], volumes=[*template["spec"]["volumes"], host])

    shared = template["spec"]["securityContext"]
    beside = {"name": "beside", "image": "busybox", "securityContext": {}}
    options = {"seLinuxOptions": {"type": "spc_t"}}
    probe = {"livenessProbe": {"httpGet": {"host": "192.0.2.1", "port": 80}}}
    return {
        "not in the network of its node": pod(hostNetwork=True),
        "no namespace of its node": pod(containers=[plain], hostPID=True),
        "folder /run/liqod-node": volume("/"),
        "the folder /run/liqod-node alone": volume("/run/liqod-node/x"),
        "not privileged": held(privileged=True, allowPrivilegeEscalation=True),
        "gains no privileges": held(allowPrivilegeEscalation=True),
        "drops all capabilities": held(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}),
        "capabilities, and adds none": held(capabilities={}),
        "not root's": held(runAsUser=0),
        "not root's (runAsNonRoot: true)": held(runAsNonRoot=False),
        "profile of seccomp": held(seccompProfile={"type": "Unconfined"}),
        "AppArmor": held(appArmorProfile={"type": "Unconfined"}),
        "SELinux": pod(containers=[plain], securityContext={**shared, **options}),
        "sysctl": pod(
            containers=[plain],
            securityContext={**shared, "sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
        ),
        "port of its node": pod(
            containers=[{**plain, "ports": [{"containerPort": 80, "hostPort": 80}]}]
        ),
        "probes and hooks": pod(containers=[{**plain, **probe}]),
        "has a default": pod(containers=[plain], initContainers=[beside]),
    }


@pytest.mark.install
def test_pods_beside_the_daemon_have_of_their_node_the_sockets_folder_and_no_more(
    member: Member,
) -> None:
    member.install()
    how = ("--in-cluster", "--dry-run", "-o", "yaml")
    printed = member.liqod("install", "--cluster-id", "genoa", *how).stdout
    found = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(printed)}
    kind = "ValidatingAdmissionPolicy"
    wanted = [
        *(("Namespace", each) for each in ("liqo", "liqo-nodes")),
        *((each, "liqod-restricted-pods") for each in (kind, f"{kind}Binding")),
    ]
    path = member.folder / "policy.yaml"
    path.write_text(yaml.safe_dump_all([found[each] for each in wanted]))
    member.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    accounts = "/api/v1/namespaces/liqo-nodes/serviceaccounts"
    member.create(accounts, {"metadata": {"name": "liqod-node"}})
    tried = "pods?dryRun=All&fieldValidation=Strict"
    pods = f"/api/v1/namespaces/liqo/{tried}"
    template = found["Deployment", "liqod"]["spec"]["template"]
    forbidden = stricter(template)

    def refused(pod: dict[str, Any]) -> str:
        status, answer = member.api.raw("POST", pods, pod)
        return str(json.loads(answer)["message"]) if status == 403 else ""

    root = forbidden["not root's"]
    wait_until("the policy", lambda: "liqod-restricted-pods" in refused(root), 40)
    for word, pod in forbidden.items():
        said = refused(pod)
        assert "liqod-restricted-pods" in said, (word, said)
        if word != "has a default":
            assert word in said
    named = {**template["metadata"], "name": "liqod"}
    member.create(pods, {"metadata": named, "spec": template["spec"]})
    # What is to be root on its node has a namespace of its own.
    template = found["DaemonSet", "liqod-node"]["spec"]["template"]
    pod = {"metadata": {**template["metadata"], "name": "node"}, "spec": template["spec"]}
    assert "liqod-restricted-pods" in refused(pod)
    member.create(f"/api/v1/namespaces/liqo-nodes/{tried}", pod)
    policy = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{wanted[-1][1]}"
    checked = member.comes_to(policy, lambda one: "observedGeneration" in one.get("status", {}))
    assert not checked["status"].get("typeChecking", {}).get("expressionWarnings")
    for each, name in wanted[1:]:
        member.plane.kubectl("delete", each.lower(), name)


@pytest.mark.install
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


@pytest.mark.install
def test_another_cluster_id_is_refused(member: Member) -> None:
    member.install()
    refused = member.liqod("install", "--cluster-id", "elsewhere", check=False)
    assert refused.returncode != 0
    assert "genoa" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.install
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


@pytest.mark.install
def test_an_image_for_another_machine_is_refused_before_anything_is_made(another: Member) -> None:
    member = another
    marks = {"kubernetes.io/arch": "s390x"}
    member.create("/api/v1/nodes", {"metadata": {"name": "pisa-0", "labels": marks}})
    before = member.inventory()
    how = ("--in-cluster", "--advertise", "https://pisa.example:6443")
    refused = member.liqod("install", "--cluster-id", "pisa", *how, check=False)
    assert refused.returncode == 1
    assert "no node that the daemon may be on is (s390x: pisa-0)" in refused.stderr
    assert "add a node that is amd64 or arm64, or run the daemon outside" in refused.stderr
    assert member.inventory() == before


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


@pytest.mark.install
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
