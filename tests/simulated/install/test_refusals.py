"""Reasons to refuse an installation: all of them are named before anything is applied."""

import json
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    ROLE_BINDINGS,
    ROLES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from liqod.cluster.ownid import cluster_uid, notes
from liqod.identity import certificates
from liqod.install import installerrights, machines, refusals, rollout
from liqod.install.installerrights import InstallerRight
from liqod.install.manifests import HELM
from liqod.install.refusals import InstallRefused
from liqod.install.rights import SERVICE_ACCOUNT
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from simulator.wire import apiserver, discovery
from tests.simulated.install.test_install import OPTIONS, everything, quiet
from tests.simulated.processes import command, sites
from tests.simulated.remedies import taken

WORKLOAD = {
    "replicas": 0,
    "selector": {"matchLabels": {"a": "b"}},
    "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


def rule(right: InstallerRight) -> dict[str, Any]:
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}


async def user_with(admin: Client, cluster: EmbeddedCluster, rights: set[InstallerRight]) -> Client:
    """A client whose user has these rights and no others; the caller closes it."""
    places = {each.namespace for each in rights}
    await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "installer"}}, "default")
    who = {"kind": "ServiceAccount", "name": "installer", "namespace": "default"}
    for place in places:
        role, bound = (ROLES, ROLE_BINDINGS) if place else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
        if place and await admin.find(NAMESPACES, place) is None:
            # Rights in a namespace that is yet to be made can only be given for all.
            role, bound = CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS
        named = {"metadata": {"name": f"installer-{place or 'all'}"}}
        rules = [rule(each) for each in rights if each.namespace == place]
        await admin.create(role, {**named, "rules": rules}, place or None)
        ref = {"apiGroup": role.group, "kind": role.name, "name": named["metadata"]["name"]}
        await admin.create(bound, {**named, "roleRef": ref, "subjects": [who]}, place or None)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await admin.create_subresource(
        SERVICE_ACCOUNTS, "installer", "default", "token", asked, decode=dict
    )
    text = cluster.kubeconfig_with_token(made["status"]["token"])
    return Client(from_kubeconfig(text))


def all_rights(options: install.Options) -> set[InstallerRight]:
    return installerrights.needed(install.manifests(options, []), options)


@pytest.mark.install
@pytest.mark.long
async def test_the_rights_that_are_asked_for_are_enough(admin, cluster):
    """For an installation, its repetition and an upgrade that repairs and takes away."""
    for options in (OPTIONS, msgspec.structs.replace(OPTIONS, in_cluster=True, storage=True)):
        async with await user_with(admin, cluster, all_rights(options)) as client:
            for _ in range(2):
                assert await install.install(client, options, quiet) == "milan"
            stale = {"metadata": {"name": "liqod-old", "labels": install.MANAGED}, "rules": []}
            await admin.create(CLUSTER_ROLES, stale)
            await admin.patch(CLUSTER_ROLES, "liqod-trust", {"rules": []})
            await install.install(client, options, quiet)
            assert await admin.find(CLUSTER_ROLES, "liqod-old") is None
        await install.uninstall(admin, "liqo", purge=True, progress=quiet)
        await admin.delete(SERVICE_ACCOUNTS, "installer", "default")
        for kind in (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, ROLES, CLUSTER_ROLES):
            for each in await admin.list(kind):
                if each["metadata"]["name"].startswith("installer-"):
                    where = each["metadata"].get("namespace")
                    await admin.delete(kind, each["metadata"]["name"], where)


async def test_all_rights_that_are_missing_are_named_at_once(admin, cluster):
    lacking = {
        right
        for right in all_rights(OPTIONS)
        if (right.verb, right.resource) in {("create", "runtimeclasses"), ("bind", "clusterroles")}
        or right.resource == "configmaps"
    }
    assert len(lacking) > 3
    async with await user_with(admin, cluster, all_rights(OPTIONS) - lacking) as client:
        before = await everything(admin)
        with pytest.raises(InstallRefused) as refused:
            await install.install(client, OPTIONS, quiet)
        assert await everything(admin) == before
    (found,) = refused.value.refusals
    assert found.reason == "rights"
    for right in lacking:
        assert right.verb in found.problem
        assert right.qualified in found.problem
    assert "create runtimeclasses.node.k8s.io" in found.problem
    assert "configmaps in liqo" in found.problem
    assert "serviceaccounts" not in found.problem
    assert str(found).startswith("the user of the kubeconfig may not bind clusterroles.rbac")


