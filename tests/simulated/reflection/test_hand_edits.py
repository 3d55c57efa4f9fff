"""Changes by hand at the peer or in the Nodes here, and how they are put right."""

import trio

from liqod.apimachinery.kinds import EVENTS, NODES, PODS, SERVICES
from liqod.consumer.nodes.virtualnodes import VirtualNodes
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Json
from liqod.resources import SHADOW_PODS
from simulator import EmbeddedCluster
from simulator.faults import Fault
from tests.simulated.borrower import borrower, eventually, peer_of, virtual_node
from tests.simulated.lendingpods import here, lending
from tests.simulated.prepared import defined
from tests.simulated.reflecting import SHOP, THERE, Pair
from tests.simulated.reflection.test_reflection import running


async def shadow_of(both: Pair, name: str) -> Json:
    found: Json = await both.there.get(SHADOW_PODS, name, THERE)
    return found


async def test_the_spec_and_the_status_of_a_shadow_pod_are_put_right():
    async with lending() as (both, _):
        await both.pod("web", metadata={"labels": {"app": "web"}})
        await here(both, "web")
        before, remote_pod = await shadow_of(both, "web"), await both.there.get(PODS, "web", THERE)
        edited = {"labels": {"app": "stolen", "note": "kept"}}
        spec = {"pod": {"containers": [{"name": "x", "image": "y"}], "nodeSelector": {"a": "b"}}}
        await both.there.patch(SHADOW_PODS, "web", {"metadata": edited, "spec": spec}, THERE)
        found = await both.comes(SHADOW_PODS, "web", lambda one: one["spec"] == before["spec"])
        assert found["metadata"]["labels"] == {**before["metadata"]["labels"], "note": "kept"}

        status = {"status": {"phase": "Failed", "reason": "x", "message": "y"}}
        await both.there.patch(SHADOW_PODS, "web", status, THERE, subresource="status")
        await both.comes(SHADOW_PODS, "web", lambda one: one["status"] == {"phase": "Running"})
        now = await both.there.get(PODS, "web", THERE)
        assert now["metadata"]["uid"] == remote_pod["metadata"]["uid"]


async def test_a_finalizer_on_a_shadow_pod_holds_up_nobody_but_its_successor():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await both.there.patch(SHADOW_PODS, "web", held, THERE)
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)

        again = await both.pod("web")

        async def told() -> bool:
            said = [each["message"] for each in await both.here.list(EVENTS, Selection(SHOP))]
            return any("held by its finalizers: example.com/held" in each for each in said)

        await eventually(told)
        await both.there.patch(SHADOW_PODS, "web", {"metadata": {"finalizers": None}}, THERE)
        pod = await here(both, "web")
        assert pod["metadata"]["uid"] == again["metadata"]["uid"]


async def test_a_remote_pod_that_was_orphaned_is_taken_back_and_ends_with_its_pod():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        remote_pod = await both.there.get(PODS, "web", THERE)
        await both.there.patch(PODS, "web", {"metadata": {"ownerReferences": None}}, THERE)
        back = await both.comes(PODS, "web", lambda one: one["metadata"].get("ownerReferences"))
        assert back["metadata"]["uid"] == remote_pod["metadata"]["uid"]
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)


async def test_a_service_whose_ports_were_edited_is_put_right():
    async with running() as (both, _):
        port = {"name": "http", "port": 80}
        wanted = {"metadata": {"name": "web"}, "spec": {"ports": [port]}}
        await both.here.create(SERVICES, wanted, SHOP)
        made = await both.comes(SERVICES, "web")
        # An apply would keep this one beside ours, and two of one name are refused.
        edited = {"spec": {"ports": [{"name": "http", "port": 9999}]}}
        await both.there.patch(SERVICES, "web", edited, THERE)
        found = await both.comes(
            SERVICES, "web", lambda one: [each["port"] for each in one["spec"]["ports"]] == [80]
        )
        assert found["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_service_that_cannot_change_is_made_anew():
    async with running() as (both, _):
        plain = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        await both.here.create(SERVICES, plain, SHOP)
        await both.comes(SERVICES, "web", lambda one: one["spec"]["clusterIP"] != "None")
        await both.here.delete(SERVICES, "web", SHOP)
        headless = {**plain, "spec": {"ports": [{"port": 80}], "clusterIP": "None"}}
        await both.here.create(SERVICES, headless, SHOP)
        await both.comes(SERVICES, "web", lambda one: one["spec"]["clusterIP"] == "None")


async def test_a_service_that_was_made_again_meanwhile_is_made_anew_where_it_must_be():
    headless = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "clusterIP": "None"}}
    plain = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    other = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 81}]}}

    async with running() as (both, nursery):

        async def again(service: Json) -> None:
            """Made again while the daemon is down."""
            both.stop()
            await both.here.delete(SERVICES, "web", SHOP)
            await both.here.create(SERVICES, service, SHOP)
            await both.start(nursery)

        await both.here.create(SERVICES, headless, SHOP)
        await both.comes(SERVICES, "web", lambda one: one["spec"]["clusterIP"] == "None")
        await again(plain)
        made = await both.comes(SERVICES, "web", lambda one: one["spec"]["clusterIP"] != "None")
        await again(other)  # what can change in place does, and keeps its address
        found = await both.comes(
            SERVICES, "web", lambda one: [each["port"] for each in one["spec"]["ports"]] == [81]
        )
        assert found["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_node_that_lost_its_marks_gets_them_back(nursery: trio.Nursery):
    state = await defined("rome")
    async with EmbeddedCluster("rome", state=state) as cluster, borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")

        async def node(client: Client = context.client) -> Json | None:
            found = await client.find(NODES, "milan")
            marks = {} if found is None else found["metadata"]["labels"]
            marked = marks.get("liqo.io/type"), marks.get("liqo.io/remote-cluster-id")
            return found if marked == ("virtual-node", "milan") else None

        before = await eventually(node)
        gone = {"liqo.io/type": "other", "liqo.io/remote-cluster-id": None, "mine": "kept"}
        edited = {"metadata": {"labels": gone}, "spec": {"taints": None}}
        await context.client.patch(NODES, "milan", edited)
        after = await eventually(node)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["labels"]["mine"] == "kept"


async def test_a_pod_that_is_deleted_while_its_remote_pod_is_being_made_leaves_nothing():
    async with lending() as (both, _):
        slow = both.milan.faults.add(Fault(verb="create", path="/shadowpods", delay=0.5))
        await both.pod("web")

        async def asked() -> bool:
            return slow.hits == 1

        await eventually(asked)
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await trio.sleep(0.6)
        await both.goes(SHADOW_PODS, "web")
        await both.goes(PODS, "web")
        # The next one of that name is not confused with it.
        both.milan.faults.clear()
        await both.pod("web")
        await here(both, "web")
