"""Services of the set between two clusters, one of which borrows from the other."""

import msgspec
import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, ENDPOINT_SLICES, NAMESPACES, SERVICES
from liqod.clusterset.sharing import Sharing
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.definitions import name_of
from liqod.kube.selection import Selection
from liqod.resources import NETWORKS
from liqod.resources.crdmanifests import make_crd
from liqod.resources.exchanges import SERVICE_EXCHANGES
from liqod.resources.multicluster import DEFINITIONS
from simulator import EmbeddedCluster
from simulator.faults import Fault
from tests.simulated.borrower import eventually, offload
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    backends,
    both,
    export,
    imported,
    services,
    share,
    sharing,
    until_backends,
    until_said,
)
from tests.simulated.members import AT_MILAN
from tests.simulated.prepared import quiet

pytestmark = pytest.mark.long
AGREED = {"Valid": ("True", "Valid"), "Conflict": ("False", "NoConflicts")}


async def test_both_clusters_import_what_either_exports_and_nothing_is_left_when_it_ends():
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        for who, peer in ((rome, "milan"), (milan, "rome")):
            await share(who, peer)
        await export(rome, "10.71.0.1")
        found = await imported(milan, "rome")
        service = found["metadata"]["annotations"]["multicluster.kubernetes.io/derived-service"]
        derived = await milan.admin.get(SERVICES, service, "shop")
        assert found["spec"]["ips"] == derived["spec"]["clusterIPs"]
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await imported(rome, "rome")
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})

        await export(milan, "10.72.0.1")
        for who in (rome, milan):
            await imported(who, "milan", "rome")
            await until_backends(who, {"rome": {"10.71.0.1": True}, "milan": {"10.72.0.1": True}})
        for who in (rome, milan):
            await until_said(who, {**AGREED, "Ready": ("True", "Exported")})
        again = await imported(milan, "milan", "rome")
        assert again["spec"]["ips"] == found["spec"]["ips"]

        await rome.admin.delete(EXPORTS, "web", "shop")
        for who in (rome, milan):
            await imported(who, "milan")
            await until_backends(who, {"milan": {"10.72.0.1": True}})
        await milan.admin.delete(EXPORTS, "web", "shop")
        for who in (rome, milan):
            await who.gone(IMPORTS, "web", "shop")
            await until_backends(who, {})
            assert await services(who) == ["web"]


async def test_nobody_sees_an_export_unless_both_clusters_share_its_namespace():
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await milan.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await export(rome, "10.71.0.1")
        await imported(rome, "rome")
        await until_said(rome, {**AGREED, "Ready": ("True", "Ready")})
        assert await rome.admin.list(SERVICE_EXCHANGES) == []

        await share(rome, "milan")
        await until_said(rome, {**AGREED, "Ready": ("False", "Pending")})
        (told,) = await eventually(lambda: milan.admin.list(SERVICE_EXCHANGES))
        assert set(told["spec"]["exports"]) == {"web"}
        await trio.sleep(1)
        assert await milan.admin.list(IMPORTS) == []
        await share(milan, "rome")
        await imported(milan, "rome")
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})
        await share(milan, "turin")
        await milan.gone(IMPORTS, "web", "shop")
        await until_said(rome, {**AGREED, "Ready": ("False", "Pending")})


@pytest.mark.clusterset
async def test_an_export_waits_until_the_peer_has_confirmed_it_as_it_is():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})
        await milan.stop()
        ports = [{"name": "http", "port": 81, "targetPort": 8080, "protocol": "TCP"}]
        await rome.admin.patch(SERVICES, "web", {"spec": {"ports": ports}}, "shop")

        async def is_told():
            (told,) = await milan.admin.list(SERVICE_EXCHANGES)
            return '"port":81' in told["spec"]["exports"]["web"]

        await eventually(is_told)
        await until_said(rome, {**AGREED, "Ready": ("False", "Pending")})
        await trio.sleep(0.5)
        await until_said(rome, {**AGREED, "Ready": ("False", "Pending")})
        await milan.start()
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})


@pytest.mark.clusterset
async def test_where_networks_are_routed_no_pod_of_a_peer_is_told_as_own():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        network = {"metadata": {"name": "pod"}, "spec": {"cidr": "10.71.64.0/18"}}
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "liqo-tenant-turin"}})
        await rome.admin.create(NETWORKS, network, "liqo-tenant-turin")
        alias = {"status": {"cidr": "10.71.64.0/18"}}
        await rome.admin.patch(NETWORKS, "pod", alias, "liqo-tenant-turin", subresource="status")
        await export(rome, "10.71.0.1")
        endpoints = [
            {"addresses": ["10.71.64.1"]},
            {"addresses": ["10.71.0.3"], "nodeName": "milan"},
            {"addresses": ["10.71.0.2"]},
        ]
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", {"endpoints": endpoints}, "shop")
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        at_home = dict.fromkeys(("10.71.64.1", "10.71.0.2", "10.71.0.3"), True)
        await until_backends(rome, {"rome": at_home})


