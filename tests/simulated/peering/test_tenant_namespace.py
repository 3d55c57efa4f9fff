"""A tenant namespace that is deleted by hand, with everything in it."""

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS
from liqod.plugins import loader
from liqod.resources import FOREIGN_CLUSTERS
from tests.simulated.borrower import eventually, offload
from tests.simulated.members import borrow_a_pod, members

AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"


@pytest.mark.long
async def test_a_consumer_whose_tenant_namespace_is_deleted_keeps_nothing():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await rome.admin.delete(NAMESPACES, AT_ROME)
        await rome.gone(NODES, "milan")
        await rome.gone(NAMESPACES, AT_ROME)
        await rome.gone(FOREIGN_CLUSTERS, "milan")
        # Peering again starts afresh.
        await rome.peer(milan)


@pytest.mark.long
async def test_a_node_that_goes_with_the_tenant_namespace_waits_for_no_pod():
    """Its identity went too: nobody can tell any more what became of the pods there."""
    async with members("rome", "milan", plugins=loader.load(sources=loader.built_in())) as [
        rome,
        milan,
    ]:
        await borrow_a_pod(rome, milan)
        await rome.admin.delete(NAMESPACES, AT_ROME)
        with trio.fail_after(30):
            await rome.gone(NODES, "milan")
            await rome.gone(NAMESPACES, AT_ROME)
            await rome.gone(PODS, "web", "shop")


@pytest.mark.long
async def test_a_consumer_whose_tenant_namespace_went_while_its_daemon_was_away():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await rome.stop()
        await rome.admin.delete(NAMESPACES, AT_ROME)
        await rome.start()
        await rome.gone(NODES, "milan")
        await rome.gone(NAMESPACES, AT_ROME)
        await rome.gone(FOREIGN_CLUSTERS, "milan")


@pytest.mark.long
async def test_a_provider_whose_tenant_namespace_is_deleted_lends_nothing():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await offload(rome.admin, "shop")
        await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
        await milan.admin.delete(NAMESPACES, AT_MILAN)
        await milan.gone(NAMESPACES, AT_MILAN)
        await milan.gone(NAMESPACES, "shop-rome")
        await milan.gone(FOREIGN_CLUSTERS, "rome")
        await rome.gone(NODES, "milan")
        assert (await rome.unpeer(milan)).complete
