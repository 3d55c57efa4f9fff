"""Installing, upgrading and uninstalling, in an embedded cluster."""

import base64

import pytest
import trio

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    SECRETS,
    Kind,
)
from liqod.errors import ConfigError, NotFound
from liqod.install import daemonkubeconfig, plugingrants
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.resources import (
    DEFINITIONS,
    FOREIGN_CLUSTERS,
    NAMESPACE_OFFLOADINGS,
    TENANTS,
)
from tests.simulated.processes import sites
from tests.unit.plugins.test_overreach import GOOD

OPTIONS = install.Options(cluster_id="milan")


def quiet(_: str) -> None:
    """No progress."""


async def everything(client) -> set[tuple[str, str, str]]:
    """All objects of the kinds that an installation has to do with."""
    kinds: list[Kind] = [*install.KINDS.values(), LEASES, NODES, SECRETS]
    found: set[tuple[str, str, str]] = set()
    for kind in kinds:
        try:
            every = await client.list(kind, Selection(metadata_only=True))
        except NotFound:
            continue  # it is not defined
        for one in every:
            metadata = one["metadata"]
            found.add((kind.name, metadata.get("namespace", ""), metadata["name"]))
    return found


@pytest.mark.long
async def test_a_second_installation_writes_nothing(admin):
    assert await install.install(admin, OPTIONS, quiet) == "milan"
    before = dict(admin.stats.requests)
    assert await install.install(admin, install.Options(), quiet) == "milan"
    written = {
        key: number - before.get(key, 0)
        for key, number in admin.stats.requests.items()
        if key[0] not in ("get", "list") and number != before.get(key, 0)
    }
    written.pop(("create", "selfsubjectaccessreviews"))  # a question
    assert written == {}
    await install.check_revision(admin)


@pytest.mark.long
async def test_nothing_remains_after_purging(admin):
    before = await everything(admin)
    await install.install(admin, install.Options(cluster_id="milan", in_cluster=True), quiet)
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await everything(admin) == before
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)


@pytest.mark.install
@pytest.mark.long
async def test_definitions_stay_unless_purged_and_nothing_else_does(admin):
    before = await everything(admin)
    await install.install(admin, OPTIONS, quiet)
    await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    left = await everything(admin) - before
    assert {kind for kind, _, _ in left} == {"CustomResourceDefinition"}
    assert len(left) == len(DEFINITIONS)
    assert await install.install(admin, OPTIONS, quiet) == "milan"


async def test_the_cluster_id_is_chosen_once(admin):
    with pytest.raises(ConfigError, match="--cluster-id"):
        await install.install(admin, install.Options(), quiet)
    assert await everything(admin) & {("Namespace", "", "liqo")} == set()
    await install.install(admin, OPTIONS, quiet)
    with pytest.raises(ConfigError, match="cannot become turin"):
        await install.install(admin, install.Options(cluster_id="turin"), quiet)


async def test_it_refuses_beside_liqo(admin):
    await admin.create(NAMESPACES, {"metadata": {"name": "liqo"}})
    await admin.create(
        DEPLOYMENTS,
        {
            "metadata": {
                "name": "liqo-controller-manager",
                "namespace": "liqo",
                "labels": {
                    "app.kubernetes.io/part-of": "liqo",
                    "app.kubernetes.io/managed-by": "Helm",
                },
            },
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        },
    )
    with pytest.raises(ConfigError, match=r"liqo/liqo-controller-manager\), and both would"):
        await install.install(admin, OPTIONS, quiet)


@pytest.mark.install
@pytest.mark.long
async def test_one_deployment_tells_liqoctl_of_the_daemon(admin):
    async def found() -> dict[str, int]:
        listed = await admin.list(
            DEPLOYMENTS, Selection(labels="app.kubernetes.io/name=controller-manager")
        )
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in listed}

    await install.install(admin, OPTIONS, quiet)
    assert await found() == {"liqo-controller-manager": 0}
    await install.install(admin, install.Options(in_cluster=True), quiet)
    assert await found() == {"liqod": 1}
    # An upgrade from outside leaves the daemon where it is.
    await install.install(admin, install.Options(), quiet)
    assert await found() == {"liqod": 1}