async def test_unpeering_withdraws_what_the_peer_exports_and_nothing_else():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await export(milan, "10.72.0.1")
        for who in (rome, milan):
            await imported(who, "milan", "rome")
        await rome.unpeer(milan)
        await milan.unpeer(rome)
        await imported(rome, "rome")
        await until_backends(rome, {"rome": {"10.71.0.1": True}})
        await imported(milan, "milan")
        await until_backends(milan, {"milan": {"10.72.0.1": True}})
        for who in (rome, milan):
            assert await who.admin.list(SERVICE_EXCHANGES) == []


@pytest.mark.clusterset
async def test_a_restart_of_either_daemon_writes_nothing():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await export(milan, "10.72.0.1")
        for who in (rome, milan):
            await imported(who, "milan", "rome")
            await until_said(who, {**AGREED, "Ready": ("True", "Exported")})

        async def versions():
            return {
                (who.id, kind.plural, each["metadata"]["name"]): each["metadata"]["resourceVersion"]
                for who in (rome, milan)
                for kind in (EXPORTS, IMPORTS, SERVICES, ENDPOINT_SLICES, SERVICE_EXCHANGES)
                for each in await who.admin.list(kind)
            }

        before = await versions()
        # Of a request that changes nothing there is no new version.
        asked = [Fault(verb="patch", path="/service", status=500) for _ in (rome, milan)]
        for who, fault in zip((rome, milan), asked, strict=True):
            who.cluster.faults.add(fault)
        for who in (rome, milan):
            await who.stop()
            await who.start()
        await trio.sleep(2)
        assert await versions() == before
        assert [fault.hits for fault in asked] == [0, 0]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(EXPORTS, id="the-export"),
        pytest.param(SERVICES, id="the-service", marks=pytest.mark.clusterset),
    ],
)
async def test_what_ended_while_the_daemons_were_away_is_withdrawn(kind):
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        for who in (rome, milan):
            await who.stop()
        await rome.admin.delete(kind, "web", "shop")
        for who in (rome, milan):
            await who.start()
        for who in (rome, milan):
            await who.gone(IMPORTS, "web", "shop")
            await until_backends(who, {})


async def test_endpoints_of_a_silent_provider_are_not_ready_until_it_is_back():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        await imported(rome, "milan")
        await until_backends(rome, {"milan": {"10.72.0.1": True}})
        await milan.stop()
        await milan.cluster.stop()
        await until_backends(rome, {"milan": {"10.72.0.1": False}})
        await milan.cluster.start()
        await milan.start()
        await until_backends(rome, {"milan": {"10.72.0.1": True}})


@pytest.mark.clusterset
async def test_exports_that_differ_conflict_and_the_oldest_wins_everywhere():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await trio.sleep(1.1)
        ports = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
        await export(milan, "10.72.0.1", sessionAffinity="ClientIP", ports=ports)
        reasons = "PortConflict,SessionAffinityConflict"
        for who in (rome, milan):
            found = await imported(who, "milan", "rome")
            assert found["spec"]["sessionAffinity"] == "None"
            assert [each["name"] for each in found["spec"]["ports"]] == ["http", "admin"]
            wanted = {"Valid": ("True", "Valid"), "Ready": ("True", "Exported")}
            await until_said(who, {**wanted, "Conflict": ("True", reasons)})


@pytest.mark.clusterset
async def test_a_headless_service_has_no_address_and_the_names_of_its_hosts():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1", clusterIP="None")
        endpoints = [{"addresses": ["10.71.0.1"], "hostname": "web-0"}]
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", {"endpoints": endpoints}, "shop")
        found = await imported(milan, "rome")
        assert found["spec"]["type"] == "Headless"
        assert not found["spec"].get("ips")
        assert await services(milan) == []
        chosen = Selection("shop", labels="multicluster.kubernetes.io/source-cluster=rome")

        async def named():
            found = await milan.admin.list(ENDPOINT_SLICES, chosen)
            return [one.get("hostname") for each in found for one in each["endpoints"]] == ["web-0"]

        await eventually(named)


LIES = {
    "another-cluster": {"cluster": "turin"},
    "another-namespace": {"namespace": "kube-system"},
    "another-name": {"name": "api"},
    "nonsense": {"ports": 7},
}


async def test_a_consumer_speaks_for_itself_alone_and_a_lie_takes_nothing_away():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        (told,) = await milan.admin.list(SERVICE_EXCHANGES)
        before = msgspec.json.decode(told["spec"]["exports"]["web"])
        await rome.stop()
        for name, lie in LIES.items():
            patch = {"spec": {"exports": {"web": msgspec.json.encode(before | lie).decode()}}}
            await milan.admin.patch(SERVICE_EXCHANGES, "shop.milan", patch, AT_MILAN)
            await trio.sleep(1)
            assert await backends(milan) == {"rome": {"10.71.0.1": True}}, name
            found = await milan.admin.list(IMPORTS)
            assert [each["metadata"]["name"] for each in found] == ["web"], name


