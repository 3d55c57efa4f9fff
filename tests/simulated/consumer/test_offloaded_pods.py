"""Pods of offloaded namespaces: where each strategy lets them run, and what becomes of them."""

from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, PODS
from liqod.resources import NAMESPACE_OFFLOADINGS
from tests.simulated.borrower import Json, condition, eventually, offload
from tests.simulated.members import Member
from tests.simulated.shops import (
    CONTAINER,
    SHOP,
    THERE,
    deployment,
    offload_shop,
    open_shop,
    opened,
    pod,
    pods_of,
    ready_pods,
    served,
    settled,
    shops,
    uids,
)

pytestmark = pytest.mark.long

HOME = "rome-node-1"


async def nodes_of(rome: Member, namespace: str = SHOP) -> set[str]:
    """The nodes that the pods of a namespace are bound to."""
    found = await pods_of(rome, namespace)
    return {each["spec"].get("nodeName", "") for each in found.values()}


def only(peer: str) -> Json:
    """A selector of one peer."""
    key = {"key": "liqo.io/remote-cluster-id", "operator": "In", "values": [peer]}
    return {"nodeSelectorTerms": [{"matchExpressions": [key]}]}


@pytest.mark.parametrize(
    ("strategy", "homes"),
    [("Local", {HOME}), ("Remote", {"milan"}), ("LocalAndRemote", {HOME, "milan"})],
)
async def test_which_nodes_a_strategy_lets_pods_use(strategy: str, homes: set[str]) -> None:
    async with shops("milan") as [rome, milan]:
        chosen = {"spec": {"podOffloadingStrategy": strategy}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", chosen, SHOP)
        await trio.sleep(1)  # until the webhook goes by it
        await rome.admin.create(DEPLOYMENTS, deployment(6), SHOP)
        await settled(rome, SHOP, 6)
        assert await nodes_of(rome) == homes
        here = await pods_of(rome, SHOP)
        there = {name for name, each in here.items() if each["spec"]["nodeName"] == "milan"}
        assert set(await pods_of(milan, THERE)) == there


@pytest.mark.parametrize(
    ("spec", "remote"),
    [
        ({"namespaceMappingStrategy": "EnforceSameName"}, SHOP),
        ({"namespaceMappingStrategy": "DefaultName"}, THERE),
        (
            {"namespaceMappingStrategy": "SelectedName", "remoteNamespaceName": "elsewhere"},
            "elsewhere",
        ),
    ],
    ids=["EnforceSameName", "DefaultName", "SelectedName"],
)
async def test_what_the_namespace_there_is_called(spec: dict[str, Any], remote: str) -> None:
    async with served("milan") as [rome, milan]:
        await offload_shop(rome, podOffloadingStrategy="Remote", **spec)
        assert await milan.admin.find(NAMESPACES, remote) is not None
        await rome.admin.create(PODS, pod("single"), SHOP)
        await settled(rome, SHOP, 1)
        assert set(await pods_of(milan, remote)) == {"single"}
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", SHOP)
        await milan.gone(NAMESPACES, remote)


async def test_a_namespace_that_is_there_already_is_said_and_made_once_it_is_gone() -> None:
    async with served("milan") as [rome, milan]:
        await milan.admin.create(NAMESPACES, {"metadata": {"name": THERE}})
        await offload(rome.admin, SHOP)

        def failed(found: Json) -> bool:
            return bool(found.get("status", {}).get("offloadingPhase") == "AllFailed")

        await rome.until(NAMESPACE_OFFLOADINGS, "offloading", SHOP, failed)
        found = await milan.admin.get(NAMESPACES, THERE)
        assert "liqo" not in str(found["metadata"].get("annotations", {}))
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", SHOP)
        await rome.gone(NAMESPACE_OFFLOADINGS, "offloading", SHOP)
        assert await milan.admin.find(NAMESPACES, THERE) is not None
        await offload(rome.admin, SHOP)
        await rome.until(NAMESPACE_OFFLOADINGS, "offloading", SHOP, failed)
        await milan.admin.delete(NAMESPACES, THERE)

        def ready(found: Json) -> bool:
            return bool(found.get("status", {}).get("offloadingPhase") == "Ready")

        await rome.until(NAMESPACE_OFFLOADINGS, "offloading", SHOP, ready)
        found = await milan.admin.get(NAMESPACES, THERE)
        assert found["metadata"]["annotations"]["liqo.io/original-name"] == SHOP


@pytest.mark.parametrize("killed", ["rome", "milan"])
async def test_a_daemon_that_was_down_catches_up(killed: str) -> None:
    async with open_shop("milan", replicas=3) as [rome, milan]:
        running = await uids(milan, THERE)
        member = rome if killed == "rome" else milan
        await member.stop()
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}}, SHOP)
        await rome.admin.create(PODS, pod("single"), SHOP)
        await eventually(lambda: pods_of(rome, SHOP), lambda found: len(found) == 6)
        await trio.sleep(5)
        assert await uids(milan, THERE) == running
        await member.start()
        await settled(rome, SHOP, 6)
        now = await uids(milan, THERE)
        assert now.items() >= running.items(), "a running pod was replaced by a daemon's restart"
        assert len(now) == 6


