"""The DNS server of its own for the names of the set: made, kept, and taken away."""

import msgspec
import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from liqod.errors import ConfigError
from liqod.install import dnsserver, rollout
from liqod.install.manifests import MANAGED
from liqod.install.migration import give_back
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.reviews import AuthenticatedUser, may
from liqod.kube.selection import Selection
from liqod.procedures import askingnames, sharedservices
from simulator import EmbeddedCluster
from tests.simulated.clusterset.test_diagnosis import coredns
from tests.simulated.install.test_install import everything, quiet
from tests.testbed import shownblocks, virtualtime
from tests.testbed.pages import Terminal
from tests.unit.model.test_corefile import KUBEADM

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

WITH = install.Options(cluster_id="milan", dns_server=True)
UPGRADE = install.Options()
WITHOUT = install.Options(dns_server=False)
ACCOUNT = "system:serviceaccount:liqo:liqod-dns"
KINDS = (SERVICE_ACCOUNTS, CONFIG_MAPS, DEPLOYMENTS, POD_DISRUPTION_BUDGETS, SERVICES)


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", nodes=1) as made:
        yield made


@pytest.fixture
async def admin(cluster):
    """A client of a cluster with nodes, whose DNS server somebody else keeps."""
    async with Client(from_kubeconfig(cluster.kubeconfig)) as client:
        configuration, deployment = coredns(KUBEADM, image="example.com/coredns:v1.14.0")
        marks = {"labels": {"eks.amazonaws.com/component": "coredns"}}
        configuration["metadata"] |= marks
        await client.create(CONFIG_MAPS, configuration, "kube-system")
        await client.create(DEPLOYMENTS, deployment, "kube-system")
        yield client


async def objects(admin):
    found = {kind.name: await admin.find(kind, "liqod-dns", "liqo") for kind in KINDS}
    return {name: _wanted(one) for name, one in found.items() if one}


def _wanted(found):
    """What an installation writes of an object, and its identity: its status changes by itself."""
    spared = ("resourceVersion", "managedFields", "generation")
    metadata = {key: value for key, value in found["metadata"].items() if key not in spared}
    return {**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata}


async def image(admin):
    found = await admin.get(DEPLOYMENTS, "liqod-dns", "liqo")
    return found["spec"]["template"]["spec"]["containers"][0]["image"]


async def test_it_comes_with_the_kinds_stays_with_an_upgrade_and_goes_without_a_trace(admin):
    before = await everything(admin)
    text = (await admin.get(CONFIG_MAPS, "coredns", "kube-system"))["data"]
    await install.install(admin, WITH, quiet)
    assert await admin.find(CUSTOM_RESOURCES, "serviceimports.multicluster.x-k8s.io")
    pods = await admin.list(PODS, Selection("liqo", labels="app.kubernetes.io/name=liqod-dns"))
    assert len(pods) == 2
    assert await image(admin) == "example.com/coredns:v1.14.0"
    assert (await admin.get(CONFIG_MAPS, "coredns", "kube-system"))["data"] == text
    there = await objects(admin)
    assert len(there) == len(KINDS)

    await install.install(admin, UPGRADE, quiet)
    assert await objects(admin) == there
    another = msgspec.structs.replace(WITH, dns_image="example.com/dns:v1.15.0")
    await install.install(admin, another, quiet)
    await install.install(admin, UPGRADE, quiet)
    assert await image(admin) == "example.com/dns:v1.15.0"

    await install.install(admin, WITHOUT, quiet)
    assert await objects(admin) == {}
    assert await admin.find(CLUSTER_ROLES, "liqod-dns") is None
    await install.install(admin, UPGRADE, quiet)
    assert await objects(admin) == {}
    await install.install(admin, WITH, quiet)
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await everything(admin) == before


async def test_it_comes_and_goes_as_its_page_says(cluster, admin, tmp_path):
    await install.install(admin, install.Options(cluster_id="milan"), quiet)
    made = Terminal(tmp_path, tmp_path)
    (tmp_path / "milan.kubeconfig").write_text(cluster.kubeconfig)
    comes, goes = shownblocks.commands("how-to/dns-server", "")

    async def said(shown):
        line = shown._replace(at="milan")
        [printed] = await trio.to_thread.run_sync(made.section, [line])
        return printed

    with virtualtime.real():
        printed = await said(comes)
        service = await admin.get(SERVICES, "liqod-dns", "liqo")
        assert service["spec"]["clusterIP"] in printed
        assert len(await objects(admin)) == len(KINDS)
        await said(goes)
    assert await objects(admin) == {}


