"""Absence that is no farewell: what somebody deleted or edited, and lists that lack what is there.

A daemon that misses an object asks for it before it removes anything that runs: the mapped
namespace, the pods in it and the virtual node outlive all of this, and an object deleted by hand is
put back.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES, NAMESPACES, NODES, PODS, Kind
from liqod.consumer.nodes import nodelease
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.consumer.timings import ConsumerTimings
from liqod.kube.selection import EVERY, Selection
from liqod.model.ids import slice_user
from liqod.plugins import loader
from liqod.provider.timings import ProviderTimings
from liqod.resources import (
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    QUOTAS,
    RESOURCE_SLICES,
    SHADOW_PODS,
    TENANTS,
    VIRTUAL_NODES,
)
from simulator.faults import Fault
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.members import Member, members

AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"
THERE = "shop-rome"
DAEMON = "system:serviceaccount:liqo:liqod"
SLOW = 0.5
"""Seconds that the daemon needs to put something back: longer than the other side needs to look."""


SOON = ProviderTimings(orphans=0.2)
"""Doubts are looked into soon."""


class Shop:
    """A namespace of rome's that is offloaded to milan, with a pod that runs there."""

    def __init__(self, rome: Member, milan: Member, before: list[str]) -> None:
        self.rome, self.milan, self.before = rome, milan, before

    async def stays(self) -> None:
        """Asserts that all first objects still exist, and none is being deleted."""
        assert await lasting(self.milan) == self.before

    async def settles(self) -> None:
        """The map is whole again on both sides, and all that was there at first still is."""
        await mapped(self.rome)
        await self.milan.until(NAMESPACE_MAPS, "milan", AT_MILAN, has_entry)
        await trio.sleep(0.3)
        await self.stays()


async def lasting(milan: Member) -> list[str]:
    """The UIDs of the namespace, the ShadowPod and the pod at the provider."""
    found = [
        await milan.admin.get(NAMESPACES, THERE),
        await milan.admin.get(SHADOW_PODS, "web", THERE),
        await milan.admin.get(PODS, "web", THERE),
    ]
    assert not any("deletionTimestamp" in each["metadata"] for each in found)
    return [each["metadata"]["uid"] for each in found]


def has_entry(found: Json) -> bool:
    leaving = "deletionTimestamp" in found["metadata"]
    return not leaving and found.get("spec", {}).get("desiredMapping") == {"shop": THERE}


async def mapped(rome: Member) -> None:
    """Wait until milan has the namespace, as far as rome knows."""

    def accepted(found: Json) -> bool:
        entry = found.get("status", {}).get("currentMapping", {}).get("shop", {})
        return has_entry(found) and entry.get("phase") == "Accepted"

    await rome.until(NAMESPACE_MAPS, "milan", AT_ROME, accepted)


@asynccontextmanager
async def shop(**more: Any) -> AsyncIterator[Shop]:
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins, timings=SOON, **more) as (rome, milan):
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await mapped(rome)
        spec = {
            "nodeName": "milan",
            "containers": [{"name": "web", "image": "web"}],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
        }
        await rome.admin.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, "shop")
        await eventually(lambda: milan.admin.find(PODS, "web", THERE))
        yield Shop(rome, milan, await lasting(milan))


async def forgotten(member: Member, kind: Kind, selection: Selection = EVERY) -> None:
    """Have the daemon's store lack all objects of a kind, as a list that lies would."""
    informer = member.context.informers.find(kind, selection)
    assert informer is not None
    assert len(informer.store)
    await informer.replace({})


@pytest.mark.long
async def test_a_map_deleted_by_hand_at_the_consumer_is_put_back_unseen_by_the_provider():
    async with shop() as made:
        rome, milan = made.rome, made.milan
        replica = await milan.admin.get(NAMESPACE_MAPS, "milan", AT_MILAN)
        rome.cluster.faults.add(Fault(verb="create", path="/namespacemaps", delay=SLOW))
        await rome.admin.delete(NAMESPACE_MAPS, "milan", AT_ROME)
        await made.settles()
        # A finalizer of somebody's holds it in its end for as long as it pleases.
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await rome.admin.patch(NAMESPACE_MAPS, "milan", held, AT_ROME)
        await rome.admin.delete(NAMESPACE_MAPS, "milan", AT_ROME)
        await trio.sleep(SLOW)
        await made.stays()
        released = {"metadata": {"finalizers": None}}
        await rome.admin.patch(NAMESPACE_MAPS, "milan", released, AT_ROME)
        await made.settles()
        again = await milan.admin.get(NAMESPACE_MAPS, "milan", AT_MILAN)
        assert again["metadata"]["uid"] == replica["metadata"]["uid"]


@pytest.mark.long
async def test_a_replica_deleted_by_hand_at_the_provider_is_put_back():
    async with shop() as made:
        rome, milan = made.rome, made.milan
        milan.cluster.faults.add(Fault(verb="create", path="/namespacemaps", delay=SLOW))
        await milan.admin.delete(NAMESPACE_MAPS, "milan", AT_MILAN)
        await made.settles()
        # However long its consumer needs, and whether or not the provider's daemon saw it go.
        await rome.stop()
        await milan.stop()
        await milan.admin.delete(NAMESPACE_MAPS, "milan", AT_MILAN)
        await milan.start()
        await trio.sleep(2 * SLOW)
        await made.stays()
        await rome.start()
        await made.settles()


