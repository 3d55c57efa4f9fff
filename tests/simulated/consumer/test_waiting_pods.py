"""Pods that no machine of the peer has room for now hold nothing that smaller ones ask for."""

import pytest
import trio

from liqod.apimachinery.kinds import NODES, PODS
from liqod.apimachinery.labels import FREE_CAPACITY, VIRTUAL_NODE_TAINT
from liqod.consumer.nodes.pendingpods import SETTLES
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.model.peering.freecapacity import FreeCapacity, read
from liqod.plugins import loader
from liqod.resources import SHADOW_PODS, VIRTUAL_NODES
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.members import SETTINGS, Member, members
from tests.simulated.processes import Ended, command

TOLERATED = [{"key": VIRTUAL_NODE_TAINT, "operator": "Exists"}]


def pod(name: str, cpu: str, **spec: object) -> dict[str, object]:
    requests = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": requests}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def offloaded(name: str, cpu: str) -> dict[str, object]:
    where = {"liqo.io/type": "virtual-node"}
    return pod(name, cpu, nodeSelector=where, tolerations=TOLERATED)


async def phases(member: Member, namespace: str) -> dict[str, str]:
    found = await member.admin.list(PODS, Selection(namespace))
    return {each["metadata"]["name"]: each["status"].get("phase", "") for each in found}


async def shown_cpu(rome: Member) -> tuple[str, str]:
    status = (await rome.admin.get(NODES, "milan"))["status"]
    return status["capacity"]["cpu"], status["allocatable"]["cpu"]


