"""Nodes that die at the provider: seen at the consumer, by its virtual node and by `status`."""

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, NODES
from liqod.plugins import loader
from liqod.resources import VIRTUAL_NODES
from tests.simulated.borrower import condition
from tests.simulated.consumer.test_peer_daemon import SHUT
from tests.simulated.members import SETTINGS, members

SLOW = [pytest.mark.long, pytest.mark.placement]


def node(name):
    said = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name}, "status": {"conditions": said}}


async def turn(member, name, ready):
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    await member.admin.patch(NODES, name, {"status": status}, subresource="status")


async def shown(rome, status, *, shut):
    def holds(found):
        closed = SHUT in found["spec"]["taints"]
        return condition(found, labels.PEER_NODES_READY).get("status"), closed

    await rome.until(NODES, "milan", None, lambda found: holds(found) == (status, shut))


@pytest.mark.long
async def test_nodes_that_die_at_the_provider_are_shown_here_until_they_are_back():
    plugins = loader.load(sources=loader.built_in())
    async with members("rome", "milan", plugins=plugins) as [rome, milan]:
        for name in ("worker-1", "worker-2"):
            await milan.admin.create(NODES, node(name))
            await turn(milan, name, "True")
        await rome.peer(milan)
        await shown(rome, None, shut=False)
        await turn(milan, "worker-1", "Unknown")
        await shown(rome, "False", shut=False)
        await turn(milan, "worker-2", "False")
        await shown(rome, "False", shut=True)
        found = await rome.admin.get(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        assert found["metadata"]["annotations"][labels.NODES_READY] == "none"
        # What runs there runs on where it can: the virtual node itself stays.
        assert condition(await rome.admin.get(NODES, "milan"), "Ready")["status"] == "True"
        for name in ("worker-1", "worker-2"):
            await turn(milan, name, "True")
        await shown(rome, "True", shut=False)


@pytest.mark.parametrize(
    ("said", "marks", "most", "autoscales"),
    [
        pytest.param(
            *("autoscales = false", {labels.KARPENTER_POOL: "general"}, 0, False),
            marks=SLOW,
        ),
        ("", {}, 0, False),
        pytest.param("autoscales = true", {}, 0, True, marks=SLOW),
        ("", {labels.KARPENTER_POOL: "general"}, 0, True),
        pytest.param("show_free = true", {}, 2, False, marks=SLOW),
        pytest.param("show_free = true", {}, 3, True, marks=SLOW),
    ],
    ids=["fixed", "unsaid", "autoscales", "karpenter", "full pool", "pool that may grow"],
)
async def test_a_peer_that_has_cordoned_all_its_ready_nodes_takes_nothing_new(
    said, marks, most, autoscales
):
    plugins = loader.load(sources=loader.built_in())
    settings = f"{SETTINGS}[provider]\n{said}\n"
    async with members("rome", "milan", plugins=plugins, settings=settings) as [rome, milan]:
        if most:
            sizes = f"cloudProviderTarget: 2\n    minSize: 0\n    maxSize: {most}\n"
            status = f"nodeGroups:\n- name: pool\n  health:\n    {sizes}"
            body = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": status}}
            await milan.admin.create(CONFIG_MAPS, body, "kube-system")
        for name in ("worker-1", "worker-2"):
            made = node(name)
            made["metadata"]["labels"] = {**made["metadata"].get("labels", {}), **marks}
            await milan.admin.create(NODES, made)
            await turn(milan, name, "True")
        await rome.peer(milan)
        await turn(milan, "worker-1", "Unknown")
        await shown(rome, "False", shut=False)
        cordon = {"spec": {"unschedulable": True}}
        await milan.admin.patch(NODES, "worker-1", cordon)
        await trio.sleep(5)
        await shown(rome, "False", shut=False)
        await milan.admin.patch(NODES, "worker-2", cordon)
        await trio.sleep(5)
        await shown(rome, "False", shut=not autoscales)
        ready = condition(await rome.admin.get(NODES, "milan"), "Ready")
        assert ("is cordoned" in ready["message"]) is not autoscales
        assert ready["status"] == "True"
        await milan.admin.patch(NODES, "worker-2", {"spec": {"unschedulable": None}})
        await shown(rome, "False", shut=False)