@pytest.mark.long
async def test_an_entry_edited_by_hand_is_put_right_unseen_by_the_provider():
    async with shop() as made:
        slow = Fault(verb="patch", path="/namespacemaps/milan$", user=DAEMON, delay=SLOW)
        made.rome.cluster.faults.add(slow)
        for name in (None, "other"):
            edited = {"spec": {"desiredMapping": {"shop": name}}}
            await made.rome.admin.patch(NAMESPACE_MAPS, "milan", edited, AT_ROME)
            await made.settles()
            assert await made.milan.admin.find(NAMESPACES, "other") is None


@pytest.mark.long
async def test_the_end_of_the_last_virtual_node_is_told_though_the_slice_stands():
    async with shop() as made:
        rome, milan = made.rome, made.milan
        without = {"metadata": {"annotations": {labels.CREATE_VIRTUAL_NODE: "false"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", without, AT_ROME)
        await rome.admin.delete(VIRTUAL_NODES, "milan", AT_ROME)
        await rome.gone(VIRTUAL_NODES, "milan", AT_ROME)
        await rome.gone(NAMESPACE_MAPS, "milan", AT_ROME)
        await milan.gone(NAMESPACE_MAPS, "milan", AT_MILAN)
        await milan.gone(NAMESPACES, THERE)
        assert await milan.admin.find(RESOURCE_SLICES, "milan", AT_MILAN) is not None


@pytest.mark.long
async def test_virtual_nodes_and_tenants_that_a_list_lacks_cost_nothing():
    async with shop() as made:
        rome, milan = made.rome, made.milan
        await forgotten(milan, TENANTS)
        await forgotten(rome, VIRTUAL_NODES)
        await trio.sleep(SLOW)
        found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
        assert {each["status"] for each in found["status"]["conditions"]} == {"Accepted"}
        assert await rome.admin.find(VIRTUAL_NODES, "milan", AT_ROME) is not None
        assert has_entry(await rome.admin.get(NAMESPACE_MAPS, "milan", AT_ROME))
        assert await rome.admin.find(NODES, "milan") is not None
        await made.stays()


@pytest.mark.long
async def test_a_node_that_a_list_lacks_stays_ready():
    async with shop(consumer_timings=ConsumerTimings(node_lease_every=0.1)) as made:
        await forgotten(made.rome, NODES, Selection(labels=SELECTOR))
        await trio.sleep(SLOW)

        async def renewed() -> str:
            lease = await made.rome.admin.get(LEASES, "milan", nodelease.LEASE_NAMESPACE)
            return str(lease["spec"]["renewTime"])

        before = await renewed()

        async def again() -> bool:
            return await renewed() != before

        await eventually(again, seconds=10)
        await made.stays()


@pytest.mark.long
async def test_a_quota_deleted_by_hand_costs_no_slice_of_a_cordoned_tenant():
    async with shop() as made:
        milan, user = made.milan, slice_user("milan", "rome")
        cordoned = {"spec": {"tenantCondition": "Cordoned"}}
        await milan.admin.patch(TENANTS, "rome", cordoned, AT_MILAN)
        quota = await milan.until(QUOTAS, user, AT_MILAN, lambda q: q["spec"].get("cordoned"))
        await trio.sleep(0.3)  # until nobody looks at the slice any more
        await milan.admin.delete(QUOTAS, user, AT_MILAN)
        again = await milan.until(QUOTAS, user, AT_MILAN, lambda q: q["spec"].get("cordoned"))
        assert again["metadata"]["uid"] != quota["metadata"]["uid"]
        found = await milan.admin.get(RESOURCE_SLICES, "milan", AT_MILAN)
        assert {each["status"] for each in found["status"]["conditions"]} == {"Accepted"}
        await made.stays()


@pytest.mark.long
async def test_a_node_whose_virtual_node_went_unheld_is_removed_with_the_daemons_own_rights():
    async with members("rome", "milan", timings=SOON) as (rome, milan):
        await rome.peer(milan)
        await eventually(lambda: rome.admin.find(NODES, "milan"))
        without = {"metadata": {"annotations": {labels.CREATE_VIRTUAL_NODE: "false"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", without, AT_ROME)
        await rome.stop()
        free = {"metadata": {"finalizers": None}}
        await rome.admin.patch(VIRTUAL_NODES, "milan", free, AT_ROME)
        await rome.admin.delete(VIRTUAL_NODES, "milan", AT_ROME)
        await rome.start()
        await rome.gone(NODES, "milan")


@pytest.mark.long
async def test_a_map_made_again_keeps_its_names_whatever_the_offloading_says_by_then():
    async with shop() as made:
        rome = made.rome
        renamed = {"spec": {"namespaceMappingStrategy": "EnforceSameName"}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", renamed, "shop")
        await rome.admin.delete(NAMESPACE_MAPS, "milan", AT_ROME)
        await made.settles()
