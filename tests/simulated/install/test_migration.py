"""Liqo's programs are taken out of a cluster, and liqod's for Liqo's; what they have made stays."""

from typing import Any

import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
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
from liqod.apimachinery.labels import STAND_IN
from liqod.cli.commands.migrate import lines
from liqod.errors import ConfigError
from liqod.identity import tunnelkeys
from liqod.install import migration
from liqod.install.manifests import MANAGED
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.network.gateway import keysecrets
from liqod.provider.workloads.directpods import take_over
from liqod.resources import IPS, NETWORKS, RENEWS, RESOURCE_SLICES, VIRTUAL_NODES
from liqod.resources.fabric import (
    FIREWALL_CONFIGURATIONS,
    GENEVE_TUNNELS,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    ROUTE_CONFIGURATIONS,
)
from liqod.resources.networking import GATEWAY_CLIENTS, WG_GATEWAY_CLIENTS, GatewayClient
from simulator import EmbeddedCluster
from tests.simulated.install import directpods
from tests.simulated.install.recorded import bring, recorded
from tests.simulated.install.test_install import everything
from tests.simulated.prepared import quiet
from tests.simulated.remedies import taken

TENANT = "liqo-tenant-milan"

CHART = {"app.kubernetes.io/part-of": "liqo", "app.kubernetes.io/managed-by": "Helm"}
CLUSTER_ID = {"app.kubernetes.io/name": "clusterid-configmap"}
MADE = {"app.kubernetes.io/managed-by": "liqo", "liqo.io/remote-cluster-id": "milan"}
OF_GATEWAY = MADE | {"networking.liqo.io/gateway-name": "milan"}
GATEWAY = CHART | {
    "networking.liqo.io/component": "gateway",
    "networking.liqo.io/gateway-name": "milan",
}
KUBELET = {"offloading.liqo.io/component": "virtual-kubelet"}
GOES: list[tuple[Kind, str, str, dict[str, str]]] = [
    (MUTATING_WEBHOOKS, "", "liqo-webhook", CHART),
    (DEPLOYMENTS, "liqo", "liqo-controller-manager", CHART),
    (DEPLOYMENTS, "liqo", "liqo-crd-replicator", CHART),
    (DEPLOYMENTS, TENANT, "vk-milan", KUBELET),
    (DEPLOYMENTS, TENANT, "gw-milan", GATEWAY),
    (SERVICES, "liqo", "liqo-webhook", CHART),
    (CLUSTER_ROLES, "", "liqo-controller-manager", CHART),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-controller-manager", CHART),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-node-milan", MADE),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-gateway-liqo-tenant-milan-milan", OF_GATEWAY),
    (SERVICE_ACCOUNTS, "liqo", "liqo-controller-manager", CHART),
    (SERVICE_ACCOUNTS, TENANT, "milan", {}),
    (SECRETS, "liqo", "liqo-webhook-certs", CHART),
    (SECRETS, "liqo", "sh.helm.release.v1.liqo.v1", {"owner": "helm", "name": "liqo"}),
    (LEASES, "liqo", "66cf253f.ctrlmgr.liqo.io", {}),
    (LEASES, TENANT, "vk-milan", {}),
    (FIREWALL_CONFIGURATIONS, TENANT, "milan-remap-podcidr", {}),
    (ROUTE_CONFIGURATIONS, TENANT, "milan-gw-ext", {}),
    (GENEVE_TUNNELS, TENANT, "milan-worker", {}),
    (WG_GATEWAY_CLIENTS, TENANT, "milan", {}),
    (INTERNAL_FABRICS, TENANT, "milan", {}),
    (INTERNAL_NODES, "", "worker", {}),
    (IPS, "liqo", "api-server", {"ipam.liqo.io/ip-type": "api-server"}),
    (IPS, TENANT, "milan-unknown-source", {}),
    (IPS, "liqo", "web", {}),
]
OWNERS = {
    "milan-unknown-source": ("networking.liqo.io/v1beta1", "Configuration", "milan"),
    "web": ("v1", "Pod", "web"),
}
"""The object that made each IP, by the IP's name: API version, kind and name."""
STAYS: list[tuple[Kind, str, str, dict[str, str]]] = [
    (CONFIG_MAPS, "liqo", "liqo-clusterid-configmap", CHART | CLUSTER_ID),
    (SECRETS, "liqo", "authentication-keys", {"liqo.io/managed": "true"}),
    (CLUSTER_ROLES, "", "liqo-remote-controlplane", CHART),
    (CLUSTER_ROLES, "", "liqo-virtual-kubelet-remote", CHART),
    (ROLES, "liqo", "liqo-peering-user-liqo-ns", CHART),
    (ROLE_BINDINGS, TENANT, "liqo-binding-liqo-remote-controlplane", MADE),
    (CLUSTER_ROLE_BINDINGS, "", "liqo-binding-remote-clusterwide-milan", MADE),
    (LEASES, "kube-node-lease", "milan", {}),
    (GATEWAY_CLIENTS, TENANT, "milan", {"liqo.io/remote-cluster-id": "milan"}),
    (NETWORKS, TENANT, "milan-pod", {}),
    (IPS, "liqo", "printer", {}),
]
ADDRESS = {"spec": {"ip": "198.51.100.9"}}
INTERFACE = {"gateway": {"name": "liqo.abc"}, "node": {"ip": "10.80.0.3"}}
REF = {"name": "milan", "namespace": TENANT}
CLIENT: dict[str, Any] = {
    "clientTemplateRef": {
        "apiVersion": "networking.liqo.io/v1beta1",
        "kind": "WgGatewayClientTemplate",
        "name": "wireguard-client",
        "namespace": "liqo",
    },
    "endpoint": {"addresses": ["192.0.2.7"], "port": 51840, "protocol": "UDP"},
}
OF_NETWORKS = (
    *(FIREWALL_CONFIGURATIONS, ROUTE_CONFIGURATIONS, GENEVE_TUNNELS),
    *(WG_GATEWAY_CLIENTS, INTERNAL_FABRICS, INTERNAL_NODES, IPS, NETWORKS),
)
"""Kinds that Liqo holds by finalizers."""
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "any"}
REST: dict[Kind, dict[str, Any]] = {
    CLUSTER_ROLE_BINDINGS: {"roleRef": ROLE},
    ROLE_BINDINGS: {"roleRef": ROLE},
    CONFIG_MAPS: {"data": {"CLUSTER_ID": "rome"}},
    CLUSTER_ROLES: {"rules": []},
    ROLES: {"rules": []},
    SERVICES: {"spec": {"ports": [{"port": 443}]}},
    FIREWALL_CONFIGURATIONS: {"spec": {"table": {"name": "t", "family": "IPV4"}}},
    GENEVE_TUNNELS: {"spec": {"id": 1, "internalFabricRef": REF, "internalNodeRef": REF}},
    WG_GATEWAY_CLIENTS: {"spec": {"deployment": {}}},
    GATEWAY_CLIENTS: {"spec": CLIENT},
    INTERNAL_FABRICS: {
        "spec": {
            "gatewayIP": "10.1.0.9",
            "interface": {"gateway": {"ip": "10.80.0.1"}, "node": {"name": "liqo.def"}},
            "mtu": 1340,
            "remoteCIDRs": ["10.244.0.0/16"],
        }
    },
    INTERNAL_NODES: {"spec": {"interface": INTERFACE}},
    IPS: ADDRESS,
    NETWORKS: {"spec": {"cidr": "10.244.0.0/16"}},
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
        meta: dict[str, Any] = {"name": name, "labels": marks}
        if kind in OF_NETWORKS:
            meta["finalizers"] = ["ip.ipam.liqo.io/finalizer"]
        if kind is IPS and name in OWNERS:
            owner = dict(zip(("apiVersion", "kind", "name"), OWNERS[name], strict=True))
            meta["ownerReferences"] = [{**owner, "uid": "u"}]
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
    return await present(admin)


async def present(admin: Client) -> set[tuple[str, str, str]]:
    """All that there is, with what belongs to networks."""
    found = await everything(admin)
    for kind in (*OF_NETWORKS, GATEWAY_CLIENTS):
        for each in await admin.list(kind):
            meta = each["metadata"]
            found.add((kind.name, meta.get("namespace", ""), meta["name"]))
    return found


def names(*of: tuple[Kind, str, str, dict[str, str]]) -> set[tuple[str, str, str]]:
    return {(kind.name, namespace, name) for kind, namespace, name, _ in of}


@pytest.mark.long
async def test_liqos_programs_go_and_what_they_made_stays(admin):
    before = await have_liqo(admin)
    with pytest.raises(ConfigError, match="Liqo itself runs here") as told_so:
        await install.install(admin, install.Options(), quiet)
    assert taken(str(told_so.value), "migrate --dry-run") == ["migrate", "--dry-run"]
    found = await migration.survey(admin, "liqo")
    assert {(one.kind.name, one.namespace, one.name) for one in found.doomed} == names(*GOES)
    assert (found.cluster_id, found.nodes, found.offloaded) == ("rome", ("milan",), 2)
    shown = lines(found)
    assert "goes: Deployment liqo-tenant-milan/vk-milan" in shown
    assert "stays: virtual nodes milan, with 2 pods on them" in shown

    told: list[str] = []
    await migration.take_out(admin, "liqo", told.append)
    after = await present(admin)
    assert before - after == names(*GOES[1:])
    assert await admin.list(MUTATING_WEBHOOKS) == []
    assert after - before == set()
    # The webhook goes before the program behind it, and Helm forgets only at the end.
    assert told[0] == "removing MutatingWebhookConfiguration liqo-webhook"
    assert told[-1].startswith("removing Secret liqo/sh.helm.release")

    # What was broken off is continued; what is done already is no error.
    await migration.take_out(admin, "liqo", quiet)
    assert (await migration.survey(admin, "liqo")).doomed == ()
    assert await install.install(admin, install.Options(), quiet) == "rome"
    assert names(*STAYS) <= await present(admin)
    # What stays can go when its peer does: nobody of Liqo's is there to let it.
    for kind, name, namespace in ((NETWORKS, "milan-pod", TENANT), (IPS, "printer", "liqo")):
        assert "finalizers" not in (await admin.get(kind, name, namespace))["metadata"]


@pytest.mark.install
@pytest.mark.long
async def test_what_makes_programs_ends_before_they_go(admin):
    """Liqo's controller-manager makes the Deployments of virtual kubelets anew while it runs."""
    await have_liqo(admin)
    manager = {"name": "liqo-controller-manager-x", "labels": CHART}
    pod = {"metadata": manager, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await admin.create(PODS, pod, "liqo")

    async def manage() -> None:
        """Makes a virtual kubelet's Deployment anew, until Liqo's own has gone for a while."""
        body = {"metadata": {"name": "vk-milan", "labels": KUBELET}, **REST[DEPLOYMENTS]}
        grace = 3
        while grace:
            await trio.sleep(0.05)
            if await admin.find(DEPLOYMENTS, "vk-milan", TENANT) is None:
                await admin.create(DEPLOYMENTS, body, TENANT)
            if await admin.find(DEPLOYMENTS, "liqo-controller-manager", "liqo") is None:
                grace -= 1
        await admin.delete(PODS, manager["name"], "liqo", grace=0)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(manage)
            await migration.take_out(admin, "liqo", quiet)
    assert await admin.find(DEPLOYMENTS, "vk-milan", TENANT) is None
    assert (await migration.survey(admin, "liqo")).doomed == ()


@pytest.mark.install
@pytest.mark.long
async def test_a_network_that_goes_on_is_named_and_one_that_cannot(admin):
    await have_liqo(admin)
    found = await migration.survey(admin, "liqo")
    assert (found.joined, found.ends) == ((f"GatewayClient {TENANT}/milan",), ())
    assert f"goes on with liqod: the network of GatewayClient {TENANT}/milan" in str(lines(found))
    marks = {"liqo.io/remote-cluster-id": "milan"}
    other = {"clientTemplateRef": CLIENT["clientTemplateRef"] | {"name": "quic-client"}}
    await admin.delete(GATEWAY_CLIENTS, "milan", TENANT)
    client = {"metadata": {"name": "other", "labels": marks}, "spec": CLIENT | other}
    await admin.create(GATEWAY_CLIENTS, client, TENANT)
    await migration.take_out(admin, "liqo", quiet)
    found = await migration.survey(admin, "liqo")
    assert found.joined == ()
    (ends,) = found.ends
    assert ends == (
        f"GatewayClient {TENANT}/other",
        "tunnels by 'quic': this cluster makes wireguard",
    )


@pytest.mark.install
@pytest.mark.long
async def test_the_way_back_hands_over_a_joined_network(admin):
    """Liqo's gateway reads its key where it left it, and makes of its own what stood for it."""
    await have_liqo(admin)
    await migration.take_out(admin, "liqo", quiet)
    await install.install(admin, install.Options(), quiet)
    keys = tunnelkeys.generate()
    await admin.create(SECRETS, keysecrets.private_secret("milan", keys), "liqo")
    gateway = await admin.get(GATEWAY_CLIENTS, "milan", TENANT, decode=GatewayClient)
    await admin.create(SECRETS, keysecrets.public_secret(gateway, keys.public), TENANT)
    ours = {"liqod.io/managed": "true"}
    place = {"node": "worker", "index": 1, "address": "192.0.2.1"}
    for kind, name, namespace, spec in (
        (INTERNAL_NODES, "worker", None, {"index": 1, "address": "192.0.2.1"}),
        (INTERNAL_FABRICS, "gateway", "liqo", {"cluster": "rome", "gateway": place}),
        (IPS, "api-server-proxy", "liqo", {"ip": "192.0.2.2"}),
    ):
        body = {"metadata": {"name": name, "labels": ours}, "spec": spec}
        await admin.create(kind, body, namespace)
    stand_in = {"metadata": {"name": "gw-milan", "labels": {STAND_IN: "true"}}}
    await admin.create(DEPLOYMENTS, {**stand_in, **REST[DEPLOYMENTS]}, TENANT)
    daemons = {"metadata": {"name": "liqod-node", "labels": MANAGED}}
    template = {k: v for k, v in REST[DEPLOYMENTS]["spec"].items() if k != "replicas"}
    await admin.create(DAEMON_SETS, {**daemons, "spec": template}, "liqo")

    assert await migration.give_back(admin, "liqo", quiet) == "rome"
    secret = await admin.get(SECRETS, "gw-milan", TENANT, decode=keysecrets.KeySecret)
    assert (secret.private, secret.public) == (keys.private, keys.public)
    assert await admin.find(SECRETS, "gw-milan", "liqo") is None
    for kind in (INTERNAL_NODES, INTERNAL_FABRICS, DEPLOYMENTS, DAEMON_SETS):
        assert await admin.list(kind) == []
    assert [each["metadata"]["name"] for each in await admin.list(IPS)] == ["printer"]
    # And Liqo's own can be written, though liqod's definitions are there.
    await admin.create(INTERNAL_NODES, {"metadata": {"name": "worker"}, **REST[INTERNAL_NODES]})
    found = await admin.get(INTERNAL_NODES, "worker")
    assert found["spec"]["interface"] == INTERFACE


@pytest.mark.install
@pytest.mark.long
async def test_the_way_back_leaves_what_liqo_goes_on_with(admin):
    await have_liqo(admin)
    await migration.take_out(admin, "liqo", quiet)
    await install.install(admin, install.Options(), quiet)
    ours = {"liqod.io/managed": "true"}
    await admin.create(SECRETS, {"metadata": {"name": "liqod-webhook", "labels": ours}}, "liqo")
    await admin.patch(SECRETS, "authentication-keys", {"metadata": {"labels": ours}}, "liqo")
    hold = {"metadata": {"finalizers": ["liqod.io/virtual-node"]}}
    await admin.patch(VIRTUAL_NODES, "milan", hold, TENANT)
    summed = await admin.get(CLUSTER_ROLES, "liqo-virtual-kubelet-remote")

    await admin.create(MUTATING_WEBHOOKS, directpods.WEBHOOK)
    with pytest.raises(ConfigError, match="that have no ShadowPod: run the daemon"):
        await migration.give_back(admin, "liqo", quiet)
    assert await take_over(admin), "there are none"

    assert await migration.give_back(admin, "liqo", quiet) == "rome"
    left = await present(admin)
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
