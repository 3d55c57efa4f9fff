"""One virtual node for each group of a provider's nodes, from the first word to the drain."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from liqod.apimachinery.kinds import NODES, PODS
from liqod.apimachinery.labels import (
    FREE_CAPACITY,
    GUEST_RULES,
    LARGEST_CPU,
    PART,
    VIRTUAL_NODE_TAINT,
)
from liqod.apimachinery.labels import VIRTUAL_NODES as ASKED
from liqod.consumer.nodes.pendingpods import SETTLES
from liqod.consumer.timings import ConsumerTimings
from liqod.kube.selection import Selection
from liqod.model.objects import quantities
from liqod.plugins import loader
from liqod.procedures import slicenodes
from liqod.procedures.nodeexplaining import explain_node
from liqod.provider.slices.freenodes import PLACED
from liqod.provider.timings import ProviderTimings
from liqod.resources import RESOURCE_SLICES, VIRTUAL_NODES
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.members import AT_ROME, SETTINGS, Member, members

pytestmark = pytest.mark.long

TELLS = SETTINGS + '[provider]\nshow_free = true\nshow_labels = ["pool"]\n'
BELIEVES = '[[peers]]\nid = "milan"\nbelieved_labels = ["pool"]\n'
SOON = ConsumerTimings(parts_pause=0.2, parts_every=0.5, part_kept=2.0, waiting_every=0.2)
TOLD_SOON = ProviderTimings(free_every=0.3)
GRANT = {"cpu": "12", "memory": "24Gi", "pods": "100"}


def pod(name: str, cpu: str, pool: str) -> Json:
    requests = {"requests": {"cpu": cpu}}
    return {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": requests}],
            "nodeSelector": {"liqo.io/type": "virtual-node", "pool": pool},
            "tolerations": [{"key": VIRTUAL_NODE_TAINT, "operator": "Exists"}],
        },
    }


def fixed(node: str, cpu: str) -> Json:
    requests = {"requests": {"cpu": cpu}}
    containers = [{"name": "c", "image": "i", "resources": requests}]
    return {"metadata": {"name": "own"}, "spec": {"nodeName": node, "containers": containers}}


async def ask(rome: Member, mode: str | None) -> None:
    patch = {"metadata": {"annotations": {ASKED: mode}}}
    await rome.admin.patch(RESOURCE_SLICES, "milan", patch, AT_ROME)


async def virtual(rome: Member) -> dict[str, Json]:
    """The virtual nodes of the peer, by their pools; a node as a whole is the one of none."""
    found = await rome.admin.list(NODES, Selection(labels="liqo.io/type=virtual-node"))
    return {each["metadata"]["labels"].get("pool", ""): each for each in found}


@asynccontextmanager
async def pools(
    text: str = TELLS + BELIEVES, timings: ProviderTimings = TOLD_SOON
) -> AsyncIterator[tuple[Member, Member, list[str]]]:
    """Rome borrows from milan, which has two nodes of the pool red and one of the pool blue."""
    plugins = loader.load(sources=loader.built_in())
    async with members(
        *("rome", "milan"),
        plugins=plugins,
        settings=text,
        nodes=3,
        consumer_timings=SOON,
        timings=timings,
    ) as [rome, milan]:
        own = [each["metadata"]["name"] for each in await milan.admin.list(NODES)]
        for name, pool in zip(own, ("red", "red", "blue"), strict=True):
            await milan.admin.patch(NODES, name, {"metadata": {"labels": {"pool": pool}}})
        await rome.peer(milan, resources=GRANT)
        yield rome, milan, own


async def has_pools(rome: Member, *names: str) -> dict[str, Json]:
    """The virtual nodes, as soon as they are those of the pools."""

    async def there() -> dict[str, Json] | None:
        found = await virtual(rome)
        return found if sorted(found) == sorted(names) else None

    found: dict[str, Json] = await eventually(there, seconds=60)
    return found


async def test_each_group_has_a_virtual_node_and_all_share_the_grant() -> None:
    async with pools() as (rome, milan, own):
        await has_pools(rome, "")
        await ask(rome, "groups")
        found = await has_pools(rome, "red", "blue")
        cpus = {pool: each["status"]["allocatable"]["cpu"] for pool, each in found.items()}
        assert sum(map(quantities.parse, cpus.values())) == quantities.parse("12")
        assert len({each["metadata"]["labels"][PART] for each in found.values()}) == 2
        assert not any(name in str(each) for name in own for each in found.values())
        told = await explain_node(rome.admin, found["red"]["metadata"]["name"])
        assert (told.granted["cpu"], told.quota["cpu"]) == ("12", cpus["red"])
        await offload(rome.admin, "shop")
        for number in range(2):
            await rome.admin.create(PODS, pod(f"blue-{number}", "2", "blue"), "shop")
            await rome.admin.create(PODS, pod(f"red-{number}", "2", "red"), "shop")

        async def run() -> list[Json] | None:
            there = await milan.admin.list(PODS, Selection("shop-rome"))
            placed = [each for each in there if each["spec"].get("nodeName")]
            return placed if len(placed) == 4 else None

        for each in await eventually(run, seconds=60):
            pool = each["metadata"]["name"].partition("-")[0]
            assert each["spec"]["nodeName"] in (own[2:] if pool == "blue" else own[:2])
            assert each["spec"]["nodeSelector"]["pool"] == pool


@pytest.mark.placement
async def test_who_peers_again_waits_for_the_nodes_of_the_groups() -> None:
    async with pools() as (rome, milan, _):
        await rome.peer(milan, resources=GRANT, virtual_nodes="groups")
        found = await has_pools(rome, "red", "blue")
        await rome.peer(milan, resources={**GRANT, "cpu": "10"})
        assert sorted(await virtual(rome)) == ["blue", "red"]
        marks = {each["metadata"]["name"] for each in found.values()}
        assert set(await slicenodes.nodes_of(rome.admin, "milan", "milan")) == marks


@pytest.mark.placement
async def test_each_machine_has_a_virtual_node_without_its_name_and_its_pods_run_on_it() -> None:
    async with pools() as (rome, milan, own):
        await milan.admin.create(PODS, fixed(own[0], "5"), "default")  # three of eight are free
        more = {"spec": {"resources": {"cpu": "100", "memory": "1Ti"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", more, AT_ROME)
        await ask(rome, "nodes")

        async def three() -> list[Json] | None:
            where = Selection(labels=f"liqo.io/type=virtual-node,{PART}")
            found = await rome.admin.list(NODES, where)
            cpus = [each["status"]["allocatable"]["cpu"] for each in found]
            return found if sorted(cpus) == ["3", "8", "8"] else None

        found = await eventually(three, seconds=60)
        assert not any(name in str(each) for name in own for each in found)
        await offload(rome.admin, "shop")
        fits = pod("fits", "4", "red")
        await rome.admin.create(PODS, fits, "shop")
        await rome.admin.create(PODS, pod("stays", "4.5", "red"), "shop")
        await rome.until(PODS, "fits", "shop", lambda each: each["status"]["phase"] == "Running")
        there = await milan.admin.get(PODS, "fits", "shop-rome")
        assert there["spec"]["nodeName"] == own[1]
        here = await rome.admin.get(PODS, "fits", "shop")
        told = {each["metadata"]["name"]: each for each in found}[here["spec"]["nodeName"]]
        assert told["status"]["allocatable"]["cpu"] == "8"
        await ask(rome, "groups")
        await has_pools(rome, "red", "blue")


async def told_of(rome: Member) -> str | None:
    """The last word of milan's on what is free there."""
    found = await rome.admin.get(RESOURCE_SLICES, "milan", AT_ROME)
    told: str | None = found["metadata"]["annotations"].get(FREE_CAPACITY)
    return told


