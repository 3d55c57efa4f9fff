"""A virtual node's own Events: what `kubectl describe node` says of it."""

from liqod.apimachinery.kinds import EVENTS, NODES
from liqod.consumer.nodes.virtualnodes import VirtualNodes
from liqod.kube.selection import Selection
from simulator import EmbeddedCluster
from tests.simulated.borrower import Switch, borrower, eventually, peer_of, virtual_node
from tests.simulated.consumer.test_nodes import ready
from tests.simulated.prepared import defined


async def test_the_nodes_own_events_say_why_it_is_not_ready(nursery):
    async with (
        EmbeddedCluster("rome", state=await defined("rome")) as cluster,
        borrower(cluster) as context,
    ):
        link = Switch()
        peer = await peer_of(context, "milan", link)
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await ready(context, "True")

        async def told(*reasons):
            found = await context.client.list(EVENTS, Selection("default"))
            about = [each for each in found if each["involvedObject"]["name"] == "milan"]
            by_reason = {each["reason"]: each for each in about}
            return by_reason if set(reasons) <= set(by_reason) else None

        link.set(False, "its API server does not answer: connection refused")
        await ready(context, "False")
        found = await eventually(lambda: told("NodeNotReady"))
        uid = (await context.client.get(NODES, "milan"))["metadata"]["uid"]
        assert found["NodeNotReady"]["involvedObject"]["uid"] == uid
        assert found["NodeNotReady"]["type"] == "Warning"
        assert found["NodeNotReady"]["message"].endswith("connection refused")
        # Ready says the same as before, however often it is looked at.
        await context.client.patch(NODES, "milan", {"metadata": {"annotations": {"a": "b"}}})
        link.set(True, "well")
        await ready(context, "True")
        await context.client.patch(NODES, "milan", {"spec": {"unschedulable": True}})
        found = await eventually(lambda: told("NodeReady", "NodeNotSchedulable"))
        assert [each for each in found if each.startswith("Node")].count("NodeNotReady") == 1
