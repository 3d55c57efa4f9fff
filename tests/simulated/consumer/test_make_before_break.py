"""Pods that leave a peer are replaced before they go: a namespace that is brought back, one that
moves to another peer, and a peer that is left, under a Deployment that serves meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_OFFLOADINGS, TENANTS
from tests.simulated.borrower import Json, condition, eventually
from tests.simulated.members import Member
from tests.simulated.shops import CONTAINER, shops

REPLICAS = 4
DEPLOYMENT = {
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}},
    },
}


def budget(fewest: int) -> Json:
    """The shop's disruption budget."""
    return {
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": fewest, "selector": {"matchLabels": {"app": "web"}}},
    }


def serves(pod: Json) -> bool:
    """True if this cluster calls the pod Ready, and keeps it."""
    return ready(pod) and "deletionTimestamp" not in pod["metadata"]


LATE = 1.0
"""Seconds in which this cluster has to observe an end at a peer."""


def ready(node: Json) -> bool:
    """True if a Node or a pod is Ready."""
    return condition(node, "Ready").get("status") == "True"


class Watch:
    """Counts all the while the pods that are Ready here, and those with nothing behind it.

    Attributes:
        fewest: the smallest number of serving pods.
        empty: pods that were Ready here for longer than :data:`LATE` without a pod at the peer.
    """

    def __init__(self, rome: Member, *peers: Member) -> None:
        self._rome = rome
        self._peers = {peer.id: peer for peer in peers}
        self._since: dict[str, float] = {}
        self.fewest = REPLICAS
        self.empty: set[str] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            serving = [pod for pod in _pods(self._rome, "shop") if serves(pod)]
            self.fewest = min(self.fewest, len(serving))
            hollow = {pod["metadata"]["name"] for pod in serving if self._is_hollow(pod)}
            now = trio.current_time()
            self._since = {name: self._since.get(name, now) for name in hollow}
            self.empty |= {name for name, since in self._since.items() if now - since > LATE}
            await trio.sleep(0.02)

    def _is_hollow(self, pod: Json) -> bool:
        peer = self._peers.get(pod["spec"]["nodeName"])
        if peer is None:
            return False
        there = _pods(peer, "shop-rome")
        return pod["metadata"]["name"] not in {each["metadata"]["name"] for each in there}


def _pods(of: Member, namespace: str) -> list[Json]:
    items = of.cluster.registry.storage.of("pods").items()
    return [item.decode() for item in items if item.namespace == namespace]


async def filled(rome: Member, *nodes: str) -> None:
    """Have a Deployment serve there."""
    await rome.admin.create(DEPLOYMENTS, DEPLOYMENT, "shop")
    await placed(rome, *nodes)


async def placed(rome: Member, *nodes: str) -> None:
    """Wait until all its pods serve there."""

    async def look() -> bool:
        found = await rome.admin.list(PODS, Selection("shop"))
        there = [pod for pod in found if serves(pod) and pod["spec"]["nodeName"] in nodes]
        return len(there) == len(found) == REPLICAS

    await eventually(look)


