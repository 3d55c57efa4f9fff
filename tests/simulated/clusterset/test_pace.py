"""The pace at which changes of exports are told, and at whose expense."""

from collections import Counter

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, NODES, SERVICES
from liqod.clusterset import exporttexts, ownexports, takenexports
from liqod.clusterset.exchanges import Exchanges
from liqod.clusterset.imports import Imports
from liqod.kube.http.cpubudget import CpuBudget
from liqod.model.clusterset import exchange
from liqod.resources.exchanges import SERVICE_EXCHANGES
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    EXPORTS,
    backends,
    both,
    conditions,
    export,
    imported,
    serve,
    sharing,
    until_backends,
)

pytestmark = [pytest.mark.long, pytest.mark.clusterset]
PACE = 5.0
"""Seconds between changes that are told, far more than it takes to tell one."""


async def exported(rome, milan):
    """Have an export of rome at milan, and nothing to do any more."""
    await both(rome, milan)
    await export(rome, "10.71.0.1")
    await imported(milan, "rome")
    await until_backends(milan, {"rome": {"10.71.0.1": True}})
    await trio.sleep(2 * PACE)


async def move(rome, number):
    moved = {"endpoints": [{"addresses": [f"10.71.0.{number}"], "conditions": {"ready": True}}]}
    await rome.admin.patch(ENDPOINT_SLICES, "web-1", moved, "shop")


async def generation(milan):
    (told,) = await milan.admin.list(SERVICE_EXCHANGES)
    return told["metadata"]["generation"]


async def test_a_change_after_a_rest_is_told_at_once_and_many_are_told_together(monkeypatch):
    monkeypatch.setattr(ownexports, "APART", PACE)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        for number in (2, 3, 4):
            with trio.fail_after(PACE / 2):
                await move(rome, number)
                await until_backends(milan, {"rome": {f"10.71.0.{number}": True}})
            await trio.sleep(2 * PACE)
        before, began = await generation(milan), trio.current_time()
        for number in range(5, 105):
            await move(rome, number)
            await trio.sleep(PACE / 10)
        await until_backends(milan, {"rome": {"10.71.0.104": True}})
        paces = (trio.current_time() - began) / PACE
        assert 2 <= await generation(milan) - before <= paces + 2


async def test_own_changes_are_told_at_the_own_expense_and_a_peers_are_answered_at_its(monkeypatch):
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        spent = []
        before = CpuBudget.spend

        async def spend(budget, used, **how):
            if "backlog" in how:
                spent.append(budget)
            await before(budget, used, **how)

        monkeypatch.setattr(CpuBudget, "spend", spend)
        for number in (2, 3):
            await move(rome, number)
            await until_backends(milan, {"rome": {f"10.71.0.{number}": True}})
        await trio.sleep(5)
        at_rome = rome.components.peers["milan"].work
        at_milan = milan.components.peers["rome"].work
        assert at_rome not in spent
        assert at_milan in spent
        assert any(each not in (at_rome, at_milan) for each in spent)
        rome.components.peers["milan"].network.set_connected(True)
        await trio.sleep(1)
        assert at_rome in spent


async def test_a_text_of_an_export_follows_all_that_it_is_made_of():
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        await export(rome, "10.71.0.7", name="api")
        await until_backends(milan, {"rome": {"10.71.0.7": True}}, "api")
        other = {"metadata": {"labels": {"kubernetes.io/service-name": "api"}}}
        await rome.admin.patch(ENDPOINT_SLICES, "web-1", other, "shop")
        both_of_api = {"10.71.0.1": True, "10.71.0.7": True}
        await until_backends(milan, {"rome": both_of_api}, "api")
        await until_backends(milan, {})

        guest = {"endpoints": [{"addresses": ["10.71.0.8"], "nodeName": "turin"}]}
        await rome.admin.patch(ENDPOINT_SLICES, "api-1", guest, "shop")
        await until_backends(milan, {"rome": {"10.71.0.1": True, "10.71.0.8": True}}, "api")
        node = {"metadata": {"name": "turin", "labels": {"liqo.io/type": "virtual-node"}}}
        await rome.admin.create(NODES, node)
        ports = {"spec": {"ports": [{"name": "http", "port": 81, "protocol": "TCP"}]}}
        await rome.admin.patch(SERVICES, "web", ports, "shop")
        await until_backends(milan, {"rome": {"10.71.0.1": True}}, "api")
        await rome.admin.delete(NODES, "turin")
        await rome.admin.patch(SERVICES, "api", ports, "shop")
        await until_backends(milan, {"rome": {"10.71.0.1": True, "10.71.0.8": True}}, "api")


async def test_what_a_peer_confirms_of_an_own_export_waits_for_no_debt_of_the_peer(monkeypatch):
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        monkeypatch.setattr(Exchanges, "debt", lambda _: 300.0)
        await export(rome, "10.71.0.7", name="api")

        async def known() -> bool:
            return (await conditions(rome, "api")).get("Ready") == ("True", "Exported")

        await eventually(known, seconds=60)
        assert await backends(milan, "api") == {}  # which follows from the peer's word alone


