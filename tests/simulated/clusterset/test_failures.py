"""Services of the set where clusters are wrong, are killed half-way, or go back in time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import (
    CUSTOM_RESOURCES,
    ENDPOINT_SLICES,
    NAMESPACES,
    SERVICES,
    Kind,
)
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.definitions import name_of
from liqod.resources import IDENTITIES, NAMESPACE_MAPS
from liqod.resources.exchanges import SERVICE_EXCHANGES
from simulator import EmbeddedCluster
from simulator.cluster import State
from simulator.faults import Fault
from tests.simulated.borrower import eventually, offload
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    backends,
    both,
    conditions,
    export,
    imported,
    is_served,
    serve,
    services,
    sharing,
    until_backends,
)
from tests.simulated.members import Member

pytestmark = [pytest.mark.long, pytest.mark.clusterset]
FROM_ROME = {"rome": {"10.71.0.1": True}}
EMPTY = {
    "exports": EXPORTS,
    "exchanges": SERVICE_EXCHANGES,
    "services": SERVICES,
    "imports": IMPORTS,
    "namespaces": NAMESPACES,
    "identities": IDENTITIES,
}


@pytest.mark.parametrize("kind", EMPTY.values(), ids=EMPTY)
@pytest.mark.parametrize("starts", [False, True], ids=["while-it-runs", "as-it-starts"])
async def test_a_list_that_comes_empty_and_complete_withdraws_nothing(kind, starts):
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_backends(milan, FROM_ROME)
        ips = (await imported(milan, "rome"))["spec"]["ips"]
        async with listing_nothing(kind, rome, milan, starts=starts):
            await stays(milan)
        await trio.sleep(10)
        assert await backends(milan) == FROM_ROME
        assert (await imported(milan, "rome"))["spec"]["ips"] == ips


@asynccontextmanager
async def listing_nothing(kind: Kind, *clusters: Member, starts: bool) -> AsyncIterator[None]:
    """Their API servers list nothing of a kind, and say that this is all."""
    faults = [Fault(verb=each, path=f"/{kind.plural}$", empty=True) for each in ("list", "watch")]
    for who in clusters:
        if starts:
            await who.stop()
        for each in faults:
            who.cluster.faults.add(each)
        if starts:
            await who.start()
        who.cluster.faults.cut_watches()
    yield
    expired = Fault(verb="watch", path=f"/{kind.plural}$", expire=True)
    for who in clusters:
        for each in faults:
            who.cluster.faults.remove(each)
        who.cluster.faults.add(expired)
        who.cluster.faults.cut_watches()
    await trio.sleep(2)
    for who in clusters:
        who.cluster.faults.remove(expired)


async def stays(who: Member) -> None:
    """Look again and again that the endpoints and the import are there."""
    for _ in range(20):
        await trio.sleep(2)
        assert await backends(who) == FROM_ROME
        assert await who.admin.find(IMPORTS, "web", "shop") is not None


async def test_maps_that_come_empty_do_not_end_what_an_offloaded_namespace_shares():
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop", namespaceMappingStrategy="EnforceSameName")
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        async with listing_nothing(NAMESPACE_MAPS, rome, starts=True):
            await stays(milan)


@pytest.mark.parametrize("killed", [False, True], ids=["it-runs", "the-exporter-is-killed"])
async def test_a_service_that_is_deleted_and_made_again_is_exported_again(killed):
    """By the export that has stayed all the time."""
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        before = await imported(milan, "rome")
        if killed:
            await rome.stop()
        await rome.admin.delete(SERVICES, "web", "shop")
        await rome.admin.delete(ENDPOINT_SLICES, "web-1", "shop")
        if not killed:
            await milan.gone(IMPORTS, "web", "shop")
            assert (await conditions(rome))["Valid"] == ("False", "NoService")
        await serve(rome, "10.71.0.2")
        if killed:
            await rome.start()
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        found = await imported(milan, "rome")
        assert (found["metadata"]["uid"] == before["metadata"]["uid"]) is killed
        assert found["spec"]["ips"] == before["spec"]["ips"] or not killed
        assert len(await services(milan)) == 1
        assert (await conditions(rome))["Valid"] == ("True", "Valid")


async def test_of_endpoints_that_are_replaced_twice_in_a_moment_the_last_alone_is_told():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        for last in (2, 3):
            moved = {"endpoints": [{"addresses": [f"10.71.0.{last}"]}]}
            await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
            await trio.sleep(0.2)
        for who in (rome, milan):
            await until_backends(who, {"rome": {"10.71.0.3": True}})
        await trio.sleep(10)
        for who in (rome, milan):
            assert await backends(who) == {"rome": {"10.71.0.3": True}}


async def test_an_imports_service_that_is_deleted_twice_in_a_moment_is_back_with_its_address():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        spec = (await imported(milan, "rome"))["spec"]
        (name,) = await services(milan)
        for _ in range(2):
            await milan.admin.delete(SERVICES, name, "shop")
            await milan.until(SERVICES, name, "shop", bool)
        await trio.sleep(5)
        assert await services(milan) == [name]
        assert (await milan.admin.get(SERVICES, name, "shop"))["spec"]["clusterIPs"] == spec["ips"]
        assert (await imported(milan, "rome"))["spec"] == spec
        assert await backends(milan) == FROM_ROME


@asynccontextmanager
async def restored(who: Member, saved: State) -> AsyncIterator[None]:
    """A cluster is what it was when a backup was made; its daemon was stopped meanwhile."""
    await who.stop()
    port = who.cluster.port
    newer = msgspec.structs.replace(saved, version=who.cluster.registry.storage.version + 1_000_000)
    await who.cluster.stop()
    async with (
        EmbeddedCluster(who.id, port=port, state=newer) as who.cluster,
        Client(from_kubeconfig(who.cluster.kubeconfig)) as who.admin,
    ):
        await who.start()
        yield
        await who.stop()


async def test_an_exporter_that_is_restored_from_a_backup_exports_what_it_had_then():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        saved = rome.cluster.save()
        await export(rome, "10.71.0.2", name="api")
        await imported(milan, "rome", name="api")
        moved = {"endpoints": [{"addresses": ["10.71.0.3"]}]}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
        await until_backends(milan, {"rome": {"10.71.0.3": True}})
        async with restored(rome, saved):
            await until_backends(milan, FROM_ROME)
            await milan.gone(IMPORTS, "api", "shop")


async def test_an_importer_that_is_restored_from_a_backup_imports_what_there_is_now():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await until_backends(milan, FROM_ROME)
        saved = milan.cluster.save()
        await export(rome, "10.71.0.2", name="api")
        await imported(milan, "rome", name="api")
        await rome.admin.delete(EXPORTS, "web", "shop")
        await milan.gone(IMPORTS, "web", "shop")
        async with restored(milan, saved):
            await imported(milan, "rome", name="api")
            await milan.gone(IMPORTS, "web", "shop")


@pytest.mark.parametrize("kind", [IMPORTS, SERVICE_EXCHANGES], ids=["imports", "exchanges"])
async def test_what_is_gone_with_its_definition_is_back_after_it(kind):
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await export(milan, "10.72.0.1")
        wanted = {"rome": {"10.71.0.1": True}, "milan": {"10.72.0.1": True}}
        await until_backends(rome, wanted)
        await until_backends(milan, wanted)
        definition = await milan.admin.get(CUSTOM_RESOURCES, name_of(kind))
        await milan.admin.delete(CUSTOM_RESOURCES, name_of(kind))
        await trio.sleep(5)
        assert await backends(rome) == wanted
        again = {"metadata": {"name": name_of(kind)}, "spec": definition["spec"]}
        await milan.admin.create(CUSTOM_RESOURCES, again)
        await until_imported(milan)
        assert await backends(milan) == await backends(rome) == wanted


async def until_imported(who: Member) -> None:
    """Wait until the import is of both clusters; a daemon looks for a kind twice a minute."""

    async def look() -> bool:
        found = await who.admin.find(IMPORTS, "web", "shop")
        clusters = (found or {}).get("status", {}).get("clusters", ())
        return len(clusters) == 2 and len(await backends(who)) == 2

    await eventually(look, seconds=90.0)


@pytest.mark.parametrize("kind", [EXPORTS, IMPORTS], ids=["exports", "imports"])
async def test_a_definition_that_is_missing_as_the_daemon_starts_ends_no_export_at_a_peer(kind):
    """It is waited for, for as long as it takes, and peers keep what was told until it is back."""
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        wanted = {"milan": {"10.72.0.1": True}}
        await until_backends(rome, wanted)
        await milan.stop()
        definition = await milan.admin.get(CUSTOM_RESOURCES, name_of(kind))
        await milan.admin.delete(CUSTOM_RESOURCES, name_of(kind))
        await milan.start()
        for _ in range(60):
            await trio.sleep(2)
            assert await backends(rome) == wanted
        again = {"metadata": {"name": name_of(kind)}, "spec": definition["spec"]}
        await milan.admin.create(CUSTOM_RESOURCES, again)
        if kind is EXPORTS:
            await eventually(lambda: is_served(milan, kind))
            await milan.admin.create(EXPORTS, {"metadata": {"name": "web"}}, "shop")
        moved = {"endpoints": [{"addresses": ["10.72.0.2"]}]}
        await milan.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
        await until_backends(rome, {"milan": {"10.72.0.2": True}})
        await imported(milan, "milan")


async def test_while_a_peer_is_away_this_clusters_own_exports_come_and_go():
    """Also those that change while no daemon runs here."""
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await export(rome, "10.71.0.5", name="old")
        await export(milan, "10.72.0.1")
        await imported(rome, "milan", "rome")
        await imported(rome, "rome", name="old")
        await milan.stop()
        await milan.cluster.stop()
        await rome.stop()
        moved = {"endpoints": [{"addresses": ["10.71.0.2"]}]}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
        await export(rome, "10.71.0.6", name="api")
        await rome.admin.delete(EXPORTS, "old", "shop")
        await rome.start()
        await imported(rome, "rome", name="api")
        await until_backends(rome, {"rome": {"10.71.0.6": True}}, "api")
        await rome.gone(IMPORTS, "old", "shop")
        await until_backends(rome, {}, "old")
        await until_backends(rome, {"rome": {"10.71.0.2": True}, "milan": {"10.72.0.1": False}})
        assert (await imported(rome, "milan", "rome"))["spec"]["ips"]
        await milan.cluster.start()
        await milan.start()
        await until_backends(rome, {"rome": {"10.71.0.2": True}, "milan": {"10.72.0.1": True}})
