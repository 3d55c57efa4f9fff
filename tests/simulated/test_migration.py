"""Liqo's programs are taken out of a cluster, and liqod's for Liqo's; what they have made stays."""

from typing import Any

import pytest

from liqod import install
from liqod.cli.commands.migrate import lines
from liqod.errors import ConfigError
from liqod.install import migration
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from liqod.resources import RENEWS, RESOURCE_SLICES, VIRTUAL_NODES
from liqod.resources.networking import GATEWAY_SERVERS
from simulator import EmbeddedCluster
from tests.simulated.prepared import quiet
from tests.simulated.recorded import bring, recorded
from tests.simulated.test_install import everything

TENANT = "liqo-tenant-milan"
CHART = {"app.kubernetes.io/part-of": "liqo", "app.kubernetes.io/managed-by": "Helm"}
CLUSTER_ID = {"app.kubernetes.io/name": "clusterid-configmap"}
MADE = {"app.kubernetes.io/managed-by": "liqo", "liqo.io/remote-cluster-id": "milan"}
KUBELET = {"offloading.liqo.io/component": "virtual-kubelet"}
GOES: list[tuple[Kind, str, str, dict[str, str]]] = [
    (MUTATING_WEBHOOKS, "", "liqo-webhook", CHART),
    (DEPLOYMENTS, "liqo", "liqo-controller-manager", CHART),
    (DEPLOYMENTS, "liqo", "liqo-crd-replicator", CHART),
    (DEPLOYMENTS, TENANT, "vk-milan", KUBELET),
    (SERVICES, "liqo", "liqo-webhook", CHART),
    (CLUSTER_ROLES, "", "liqo-controller-manager", CHART),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-controller-manager", CHART),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-node-milan", MADE),
    (SERVICE_ACCOUNTS, "liqo", "liqo-controller-manager", CHART),
    (SERVICE_ACCOUNTS, TENANT, "milan", {}),
    (SECRETS, "liqo", "liqo-webhook-certs", CHART),
    (SECRETS, "liqo", "sh.helm.release.v1.liqo.v1", {"owner": "helm", "name": "liqo"}),
    (LEASES, "liqo", "66cf253f.ctrlmgr.liqo.io", {}),
    (LEASES, TENANT, "vk-milan", {}),
]
STAYS: list[tuple[Kind, str, str, dict[str, str]]] = [
    (CONFIG_MAPS, "liqo", "liqo-clusterid-configmap", CHART | CLUSTER_ID),
    (SECRETS, "liqo", "authentication-keys", {"liqo.io/managed": "true"}),
    (CLUSTER_ROLES, "", "liqo-remote-controlplane", CHART),
    (CLUSTER_ROLES, "", "liqo-virtual-kubelet-remote", CHART),
    (ROLES, "liqo", "liqo-peering-user-liqo-ns", CHART),
    (ROLE_BINDINGS, TENANT, "liqo-binding-liqo-remote-controlplane", MADE),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-binding-remote-clusterwide-milan", MADE),
    (LEASES, "kube-node-lease", "milan", {}),
]
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "any"}
REST: dict[Kind, dict[str, Any]] = {
    CLUSTER_ROLE_BINDINGS: {"roleRef": ROLE},
    ROLE_BINDINGS: {"roleRef": ROLE},
    CONFIG_MAPS: {"data": {"CLUSTER_ID": "rome"}},
    CLUSTER_ROLES: {"rules": []},
    ROLES: {"rules": []},
    SERVICES: {"spec": {"ports": [{"port": 443}]}},
    DEPLOYMENTS: {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
}


@pytest.fixture
async def admin():
    async with (
        EmbeddedCluster("rome") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        await install.install(client, install.Options(cluster_id="rome"), quiet)
        yield client


async def have_liqo(admin: Client) -> set[tuple[str, str, str]]:
    """Put in what Liqo leaves when it is stopped; everything that there is then."""
    await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    for name in ("liqo", TENANT, "shop"):
        marks = {"liqo.io/tenant-namespace": "true"} if name == TENANT else {}
        await admin.create(NAMESPACES, {"metadata": {"name": name, "labels": marks}})
    for kind, namespace, name, marks in (*GOES, *STAYS):
        meta = {"name": name, "labels": marks}
        await admin.create(kind, {"metadata": meta, **REST.get(kind, {})}, namespace or None)
    for path, kind in (
        ("cr-virtualnodes.offloading.liqo.io", VIRTUAL_NODES),
        ("cr-renews.authentication.liqo.io", RENEWS),
        ("cr-resourceslices.authentication.liqo.io", RESOURCE_SLICES),
    ):
        for body in recorded(f"consumer/{path}").values():
            await bring(admin, kind, body, namespace=TENANT)
    node = recorded("consumer/nodes")["milan"]
    await admin.create(NODES, {"metadata": {"name": "milan", "labels": node["metadata"]["labels"]}})
    for body in recorded("consumer/ns-demo-pods").values():
        if body["spec"]["nodeName"] == "milan":
            del body["spec"]["serviceAccount"], body["spec"]["serviceAccountName"]
            await bring(admin, PODS, body)
    return await everything(admin)


def names(*of: tuple[Kind, str, str, dict[str, str]]) -> set[tuple[str, str, str]]:
    return {(kind.name, namespace, name) for kind, namespace, name, _ in of}


async def test_liqos_programs_go_and_what_they_made_stays(admin):
    before = await have_liqo(admin)
    with pytest.raises(ConfigError, match="liqod migrate --dry-run"):
        await install.install(admin, install.Options(), quiet)
    found = await migration.survey(admin, "liqo")
    assert {(one.kind.name, one.namespace, one.name) for one in found.doomed} == names(*GOES)
    assert (found.cluster_id, found.nodes, found.offloaded) == ("rome", ("milan",), 2)
    shown = lines(found)
    assert "goes: Deployment liqo-tenant-milan/vk-milan" in shown
    assert "stays: virtual nodes milan, with 2 pods on them" in shown

    told: list[str] = []
    await migration.take_out(admin, found, told.append)
    after = await everything(admin)
    assert before - after == names(*GOES[1:])
    assert await admin.list(MUTATING_WEBHOOKS) == []
    assert after - before == set()
    # The webhook goes before the program behind it, and Helm forgets only at the end.
    assert told[0] == "removing MutatingWebhookConfiguration liqo-webhook"
    assert told[-1].startswith("removing Secret liqo/sh.helm.release")

    # What was broken off is continued; what is done already is no error.
    await migration.take_out(admin, found, quiet)
    assert (await migration.survey(admin, "liqo")).doomed == ()
    assert await install.install(admin, install.Options(), quiet) == "rome"
    assert names(*STAYS) <= await everything(admin)


async def test_a_network_that_would_end_is_named(admin):
    await have_liqo(admin)
    gateway = {"metadata": {"name": "milan"}, "spec": {"endpoint": {"port": 51840}}}
    await admin.create(GATEWAY_SERVERS, gateway, TENANT)
    assert (await migration.survey(admin, "liqo")).network == (f"{TENANT}/milan",)


async def test_the_way_back_leaves_what_liqo_goes_on_with(admin):
    await have_liqo(admin)
    await migration.take_out(admin, await migration.survey(admin, "liqo"), quiet)
    await install.install(admin, install.Options(), quiet)
    ours = {"liqod.io/managed": "true"}
    await admin.create(SECRETS, {"metadata": {"name": "liqod-webhook", "labels": ours}}, "liqo")
    await admin.patch(SECRETS, "authentication-keys", {"metadata": {"labels": ours}}, "liqo")
    hold = {"metadata": {"finalizers": ["liqod.io/virtual-node"]}}
    await admin.patch(VIRTUAL_NODES, "milan", hold, TENANT)
    summed = await admin.get(CLUSTER_ROLES, "liqo-virtual-kubelet-remote")

    marks = {"liqo.io/managed-by": "consumer"}
    direct = {
        "metadata": {"name": "direct", "labels": marks},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await admin.create(PODS, direct, TENANT)
    with pytest.raises(ConfigError, match="1 pods of peers have no ShadowPod"):
        await migration.give_back(admin, "liqo", quiet)
    await admin.delete(PODS, "direct", TENANT, grace=0)

    assert await migration.give_back(admin, "liqo", quiet) == "rome"
    left = await everything(admin)
    assert names(*STAYS) <= left
    assert not {name for _, _, name in left if name.startswith("liqod")}
    assert await admin.list(ADMISSION_POLICIES) == []
    for kind, name in ((CLUSTER_ROLES, "liqo-remote-controlplane"),):
        meta = (await admin.get(kind, name))["metadata"]
        assert meta["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        assert meta["annotations"]["meta.helm.sh/release-name"] == "liqo"
    # Its rules stay as they were summed up: no consumer loses a right for a moment.
    role = await admin.get(CLUSTER_ROLES, "liqo-virtual-kubelet-remote")
    assert "aggregationRule" not in role
    assert role["rules"] == summed["rules"]
    node = await admin.get(VIRTUAL_NODES, "milan", TENANT)
    assert "finalizers" not in node["metadata"]
    assert await migration.give_back(admin, "liqo", quiet) == "rome"
