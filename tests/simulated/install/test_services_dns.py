"""The names of the set in CoreDNS: given by an installation, kept, and taken back in that order."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    NAMESPACES,
    Kind,
)
from liqod.errors import ConfigError
from liqod.install import clustersetdns, installerrights
from liqod.install.migration import give_back
from liqod.install.refusals import InstallRefused
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.reviews import AuthenticatedUser, may
from liqod.procedures import clusterdns
from tests.simulated.clusterset.test_diagnosis import coredns
from tests.simulated.install.test_install import everything, quiet
from tests.simulated.install.test_refusals import user_with
from tests.simulated.processes import command
from tests.unit.model.test_corefile import KUBEADM, OPTION, page_rights
from tests.unit.model.test_corefileedit import SERVED

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

WITH = install.Options(cluster_id="milan", services=True, services_dns=True)
UPGRADE = install.Options()
WITHOUT = install.Options(services_dns=False)
IMPORTS = "serviceimports.multicluster.x-k8s.io"
MARK = labels.CLUSTERSET_DNS
KUBE = "kube-system"


@pytest.fixture
async def admin(admin):
    """A client of a cluster whose CoreDNS is as kubeadm makes it, but for its pods."""
    await made(admin)
    return admin


async def made(admin: Client, corefile: str = KUBEADM, replicas: int = 0, **image: str) -> None:
    configuration, deployment = coredns(corefile, **image)
    deployment["spec"]["replicas"] = replicas  # with none the controller has nothing to wait for
    await admin.create(CONFIG_MAPS, configuration, KUBE)
    await admin.create(DEPLOYMENTS, deployment, KUBE)


async def text_of(admin: Client) -> str:
    return str((await admin.get(CONFIG_MAPS, "coredns", KUBE))["data"]["Corefile"])


async def written(admin: Client, corefile: str) -> None:
    await admin.patch(CONFIG_MAPS, "coredns", {"data": {"Corefile": corefile}}, KUBE)


async def template(admin: Client) -> dict[str, Any]:
    """The pods' template; annotations that are none are left out, as a real API server does."""
    found: dict[str, Any] = (await admin.get(DEPLOYMENTS, "coredns", KUBE))["spec"]["template"]
    metadata = {name: value for name, value in found["metadata"].items() if value}
    return {**found, "metadata": metadata}


async def rights(admin: Client) -> bool | None:
    return await clusterdns.lists_imports(admin, "coredns")


class Watching:
    """Notes, at each write to CoreDNS's objects, if the kinds and the rights are there."""

    def __init__(self, admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, bool, bool]] = []
        patch = admin.patch

        async def noting(kind: Kind, name: str, *arguments: Any, **more: Any) -> Any:
            if name == "coredns":
                there = await admin.find(CUSTOM_RESOURCES, IMPORTS) is not None
                self.seen.append((kind.name, there, bool(await rights(admin))))
            return await patch(kind, name, *arguments, **more)

        monkeypatch.setattr(admin, "patch", noting)


async def test_it_is_given_and_taken_back_in_the_order_that_breaks_nothing(admin, monkeypatch):
    before, pods, objects = await text_of(admin), await template(admin), await everything(admin)
    watching = Watching(admin, monkeypatch)
    await install.install(admin, WITH, quiet)
    assert await text_of(admin) == SERVED
    assert MARK in (await template(admin))["metadata"]["annotations"]
    given = [("ConfigMap", True, True), ("Deployment", True, True)]
    assert watching.seen == given

    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert watching.seen == given * 2
    assert await text_of(admin) == before
    assert await template(admin) == pods
    assert await everything(admin) == objects
    found = await admin.get(CONFIG_MAPS, "coredns", KUBE)
    assert MARK not in (found["metadata"].get("annotations") or {})


async def test_an_upgrade_keeps_it_and_writes_nothing_to_it(admin, monkeypatch):
    await install.install(admin, WITH, quiet)
    watching = Watching(admin, monkeypatch)
    await install.install(admin, UPGRADE, quiet)
    await install.install(admin, msgspec.structs.replace(UPGRADE, in_cluster=True), quiet)
    assert (await text_of(admin), await rights(admin)) == (SERVED, True)
    assert watching.seen == []
    await install.install(admin, WITH, quiet)
    assert await text_of(admin) == SERVED

    await install.install(admin, WITHOUT, quiet)
    assert (await text_of(admin), await rights(admin)) == (KUBEADM, False)
    assert await admin.find(CUSTOM_RESOURCES, IMPORTS) is not None
    for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
        assert await admin.find(kind, "liqod-coredns") is None


