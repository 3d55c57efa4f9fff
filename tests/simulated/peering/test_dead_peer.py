"""Leaving a provider that is gone: quickly, wholly here, and there as soon as it is back."""

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.procedures import unpeering
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    RESOURCE_SLICES,
    SHADOW_PODS,
    VIRTUAL_NODES,
)
from tests.simulated.borrower import condition
from tests.simulated.members import borrow_a_pod, members
from tests.simulated.prepared import quiet

AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"


async def die(rome, milan):
    await milan.stop()
    await milan.cluster.stop()
    await rome.until(
        FOREIGN_CLUSTERS,
        "milan",
        None,
        lambda fc: any(c["status"] == "Error" for c in fc.get("status", {}).get("conditions", ())),
    )


@pytest.mark.long
async def test_pods_of_a_dead_provider_are_not_ready_until_it_is_back():
    def is_ready(status):
        return lambda pod: condition(pod, "Ready").get("status") == status

    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins) as [rome, milan]:
        await borrow_a_pod(rome, milan)
        said = [{"type": each, "status": "True"} for each in ("ContainersReady", "Ready")]
        status = {"phase": "Running", "conditions": said}
        await milan.admin.patch(PODS, "web", {"status": status}, "shop-rome", subresource="status")
        await rome.until(PODS, "web", "shop", is_ready("True"))
        await die(rome, milan)
        await rome.until(PODS, "web", "shop", is_ready("False"))
        await milan.cluster.start()
        await milan.start()
        await rome.until(PODS, "web", "shop", is_ready("True"))


@pytest.mark.long
async def test_unpeering_from_a_dead_provider_is_quick_and_made_up_for():
    async with members("rome", "milan", plugins=loader.load(sources=loader.built_in())) as [
        rome,
        milan,
    ]:
        await borrow_a_pod(rome, milan)
        budget = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}
        await rome.admin.create(
            POD_DISRUPTION_BUDGETS, {"metadata": {"name": "web"}, "spec": budget}, "shop"
        )
        await die(rome, milan)
        with trio.fail_after(10):
            done = await unpeering.unpeer(rome.admin, "milan", progress=quiet)
        assert not done.complete
        assert AT_MILAN in done.pending
        assert await rome.admin.find(NODES, "milan") is None
        await rome.gone(PODS, "web", "shop")
        for kind in (VIRTUAL_NODES, RESOURCE_SLICES, NAMESPACE_MAPS, IDENTITIES):
            assert await rome.admin.list(kind, Selection(AT_ROME)) == []

        # The daemon starts anew while milan is away, and milan comes back.
        await rome.stop()
        await rome.start()
        await milan.cluster.start()
        await milan.start()
        await rome.gone(FOREIGN_CLUSTERS, "milan")
        await rome.gone(NAMESPACES, AT_ROME)
        await milan.gone(NAMESPACES, "shop-rome")
        for kind in (RESOURCE_SLICES, NAMESPACE_MAPS):
            assert await milan.admin.list(kind, Selection(AT_MILAN)) == []
        assert await milan.admin.list(SHADOW_PODS) == []