@pytest.mark.clusterset
async def test_addresses_that_are_not_the_peers_are_left_out():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        (told,) = await milan.admin.list(SERVICE_EXCHANGES)
        await rome.stop()
        text = told["spec"]["exports"]["web"]
        for address in ("192.0.2.1", "127.0.0.1", "169.254.169.254"):
            patch = {"spec": {"exports": {"web": text.replace("10.71.0.1", address)}}}
            await milan.admin.patch(SERVICE_EXCHANGES, "shop.milan", patch, AT_MILAN)
            await until_backends(milan, {})


@pytest.mark.clusterset
async def test_a_namespace_that_is_offloaded_by_its_own_name_is_shared_with_that_peer():
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop", namespaceMappingStrategy="EnforceSameName")
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})


@pytest.mark.clusterset
async def test_an_import_of_another_program_is_left_alone():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        theirs = {"type": "ClusterSetIP", "ports": [{"port": 81, "protocol": "TCP"}]}
        await milan.admin.create(IMPORTS, {"metadata": {"name": "web"}, "spec": theirs}, "shop")
        await export(rome, "10.71.0.1")
        await until_said(rome, {**AGREED, "Ready": ("True", "Exported")})
        await trio.sleep(1)
        found = await milan.admin.get(IMPORTS, "web", "shop")
        assert found["spec"] == theirs
        assert await backends(milan) == {}


@pytest.mark.clusterset
async def test_a_service_that_the_api_server_refuses_keeps_no_endpoint_from_being_placed():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        path = "/namespaces/shop/services"
        faults = [Fault(verb=each, path=path, status=422) for each in ("create", "patch")]
        for each in faults:
            milan.cluster.faults.add(each)
        ports = [{"name": name, "port": port} for name, port in (("http", 80), ("admin", 81))]
        await rome.admin.patch(SERVICES, "web", {"spec": {"ports": ports}}, "shop")
        moved = {"endpoints": [{"addresses": ["10.71.0.2"]}]}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
        await until_backends(milan, {"rome": {"10.71.0.2": True}})

        def is_refused(found):
            (ready,) = found["status"]["conditions"]
            return (ready["status"], ready["reason"]) == ("False", "Failed")

        await milan.until(IMPORTS, "web", "shop", is_refused)
        for each in faults:
            milan.cluster.faults.remove(each)
        await imported(milan, "rome")


@pytest.mark.clusterset
async def test_what_two_clusters_tell_in_both_directions_is_imported_once():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await milan.peer(rome)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})

        async def told():
            found = await milan.admin.list(SERVICE_EXCHANGES)
            return sorted(each["metadata"]["name"] for each in found) == ["shop.milan", "shop.rome"]

        await eventually(told)
        await rome.admin.delete(EXPORTS, "web", "shop")
        await milan.gone(IMPORTS, "web", "shop")


@pytest.mark.clusterset
async def test_a_service_that_is_missing_is_said_and_exported_once_it_is_there():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await rome.admin.create(EXPORTS, {"metadata": {"name": "web"}}, "shop")
        await until_said(rome, {"Valid": ("False", "NoService"), "Ready": ("False", "Failed")})
        assert await milan.admin.list(IMPORTS) == []
        spec = {"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
        await rome.admin.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, "shop")
        await imported(milan, "rome")
        await rome.admin.delete(SERVICES, "web", "shop")
        await milan.gone(IMPORTS, "web", "shop")


@pytest.mark.clusterset
async def test_definitions_that_are_deleted_withdraw_nothing():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await rome.admin.delete(CUSTOM_RESOURCES, name_of(EXPORTS))
        await trio.sleep(3)
        await imported(milan, "rome")
        assert await backends(milan) == {"rome": {"10.71.0.1": True}}


@pytest.mark.clusterset
async def test_kinds_of_another_program_stay_as_they_are_and_are_used():
    theirs = [make_crd(each) for each in DEFINITIONS]
    async with (
        EmbeddedCluster("rome") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
    ):
        for crd in theirs:
            crd["spec"]["versions"] = [
                each for each in crd["spec"]["versions"] if not each["storage"]
            ]
            crd["spec"]["versions"][0]["storage"] = True
            await admin.create(CUSTOM_RESOURCES, crd)
        await install.install(admin, install.Options(cluster_id="rome", services=True), quiet)
        kinds = await Sharing(admin).kinds()
        assert {kinds.exports.version, kinds.imports.version} == {"v1alpha1"}
        for crd in theirs:
            found = await admin.get(CUSTOM_RESOURCES, crd["metadata"]["name"])
            assert found["spec"]["versions"] == crd["spec"]["versions"]