@pytest.mark.install
@pytest.mark.long
async def test_a_namespace_that_something_else_lives_in_is_not_taken(admin):
    await admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
    options = msgspec.structs.replace(OPTIONS, namespace="shop")
    await admin.create(CONFIG_MAPS, {"metadata": {"name": "prepared"}}, "shop")
    await admin.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": WORKLOAD}, "shop")
    before = await everything(admin)
    with pytest.raises(InstallRefused, match=r"\(Deployment web\), which would be deleted"):
        await install.install(admin, options, quiet)
    for name in ("default", "kube-system"):
        with pytest.raises(InstallRefused, match=f"the namespace {name} is Kubernetes' own"):
            await install.install(admin, msgspec.structs.replace(options, namespace=name), quiet)
    assert await everything(admin) == before
    # One that was only prepared for it is taken.
    await admin.delete(DEPLOYMENTS, "web", "shop")
    assert await install.install(admin, options, quiet) == "milan"
    assert await install.install(admin, options, quiet) == "milan"


async def test_a_namespace_that_is_being_deleted_is_named(admin):
    await admin.create(NAMESPACES, {"metadata": {"name": "liqo"}})
    held = {"metadata": {"name": "held", "finalizers": ["example.io/nobody"]}}
    await admin.create(CONFIG_MAPS, held, "liqo")
    await admin.delete(NAMESPACES, "liqo")
    with pytest.raises(InstallRefused, match="the namespace liqo is being deleted: try again when"):
        await install.install(admin, OPTIONS, quiet)


@pytest.mark.long
async def test_a_second_installation_in_another_namespace_is_refused(tmp_path: Path):
    async with sites(tmp_path, "milan") as (milan,):
        before = await everything(milan.admin)
        second = ("install", "--cluster-id", "milan", "--liqo-namespace", "other")
        refused = await milan.liqod(*second, check=False)
        assert refused.status == 1
        assert "liqod is installed in the namespace liqo, and a cluster has one" in refused.err
        assert await everything(milan.admin) == before
        remedy = taken(refused.err, "install --liqo-namespace x")
        assert remedy == ["install", "--liqo-namespace", "liqo"]
        await milan.liqod(*remedy)
        told = await milan.liqod(*second, "-o", "json", check=False)
        assert told.status == 1
        (found,) = json.loads(told.out)["refused"]
        assert found["reason"] == "installed"
        assert found["problem"] in refused.err
        assert found["remedy"] in refused.err


