"""The memory that the makers of pods and of slices have of a namespace goes with it."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.provider.workloads.keymemories import KeyMemories
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.provider.workloads.shadowpods import ShadowPods
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, Lender, lender
from tests.simulated.prepared import installed

KEY = (SHOP, "web")
OTHER = ("bazaar-rome", "web")

Made = ShadowPods | ShadowEndpointSlices


def pods(made: Lender) -> Made:
    return ShadowPods(made.peer, made.guest_policies)


def slices(made: Lender) -> Made:
    return ShadowEndpointSlices(made.peer)


def fill(memories: KeyMemories) -> None:
    """Has something remembered of an object in each of the namespaces, by every memory."""
    for each in memories.every:
        for key in (KEY, OTHER):
            if isinstance(each, dict):
                each[key] = 1
            else:
                each.add(key)


@pytest.mark.parametrize("make", [pods, slices])
async def test_a_namespace_that_went_is_forgotten(make: Callable[[Lender], Made]) -> None:
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig) as made,
        trio.open_nursery() as nursery,
    ):
        for name in (SHOP, OTHER[0]):
            await made.map_namespace(name)
        maker = make(made)
        await nursery.start(maker.run)
        fill(maker.memories)
        assert maker.memories.every
        unmapped: dict[str, Any] = {"metadata": {"labels": {labels.REMOTE_CLUSTER_ID: None}}}
        await admin.patch(NAMESPACES, SHOP, unmapped)

        async def forgotten() -> bool:
            return all(set(each) == {OTHER} for each in maker.memories.every)

        await eventually(forgotten)
        nursery.cancel_scope.cancel()