async def test_own_exports_are_charged_to_no_peer(monkeypatch):
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        await milan.stop()
        charged = []
        monkeypatch.setattr(Exchanges, "charge", lambda each, _: charged.append(each.peer.id))
        await export(rome, "10.71.0.7", name="api")
        await imported(rome, "rome", name="api")

        async def told() -> bool:
            (found,) = await milan.admin.list(SERVICE_EXCHANGES)
            return set(found["spec"]["exports"]) == {"web", "api"}

        await eventually(told)
        assert charged == []


async def test_an_export_that_a_bound_leaves_out_has_no_other_looked_at(monkeypatch):
    monkeypatch.setattr(exchange, "MOST_EXPORTS", 2)
    seen = []
    before = Imports.reconcile

    async def reconcile(imports, key):
        seen.append(key[1])
        return await before(imports, key)

    monkeypatch.setattr(Imports, "reconcile", reconcile)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        await export(rome, "10.71.0.7", name="api")
        await until_backends(milan, {"rome": {"10.71.0.7": True}}, "api")
        await trio.sleep(2 * PACE)
        seen.clear()
        await export(rome, "10.71.0.8", name="zoo")

        async def left_out() -> bool:
            return (await conditions(rome, "zoo")).get("Ready") == ("False", "Failed")

        await eventually(left_out)
        await trio.sleep(2 * PACE)
        assert "zoo" in seen
        assert not {"web", "api"}.intersection(seen)


def recorded(monkeypatch, where, what, name_of):
    """The names with which a function is called from now on, which does as before."""
    names, before = [], getattr(where, what)

    def record(*words):
        names.append(name_of(*words))
        return before(*words)

    monkeypatch.setattr(where, what, record)
    return names


async def test_one_changed_export_of_many_has_no_other_read(monkeypatch):
    imports = recorded(monkeypatch, Imports, "reconcile", lambda _, key: key[1])
    looks = recorded(monkeypatch, Exchanges, "reconcile", lambda each, _: each.peer.id)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        for number in range(5):
            await export(rome, f"10.71.0.{20 + number}", name=f"api-{number}")
        await until_backends(milan, {"rome": {"10.71.0.24": True}}, "api-4")
        await trio.sleep(2 * PACE)
        told = recorded(monkeypatch, exporttexts, "text", lambda export, *_: export.name)
        read = recorded(monkeypatch, takenexports, "confirmed", lambda *said: said[2])
        imports.clear()
        looks.clear()
        await move(rome, 9)
        await until_backends(milan, {"rome": {"10.71.0.9": True}})
        await trio.sleep(2 * PACE)
        assert told == read == ["web"]
        assert set(imports) == {"web"}
        assert sorted(looks) == ["milan", "rome"]


async def test_what_no_peer_is_told_has_no_exchange_looked_at(monkeypatch):
    looks = recorded(monkeypatch, Exchanges, "reconcile", lambda each, _: each.peer.id)
    async with sharing("rome", "milan") as [rome, milan]:
        await exported(rome, milan)
        looks.clear()
        await serve(rome, "10.71.0.7", name="api")
        await rome.admin.patch(SERVICES, "api", {"metadata": {"labels": {"a": "b"}}}, "shop")
        mine = [{"type": "example.com/Mine", "status": "True", "reason": "Mine", "message": ""}]
        found = (await rome.admin.get(EXPORTS, "web", "shop"))["status"]["conditions"]
        said = [*found, {**mine[0], "lastTransitionTime": "2026-11-28T10:00:00Z"}]
        patch = {"status": {"conditions": said}}
        await rome.admin.patch(EXPORTS, "web", patch, "shop", subresource="status")
        await trio.sleep(2 * PACE)
        assert looks == []
        await rome.admin.create(EXPORTS, {"metadata": {"name": "api"}}, "shop")
        await until_backends(milan, {"rome": {"10.71.0.7": True}}, "api")

        async def both_have() -> bool:
            return set(looks) == {"milan", "rome"}

        await eventually(both_have)


def writes(who):
    """The writes of a daemon so far, of an import and what it owns."""
    kinds = ("serviceimports", "serviceimports/status", "services", "endpointslices")
    found = Counter[tuple[str, str]]()
    for (verb, kind), number in who.context.client.stats.requests.items():
        if kind in kinds and verb not in ("get", "list", "watch"):
            found[verb, kind] = number
    return found


async def test_all_of_an_import_is_made_at_once_and_its_address_and_its_state_written_once():
    async with sharing("rome", "milan") as [rome, milan]:
        await both(rome, milan)
        before = [writes(who) for who in (rome, milan)]
        await export(rome, "10.71.0.1")
        for who in (rome, milan):
            await imported(who, "rome")
        await trio.sleep(2 * PACE)
        for who, since in zip((rome, milan), before, strict=True):
            assert writes(who) - since == {
                ("create", "serviceimports"): 1,
                ("create", "services"): 1,
                ("create", "endpointslices"): 1,
                ("patch", "serviceimports"): 1,
                ("patch", "serviceimports/status"): 1,
            }
