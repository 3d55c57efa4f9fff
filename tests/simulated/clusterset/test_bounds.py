"""The bounds of what is shared with one peer."""

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.clusterset import heldexchanges
from liqod.clusterset.exchanges import Exchanges
from liqod.kube.selection import Selection
from liqod.model.clusterset.exchange import NO_ROOM
from liqod.resources.exchanges import MOST_EXPORTS, MOST_NAMESPACES, SERVICE_EXCHANGES
from liqod.resources.multicluster import SOURCE_CLUSTER
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    backends,
    both,
    conditions,
    export,
    imported,
    share,
    sharing,
    until_backends,
)
from tests.simulated.members import AT_MILAN, AT_ROME, Member

pytestmark = [pytest.mark.long, pytest.mark.clusterset]


async def test_an_export_of_a_namespace_too_many_says_so_and_is_told_once_there_is_room(
    monkeypatch,
):
    monkeypatch.setattr(heldexchanges, "MOST_NAMESPACES", 1)
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await share(rome, "milan", "first")
        await eventually(lambda: rome.admin.list(SERVICE_EXCHANGES))
        for who, peer in ((rome, "milan"), (milan, "rome")):
            await share(who, peer)
        await export(rome, "10.71.0.1")

        async def ready(*wanted):
            return (await conditions(rome)).get("Ready") == wanted

        await eventually(lambda: ready("False", "Failed"))
        said = (await rome.admin.get(EXPORTS, "web", "shop"))["status"]["conditions"]
        [why] = [each["message"] for each in said if each["type"] == "Ready"]
        assert why == f"milan cannot be told of it: {NO_ROOM}"
        assert await backends(milan) == {}
        await share(rome, "turin", "first")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await eventually(lambda: ready("True", "Exported"))


async def test_an_unpeering_that_is_refused_a_deletion_leaves_no_exchange_there():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        fault = Fault(verb="delete", path="/serviceexchanges/shop.milan", status=500)
        milan.cluster.faults.add(fault)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rome.unpeer, milan)
            await rome.gone(SERVICE_EXCHANGES, "shop.milan", AT_ROME)
            await trio.sleep(2)
            milan.cluster.faults.remove(fault)
        await milan.gone(IMPORTS, "web", "shop")


async def test_work_for_a_peer_is_charged_to_it_and_waits_for_its_debt(monkeypatch):
    charged = []
    monkeypatch.setattr(Exchanges, "charge", lambda _, used: charged.append(used))
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        assert charged
        assert min(charged) > 0
        await trio.sleep(1)
        monkeypatch.setattr(Exchanges, "debt", lambda _: 1.5)
        began = trio.current_time()
        moved = {"endpoints": [{"addresses": ["10.71.0.2"]}]}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")
        await until_backends(milan, {"rome": {"10.71.0.2": True}})
        assert trio.current_time() - began > 1.5


async def test_a_change_from_which_nothing_follows_is_charged_to_its_peer(monkeypatch):
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(rome, "10.71.0.1")
        await imported(milan, "rome")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await trio.sleep(5)
        charged = []
        monkeypatch.setattr(
            Exchanges, "charge", lambda each, used: charged.append((each.peer.id, used))
        )
        await trio.sleep(5)
        assert charged == []
        notes = {"metadata": {"annotations": {"example.com/a": "b"}}}
        await milan.admin.patch(SERVICE_EXCHANGES, "shop.milan", notes, AT_MILAN)
        await trio.sleep(2)
        assert [used > 0 for peer, used in charged if peer == "rome"] == [True]


