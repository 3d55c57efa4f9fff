"""Virtual nodes in an embedded cluster: made, kept, followed, refused, drained."""

import dataclasses
import time
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DAEMON_SETS, LEASES, NODES, POD_DISRUPTION_BUDGETS, PODS
from liqod.consumer.nodes.virtualnodes import VirtualNodes
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.resources import VIRTUAL_NODES
from simulator import EmbeddedCluster
from simulator.storage import deletion, registry
from tests.simulated.borrower import (
    Switch,
    borrower,
    condition,
    eventually,
    peer_of,
    virtual_node,
)
from tests.simulated.prepared import defined

TENANT = "liqo-tenant-milan"


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


async def running(context, name="milan"):
    """The VirtualNode, once it says that all is well."""

    async def look():
        found = await context.client.find(VIRTUAL_NODES, name, TENANT)
        good = condition(found, "Node").get("status") == "Running"
        return found if good and condition(found, "VirtualKubelet")["status"] == "Running" else None

    return await eventually(look)


async def ready(context, status, name="milan"):
    async def look():
        node = await context.client.find(NODES, name)
        return node if condition(node, "Ready").get("status") == status else None

    return await eventually(look)


def waiting_pod(name, node="milan", **metadata):
    return {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i"}],
        },
    }


async def test_node_and_lease_appear_and_stay_quiet(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan", labels={"region": "eu"}, annotations={"a": "b"})
        await running(context)
        node = await ready(context, "True")
        assert node["metadata"]["labels"]["liqo.io/type"] == "virtual-node"
        assert node["metadata"]["labels"]["region"] == "eu"
        assert node["status"]["capacity"]["cpu"] == "20"
        assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 12345
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.4"
        assert node["spec"]["taints"][0]["key"] == "virtual-node.liqo.io/not-allowed"
        lease = await eventually(lambda: context.client.find(LEASES, "milan", "kube-node-lease"))
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        await trio.sleep(0.3)
        version = (await context.client.get(NODES, "milan"))["metadata"]["resourceVersion"]
        await trio.sleep(0.7)
        assert (await context.client.get(NODES, "milan"))["metadata"]["resourceVersion"] == version


async def test_labels_follow_the_virtual_node_and_those_of_people_stay(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan", labels={"region": "eu", "tier": "gold"})
        await running(context)
        await context.client.patch(NODES, "milan", {"metadata": {"labels": {"mine": "yes"}}})
        change = {"spec": {"labels": {"region": "us", "tier": None}}}
        await context.client.patch(VIRTUAL_NODES, "milan", change, TENANT)

        async def followed():
            found = (await context.client.get(NODES, "milan"))["metadata"]["labels"]
            return found if found.get("region") == "us" else None

        found = await eventually(followed)
        assert "tier" not in found
        assert found["mine"] == "yes"


async def test_ready_follows_the_peer_and_cordon_stays(cluster, nursery):
    async with borrower(cluster) as context:
        link = Switch()
        peer = await peer_of(context, "milan", link)
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await running(context)
        await ready(context, "True")
        taint = {"key": "mine", "effect": "NoSchedule"}
        node = await context.client.get(NODES, "milan")
        spec = {"unschedulable": True, "taints": [*node["spec"]["taints"], taint]}
        await context.client.patch(NODES, "milan", {"spec": spec})
        link.set(False, "10.0.0.9:6443 does not answer")
        with trio.fail_after(5):
            node = await ready(context, "False")
        assert condition(node, "Ready")["message"] == "10.0.0.9:6443 does not answer"
        link.set(True, "its API server answers")
        node = await ready(context, "True")
        assert node["spec"]["unschedulable"] is True
        assert taint["key"] in [each["key"] for each in node["spec"]["taints"]]


async def test_daemon_that_starts_again_does_not_flap_the_node(cluster):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await virtual_node(context, "milan")
        async with trio.open_nursery() as first:
            await first.start(VirtualNodes(peer).run)
            await running(context)
            before = await ready(context, "True")
            first.cancel_scope.cancel()
        link = Switch(True, "nothing is borrowed")
        again = dataclasses.replace(peer, link=cast("Any", link))
        async with trio.open_nursery() as second:
            await second.start(VirtualNodes(again).run)
            await trio.sleep(0.5)
            after = await context.client.get(NODES, "milan")
            assert condition(after, "Ready") == condition(before, "Ready")
            link.set(False, "it does not answer")
            await ready(context, "False")
            second.cancel_scope.cancel()


async def test_deleted_node_is_made_again(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await running(context)
        uid = (await ready(context, "True"))["metadata"]["uid"]
        await context.client.delete(NODES, "milan")

        async def another():
            node = await context.client.find(NODES, "milan")
            return node if node is not None and node["metadata"]["uid"] != uid else None

        node = await eventually(another)

        async def renewed():
            lease = await context.client.find(LEASES, "milan", "kube-node-lease")
            if lease is None:
                return False
            return lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]

        await eventually(renewed)


async def test_node_stays_where_a_list_lacks_its_virtual_node(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        uid = (await eventually(lambda: context.client.find(NODES, "milan")))["metadata"]["uid"]
        async with context.informers.share(VIRTUAL_NODES) as informer:
            body = informer.store.get((TENANT, "milan"))
            assert body is not None
            await informer.replace({})
            await trio.sleep(0.5)
            assert (await context.client.get(NODES, "milan"))["metadata"]["uid"] == uid
            await informer.replace({(TENANT, "milan"): body})
        await virtual_node(context, "milan", "milan-2")
        await eventually(lambda: context.client.find(NODES, "milan-2"))
        assert (await context.client.get(NODES, "milan"))["metadata"]["uid"] == uid


async def test_name_of_a_real_node_is_refused(cluster, nursery):
    async with borrower(cluster) as context:
        await context.client.create(NODES, {"metadata": {"name": "milan", "labels": {"a": "b"}}})
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")

        async def refused():
            found = await context.client.get(VIRTUAL_NODES, "milan", TENANT)
            told = condition(found, "Node")
            return told if told.get("reason") == "NameTaken" else None

        told = await eventually(refused)
        assert told["status"] == "None"
        assert "milan is the name of a node of this cluster" in told["message"]
        await context.client.delete(VIRTUAL_NODES, "milan", TENANT)

        async def gone():
            return await context.client.find(VIRTUAL_NODES, "milan", TENANT) is None

        await eventually(gone)
        node = await context.client.get(NODES, "milan")
        assert "liqo.io/type" not in node["metadata"]["labels"]
        taints = node.get("spec", {}).get("taints") or []
        assert "virtual-node.liqo.io/not-allowed" not in [each["key"] for each in taints]


async def test_two_slices_of_one_peer_and_one_without_a_node(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await virtual_node(context, "milan", "milan-gpu", resourceQuota={"hard": {"cpu": "1"}})
        await virtual_node(context, "milan", "milan-none", createNode=False)
        await running(context)
        await running(context, "milan-gpu")
        found = await context.client.list(NODES)
        assert {n["metadata"]["name"] for n in found} == {"milan", "milan-gpu"}
        await context.client.delete(VIRTUAL_NODES, "milan-gpu", TENANT)

        async def one_left():
            return len(await context.client.list(NODES)) == 1

        await eventually(one_left)


async def gone(context, kind, name, namespace=None):
    async def look():
        return await context.client.find(kind, name, namespace) is None

    await eventually(look)


async def test_drain_evicts_and_leaves_nothing(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await running(context)
        spec = waiting_pod("d")["spec"]
        del spec["nodeName"]
        template = {"metadata": {"labels": {"a": "d"}}, "spec": spec}
        await context.client.create(
            DAEMON_SETS,
            {
                "metadata": {"name": "d", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"a": "d"}}, "template": template},
            },
        )
        await context.client.create(PODS, waiting_pod("web"))

        async def bound():
            found = await context.client.list(PODS, Selection("default", labels="a=d"))
            return found[0] if found and found[0]["spec"].get("nodeName") == "milan" else None

        daemon = (await eventually(bound))["metadata"]["name"]
        await context.client.delete(VIRTUAL_NODES, "milan", TENANT)

        async def evicted():
            pod = await context.client.get(PODS, "web", "default")
            return "deletionTimestamp" in pod["metadata"]

        await eventually(evicted)
        node = await context.client.get(NODES, "milan")
        assert node["spec"]["unschedulable"] is True
        told = await context.client.get(VIRTUAL_NODES, "milan", TENANT)
        assert condition(told, "Node")["status"] == "Draining"
        daemon_pod = await context.client.get(PODS, daemon, "default")
        assert "deletionTimestamp" not in daemon_pod["metadata"]
        # What the pods' reflector does when the remote pod is gone:
        await context.client.delete(PODS, "web", "default", grace=0)
        await gone(context, VIRTUAL_NODES, "milan", TENANT)
        assert await context.client.find(NODES, "milan") is None
        assert await context.client.find(LEASES, "milan", "kube-node-lease") is None


class Ahead(datetime):
    """This host's clock, two minutes ahead of the API server's."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(minutes=2)


@pytest.mark.parametrize("clock", [datetime, Ahead])
async def test_drain_names_the_budget_and_ends_at_its_deadline(
    cluster, nursery, monkeypatch, clock
):
    monkeypatch.setattr(times, "datetime", clock)
    right = SimpleNamespace(now=lambda: times.of(time.time()), of=times.of)
    for module in (deletion, registry):  # of an API server that is embedded here
        monkeypatch.setattr(module, "times", right)
    async with borrower(cluster, "[consumer]\ndrain_timeout = 2.0\n") as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await running(context)
        await context.client.create(PODS, waiting_pod("web", labels={"app": "web"}))
        budget = {
            "metadata": {"name": "web-budget", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        await context.client.create(POD_DISRUPTION_BUDGETS, budget)
        await context.client.patch(
            PODS,
            "web",
            {
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                }
            },
            "default",
            subresource="status",
        )
        await context.client.delete(VIRTUAL_NODES, "milan", TENANT)

        async def named():
            found = await context.client.find(VIRTUAL_NODES, "milan", TENANT)
            message = condition(found, "Node").get("message", "")
            return message if "web-budget" in message else None

        message = await eventually(named)
        assert "default/web" in message
        await gone(context, VIRTUAL_NODES, "milan", TENANT)
        await gone(context, NODES, "milan")


async def test_dead_peer_blocks_no_drain(cluster, nursery):
    async with borrower(cluster) as context:
        link = Switch()
        peer = await peer_of(context, "milan", link)
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan")
        await running(context)
        await context.client.create(PODS, waiting_pod("web"))
        link.set(False, "dead")
        await context.client.delete(VIRTUAL_NODES, "milan", TENANT)
        await gone(context, VIRTUAL_NODES, "milan", TENANT)
        await gone(context, NODES, "milan")


async def test_node_without_a_virtual_node_is_removed(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        async with trio.open_nursery() as first:
            await first.start(VirtualNodes(peer).run)
            await virtual_node(context, "milan")
            await running(context)
            first.cancel_scope.cancel()
        patch = {"metadata": {"finalizers": None}}
        await context.client.patch(VIRTUAL_NODES, "milan", patch, TENANT)
        await context.client.delete(VIRTUAL_NODES, "milan", TENANT)
        foreign = {labels.TYPE: labels.VIRTUAL_NODE_TYPE, labels.REMOTE_CLUSTER_ID: "milan"}
        await context.client.create(NODES, {"metadata": {"name": "liqos", "labels": foreign}})
        await nursery.start(VirtualNodes(peer).run)
        await gone(context, NODES, "milan")
        assert await context.client.find(NODES, "liqos") is not None


async def test_node_that_the_server_refuses_is_told_on_the_virtual_node(cluster, nursery):
    async with borrower(cluster) as context:
        peer = await peer_of(context, "milan")
        await nursery.start(VirtualNodes(peer).run)
        await virtual_node(context, "milan", labels={"region": "not a label value!"})

        async def told():
            found = await context.client.get(VIRTUAL_NODES, "milan", TENANT)
            return condition(found, "Node") if condition(found, "Node").get("reason") else None

        found = await eventually(told)
        assert found["reason"] == "Refused"
        assert "not a label value!" in found["message"]
        await context.client.patch(
            VIRTUAL_NODES, "milan", {"spec": {"labels": {"region": "eu"}}}, TENANT
        )

        async def mended():
            found = await context.client.get(VIRTUAL_NODES, "milan", TENANT)
            return "reason" not in condition(found, "Node")

        await eventually(mended)
        node = await context.client.get(NODES, "milan")
        assert node["metadata"]["labels"]["region"] == "eu"