def shows(node: Json) -> tuple[str | None, str]:
    """The largest place of a virtual node, in thousandths of a CPU, and its CPUs."""
    return node["metadata"]["labels"].get(LARGEST_CPU), node["status"]["allocatable"]["cpu"]


@pytest.mark.placement
async def test_a_place_is_taken_as_soon_as_a_pod_is_sent_and_not_by_the_next_word() -> None:
    # The next word comes before what was sent is taken to be counted.
    async with pools(timings=ProviderTimings(free_every=SETTLES * 2 / 3)) as (rome, milan, own):
        await milan.admin.create(PODS, fixed(own[0], "5"), "default")  # three of eight are free
        more = {"spec": {"resources": {"cpu": "100", "memory": "1Ti"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", more, AT_ROME)
        await ask(rome, "groups")
        name = (await has_pools(rome, "red", "blue"))["red"]["metadata"]["name"]
        await rome.until(NODES, name, None, lambda each: shows(each) == ("8100", "11"))
        word = await told_of(rome)
        await offload(rome.admin, "shop")
        await rome.admin.create(PODS, pod("first", "6", "red"), "shop")
        await rome.until(NODES, name, None, lambda each: shows(each) == ("3100", "9"))
        await rome.until(PODS, "first", "shop", lambda each: each["status"]["phase"] == "Running")
        await rome.admin.create(PODS, pod("second", "5", "red"), "shop")
        await rome.admin.create(PODS, pod("small", "3", "red"), "shop")
        await rome.until(PODS, "small", "shop", lambda each: each["status"]["phase"] == "Running")
        assert await told_of(rome) == word
        assert not (await rome.admin.get(PODS, "second", "shop"))["spec"].get("nodeName")
        # Two CPUs are left, and that is what milan says next.
        await rome.until(NODES, name, None, lambda each: shows(each) == ("2100", "11"))

        async def told_anew() -> bool:
            return await told_of(rome) != word

        await eventually(told_anew, seconds=60)
        await trio.sleep(1)  # the node has it
        await rome.until(NODES, name, None, lambda each: shows(each) == ("2100", "11"))
        assert not (await rome.admin.get(PODS, "second", "shop"))["spec"].get("nodeName")


@pytest.mark.placement
async def test_a_machine_has_no_pod_more_while_the_word_on_it_is_older_than_what_runs() -> None:
    async with pools(timings=ProviderTimings(free_every=SETTLES * 2 / 3)) as (rome, _, _):
        more = {"spec": {"resources": {"cpu": "100", "memory": "1Ti"}}}
        await rome.admin.patch(RESOURCE_SLICES, "milan", more, AT_ROME)
        await ask(rome, "nodes")

        async def told() -> list[Json] | None:
            where = Selection(labels=f"liqo.io/type=virtual-node,{PART},pool=blue")
            return await rome.admin.list(NODES, where) or None

        [blue] = await eventually(told, seconds=60)
        await offload(rome.admin, "shop")
        word = await told_of(rome)
        await rome.admin.create(PODS, pod("first", "4", "blue"), "shop")
        await rome.until(PODS, "first", "shop", lambda each: each["status"]["phase"] == "Running")
        await trio.sleep(3 * SOON.parts_every)  # what runs is in the share of the node now
        for name in ("second", "third"):
            await rome.admin.create(PODS, pod(name, "4", "blue"), "shop")
        await trio.sleep(3)
        assert await told_of(rome) == word
        found = await rome.admin.list(PODS, Selection("shop"))
        placed = [each["spec"].get("nodeName") for each in found]
        assert placed.count(blue["metadata"]["name"]) == 2
        await trio.sleep(SETTLES)
        assert await told_of(rome) != word
        found = await rome.admin.list(PODS, Selection("shop"))
        assert [each["spec"].get("nodeName") for each in found].count(None) == 1
        now = await rome.admin.get(NODES, blue["metadata"]["name"])
        assert now["status"]["allocatable"]["cpu"] == "8"


@pytest.mark.placement
async def test_all_pods_are_followed_only_where_something_is_lent() -> None:
    async with pools() as (rome, milan, _):

        def follows(member: Member) -> bool:
            return member.context.informers.find(PODS, PLACED) is not None

        async def told() -> bool:
            return follows(milan) and await told_of(rome) is not None

        await eventually(told, seconds=60)
        assert not follows(rome)


@pytest.mark.placement
async def test_a_group_that_goes_keeps_what_runs_and_its_node_goes_with_the_last_pod() -> None:
    async with pools() as (rome, milan, own):
        await ask(rome, "groups")
        await has_pools(rome, "red", "blue")
        await offload(rome.admin, "shop")
        await rome.admin.create(PODS, pod("web", "2", "blue"), "shop")
        await rome.until(PODS, "web", "shop", lambda each: each["status"]["phase"] == "Running")
        await milan.admin.patch(NODES, own[2], {"metadata": {"labels": {"pool": "green"}}})
        found = await has_pools(rome, "red", "blue", "green")
        name = found["blue"]["metadata"]["name"]

        def shut(node: Json) -> bool:
            return "liqod.io/not-told" in {each["key"] for each in node["spec"]["taints"]}

        await rome.until(NODES, name, None, shut)
        assert not shut((await virtual(rome))["red"])
        await trio.sleep(2 * SOON.part_kept)
        assert shut((await has_pools(rome, "red", "blue", "green"))["blue"])
        assert (await rome.admin.get(PODS, "web", "shop"))["status"]["phase"] == "Running"
        await rome.admin.delete(PODS, "web", "shop")
        await has_pools(rome, "red", "green")
        await rome.gone(VIRTUAL_NODES, name, AT_ROME)


@pytest.mark.placement
async def test_a_cordon_at_the_provider_ends_nothing_and_lets_nothing_come() -> None:
    async with pools() as (rome, milan, own):
        await ask(rome, "groups")
        before = (await has_pools(rome, "red", "blue"))["blue"]
        await offload(rome.admin, "shop")
        await rome.admin.create(PODS, pod("web", "2", "blue"), "shop")
        await rome.until(PODS, "web", "shop", lambda each: each["status"]["phase"] == "Running")
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        cordon = {"spec": {"unschedulable": True, "taints": [taint]}}
        await milan.admin.patch(NODES, own[2], cordon)
        name = before["metadata"]["name"]
        await rome.until(
            NODES, name, None, lambda each: each["status"]["allocatable"]["cpu"] == "2"
        )
        await trio.sleep(2 * SOON.part_kept)
        after = (await has_pools(rome, "red", "blue"))["blue"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"]["taints"] == before["spec"]["taints"]
        assert (await rome.admin.get(PODS, "web", "shop"))["status"]["phase"] == "Running"


@pytest.mark.placement
async def test_a_provider_that_has_just_started_takes_no_word_away() -> None:
    async with pools(timings=ProviderTimings(free_every=1000.0)) as (_, milan, _):
        word = '{"groups":[{"nodes":1,"free":{"cpu":"8"}}]}'
        there = Selection("liqo-tenant-rome")
        [name] = [
            each["metadata"]["name"] for each in await milan.admin.list(RESOURCE_SLICES, there)
        ]
        patch = {"metadata": {"annotations": {FREE_CAPACITY: word, GUEST_RULES: None}}}
        await milan.admin.patch(RESOURCE_SLICES, name, patch, "liqo-tenant-rome")

        def written(each: Json) -> bool:
            return GUEST_RULES in each["metadata"]["annotations"]

        found = await milan.until(RESOURCE_SLICES, name, "liqo-tenant-rome", written)
        assert found["metadata"]["annotations"][FREE_CAPACITY] == word


@pytest.mark.placement
async def test_a_group_that_comes_back_in_time_keeps_its_node() -> None:
    async with pools() as (rome, milan, own):
        await ask(rome, "groups")
        before = await has_pools(rome, "red", "blue")
        await milan.admin.patch(NODES, own[2], {"metadata": {"labels": {"pool": "green"}}})
        name = before["blue"]["metadata"]["name"]
        await rome.until(NODES, name, None, lambda each: len(each["spec"]["taints"]) == 2)
        await milan.admin.patch(NODES, own[2], {"metadata": {"labels": {"pool": "blue"}}})
        node = await rome.until(NODES, name, None, lambda each: len(each["spec"]["taints"]) == 1)
        assert node["metadata"]["uid"] == before["blue"]["metadata"]["uid"]


@pytest.mark.placement
async def test_a_provider_that_tells_nothing_has_one_node_and_a_condition_says_so() -> None:
    async with pools(SETTINGS + BELIEVES) as (rome, _, _):
        await ask(rome, "groups")

        def told(each: Json) -> bool:
            conditions = each.get("status", {}).get("conditions", ())
            return any(one.get("reason") == "NotTold" for one in conditions)

        await rome.until(VIRTUAL_NODES, "milan", AT_ROME, told)
        assert list(await virtual(rome)) == [""]
        await ask(rome, None)
        await rome.until(VIRTUAL_NODES, "milan", AT_ROME, lambda each: not told(each))


@pytest.mark.placement
async def test_a_slice_that_asks_for_the_whole_again_has_one_node() -> None:
    async with pools() as (rome, _, _):
        await ask(rome, "groups")
        await has_pools(rome, "red", "blue")
        await ask(rome, "whole")
        await has_pools(rome, "")