@asynccontextmanager
async def watched(rome: Member, *peers: Member) -> AsyncIterator[Watch]:
    """Everything in the body is looked on."""
    watch = Watch(rome, *peers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        yield watch
        nursery.cancel_scope.cancel()


async def brought_back(rome: Member) -> None:
    """Delete the NamespaceOffloading, and wait until it is gone."""
    await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")
    await rome.gone(NAMESPACE_OFFLOADINGS, "offloading", "shop")


@pytest.mark.long
async def test_a_namespace_comes_home_under_a_budget():
    async with shops("milan") as [rome, milan]:
        await rome.admin.create(POD_DISRUPTION_BUDGETS, budget(REPLICAS - 1))
        await filled(rome, "milan")
        async with watched(rome, milan) as watch:
            await brought_back(rome)
            # What the command says is so: all run here again, and none is doubtful.
            assert {pod["spec"]["nodeName"] for pod in _pods(rome, "shop")} == {"rome-node-1"}
            await milan.gone(NAMESPACES, "shop-rome")
            await placed(rome, "rome-node-1")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty
        assert not [pod for pod in _pods(rome, "shop") if pod["status"]["phase"] == "Failed"]


@pytest.mark.long
@pytest.mark.placement
async def test_without_a_budget_a_quarter_may_be_missing():
    async with shops("milan") as [rome, milan]:
        await filled(rome, "milan")
        async with watched(rome, milan) as watch:
            await brought_back(rome)
            await placed(rome, "rome-node-1")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty


@pytest.mark.long
@pytest.mark.placement
async def test_a_namespace_that_leaves_two_peers_loses_no_more_than_from_one():
    async with shops("milan", "turin") as [rome, milan, turin]:
        await filled(rome, "milan", "turin")
        assert {pod["spec"]["nodeName"] for pod in _pods(rome, "shop")} == {"milan", "turin"}
        async with watched(rome, milan, turin) as watch:
            await brought_back(rome)
            await placed(rome, "rome-node-1")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty


@pytest.mark.long
@pytest.mark.placement
async def test_what_is_waited_for_is_said():
    async with shops("milan") as [rome, milan]:
        await rome.admin.create(POD_DISRUPTION_BUDGETS, budget(REPLICAS))
        await filled(rome, "milan")
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", "shop")

        def told(found: Json) -> bool:
            shown = found["status"]["remoteNamespacesConditions"]["milan"]
            return any(
                each["reason"] == "Draining" and "may not be evicted" in each["message"]
                for each in shown
            )

        await rome.until(NAMESPACE_OFFLOADINGS, "offloading", "shop", told)
        assert len([pod for pod in _pods(rome, "shop") if serves(pod)]) == REPLICAS
        assert len(_pods(milan, "shop-rome")) == REPLICAS
        await rome.admin.delete(POD_DISRUPTION_BUDGETS, "web", "shop")
        await rome.gone(NAMESPACE_OFFLOADINGS, "offloading", "shop")


@pytest.mark.long
@pytest.mark.placement
async def test_a_peer_that_does_not_answer_is_not_waited_for():
    async with shops("milan") as [rome, milan]:
        await filled(rome, "milan")
        await milan.cluster.stop()
        await rome.until(NODES, "milan", None, lambda node: not ready(node))
        with trio.fail_after(10):
            await brought_back(rome)


@pytest.mark.long
@pytest.mark.placement
async def test_a_namespace_moves_to_another_peer():
    def only(peer: str) -> Json:
        key = {"key": "liqo.io/remote-cluster-id", "operator": "In", "values": [peer]}
        return {"nodeSelectorTerms": [{"matchExpressions": [key]}]}

    async with shops("milan", "turin", clusterSelector=only("milan")) as [rome, milan, turin]:
        await rome.admin.create(POD_DISRUPTION_BUDGETS, budget(REPLICAS - 1))
        await filled(rome, "milan")
        async with watched(rome, milan, turin) as watch:
            patch = {"spec": {"clusterSelector": only("turin")}}
            await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", patch, "shop")
            await milan.gone(NAMESPACES, "shop-rome")
            await placed(rome, "turin")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty


@pytest.mark.long
@pytest.mark.placement
async def test_a_provider_sends_its_consumer_away():
    async with shops("milan") as [rome, milan]:
        both = {"spec": {"podOffloadingStrategy": "LocalAndRemote"}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", both, "shop")
        await rome.admin.create(POD_DISRUPTION_BUDGETS, budget(REPLICAS - 1))
        await rome.admin.patch(NODES, "rome-node-1", {"spec": {"unschedulable": True}})
        await filled(rome, "milan")
        await rome.admin.patch(NODES, "rome-node-1", {"spec": {"unschedulable": None}})
        async with watched(rome, milan) as watch:
            drained = {"spec": {"tenantCondition": "Drained"}}
            await milan.admin.patch(TENANTS, "rome", drained, "liqo-tenant-rome")
            await milan.gone(NAMESPACES, "shop-rome")
            await placed(rome, "rome-node-1")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty


@pytest.mark.long
@pytest.mark.placement
async def test_a_peer_is_left_without_a_budget():
    async with shops("milan") as [rome, milan]:
        await rome.admin.patch(
            NAMESPACE_OFFLOADINGS,
            "offloading",
            {"spec": {"podOffloadingStrategy": "LocalAndRemote"}},
            "shop",
        )
        await filled(rome, "milan", "rome-node-1")
        async with watched(rome, milan) as watch:
            await rome.unpeer(milan)
            await placed(rome, "rome-node-1")
        assert watch.fewest >= REPLICAS - 1
        assert not watch.empty