@pytest.mark.long
async def test_a_pod_without_a_place_at_the_peer_holds_nothing_that_a_smaller_one_asks_for(
    tmp_path,
) -> None:
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins, nodes=2) as [rome, milan]:
        own = [each["metadata"]["name"] for each in await milan.admin.list(NODES)]
        for number, node in enumerate(own):  # three of eight CPUs are free on each
            await milan.admin.create(PODS, pod(f"own-{number}", "5", nodeName=node), "default")
        await rome.peer(milan, resources={"cpu": "8", "memory": "16Gi", "pods": "20"})
        await offload(rome.admin, "shop")
        for name in ("large-1", "large-2", "large-3"):
            await rome.admin.create(PODS, offloaded(name, "4"), "shop")

        async def raised() -> bool:
            return await shown_cpu(rome) == ("8", "16")

        await eventually(raised, seconds=60)
        path = tmp_path / "rome.kubeconfig"
        path.write_text(rome.cluster.kubeconfig)
        shown: Ended = await command("status", "--kubeconfig", str(path))
        assert "0/3, 2 waiting there" in shown.out or "0/3, 3 waiting there" in shown.out
        await rome.admin.create(PODS, offloaded("small", "2"), "shop")

        async def runs(name: str = "small") -> bool:
            return (await phases(rome, "shop"))[name] == "Running"

        await eventually(runs, seconds=60)
        refused = [
            each["metadata"]["name"]
            for each in await milan.admin.list(SHADOW_PODS, Selection("shop-rome"))
            if each.get("status", {}).get("reason") == "OverQuota"
        ]
        assert "small" not in refused
        assert refused
        for number in range(len(own)):
            await milan.admin.delete(PODS, f"own-{number}", "default")

        async def one_runs() -> bool:
            found = await phases(rome, "shop")
            return sorted(found.values()).count("Running") == 2

        await eventually(one_runs, seconds=90)
        there = await milan.admin.list(PODS, Selection("shop-rome"))
        asked = [
            quantities.parse(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            for each in there
        ]
        assert sum(asked) <= quantities.parse("8")


@pytest.mark.long
@pytest.mark.placement
async def test_pods_that_are_larger_than_what_is_free_on_any_machine_stay_once_one_waits() -> None:
    plugins = loader.load(sources=loader.built_in())
    settings = SETTINGS + '[provider]\nshow_free = true\nshow_labels = ["pool"]\n'
    async with members("rome", "milan", plugins=plugins, settings=settings, nodes=2) as pair:
        [rome, milan] = pair
        own = [each["metadata"]["name"] for each in await milan.admin.list(NODES)]
        for number, node in enumerate(own):  # three of eight CPUs are free on each
            await milan.admin.create(PODS, pod(f"own-{number}", "5", nodeName=node), "default")
        await milan.admin.patch(NODES, own[0], {"metadata": {"labels": {"pool": "red"}}})
        await rome.peer(milan, resources={"cpu": "1000", "memory": "1Ti", "pods": "100"})

        def free(each: Json) -> FreeCapacity | None:
            return read(each["metadata"].get("annotations", {}).get(FREE_CAPACITY))

        def two(each: Json) -> bool:
            found = free(each)
            groups = () if found is None else found.groups
            return [group.free["cpu"] for group in groups] == ["3", "3"]

        where = (VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        found = free(await rome.until(*where, two))
        assert found is not None
        assert {group.labels.get("pool") for group in found.groups} == {None, "red"}
        await offload(rome.admin, "shop")
        await rome.admin.create(PODS, offloaded("large-1", "4"), "shop")

        async def held() -> bool:
            return await shown_cpu(rome) == ("1000", "7")

        await eventually(held, seconds=60)
        for number in range(20):
            await rome.admin.create(PODS, offloaded(f"other-{number}", "4"), "shop")
        await rome.admin.create(PODS, offloaded("small", "2"), "shop")

        async def runs() -> bool:
            return (await phases(rome, "shop"))["small"] == "Running"

        await eventually(runs, seconds=60)
        pods = await rome.admin.list(PODS, Selection("shop"))
        bound = {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}
        assert bound == {"large-1", "small"}


@pytest.mark.long
@pytest.mark.placement
async def test_a_burst_does_not_overfill_a_provider_that_tells_what_is_free() -> None:
    plugins = loader.load(sources=loader.built_in())
    settings = SETTINGS + "[provider]\nshow_free = true\n"
    async with members("rome", "milan", plugins=plugins, settings=settings, nodes=2) as pair:
        [rome, milan] = pair
        for number, node in enumerate(await milan.admin.list(NODES)):  # three of eight are free
            own = pod(f"own-{number}", "5", nodeName=node["metadata"]["name"])
            await milan.admin.create(PODS, own, "default")
        await rome.peer(milan, resources={"cpu": "1000", "memory": "1Ti", "pods": "100"})

        async def held() -> bool:
            return await shown_cpu(rome) == ("1000", "6")

        await eventually(held, seconds=60)
        await offload(rome.admin, "shop")
        for number in range(30):
            await rome.admin.create(PODS, offloaded(f"one-{number}", "1"), "shop")

        async def running() -> list[str]:
            return [each for each in (await phases(rome, "shop")).values() if each == "Running"]

        async def full() -> bool:
            return len(await running()) == 6

        async def bound() -> int:
            pods = await rome.admin.list(PODS, Selection("shop"))
            return sum(bool(each["spec"].get("nodeName")) for each in pods)

        await eventually(full, seconds=60)
        await trio.sleep(SETTLES + 5.0)  # what is counted, and what is settled, adds nothing
        assert await bound() == 6
        assert await shown_cpu(rome) == ("1000", "6")
        await milan.admin.delete(PODS, "own-0", "default")

        async def more() -> bool:
            return len(await running()) == 11

        await eventually(more, seconds=60)
        assert await bound() == 11


@pytest.mark.long
@pytest.mark.placement
async def test_a_provider_says_that_its_waiting_pods_give_way() -> None:
    async with members("rome", "milan", nodes=1) as [rome, milan]:
        await rome.peer(milan)
        found = await rome.until(
            *(VIRTUAL_NODES, "milan", "liqo-tenant-milan"), lambda each: each["metadata"]
        )
        assert found["metadata"]["annotations"]["liqod.io/waiting-gives-way"] == "true"