async def test_definitions_gain_and_never_lose(admin):
    await install.install(admin, OPTIONS, quiet)
    name = "quotas.offloading.liqo.io"
    crd = await admin.get(CUSTOM_RESOURCES, name)
    spec = crd["spec"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    schema["later"] = {"type": "string"}
    del schema["cordoned"]
    metadata = {"annotations": {labels.CRD_REVISION: "0"}}
    await admin.patch(CUSTOM_RESOURCES, name, {"spec": spec, "metadata": metadata})
    with pytest.raises(ConfigError, match="revision 0"):
        await install.check_revision(admin)
    await install.install(admin, OPTIONS, quiet)
    await install.check_revision(admin)
    crd = await admin.get(CUSTOM_RESOURCES, name)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert {"later", "cordoned", "user"} <= set(schema["properties"])


async def test_a_missing_definition_is_named(admin):
    with pytest.raises(ConfigError, match="run `liqod install`"):
        await install.check_revision(admin)


async def test_an_upgrade_takes_away_what_it_no_longer_has_and_mends_what_was_changed(admin):
    await install.install(admin, OPTIONS, quiet)
    stale = {"metadata": {"name": "liqod-old", "labels": install.MANAGED}, "rules": []}
    await admin.create(CLUSTER_ROLES, stale)
    theirs = {"metadata": {"name": "liqod-mine"}, "rules": []}
    await admin.create(CLUSTER_ROLES, theirs)
    await admin.patch(CLUSTER_ROLES, "liqod-trust", {"rules": []})
    await install.install(admin, OPTIONS, quiet)
    assert await admin.find(CLUSTER_ROLES, "liqod-old") is None
    assert await admin.find(CLUSTER_ROLES, "liqod-mine") is not None
    assert (await admin.get(CLUSTER_ROLES, "liqod-trust"))["rules"]


@pytest.mark.install
@pytest.mark.long
async def test_the_daemons_configuration_is_the_operators(admin):
    options = install.Options(cluster_id="milan", in_cluster=True)
    await install.install(admin, options, quiet)
    text = "[health]\nport = 1\n"
    await admin.patch(SECRETS, "liqod", {"stringData": {"liqod.toml": text}}, "liqo")
    await install.install(admin, options, quiet)
    assert configuration(await admin.get(SECRETS, "liqod", "liqo"))["liqod.toml"] == text


def configuration(secret):
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


@pytest.mark.install
@pytest.mark.long
async def test_who_reads_the_id_of_the_cluster_does_not_read_its_configuration(admin):
    """Peering users may list ConfigMaps there; of an installation before it was one."""
    text = 'proxy = "http://liqod:hunter2@proxy.example:3128"\n'
    old = {"metadata": {"name": "liqod"}, "data": {"liqod.toml": text, "api-server-ca.crt": "x"}}
    await install.install(admin, OPTIONS, quiet)
    await admin.create(CONFIG_MAPS, old, "liqo")
    await install.install(admin, OPTIONS, quiet)
    assert await admin.find(CONFIG_MAPS, "liqod", "liqo") is not None, "its pod has it mounted"
    options = install.Options(cluster_id="milan", in_cluster=True)
    for _ in range(2):
        await install.install(admin, options, quiet)
        found = await admin.list(CONFIG_MAPS, Selection("liqo"))
        assert not [each for each in found if "hunter2" in str(each)]
        assert configuration(await admin.get(SECRETS, "liqod", "liqo")) == old["data"]
    pod = (await admin.get(DEPLOYMENTS, "liqod", "liqo"))["spec"]["template"]["spec"]
    assert [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each] == [
        "liqod"
    ]


async def test_it_is_not_uninstalled_while_peered(admin):
    await install.install(admin, OPTIONS, quiet)
    tenant = {"metadata": {"name": "liqo-tenant-rome", "labels": {labels.TENANT_NAMESPACE: "true"}}}
    await admin.create(NAMESPACES, tenant)
    await admin.create(
        TENANTS, {"metadata": {"name": "rome"}, "spec": {"clusterID": "rome"}}, "liqo-tenant-rome"
    )
    with pytest.raises(ConfigError, match="peered with rome"):
        await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    assert await install.peers_left(admin) == ["rome"]
    await admin.delete(TENANTS, "rome", "liqo-tenant-rome")
    tombstone = {"metadata": {"name": "rome", "annotations": {labels.TOMBSTONE: "{}"}}}
    await admin.create(FOREIGN_CLUSTERS, {**tombstone, "spec": {"clusterID": "rome"}})
    with pytest.raises(ConfigError, match=r"rome has not confirmed.* `liqod uninstall --forget`"):
        await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    await install.uninstall(admin, "liqo", purge=False, forget=True, progress=quiet)
    assert await admin.find(NAMESPACES, "liqo-tenant-rome") is None
    assert await admin.list(FOREIGN_CLUSTERS) == []


@pytest.mark.install
@pytest.mark.long
async def test_a_role_that_the_cluster_has_summed_up_once_more_goes_too(admin):
    before = await everything(admin)
    await install.install(admin, OPTIONS, quiet)
    await admin.delete(CLUSTER_ROLES, labels.REMOTE_ROLE)
    again = {"metadata": {"name": labels.REMOTE_ROLE}, "rules": []}
    await admin.create(CLUSTER_ROLES, again)
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await everything(admin) == before


@pytest.mark.install
@pytest.mark.long
async def test_what_a_killed_daemon_left_goes_too(admin):
    before = await everything(admin)
    await install.install(admin, OPTIONS, quiet)
    shop = {"metadata": {"name": "shop", "labels": {labels.SCHEDULING_ENABLED: "true"}}}
    await admin.create(NAMESPACES, shop)
    offloading = {"metadata": {"name": "offloading", "finalizers": ["liqod.io/nobody"]}}
    await admin.create(NAMESPACE_OFFLOADINGS, {**offloading, "spec": {}}, "shop")
    mapped = {labels.MANAGED_BY_NAMESPACE_MAP: "liqo-tenant-rome/milan"}
    await admin.create(NAMESPACES, {"metadata": {"name": "shop-rome", "annotations": mapped}})
    node = {"metadata": {"name": "milan", "labels": {labels.TYPE: labels.VIRTUAL_NODE_TYPE}}}
    await admin.create(NODES, node)
    await admin.create(LEASES, {"metadata": {"name": "milan"}, "spec": {}}, "kube-node-lease")
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    left = await everything(admin) - before
    assert {one for one in left if one[1] != "shop"} == {("Namespace", "", "shop")}
    assert labels.SCHEDULING_ENABLED not in (await admin.get(NAMESPACES, "shop"))["metadata"].get(
        "labels", {}
    )


async def test_a_daemon_that_still_runs_is_named(admin, autojump_clock):
    await install.install(admin, OPTIONS, quiet)
    spec = {"holderIdentity": "host-7", "leaseDurationSeconds": 3600, "renewTime": None}
    await admin.create(LEASES, {"metadata": {"name": labels.LEADER_LEASE}, "spec": spec}, "liqo")
    with pytest.raises(ConfigError, match="the daemon host-7 still runs"):
        await install.uninstall(admin, "liqo", purge=False, progress=quiet)


async def test_the_daemon_gets_a_token_of_its_own(admin, cluster):
    await install.install(admin, OPTIONS, quiet)
    found = from_kubeconfig(cluster.kubeconfig)
    text = await install.daemon_kubeconfig(admin, found, "liqo", "milan", quiet)
    filled = (await admin.get(SECRETS, daemonkubeconfig.TOKEN_SECRET, "liqo"))["data"]["token"]
    made = from_kubeconfig(text)
    token = base64.b64decode(filled).decode()
    assert token
    assert (made.server, made.token, made.ca) == (found.server, token, found.ca)


@pytest.mark.install
@pytest.mark.long
async def test_in_the_cluster_nobody_is_told_to_start_it_by_hand(tmp_path):
    async with sites(tmp_path, "milan") as (milan,):
        own = await milan.liqod("status", check=False)
        assert "start `liqod run`" in own.out + own.err
        refused = await milan.liqod("install", "--in-cluster", check=False)
        assert refused.status == 1
        assert "of this machine only" in refused.err
        # A busy machine may need longer than that for what comes before.
        for seconds in ("6", "60"):
            late = await milan.liqod(
                *("install", "--in-cluster", "--timeout", seconds),
                *("--advertise", "https://milan.example:6443", "--image", "none"),
                check=False,
            )
            if "wait for the daemon in the cluster" in late.err:
                break
        assert "wait for the daemon in the cluster" in late.err or late.status == 0
        config = configuration(await milan.admin.get(SECRETS, "liqod", "liqo"))
        assert 'advertise = "https://milan.example:6443"' in config["liqod.toml"]
        assert config["api-server-ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
        theirs = await milan.liqod("status", check=False)
        assert "rollout status deployment liqod" in theirs.out + theirs.err
        for words in (("offload", "namespace", "default"),):
            assert "rollout status" in (await milan.liqod(*words, check=False)).err


@pytest.mark.install
@pytest.mark.long
async def test_rights_for_cluster_profiles_outlast_an_upgrade_and_go_with_it_all(admin):
    name = "liqod-clusterprofiles"
    asked = install.Options(cluster_id="milan", cluster_profiles=True)
    await install.install(admin, OPTIONS, quiet)
    assert await admin.find(CLUSTER_ROLES, name) is None
    await install.install(admin, asked, quiet)
    await install.install(admin, OPTIONS, quiet)
    found = await admin.get(CLUSTER_ROLES, name)
    assert [each["resources"][0] for each in found["rules"]] == [
        "clusterprofiles",
        "clusterprofiles/status",
    ]
    await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    assert await admin.find(CLUSTER_ROLES, name) is None


@pytest.mark.install
@pytest.mark.long
async def test_what_was_granted_to_a_plugin_outlasts_an_upgrade_and_goes_with_it_all(admin):
    before = await everything(admin)
    of = plugingrants.Declared(GOOD, "liqod-gadgets 1")
    granted = (*plugingrants.here(of), *plugingrants.lent(of))
    plugins = install.Options(cluster_id="milan", plugins=granted)
    await install.install(admin, plugins, quiet)
    named = {name for _, _, name in await everything(admin) if name.startswith("liqod-plugin-")}
    assert named == {"liqod-plugin-gadgets", "liqod-plugin-gadgets-remote"}
    for name in ("liqod-plugins", labels.REMOTE_ROLE):
        await summed_up(admin, name)
    await install.install(admin, OPTIONS, quiet)  # by a user without the package
    found = await everything(admin)
    assert named == {name for _, _, name in found if name.startswith("liqod-plugin-")}
    policy = await admin.get(ADMISSION_POLICIES, "liqod-plugin-gadgets")
    assert policy["metadata"]["annotations"][labels.OBJECT_QUOTA]
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await everything(admin) == before


async def summed_up(admin: Client, name: str) -> None:
    """Until an aggregated role has the rule of Gadgets."""
    with trio.fail_after(10):
        while True:
            role = await admin.get(CLUSTER_ROLES, name)
            if any("gadgets" in rule["resources"] for rule in role.get("rules") or ()):
                return
            await trio.sleep(0.05)


async def test_a_role_of_that_name_that_somebody_else_made_is_no_wish(admin):
    theirs = {"metadata": {"name": "liqod-clusterprofiles"}, "rules": []}
    await admin.create(CLUSTER_ROLES, theirs)
    await install.install(admin, OPTIONS, quiet)
    assert (await admin.get(CLUSTER_ROLES, "liqod-clusterprofiles")).get("rules") in (None, [])
