"""Pods that a peer cannot start return: ended there first, marked, evicted, placed elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, EVENTS, NODES, PODS
from liqod.consumer import returns
from liqod.kube import times
from liqod.kube.selection import EVERY, Selection
from liqod.model.objects import podreturns, returnmarks
from liqod.model.objects.returnmarks import ReturnMark
from liqod.model.peering import freecapacity
from liqod.resources import NAMESPACE_OFFLOADINGS, SHADOW_PODS, VIRTUAL_NODES
from simulator.faults import Fault
from simulator.wire.subresources import bind
from tests.simulated.borrower import Json, eventually
from tests.simulated.consumer.test_make_before_break import DEPLOYMENT
from tests.simulated.members import Member
from tests.simulated.shops import CONTAINER, SETTINGS, shops

QUICK = (
    f"{SETTINGS}[consumer]\nreturn_unschedulable = 1\nreturn_image = 1\nreturn_refused = 1\n"
    "return_back_off = 600\n"
)
HERE, THERE = "shop", "shop-rome"
ONE: Json = {
    "metadata": DEPLOYMENT["metadata"],
    "spec": {**dict[str, object](DEPLOYMENT["spec"]), "replicas": 1},  # type: ignore[call-overload]
}


async def shut(member: Member, *, on: bool = True) -> None:
    """Keep all pods off the real nodes of a provider, of which consumers learn nothing; or end
    that."""
    taints = [{"key": "shut", "effect": "NoSchedule"}] if on else None
    await _patched(member, {"spec": {"taints": taints}})


async def cordon(member: Member, *, on: bool = True) -> None:
    """Cordon all real nodes of a provider, or end that."""
    await _patched(member, {"spec": {"unschedulable": on}})


async def _patched(member: Member, patch: Json) -> None:
    for node in await member.admin.list(NODES, EVERY):
        if node["metadata"]["labels"].get(labels.TYPE) != labels.VIRTUAL_NODE_TYPE:
            await member.admin.patch(NODES, node["metadata"]["name"], patch)


@asynccontextmanager
async def shop(*peers: str) -> AsyncIterator[list[Member]]:
    """Rome with a shop at peers that have no place for anything."""
    async with shops(*peers, settings=QUICK) as made:
        for peer in made[1:]:
            await shut(peer)
        yield made


async def begun(rome: Member, *peers: Member) -> Json:
    """The first pod of a Deployment, bound to a peer and waiting there."""
    await rome.admin.create(DEPLOYMENTS, ONE, HERE)

    async def look() -> Json | None:
        for pod in await rome.admin.list(PODS, Selection(HERE)):
            for peer in peers:
                if pod["spec"].get("nodeName") == peer.id:
                    there = await peer.admin.find(PODS, pod["metadata"]["name"], THERE)
                    return pod if there else None
        return None

    found: Json = await eventually(look)
    return found


async def bind_late(rome: Member) -> None:
    """Bind the shop's pod to milan, as a scheduler does that has not read yet what is free."""

    async def made() -> Json | None:
        return next(iter(await rome.admin.list(PODS, Selection(HERE))), None)

    pod: Json = await eventually(made)
    registry = rome.cluster.registry
    item = registry.find("pods", HERE, pod["metadata"]["name"])
    assert item is not None
    bind(registry, item, "milan")


async def next_of(rome: Member, first: Json) -> Json:
    """The pod that its controller made in place of the first, once that is gone."""

    async def look() -> Json | None:
        found = await rome.admin.list(PODS, Selection(HERE))
        names = [pod["metadata"]["name"] for pod in found]
        return found[0] if len(found) == 1 and first["metadata"]["name"] not in names else None

    made: Json = await eventually(look)
    return made


async def gone_there(milan: Member, pod: Json) -> bool:
    """True if nothing of a pod is at milan."""
    name = pod["metadata"]["name"]
    left = [await milan.admin.find(kind, name, THERE) for kind in (SHADOW_PODS, PODS)]
    return left == [None, None]


async def marks(rome: Member) -> tuple[ReturnMark, ...]:
    """The marks of the shop."""
    found = await rome.admin.get(NAMESPACE_OFFLOADINGS, "offloading", HERE)
    return returnmarks.read(found["metadata"].get("annotations"))


def says(status: str, pod: Json) -> bool:
    """True if the condition of a pod that returns has that status."""
    return podreturns.noted(pod).get("status") == status


async def codes(rome: Member) -> list[str]:
    """The reasons of the Events about pods of the shop."""
    return [event["reason"] for event in await rome.admin.list(EVENTS, Selection(HERE))]