@pytest.mark.install
@pytest.mark.long
async def test_one_in_another_namespace_keeps_all_that_it_has(admin, cluster, tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    where = ("--yes", "--purge", "--kubeconfig", str(kubeconfig))
    await install.install(admin, msgspec.structs.replace(OPTIONS, namespace="joined"), quiet)
    before = await everything(admin)
    refused = await command("uninstall", *where)
    assert refused.status == 1
    assert "liqod is installed in the namespace joined, and not in liqo" in refused.err
    assert await everything(admin) == before
    done = await command(*taken(refused.err, "uninstall --liqo-namespace x"), *where)
    assert done.status == 0, done.err
    assert await admin.find(NAMESPACES, "joined") is None


@pytest.mark.install
@pytest.mark.long
async def test_a_restored_cluster_keeps_what_helm_has_installed(admin, cluster, tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    await install.install(admin, OPTIONS, quiet)
    of_helm = {"metadata": {"labels": {labels.APP_MANAGED_BY: HELM}}}
    await admin.patch(SERVICE_ACCOUNTS, SERVICE_ACCOUNT, of_helm, "liqo")
    note = {"name": labels.KEYS_SECRET, "annotations": {labels.KNOWN_IN: "of-another"}}
    await admin.create(SECRETS, {"metadata": note}, "liqo")
    before = await everything(admin)
    done = await command("install", "--restored", "--any-clock", "--kubeconfig", str(kubeconfig))
    assert done.status == 0, done.err
    assert "liqod is installed in the cluster milan" in done.out
    assert (await notes(admin, "liqo"))[labels.KNOWN_IN] == await cluster_uid(admin)
    assert await everything(admin) == before


@pytest.fixture
def old() -> Iterator[None]:
    """An API server that is too old."""
    before = dict(discovery.VERSION)
    discovery.VERSION |= {"minor": "29", "gitVersion": "v1.29.15+k3s1"}
    yield
    discovery.VERSION |= before


def an_hour_ahead(**_: object) -> str:
    return formatdate(time.time() + 3600.0, usegmt=True)


@pytest.mark.install
@pytest.mark.long
async def test_all_reasons_are_told_and_nothing_is_changed(
    tmp_path: Path, cluster, admin, old, monkeypatch
):
    monkeypatch.setattr(apiserver, "formatdate", an_hour_ahead)
    path = tmp_path / "admin.kubeconfig"
    path.write_text(cluster.kubeconfig)
    before = await everything(admin)
    words = ("install", "--cluster-id", "milan", "--kubeconfig", str(path))
    ended = await command(*words)
    assert ended.status == 1
    assert "the API server is of Kubernetes v1.29.15+k3s1, and liqod needs 1.30 or newer" in (
        ended.err
    )
    assert (
        "the API server's clock is 60 min ahead, and certificates would not be valid" in ended.err
    )
    assert "say --any-clock" in ended.err
    told = await command(*words, "-o", "json")
    assert [each["reason"] for each in json.loads(told.out)["refused"]] == ["version", "clock"]
    assert await everything(admin) == before
    discovery.VERSION["gitVersion"] = "v1.30.0"
    assert (await command(*words)).status == 1
    # The daemon of a cluster goes by the clocks of its nodes, whoever installs it.
    await install.install(admin, msgspec.structs.replace(OPTIONS, in_cluster=True), quiet)
    assert (await command(*words, "--any-clock")).status == 0
    assert await admin.find(RUNTIME_CLASSES, "liqo") is not None


def node(name: str, architecture: str, **labels: str) -> dict[str, Any]:
    marks = {"kubernetes.io/arch": architecture, **labels}
    return {"metadata": {"name": name, "labels": marks}}


async def test_an_image_that_is_for_no_node_is_refused_before_anything_is_written(admin):
    await admin.create(NODES, node("milan-1", "arm64"))
    await admin.create(NODES, node("peer", "amd64", **{"liqo.io/type": "virtual-node"}))
    before = await everything(admin)
    options = msgspec.structs.replace(OPTIONS, in_cluster=True, architectures=("amd64",))
    with pytest.raises(InstallRefused) as refused:
        await install.install(admin, options, quiet)
    [found] = refused.value.refusals
    assert found.reason == "architecture"
    assert found.problem == (
        "the image is for amd64, and no node that the daemon may be on is (arm64: milan-1)"
    )
    assert "--architecture arm64" in found.remedy
    assert await everything(admin) == before
    # Whoever runs the daemon elsewhere has no image.
    assert await install.install(admin, OPTIONS, quiet) == "milan"


@pytest.mark.install
@pytest.mark.long
async def test_nodes_that_the_image_is_not_for_are_named_and_kept_off(
    tmp_path: Path, cluster, admin, monkeypatch
):
    async def at_once(*_: object) -> None:
        """There is no kubelet."""

    monkeypatch.setattr(rollout, "wait_rolled_out", at_once)
    await admin.create(NODES, node("milan-1", "amd64"))
    await admin.create(NODES, node("milan-2", "arm64"))
    path = tmp_path / "admin.kubeconfig"
    path.write_text(cluster.kubeconfig)
    how = ("--in-cluster", "--advertise", "https://milan.example:6443")
    words = ("install", "--cluster-id", "milan", "--kubeconfig", str(path), *how)
    ended = await command(*words, "--architecture", "amd64")
    assert ended.status == 0, ended.err
    assert "these nodes get no liqod node" in ended.err
    assert "no pod of a peer: arm64: milan-2" in ended.err
    wanted = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    pods = ((DEPLOYMENTS, "liqod", "liqo"), (DAEMON_SETS, "liqod-node", "liqo-nodes"))
    for kind, name, place in pods:
        made = await admin.get(kind, name, place)
        affinity = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert wanted in term["matchExpressions"]
    ended = await command(*words)
    assert ended.status == 0, ended.err
    assert "nodes are amd64 and arm64, and the image has to be for both" in ended.err
    wrong = await command(*words, "--architecture", "x86_64")
    assert wrong.status == 2
    assert "x86_64" in wrong.err


@pytest.mark.install
@pytest.mark.long
async def test_where_nodes_may_not_be_listed_an_installation_goes_on(cluster, admin):
    await admin.create(NODES, node("milan-1", "s390x"))
    options = msgspec.structs.replace(OPTIONS, in_cluster=True)
    async with await user_with(admin, cluster, all_rights(options)) as client:
        assert await machines.look(client) is None
        assert await install.install(client, options, quiet) == "milan"


@pytest.mark.parametrize(
    ("git", "refused"),
    [
        ("v1.29.9", True),
        ("v1.9.0", True),
        ("v0.31.0", True),
        ("v1.30.0", False),
        ("v1.30.4-eks-a737599", False),
        ("v2.0.0", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_the_oldest_version_is_the_first_that_is_taken(git: str, refused: bool):
    assert (refusals.of_version(git) is not None) is refused


def test_rights_are_named_by_group_where_all_of_it_is_missing():
    every = all_rights(OPTIONS)
    assert ", *.networking.liqo.io" in installerrights.described(every)
    some = {each for each in every if each.resource != "connections"}
    named = installerrights.described(some)
    assert "*.networking.liqo.io" not in named
    assert "configurations.networking.liqo.io" in named
    assert "*.ipam.liqo.io" in named
    assert installerrights.described(()) == ""


@pytest.mark.parametrize(("ahead", "refused"), [(59.0, False), (-59.0, False), (61.0, True)])
def test_clocks_may_differ_by_what_certificates_bear(ahead: float, refused: bool):
    assert certificates.SKEW == refusals.APART
    assert (refusals.of_clock(ahead) is not None) is refused
    assert (refusals.of_clock(-ahead) is not None) is refused


def test_the_oldest_version_is_that_of_the_pages():
    oldest = ".".join(map(str, refusals.OLDEST))
    root = Path(__file__).parents[3]
    assert f"({oldest} or newer)" in (root / "README.md").read_text()