async def test_giving_the_cluster_back_to_liqo_takes_it_away(admin):
    await install.install(admin, WITH, quiet)
    await give_back(admin, "liqo", quiet)
    assert await objects(admin) == {}
    assert await admin.find(CLUSTER_ROLES, "liqod-dns") is None


async def test_what_others_have_of_that_name_stays(admin):
    await install.install(admin, WITH, quiet)
    await admin.delete(CONFIG_MAPS, "liqod-dns", "liqo")
    await admin.create(CONFIG_MAPS, {"metadata": {"name": "liqod-dns"}}, "liqo")
    await install.install(admin, WITHOUT, quiet)
    assert set(await objects(admin)) == {"ConfigMap"}


async def test_a_service_of_its_name_elsewhere_is_not_taken_for_it(admin, monkeypatch):
    """To its address the administrator has the zone forwarded."""
    monkeypatch.setattr(askingnames, "WITHIN", 0.1)
    await admin.create(NAMESPACES, {"metadata": {"name": "a-tenant"}})
    marks = {"app.kubernetes.io/name": "liqod-dns", **MANAGED}
    port = {"port": 53, "protocol": "UDP"}
    body = {"metadata": {"name": "liqod-dns", "labels": marks}, "spec": {"ports": [port]}}
    await admin.create(SERVICES, body, "a-tenant")

    async def told():
        known = await sharedservices.read(admin, "milan")
        found = await askingnames.with_answer(admin, known, "liqo")
        assert found is not None
        return found.dns.responder and found.dns.responder.server

    await install.install(admin, install.Options(cluster_id="milan", services=True), quiet)
    assert await told() is None
    await install.install(admin, WITH, quiet)
    own = await admin.get(SERVICES, "liqod-dns", "liqo")
    assert await told() == own["spec"]["clusterIP"]


async def test_it_may_read_names_and_nothing_else(admin):
    await install.install(admin, WITH, quiet)
    user = AuthenticatedUser(ACCOUNT, ("system:serviceaccounts", "system:authenticated"))

    async def allowed(verb, resource, group=""):
        return await may(admin, user, verb=verb, group=group, resource=resource)

    for verb in ("list", "watch"):
        assert await allowed(verb, "serviceimports", "multicluster.x-k8s.io")
        assert await allowed(verb, "services")
    for resource in ("secrets", "configmaps", "pods", "nodes"):
        assert not await allowed("list", resource)
    for verb in ("create", "patch", "delete"):
        assert not await allowed(verb, "services")
    assert not await allowed("patch", "serviceimports", "multicluster.x-k8s.io")


async def test_an_image_that_is_too_old_is_refused_before_anything_is_changed(admin):
    before = await everything(admin)
    old = msgspec.structs.replace(WITH, dns_image="registry.k8s.io/coredns/coredns:v1.12.1")
    with pytest.raises(ConfigError, match=r"name CoreDNS 1\.12\.2 or newer"):
        await install.install(admin, old, quiet)
    assert await everything(admin) == before


async def test_pods_without_a_node_are_said_in_the_words_of_the_scheduler(admin, monkeypatch):
    monkeypatch.setattr(dnsserver, "COMES_WITHIN", 5.0)
    for node in await admin.list(NODES):
        closed = {"spec": {"unschedulable": True}}
        await admin.patch(NODES, node["metadata"]["name"], closed)
    with pytest.raises(ConfigError, match=r"were unschedulable.*--no-dns-server"):
        await install.install(admin, WITH, quiet)


async def test_an_upgrade_takes_no_server_of_that_name_for_its_own(admin):
    await install.install(admin, install.Options(cluster_id="milan"), quiet)
    made = dnsserver.manifests("liqo", "example.com/dns:v1.0.0")
    [body] = [each for each in made if each["kind"] == "Deployment"]
    await admin.create(DEPLOYMENTS, body, "liqo")
    there = await objects(admin)
    await install.install(admin, UPGRADE, quiet)
    assert await objects(admin) == there
    assert await image(admin) == "example.com/dns:v1.0.0"
    await install.install(admin, WITHOUT, quiet)
    assert await objects(admin) == there


async def test_pods_that_do_not_come_up_are_said(admin, monkeypatch):
    monkeypatch.setattr(dnsserver, "COMES_WITHIN", 5.0)
    monkeypatch.setattr(rollout, "is_rolled_out", lambda _: False)
    with pytest.raises(ConfigError, match=r"do not come up .*--no-dns-server"):
        await install.install(admin, WITH, quiet)
    await install.install(admin, WITHOUT, quiet)
    assert await objects(admin) == {}
