"""A consumer that asks for more than anybody has reason to, in an embedded cluster."""

import pytest
import trio

from liqod.apimachinery.kinds import CUSTOM_RESOURCES, EVENTS, NAMESPACES, PODS
from liqod.errors import Invalid
from liqod.kube.cache.relist import REREAD
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.provider.timings import ProviderTimings
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, SHADOW_PODS
from liqod.resources.base import MAX_MAPPED, MAX_QUANTITIES
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually, offload
from tests.simulated.lender import CONSUMER, SHOP, lender
from tests.simulated.members import members
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import at_work
from tests.simulated.provider.test_hostile_consumer import AT_MILAN, AT_ROME, verdict

MIB = 1 << 20
OWN = {
    "liqo.io/remoteID": "milan",
    "liqo.io/remote-cluster-id": "milan",
    "liqo.io/replication": "true",
}
RESOURCES = {f"example.com/r{number}": "1" for number in range(MAX_QUANTITIES + 1)}
ENTRIES = {f"n{number}": f"n{number}-rome" for number in range(MAX_MAPPED + 1)}


async def lift_bounds(admin):
    """Have the definitions of Liqo, which bound nothing."""
    for kind, field in ((RESOURCE_SLICES, "resources"), (NAMESPACE_MAPS, "desiredMapping")):
        name = f"{kind.plural}.{kind.group}"
        live = await admin.get(CUSTOM_RESOURCES, name)
        for version in live["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            del spec["properties"][field]["maxProperties"]
        await admin.update(CUSTOM_RESOURCES, live)


async def test_the_definitions_take_no_more_than_anybody_needs():
    async with members("milan") as [milan]:
        for kind, spec in (
            (RESOURCE_SLICES, {"class": "default", "resources": RESOURCES}),
            (NAMESPACE_MAPS, {"desiredMapping": ENTRIES}),
        ):
            with pytest.raises(Invalid, match="must satisfy maxProperties"):
                await milan.admin.create(kind, {"metadata": {"name": "m"}, "spec": spec}, "liqo")


@pytest.mark.long
async def test_a_slice_of_too_many_resources_is_denied_and_costs_the_others_nothing():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        for each in (rome, milan):
            await lift_bounds(each.admin)
        asked = {"class": "default", "resources": RESOURCES}
        for name in ("evil-1", "evil-2"):
            made = {"metadata": {"name": name, "labels": OWN}, "spec": asked}
            await rome.admin.create(RESOURCE_SLICES, made, AT_ROME)

            async def denied(name=name):
                live = await milan.admin.find(RESOURCE_SLICES, name, AT_MILAN)
                status, why = verdict(live, "Resources")
                return why if status == "Denied" else None

            why = f"names {MAX_QUANTITIES + 1} resources, and {MAX_QUANTITIES} are read at most"
            assert why in await eventually(denied)
        found = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert verdict(found, "Resources")[0] == "Accepted"


@pytest.mark.long
async def test_a_map_of_too_many_entries_is_told_and_takes_nothing_away():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        shop = await milan.until(NAMESPACES, "shop-rome", None, bool)
        await lift_bounds(milan.admin)
        assert rome.running is not None
        rome.running.cancel()  # the attacker writes by itself
        grown = {"spec": {"desiredMapping": ENTRIES}}
        await milan.admin.patch(NAMESPACE_MAPS, "milan", grown, AT_MILAN)

        async def told():
            events = await milan.admin.list(EVENTS, Selection(AT_MILAN))
            return [each["message"] for each in events if each["reason"] == "TooLarge"] or None

        why = (await eventually(told))[0]
        assert f"entries, and {MAX_MAPPED} are read at most" in why
        assert (await milan.admin.get(NAMESPACES, "shop-rome"))["metadata"] == shop["metadata"]
        assert await milan.admin.find(NAMESPACES, "n7-rome") is None
        less = {"spec": {"desiredMapping": dict.fromkeys(ENTRIES) | {"n7": "n7-rome"}}}
        await milan.admin.patch(NAMESPACE_MAPS, "milan", less, AT_MILAN)
        await milan.until(NAMESPACES, "n7-rome", None, bool)


@pytest.mark.long
async def test_a_consumer_that_has_too_much_here_is_told_and_keeps_what_it_has():
    soon = ProviderTimings(room_again=0.1)
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, f"[guests]\nmax_bytes = {MIB}\n") as made,
    ):
        await made.map_namespace()
        await made.grant(cpu="100", pods="100")
        note = {"fat": "x" * 50_000}
        async with at_work(made, soon):
            for number in range(9):
                await made.ask_for(f"fat-{number}", annotations=note, cpu="1m")
                await made.made(f"fat-{number}")
            for number in range(9, 30):
                await made.ask_for(f"fat-{number}", annotations=note, cpu="1m")
            status = await made.told("fat-29", "reason", "TooMuch")
            assert "max_bytes under [guests]" in status["message"]
            holdings = made.context.informers.holdings
            assert holdings is not None
            assert 0 < holdings.used(holdings.owner(SHOP)) <= 1.25 * MIB
            await made.settled()
            before = {each["metadata"]["uid"] for each in await admin.list(PODS, Selection(SHOP))}
            assert len(before) >= 9
        async with at_work(made, soon):  # and so it stays when another daemon reads it all anew
            await made.settled()
            after = {each["metadata"]["uid"] for each in await admin.list(PODS, Selection(SHOP))}
            assert before <= after
            for number in range(20):
                await admin.delete(SHADOW_PODS, f"fat-{number}", SHOP)
            await made.made("fat-29")


async def test_what_was_not_even_read_gets_its_pod_once_there_is_room():
    """Pods count beyond the bound, so that of a ShadowPod not even a stub is kept."""
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, f"[guests]\nmax_bytes = {MIB}\n") as made,
    ):
        holdings = made.context.informers.holdings
        assert holdings is not None
        holdings.belongs(SHOP, CONSUMER)
        await made.map_namespace()
        await made.grant(cpu="100", pods="100")
        note = {"fat": "x" * 100_000}
        for number in range(9):
            await made.ask_for(f"fat-{number}", annotations=note, cpu="1m")
        async with at_work(made):
            for number in range(9):
                await made.made(f"fat-{number}")
            await made.settled()
            assert holdings.used(CONSUMER) > 1.25 * MIB
            await made.ask_for("late", cpu="1m")
            await trio.sleep(5 * REREAD)
            assert await made.pod("late") is None
            assert "status" not in await made.shadow("late")
            for number in range(8):
                await admin.delete(SHADOW_PODS, f"fat-{number}", SHOP)
            await trio.sleep(2 * REREAD)
            assert await made.pod("late") is not None