async def test_an_export_that_is_dated_back_later_takes_nothing_over():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        await export(milan, "10.72.0.1")
        await imported(milan, "milan")
        await trio.sleep(1.1)
        await export(rome, "10.71.0.1")
        await imported(milan, "milan", "rome")
        (told,) = await milan.admin.list(SERVICE_EXCHANGES)
        await rome.stop()
        word = msgspec.json.decode(told["spec"]["exports"]["web"])
        lie = {"created": "2020-01-01T00:00:00Z", "sessionAffinity": "ClientIP"}
        text = msgspec.json.encode(word | lie | {"affinityTimeout": 60}).decode()
        text = text.replace("10.71.0.1", "10.71.0.9")
        patch = {"spec": {"exports": {"web": text}}}
        await milan.admin.patch(SERVICE_EXCHANGES, "shop.milan", patch, AT_MILAN)
        await until_backends(milan, {"rome": {"10.71.0.9": True}, "milan": {"10.72.0.1": True}})
        found = await imported(milan, "milan", "rome")
        assert found["spec"]["sessionAffinity"] == "None"


async def export_in(who: Member, namespace: str, number: int) -> None:
    """A Service with two EndpointSlices, and its ServiceExport."""
    name = f"web-{number:03}"
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    await who.admin.create(
        SERVICES, {"metadata": {"name": name}, "spec": {"ports": ports}}, namespace
    )
    for part in "ab":
        marks = {"name": f"{name}-{part}", "labels": {"kubernetes.io/service-name": name}}
        address = f"10.71.{'ab'.index(part)}.{1 + number % 250}"
        endpoints = [{"addresses": [address], "conditions": {"ready": True}}]
        made = {"metadata": marks, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}
        await who.admin.create(ENDPOINT_SLICES, made, namespace)
    await who.admin.create(EXPORTS, {"metadata": {"name": name}}, namespace)


async def until_told(rome: Member, milan: Member, told: int, beyond: int) -> None:
    """Wait until so many exports say that the peer knows them, which has these with all of their
    slices, and so many that they are beyond a bound."""

    async def look() -> bool:
        await trio.sleep(2)  # all of them are read each time
        said = [
            each["reason"]
            for one in await rome.admin.list(EXPORTS)
            for each in one.get("status", {}).get("conditions", ())
            if each["type"] == "Ready"
        ]
        imports = await milan.admin.list(IMPORTS, decode=Partial)
        slices = await milan.admin.list(ENDPOINT_SLICES, Selection(labels=SOURCE_CLUSTER))
        found = (said.count("Exported"), said.count("Failed"), len(imports), len(slices))
        return found == (told, beyond, told, 2 * told)

    await eventually(look, seconds=120)


async def test_of_more_exports_than_a_peer_is_told_each_says_which_it_is_and_none_is_lost():
    """More in one namespace, and more namespaces, than the bounds are."""
    others = [f"more-{number:02}" for number in range(MOST_NAMESPACES)]
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        async with trio.open_nursery() as nursery:
            for number in range(MOST_EXPORTS + 4):
                nursery.start_soon(export_in, rome, "shop", number)
        await until_told(rome, milan, MOST_EXPORTS, 4)
        for namespace in others:
            await share(milan, "rome", namespace)
            await share(rome, "milan", namespace)
            await export_in(rome, namespace, 0)
        told = MOST_EXPORTS + MOST_NAMESPACES - 1
        await until_told(rome, milan, told, 4 + 1)

        async def versions() -> dict[str, str]:
            found = await milan.admin.list(SERVICE_EXCHANGES, decode=Partial)
            return {each.metadata.name: each.metadata.resource_version for each in found}

        before = await versions()
        assert len(before) == MOST_NAMESPACES
        for who in (rome, milan):
            await who.stop()
            await who.start()
        await trio.sleep(10)
        assert await versions() == before
        await until_told(rome, milan, told, 4 + 1)

        # What ends makes room for what was beyond.
        for number in range(3):
            await rome.admin.delete(EXPORTS, f"web-{number:03}", "shop")
        await until_told(rome, milan, told, 1 + 1)
        chosen = {each.removesuffix(".milan") for each in before} & set(others)
        await share(rome, "turin", min(chosen))
        await until_told(rome, milan, told, 1)
