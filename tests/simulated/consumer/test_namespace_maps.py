"""The map of a peer's namespaces: it is there while the peer has virtual nodes, and no longer."""

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import NODES
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.nodes.virtualnodes import SELECTOR
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, eventually, offload, peer_of, virtual_node
from tests.simulated.consumer.offloaded import mapped, mapping, selector
from tests.simulated.prepared import defined


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


async def test_map_comes_and_goes_with_the_virtual_nodes(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await virtual_node(context, "milan", "milan-gpu")
        await mapped(context, "milan", {})
        replica = {
            "metadata": {
                "name": "rome",
                "namespace": "liqo-tenant-milan",
                "labels": {"liqo.io/replication": "false", "liqo.io/remoteID": "rome"},
            },
            "spec": {"desiredMapping": {"theirs": "theirs-milan"}},
        }
        await context.client.create(NAMESPACE_MAPS, replica)
        await context.client.delete(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        await trio.sleep(0.2)
        assert await mapping(context, "milan") == {}
        await context.client.delete(VIRTUAL_NODES, "milan-gpu", "liqo-tenant-milan")

        async def gone():
            return await mapping(context, "milan") is None

        await eventually(gone)
        left = await context.client.get(NAMESPACE_MAPS, "rome", "liqo-tenant-milan")
        assert left["spec"]["desiredMapping"] == {"theirs": "theirs-milan"}


async def test_a_map_made_again_has_all_its_entries_from_the_start(cluster, nursery):
    """Its replica follows it: an empty one would end the provider's namespaces."""
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await offload(context.client, "shop")
        await offload(context.client, "bank")
        both = {"shop": "shop-rome", "bank": "bank-rome"}
        await mapped(context, "milan", both)
        seen = []
        async with context.informers.share(NAMESPACE_MAPS) as maps:
            stop = maps.subscribe(lambda change: seen.append(change.new))
            await context.client.delete(NAMESPACE_MAPS, "milan", "liqo-tenant-milan")

            async def again():
                return None in seen and seen[-1]

            await eventually(again)
            stop()
        # What was seen before it went may be older than what was read of it above.
        made = [msgspec.json.decode(body) for body in seen[seen.index(None) :] if body is not None]
        assert made
        assert all(each["spec"]["desiredMapping"] == both for each in made)


async def test_without_the_definition_of_virtual_nodes_no_map_goes(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await peer_of(context, "milan")
        await virtual_node(context, "milan")
        await offload(context.client, "shop")
        await mapped(context, "milan", {"shop": "shop-rome"})
        context.client.missing[VIRTUAL_NODES] = trio.current_time()
        await context.client.delete(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        await trio.sleep(1)
        assert await mapping(context, "milan") == {"shop": "shop-rome"}
        await virtual_node(context, "milan")
        await trio.sleep(0.2)
        assert await mapping(context, "milan") == {"shop": "shop-rome"}


async def test_nodes_that_a_list_lacks_cost_no_namespace(cluster, nursery):
    """A label that somebody gave the Node selects the provider."""
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await peer_of(context, "milan")
        marks = {"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": "milan"}
        node = {"metadata": {"name": "milan", "labels": {**marks, "tier": "gold"}}}
        await context.client.create(NODES, node)
        await virtual_node(context, "milan")
        await offload(context.client, "shop", **selector(tier="gold"))
        await mapped(context, "milan", {"shop": "shop-rome"})
        nodes = context.informers.find(NODES, Selection(labels=SELECTOR))
        assert nodes is not None
        await nodes.replace({})
        await virtual_node(context, "milan", "milan-2")  # has everything looked at again
        await trio.sleep(0.5)
        assert await mapping(context, "milan") == {"shop": "shop-rome"}