@pytest.mark.long
async def test_who_finds_no_node_there_is_placed_elsewhere():
    async with shop("milan", "turin") as [rome, *peers]:
        first = await begun(rome, *peers)
        node = first["spec"]["nodeName"]
        one, other = sorted(peers, key=lambda peer: peer.id != node)
        await shut(other, on=False)
        second = await next_of(rome, first)
        assert await gone_there(one, first)
        name = second["metadata"]["name"]
        await rome.until(PODS, name, HERE, lambda pod: pod["status"].get("phase") == "Running")
        assert await other.admin.find(PODS, name, THERE)
        (mark,) = await marks(rome)
        assert (mark.cluster, mark.cause, mark.kind) == (one.id, "Unschedulable", "ReplicaSet")
        assert (await codes(rome)).count("Returning") == 1


@pytest.mark.long
@pytest.mark.placement
async def test_a_daemon_that_is_replaced_at_any_step_goes_on():
    async with shop("milan") as [rome, milan]:
        first = await begun(rome, milan)
        name = first["metadata"]["name"]
        milan.cluster.faults.add(Fault(verb="delete", status=503, times=1000))
        for status in ("Unknown", "False"):
            await rome.until(PODS, name, HERE, partial(says, status))
            await rome.stop()
            await rome.start()
        # While it cannot be ended there it stays, and no other is made.
        (only,) = await rome.admin.list(PODS, Selection(HERE))
        assert only["metadata"]["name"] == name
        assert says("False", only)
        milan.cluster.faults.clear()
        await next_of(rome, first)
        assert await gone_there(milan, first)
        assert len(await marks(rome)) == 1


@pytest.mark.long
@pytest.mark.placement
async def test_who_returns_to_a_namespace_full_of_marks_is_evicted_all_the_same():
    async with shop("milan") as [rome, milan]:
        first = await begun(rome, milan)
        now, late = times.now(), times.of(times.seconds(times.now()) + 3600.0)
        full = [
            ReturnMark(f"uid-{number}", "ReplicaSet", "web", milan.id, "Refused", "", now, late)
            for number in range(returnmarks.MOST)
        ]
        notes = {labels.RETURNED: returnmarks.render(full)}
        patch = {"metadata": {"annotations": notes}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", patch, HERE)
        await next_of(rome, first)


@pytest.mark.long
@pytest.mark.placement
async def test_a_mark_ends_once_the_peer_says_that_it_has_room(monkeypatch):
    monkeypatch.setattr(returns, "PACE", 1.0)
    async with shops("milan", settings=f"{QUICK}[provider]\nshow_free = true\n") as [rome, milan]:
        await cordon(milan)

        def says_nothing_is_free(node: Json) -> bool:
            notes = node["metadata"].get("annotations") or {}
            found = freecapacity.read(notes.get(labels.FREE_CAPACITY))
            return found is not None and {one.free["cpu"] for one in found.groups} == {"0"}

        await rome.until(VIRTUAL_NODES, "milan", "liqo-tenant-milan", says_nothing_is_free)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bind_late, rome)
            first = await begun(rome, milan)
        await next_of(rome, first)
        (mark,) = await marks(rome)
        assert mark.asked == {"cpu": "10m", "pods": "1"}
        assert mark.holds(times.now())
        await cordon(milan, on=False)

        async def ended() -> bool:
            (mark,) = await marks(rome)
            return not mark.holds(times.now())

        await eventually(ended, seconds=20)


@pytest.mark.long
@pytest.mark.placement
async def test_a_mark_that_cannot_be_written_is_tried_again_with_pauses_that_double():
    async with shop("milan") as [rome, milan]:
        fault = Fault(verb="patch", path="namespaceoffloadings/offloading$", status=409)
        rome.cluster.faults.add(fault)
        first = await begun(rome, milan)

        async def hit() -> bool:
            return fault.hits > 0

        await eventually(hit, seconds=20)
        await trio.sleep(5.0)
        assert 2 < fault.hits < 12
        rome.cluster.faults.clear()
        await next_of(rome, first)


@pytest.mark.long
@pytest.mark.placement
async def test_who_has_no_controller_stays_and_is_told():
    async with shop("milan") as [rome, milan]:
        pod = {"metadata": {"name": "alone"}, "spec": {"containers": [CONTAINER]}}
        await rome.admin.create(PODS, pod, HERE)

        async def told() -> bool:
            return "CannotReturn" in await codes(rome)

        await eventually(told)
        assert await milan.admin.find(PODS, "alone", THERE)
        assert await marks(rome) == ()
        # It starts as soon as it can.
        await shut(milan, on=False)
        found = await rome.until(
            PODS, "alone", HERE, lambda pod: pod["status"].get("phase") == "Running"
        )
        assert podreturns.noted(found) == {}
