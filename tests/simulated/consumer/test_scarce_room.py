"""Peers with less room than their sum says: where pods end, and what it costs until they do."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES, PODS
from liqod.kube import times as times_of
from liqod.kube.selection import Selection
from liqod.model.objects import conditions, podreturns, returnmarks
from liqod.model.peering.sizelabels import beside
from liqod.plugins import loader
from liqod.procedures.explaining import explain
from liqod.resources import NAMESPACE_OFFLOADINGS, RESOURCE_SLICES
from simulator.controllers.nodes import GRACE
from simulator.nodes.agent import RENEW
from simulator.nodes.scheduling import Candidate, Place, obstacle
from tests.simulated.borrower import Json, condition, eventually, offload
from tests.simulated.consumer.test_make_before_break import serves
from tests.simulated.consumer.test_returns import codes, marks, shut
from tests.simulated.members import AT_MILAN, Member, members
from tests.simulated.shops import SETTINGS, admit, admitted, spread

pytestmark = pytest.mark.long

HERE, THERE = "shop", "shop-rome"
ROOM = {"cpu": "16", "memory": "60Gi", "pods": "50"}
"""The CPUs of both nodes of a peer."""


def returning(after: int) -> str:
    """Settings by which a pod that cannot start returns after so many seconds."""
    times = f"return_unschedulable = {after}\nreturn_refused = {after}\n"
    return f"{SETTINGS}[consumer]\n{times}return_back_off = 600\n"


@asynccontextmanager
async def clusters(*peers: str, after: int, told: str = "") -> AsyncIterator[list[Member]]:
    """Rome and its peers to be, of two nodes with eight CPUs each."""
    plugins = loader.load(sources=loader.built_in())
    settings = returning(after) + told
    more: dict[str, Any] = {"settings": settings, "plugins": plugins, "nodes": 2}
    async with members("rome", *peers, **more) as made:
        yield made


async def opened(rome: Member, *peers: Member, **asked: str) -> None:
    """Have the shop at all peers."""
    await admit(rome, rome.nursery)
    for peer in peers:
        await rome.peer(peer, resources={**ROOM, **asked})
    await offload(rome.admin, HERE, podOffloadingStrategy="Remote")
    await rome.until(NAMESPACE_OFFLOADINGS, "offloading", HERE, spread)
    await eventually(lambda: admitted(rome))


def pod(name: str, **requests: str) -> Json:
    """A pod that asks for so much."""
    return {"metadata": {"name": name}, "spec": _spec(requests)}


def _spec(requests: Json) -> Json:
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    resources = {"requests": requests, "limits": limits}
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def web(replicas: int, **requests: str) -> Json:
    """A Deployment of such pods."""
    template = {"metadata": {"labels": {"app": "web"}}, "spec": _spec(requests)}
    return {
        "metadata": {"name": "web", "namespace": HERE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }


async def filled(member: Member, cpu: str) -> None:
    """Have so many CPUs of each node of a cluster used by its own pods."""
    for number, node in enumerate(await member.admin.list(NODES)):
        body = pod(f"own-{number}", cpu=cpu)
        body["spec"]["nodeName"] = node["metadata"]["name"]
        await member.admin.create(PODS, body, "default")


async def served(rome: Member, replicas: int) -> list[Json]:
    """The pods of the shop, as soon as there are so many that serve, and no others."""

    async def look() -> list[Json] | None:
        found = await rome.admin.list(PODS, Selection(HERE))
        return found if len(found) == replicas and all(map(serves, found)) else None

    made: list[Json] = await eventually(look, seconds=300)
    return made


async def test_pods_leave_fragments_for_a_peer_with_a_whole_node():
    async with clusters("milan", "turin", after=5) as [rome, milan, turin]:
        await filled(milan, "5")  # six CPUs are free there, and no pod of four has a place
        await opened(rome, milan, turin)
        await rome.admin.create(DEPLOYMENTS, web(4, cpu="4"), HERE)
        pods = await served(rome, 4)
        assert {each["spec"]["nodeName"] for each in pods} == {"turin"}
        assert await milan.admin.list(PODS, Selection(THERE)) == []
        # Once they have returned, the controller's others are not sent there again.
        assert {mark.cluster for mark in await marks(rome)} == {"milan"}
        assert (await codes(rome)).count("Returning") <= 2


@pytest.mark.placement
async def test_a_pod_that_no_node_has_a_place_for_now_is_not_bound_until_one_has():
    async with clusters("milan", after=5, told="[provider]\nshow_free = true\n") as [rome, milan]:
        await filled(milan, "5")  # six CPUs are free there, and no pod of four has a place
        await opened(rome, milan)

        def shown(node: Json) -> bool:
            found: str | None = node["metadata"]["labels"].get(labels.LARGEST_CPU)
            return found == "3100"

        await rome.until(NODES, "milan", "", shown)
        await rome.admin.create(DEPLOYMENTS, web(50, cpu="4"), HERE)
        await trio.sleep(30)
        pods = await rome.admin.list(PODS, Selection(HERE))
        assert len(pods) == 50
        assert not [each for each in pods if each["spec"].get("nodeName")]
        assert "Returning" not in await codes(rome)
        told = await explain(rome.admin, {"kind": "Pod", **pods[0]}, HERE, "liqod")
        [answer] = [each for each in told.nodes if each.node == "milan"]
        assert answer.refusals[0].reason == "NoPlaceNow"
        # What waits holds nothing: smaller ones run.
        await rome.admin.create(PODS, pod("small", cpu="2"), HERE)
        await rome.until(PODS, "small", HERE, serves)
        await milan.admin.delete(PODS, "own-0", "default")
        await milan.admin.delete(PODS, "own-1", "default")

        async def running() -> bool:
            found = await rome.admin.list(PODS, Selection(HERE))
            return len([each for each in found if serves(each)]) == 4

        await eventually(running, seconds=60)


@pytest.mark.placement
async def test_a_pod_with_a_gpu_waits_until_the_machine_that_has_one_has_its_cpus_too():
    gpu = "nvidia.com/gpu"
    async with clusters("milan", after=5, told="[provider]\nshow_free = true\n") as [rome, milan]:
        await filled(milan, "6")  # two CPUs are free on each
        [first, _] = await milan.admin.list(NODES)
        name = first["metadata"]["name"]
        status = {"status": {"capacity": {gpu: "2"}, "allocatable": {gpu: "2"}}}
        await milan.admin.patch(NODES, name, status, subresource="status")
        await opened(rome, milan, **{gpu: "2"})
        await milan.admin.delete(PODS, "own-1", "default")  # the other one is free

        def shown(node: Json) -> bool:
            marks = node["metadata"]["labels"]
            return [marks.get(each.label) for each in beside(gpu)[:2]] == ["3", "2100"]

        await rome.until(NODES, "milan", "", shown)
        for number in range(3):
            await rome.admin.create(PODS, pod(f"large-{number}", cpu="4", **{gpu: "1"}), HERE)
        await rome.admin.create(PODS, pod("small", cpu="1", **{gpu: "1"}), HERE)
        await rome.admin.create(PODS, pod("plain", cpu="4"), HERE)
        for each in ("small", "plain"):
            await rome.until(PODS, each, HERE, serves)
        large = await rome.admin.get(PODS, "large-0", HERE)
        assert not large["spec"].get("nodeName")
        assert "Returning" not in await codes(rome)
        told = await explain(rome.admin, {"kind": "Pod", **large}, HERE, "liqod")
        [answer] = [each for each in told.nodes if each.node == "milan"]
        # Beside it may be the CPUs of any machine, once those of the plain pod are told.
        lacking = [each for each in answer.refusals if each.reason == "NoPlaceNow"]
        assert any(gpu in each.message for each in lacking), answer.refusals
        await milan.admin.delete(PODS, "own-0", "default")

        async def running() -> bool:
            found = await rome.admin.list(PODS, Selection(HERE))
            return len([each for each in found if serves(each)]) == 3

        await eventually(running, seconds=60)


async def home_first(rome: Member, seconds: str) -> None:
    """Have pods of the shop wait so long for a place at home, of which all nodes are full."""
    notes = {"metadata": {"annotations": {labels.HOME_FIRST: seconds}}}
    spec = {"spec": {"podOffloadingStrategy": "LocalAndRemote"}}
    await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", {**notes, **spec}, HERE)
    own = {each["metadata"]["name"] for each in await rome.admin.list(NODES)} - {"milan"}
    for number, node in enumerate(sorted(own)):
        body = pod(f"own-{number}", cpu="8")
        body["spec"]["nodeName"] = node
        await rome.admin.create(PODS, body, "default")


async def adds_nodes_for(rome: Member) -> list[str]:
    """The pods for which a cluster autoscaler adds a node: those that the scheduler has given up,
    and that no node there is may have, as the filters say."""
    made = [Place.of(each) for each in await rome.admin.list(NODES)]
    found = []
    for each in await rome.admin.list(PODS, Selection(HERE)):
        told = conditions.find(each["status"].get("conditions"), "PodScheduled") or {}
        one = Candidate.of(each)
        empty = all(
            obstacle(one, each, {}, {each.name: each}) for each in made if each.name == "milan"
        )
        if told.get("reason") == "Unschedulable" and empty:
            found.append(each["metadata"]["name"])
    return found


@pytest.mark.placement
async def test_an_autoscaler_here_has_time_to_add_a_node_where_the_namespace_prefers_it():
    async with clusters("milan", after=5) as [rome, milan]:
        await opened(rome, milan)
        await home_first(rome, "120")
        await rome.admin.create(PODS, pod("web", cpu="4"), HERE)

        async def asked() -> bool:
            return await adds_nodes_for(rome) == ["web"]

        await eventually(asked, seconds=10)

        def waits(found: Json) -> bool:
            said = conditions.find(found["status"]["conditions"], labels.OFFLOADED) or {}
            return bool(said.get("reason") == "HomeFirst")

        left = await rome.until(PODS, "web", HERE, waits)
        told = await explain(rome.admin, {"kind": "Pod", **left}, HERE, "liqod")
        [answer] = [each for each in told.nodes if each.node == "milan"]
        assert answer.refusals[0].reason == "HomeFirst"
        await trio.sleep(60)
        await rome.admin.delete(PODS, "own-0", "default")  # as room on a node that comes
        await rome.until(PODS, "web", HERE, serves)
        assert (await rome.admin.get(PODS, "web", HERE))["spec"]["nodeName"] != "milan"
        assert await milan.admin.list(PODS, Selection(THERE)) == []


@pytest.mark.placement
async def test_where_no_node_comes_a_pod_goes_to_a_peer_when_its_time_at_home_is_over():
    async with clusters("milan", after=5) as [rome, milan]:
        await opened(rome, milan)
        await home_first(rome, "120")
        began = trio.current_time()
        await rome.admin.create(PODS, pod("web", cpu="4"), HERE)
        await trio.sleep(118)
        assert await adds_nodes_for(rome) == ["web"]
        await rome.until(PODS, "web", HERE, serves)
        assert trio.current_time() - began <= 130
        assert (await rome.admin.get(PODS, "web", HERE))["spec"]["nodeName"] == "milan"
        assert await adds_nodes_for(rome) == []


@pytest.mark.placement
async def test_the_time_at_home_of_a_pod_with_a_gate_begins_when_it_has_none_any_more():
    async with clusters("milan", after=5) as [rome, milan]:
        await opened(rome, milan)
        await home_first(rome, "120")
        body = pod("web", cpu="4")
        body["spec"]["schedulingGates"] = [{"name": "example.com/queue"}]
        await rome.admin.create(PODS, body, HERE)
        await trio.sleep(300)
        began = trio.current_time()
        await rome.admin.patch(PODS, "web", {"spec": {"schedulingGates": None}}, HERE)
        await trio.sleep(100)
        assert await adds_nodes_for(rome) == ["web"]
        await rome.until(PODS, "web", HERE, serves)
        assert 118 <= trio.current_time() - began <= 130
        assert (await rome.admin.get(PODS, "web", HERE))["spec"]["nodeName"] == "milan"


@pytest.mark.placement
async def test_a_peer_without_the_room_that_it_grants_has_each_pod_once():
    async with clusters("milan", "turin", after=5) as [rome, milan, turin]:
        await shut(milan)
        await opened(rome, milan, turin)
        await rome.admin.create(DEPLOYMENTS, web(6, cpu="2"), HERE)
        pods = await served(rome, 6)
        assert {each["spec"]["nodeName"] for each in pods} == {"turin"}
        told = (await codes(rome)).count("Returning")
        assert 1 <= told <= 6
        # More of them go to the other peer at once.
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 8}}, HERE)
        await served(rome, 8)
        assert (await codes(rome)).count("Returning") == told


@pytest.mark.placement
async def test_where_there_is_no_other_peer_it_is_tried_again_soon():
    async with clusters("milan", "turin", after=5) as [rome, milan, turin]:
        await shut(milan)
        await shut(turin)
        await opened(rome, milan, turin)
        await rome.admin.create(DEPLOYMENTS, web(1, cpu="2"), HERE)

        async def times(count: int, most: int = 600) -> bool:
            """As many marks, of which none lasts longer from now on."""
            found = await marks(rome)
            left = [times_of.seconds(each.until) - times_of.seconds(each.since) for each in found]
            return len(found) == count and all(each <= most for each in left)

        await eventually(lambda: times(1), seconds=60)
        mark = (await marks(rome))[0]
        # It has come back so often that it would be for hours; there is still the other peer.
        late = times_of.of(times_of.seconds(mark.since) + 6 * 3600.0)
        often = msgspec.structs.replace(mark, until=late, times=6)
        notes = {"metadata": {"annotations": {labels.RETURNED: returnmarks.render([often])}}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", notes, HERE)
        await eventually(lambda: times(1, 6 * 3600), seconds=5)
        assert not await times(1)
        await eventually(lambda: times(2), seconds=60)
        assert {each.times for each in await marks(rome)} == {1, 6}


@pytest.mark.placement
async def test_kinds_of_gpus_on_a_machine_each_are_not_had_together():
    async with clusters("milan", after=5) as [rome, milan]:
        for node, kind in zip(await milan.admin.list(NODES), ("a100", "h100"), strict=True):
            has = {f"nvidia.com/{kind}": "4"}
            status = {"status": {"capacity": has, "allocatable": has}}
            name = node["metadata"]["name"]
            await milan.admin.patch(NODES, name, status, subresource="status")
        await opened(rome, milan, **{"nvidia.com/a100": "4", "nvidia.com/h100": "4"})
        for name, wanted in (
            ("one", {"nvidia.com/a100": "4"}),
            ("other", {"nvidia.com/h100": "2"}),
            ("both", {"nvidia.com/a100": "1", "nvidia.com/h100": "1"}),
            ("more", {"nvidia.com/h100": "8"}),
        ):
            await rome.admin.create(PODS, pod(name, cpu="1", **wanted), HERE)
        for name in ("one", "other"):
            await rome.until(PODS, name, HERE, serves)
        for name in ("both", "more"):
            found = await rome.admin.get(PODS, name, HERE)
            assert not found["spec"].get("nodeName")


@pytest.mark.placement
async def test_a_pod_waits_for_an_autoscaler_that_is_sooner_than_its_return():
    async with clusters("milan", after=90) as [rome, milan]:
        await shut(milan)
        await opened(rome, milan)
        await rome.admin.create(DEPLOYMENTS, web(1, cpu="2"), HERE)

        async def waits() -> Json | None:
            found = await rome.admin.list(PODS, Selection(HERE))
            return found[0] if found and podreturns.noted(found[0]) else None

        first = await eventually(waits, seconds=60)
        await trio.sleep(60)
        await shut(milan, on=False)
        [only] = await served(rome, 1)
        assert only["metadata"]["uid"] == first["metadata"]["uid"]
        assert podreturns.noted(only) == {}
        assert "Returning" not in await codes(rome)


@pytest.mark.placement
async def test_a_grant_that_shrinks_ends_nothing_and_lets_no_more_in():
    async with clusters("milan", after=5) as [rome, milan]:
        await opened(rome, milan)
        await rome.admin.create(DEPLOYMENTS, web(3, cpu="2"), HERE)
        before = await served(rome, 3)
        granted = json.dumps({"cpu": "4", "memory": "60Gi", "pods": "50"})
        notes = {"metadata": {"annotations": {labels.GRANTED: granted}}}
        await milan.admin.patch(NAMESPACES, AT_MILAN, notes)
        denied = {"type": "Resources", "status": "Denied"}
        await rome.until(
            *(RESOURCE_SLICES, "milan", "liqo-tenant-milan"),
            lambda found: denied.items() <= condition(found, "Resources").items(),
        )
        await rome.admin.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, HERE)
        pods: list[Json] = []

        async def returned() -> bool:
            pods[:] = await rome.admin.list(PODS, Selection(HERE))
            return "Returning" in await codes(rome)

        await eventually(returned, seconds=60)
        running = {each["metadata"]["uid"] for each in pods if serves(each)}
        assert running == {each["metadata"]["uid"] for each in before}
        assert len(await milan.admin.list(PODS, Selection(THERE))) == 3
        assert {mark.cause for mark in await marks(rome)} <= {podreturns.REFUSED}


@pytest.mark.placement
async def test_a_pod_whose_node_dies_at_the_peer_goes_on_elsewhere_and_runs_once():
    async with clusters("milan", after=5) as [rome, milan]:
        await opened(rome, milan)
        await rome.admin.create(DEPLOYMENTS, web(1, cpu="2"), HERE)
        [first] = await served(rome, 1)
        [there] = await milan.admin.list(PODS, Selection(THERE))
        dead = there["spec"]["nodeName"]
        milan.cluster.agent.pause(dead)
        await milan.admin.delete(NODES, dead)  # as a cloud's controller does with its machine

        async def elsewhere() -> bool:
            found = await milan.admin.list(PODS, Selection(THERE))
            here = await rome.admin.list(PODS, Selection(HERE))
            moved = any(each["spec"].get("nodeName") not in (dead, None) for each in found)
            return moved and any(map(serves, here))

        await eventually(elsewhere, seconds=900)
        assert len(await rome.admin.list(PODS, Selection(HERE))) == 1
        assert first["spec"]["nodeName"] == "milan"


@pytest.mark.placement
async def test_a_pod_leaves_a_node_that_is_silent_at_the_peer_when_its_toleration_ends():
    async with clusters("milan", after=600) as [rome, milan]:
        await opened(rome, milan)
        body = web(1, cpu="2")
        body["spec"]["template"]["spec"]["tolerations"] = [
            {"key": key, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 30}
            for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
        ]
        await rome.admin.create(DEPLOYMENTS, body, HERE)
        [first] = await served(rome, 1)
        [there] = await milan.admin.list(PODS, Selection(THERE))
        dead = there["spec"]["nodeName"]
        milan.cluster.agent.pause(dead)
        began = trio.current_time()

        async def elsewhere() -> bool:
            found = await milan.admin.list(PODS, Selection(THERE))
            here = await rome.admin.list(PODS, Selection(HERE))
            runs = {each["spec"]["nodeName"] for each in found if serves(each)} - {dead}
            new = [each for each in here if each["metadata"]["uid"] != first["metadata"]["uid"]]
            return bool(runs) and any(map(serves, new))

        await eventually(elsewhere, seconds=300)
        # Its Lease may have been renewed as long as RENEW before that.
        assert GRACE + 30 - RENEW <= trio.current_time() - began < GRACE + 45
        # Nobody can say that it has ended there, and so it does not go from here.
        left = await rome.admin.get(PODS, first["metadata"]["name"], HERE)
        assert left["metadata"]["deletionTimestamp"]
        await milan.admin.delete(NODES, dead)
        await rome.gone(PODS, first["metadata"]["name"], HERE)
        assert "TakenAway" in await codes(rome)
        assert await marks(rome) == ()