async def test_the_daemon_gets_no_right_to_it(admin):
    await install.install(admin, WITH, quiet)
    plain = msgspec.structs.replace(WITH, services_dns=None)
    more = [
        one
        for one in install.manifests(WITH_ACCOUNT, [])
        if one not in install.manifests(plain, [])
    ]
    assert [(one["kind"], one["metadata"]["name"]) for one in more] == [
        ("ClusterRole", "liqod-coredns"),
        ("ClusterRoleBinding", "liqod-coredns"),
    ]
    daemon = AuthenticatedUser("system:serviceaccount:liqo:liqod", ("system:authenticated",))
    for verb in ("create", "patch", "update", "delete"):
        asked = {"verb": verb, "resource": "configmaps", "namespace": KUBE}
        assert not await may(admin, daemon, **asked)
    role, bound = more
    theirs, _ = page_rights()
    assert role["rules"] == theirs["rules"]
    assert bound["subjects"] == [{"kind": "ServiceAccount", "name": "coredns", "namespace": KUBE}]


WITH_ACCOUNT = msgspec.structs.replace(WITH, dns_account="coredns")
MANAGED = {
    "the addon manager": ({"addonmanager.kubernetes.io/mode": "Reconcile"}, {}, "addon manager k"),
    "k3s": ({}, {"objectset.rio.cattle.io/id": ""}, "K3s or RKE2 keeps"),
    "helm": ({"app.kubernetes.io/managed-by": "Helm"}, {}, "Helm keeps"),
    "argo": ({}, {"argocd.argoproj.io/tracking-id": "x"}, "Argo CD keeps"),
}


@pytest.mark.parametrize(("marks", "notes", "says"), MANAGED.values(), ids=MANAGED)
async def test_one_that_somebody_else_keeps_is_refused_before_anything_is_changed(
    admin, marks, notes, says
):
    await admin.patch(
        CONFIG_MAPS, "coredns", {"metadata": {"labels": marks, "annotations": notes}}, KUBE
    )
    await refused(admin, says)


async def refused(admin: Client, says: str) -> None:
    before = await everything(admin), await text_of(admin)
    with pytest.raises(InstallRefused) as raised:
        await install.install(admin, WITH, quiet)
    (reason,) = raised.value.refusals
    assert reason.reason == "dns"
    assert says in reason.problem
    assert "docs/how-to/service-names.md" in reason.remedy
    assert (await everything(admin), await text_of(admin)) == before


async def test_what_the_addon_manager_makes_once_is_not_refused(admin):
    marks = {"addonmanager.kubernetes.io/mode": "EnsureExists"}
    await admin.patch(CONFIG_MAPS, "coredns", {"metadata": {"labels": marks}}, KUBE)
    await install.install(admin, WITH, quiet)
    assert await text_of(admin) == SERVED


@pytest.mark.parametrize(
    ("image", "says"),
    [
        ("registry.k8s.io/coredns/coredns:v1.12.1", "CoreDNS 1.12.1 has no option"),
        ("registry.k8s.io/coredns/coredns@sha256:00", "version of CoreDNS is not known"),
    ],
)
async def test_one_that_is_too_old_or_may_be_is_refused(cluster, image, says):
    async with Client(from_kubeconfig(cluster.kubeconfig)) as admin:
        await made(admin, image=image)
        await refused(admin, says)


async def test_an_unclear_corefile_and_a_cluster_without_coredns_are_refused(admin):
    await written(admin, f"(k) {{\n    kubernetes a\n}}\n{KUBEADM}clusterset.local {{\n}}\n")
    await refused(admin, "the Corefile of kube-system/coredns stays as it is: clusterset.local is")
    await admin.delete(DEPLOYMENTS, "coredns", KUBE)
    await refused(admin, "there is no Deployment of CoreDNS")
    await admin.create(NAMESPACES, {"metadata": {"name": "openshift-dns"}})
    await refused(admin, "OpenShift's DNS operator")


async def test_kinds_of_another_program_have_to_be_those_that_coredns_reads(admin):
    (theirs,) = (one for one in install.manifests(WITH, []) if one["metadata"]["name"] == IMPORTS)
    theirs["metadata"]["labels"] = {}
    versions = theirs["spec"]["versions"]
    theirs["spec"]["versions"] = [each for each in versions if each["name"] == "v1beta1"]
    await admin.create(CUSTOM_RESOURCES, theirs)
    await refused(admin, f"{IMPORTS} is not served as v1alpha1")


async def test_a_coredns_that_does_not_come_up_has_its_corefile_back(cluster):
    async with Client(from_kubeconfig(cluster.kubeconfig)) as admin:
        await made(admin, replicas=1)  # there is no node for its pods
        pods = await template(admin)
        with pytest.raises(ConfigError, match=r"does not come up.*Corefile is as it was before"):
            await install.install(admin, WITH, quiet)
        assert (await text_of(admin), await template(admin)) == (KUBEADM, pods)
        await admin.patch(DEPLOYMENTS, "coredns", {"spec": {"replicas": 0}}, KUBE)
        await install.install(admin, WITH, quiet)
        assert await text_of(admin) == SERVED