async def test_pods_that_are_made_after_a_namespace_came_home_know_nothing_of_peers() -> None:
    async with shops("milan") as [rome, milan]:
        await rome.admin.create(DEPLOYMENTS, deployment(4), SHOP)
        await settled(rome, SHOP, 4)
        assert await nodes_of(rome) == {"milan"}
        await rome.admin.delete(NAMESPACE_OFFLOADINGS, "offloading", SHOP)
        await milan.gone(NAMESPACES, THERE)
        plain = {"metadata": {"name": "after"}, "spec": {"containers": [CONTAINER]}}
        await rome.admin.create(PODS, plain, SHOP)
        await settled(rome, SHOP, 5)
        assert await nodes_of(rome) == {HOME}


async def test_a_selector_chooses_the_peer() -> None:
    async with shops("milan", "turin", clusterSelector=only("turin")) as [rome, milan, turin]:
        await rome.admin.create(DEPLOYMENTS, deployment(4), SHOP)
        await settled(rome, SHOP, 4)
        assert await nodes_of(rome) == {"turin"}
        assert await turin.admin.find(NAMESPACES, THERE) is not None
        assert await milan.admin.find(NAMESPACES, THERE) is None


async def test_two_providers_share_the_pods() -> None:
    async with open_shop("milan", "turin", replicas=8) as [rome, milan, turin]:
        there = [set(await pods_of(peer, THERE)) for peer in (milan, turin)]
        assert there[0] | there[1] == set(await pods_of(rome, SHOP))
        assert not there[0] & there[1]
        assert all(there)


async def test_two_consumers_of_one_provider_are_kept_apart() -> None:
    async with open_shop("milan", others=("turin",)) as [rome, milan, turin]:
        await turin.peer(milan)
        await opened(turin, 3)
        for member, number in ((rome, 2), (turin, 3)):
            found = set(await pods_of(milan, f"{SHOP}-{member.id}"))
            assert found == set(await pods_of(member, SHOP))
            assert len(found) == number


async def test_a_pod_beyond_what_was_granted_waits_and_says_so() -> None:
    async with served(others=("milan",)) as [rome, milan]:
        await rome.peer(milan, resources={"cpu": "1", "memory": "1Gi", "pods": "2"})
        await offload_shop(rome, podOffloadingStrategy="Remote")
        await rome.admin.create(DEPLOYMENTS, deployment(3, runtimeClassName="liqo"), SHOP)
        await eventually(lambda: ready_pods(rome, SHOP), lambda found: len(found) == 2)
        # The scheduler already counts what the virtual node has; the third finds no node.
        pods = (await pods_of(rome, SHOP)).values()
        [waiting] = [each for each in pods if "nodeName" not in each["spec"]]
        assert condition(waiting, "PodScheduled")["reason"] == "Unschedulable"
