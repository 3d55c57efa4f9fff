"""The bounds of what is shared with one peer."""

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.clusterset import exchanges
from liqod.clusterset.exchanges import Exchanges
from liqod.resources.exchanges import SERVICE_EXCHANGES
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
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
from tests.simulated.members import AT_MILAN, AT_ROME

pytestmark = pytest.mark.long


async def test_an_export_of_a_namespace_too_many_says_so_and_is_told_once_there_is_room(
    monkeypatch,
):
    monkeypatch.setattr(exchanges, "MOST_NAMESPACES", 1)
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