async def test_a_change_by_somebody_else_at_that_moment_is_not_overwritten(admin, monkeypatch):
    look = clustersetdns.look

    async def late(client: Client) -> Any:
        found = await look(client)
        await written(client, KUBEADM.replace("cache 30", "cache 60"))
        return found

    await install.install(admin, msgspec.structs.replace(WITH, services_dns=None), quiet)
    await grant(admin)
    monkeypatch.setattr(clustersetdns, "look", late)
    with pytest.raises(ConfigError, match="has changed meanwhile"):
        await clustersetdns.give(admin, quiet)
    assert await text_of(admin) == KUBEADM.replace("cache 30", "cache 60")


async def grant(admin: Client) -> None:
    for kind, one in zip((CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS), page_rights(), strict=True):
        await admin.create(kind, one)


async def test_without_the_rights_the_corefile_stays(admin):
    await install.install(admin, msgspec.structs.replace(WITH, services_dns=None), quiet)
    with pytest.raises(ConfigError, match="may not list and watch"):
        await clustersetdns.give(admin, quiet)
    assert await text_of(admin) == KUBEADM


async def test_one_that_was_changed_by_hand_stays_and_loses_nothing_that_it_reads(admin):
    by_hand = SERVED.replace("cache 30", "cache 60")
    await written(admin, by_hand)
    await install.install(admin, WITH, quiet)
    assert await text_of(admin) == by_hand
    for end in (
        lambda: install.install(admin, WITHOUT, quiet),
        lambda: install.uninstall(admin, "liqo", purge=False, progress=quiet),
    ):
        with pytest.raises(ConfigError, match="in another way than liqod wrote it"):
            await end()
        assert (await text_of(admin), await rights(admin)) == (by_hand, True)
    await written(admin, KUBEADM)
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)


async def test_definitions_are_not_purged_under_a_corefile_that_was_changed_by_hand(admin):
    await install.install(admin, msgspec.structs.replace(WITH, services_dns=None), quiet)
    await written(admin, SERVED)
    with pytest.raises(ConfigError, match="would lose what it reads"):
        await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await admin.find(CUSTOM_RESOURCES, IMPORTS) is not None
    await install.uninstall(admin, "liqo", purge=False, progress=quiet)


async def test_giving_the_cluster_back_to_liqo_takes_it_back_first(admin, monkeypatch):
    await install.install(admin, WITH, quiet)
    watching = Watching(admin, monkeypatch)
    await give_back(admin, "liqo", quiet)
    assert (await text_of(admin), await rights(admin)) == (KUBEADM, False)
    assert watching.seen == [("ConfigMap", True, True), ("Deployment", True, True)]


async def test_what_was_begun_and_killed_is_taken_up_again(admin, monkeypatch):
    async def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(clustersetdns, "roll_out", killed)
        with pytest.raises(KeyboardInterrupt):
            await install.install(admin, WITH, quiet)
    assert MARK not in (await template(admin))["metadata"].get("annotations", {})
    await install.install(admin, WITH, quiet)
    assert MARK in (await template(admin))["metadata"]["annotations"]
    with monkeypatch.context() as patched:
        patched.setattr(clustersetdns, "roll_out", killed)
        with pytest.raises(KeyboardInterrupt):
            await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert (await text_of(admin), await rights(admin)) == (KUBEADM, True)
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert MARK not in (await template(admin))["metadata"].get("annotations", {})


async def test_the_rights_that_it_needs_of_its_user_are_enough(admin, cluster):
    needed = installerrights.needed(install.manifests(WITH_ACCOUNT, []), WITH)
    async with await user_with(admin, cluster, needed) as user:
        await install.install(user, WITH, quiet)
        assert await text_of(admin) == SERVED


async def test_a_trial_prints_the_rights_and_the_corefile_and_changes_nothing(
    admin, cluster, tmp_path: Path
):
    before = await everything(admin), await text_of(admin)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    asked = (
        "install",
        "--kubeconfig",
        str(kubeconfig),
        "--cluster-id",
        "milan",
        "--services-dns",
        "--dry-run",
        "-o",
        "yaml",
    )
    found = await command(*asked)
    assert found.status == 0, found.err
    shown = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(found.out)}
    assert shown["ConfigMap", "coredns"]["data"] == {"Corefile": SERVED}
    order = list(shown)
    assert (
        order.index(("CustomResourceDefinition", IMPORTS))
        < order.index(("ClusterRole", "liqod-coredns"))
        < order.index(("ConfigMap", "coredns"))
    )
    assert (await everything(admin), await text_of(admin)) == before

    await install.install(admin, WITH, quiet)
    back = tuple(each.replace("--services", "--no-services") for each in asked)
    found = await command(*back)
    *_, last = yaml.safe_load_all(found.out)
    assert (last["kind"], last["data"]) == ("ConfigMap", {"Corefile": KUBEADM})
    assert await text_of(admin) == SERVED

    await written(admin, KUBEADM.replace(" {", " {{", 1))
    refused = await command(*asked)
    assert (refused.status, "stays as it is" in refused.err) == (1, True)
    assert OPTION.strip() not in refused.out
