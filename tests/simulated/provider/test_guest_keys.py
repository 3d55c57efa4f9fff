"""Labels and annotations of guests' pods, in an embedded cluster."""

import pytest

from liqod.apimachinery.kinds import PODS
from liqod.config import GuestSettings
from liqod.provider.workloads.podshape import pod_manifest
from liqod.provider.workloads.shadow import Shadow
from liqod.resources import SHADOW_PODS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import at_work, lending


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


async def test_annotations_that_controllers_act_on_are_left_out_and_noted(cluster):
    async with lending(cluster) as made, at_work(made):
        await made.grant()
        notes = {"note": "a", "k8s.v1.cni.cncf.io/networks": "macvlan"}
        await made.ask_for("web-1", annotations=notes)
        found = (await made.made("web-1"))["metadata"]["annotations"]
        assert found["note"] == "a"
        assert "k8s.v1.cni.cncf.io/networks" not in found
        assert found["liqod.io/left-out"] == "k8s.v1.cni.cncf.io/networks"
        later = {"metadata": {"annotations": {"iam.amazonaws.com/role": "admin", "note": "b"}}}
        await made.admin.patch(SHADOW_PODS, "web-1", later, SHOP)

        async def followed():
            pod = (await made.pod("web-1"))["metadata"]["annotations"]
            return pod if pod["note"] == "b" else None

        pod = await eventually(followed)
        assert "iam.amazonaws.com/role" not in pod
        assert pod["liqod.io/left-out"] == "iam.amazonaws.com/role k8s.v1.cni.cncf.io/networks"


async def test_a_label_that_is_not_for_guests_keeps_the_pod_from_being_made(cluster):
    async with lending(cluster) as made, at_work(made):
        await made.grant()
        await made.ask_for("web-1", labels={"strimzi.io/cluster": "bank"})
        status = await made.told("web-1", "reason", "NotAllowed")
        assert "labels that are not for guests: strimzi.io/cluster" in status["message"]
        assert await made.pod("web-1") is None


async def test_a_pod_that_was_to_end_in_decades_ends_within_the_bound(cluster):
    """One that an earlier daemon made, with the grace that was asked for."""
    async with lending(cluster) as made:
        await made.grant()
        await made.ask_for("web-1", pod={"terminationGracePeriodSeconds": 2_000_000_000})
        found = await made.admin.get(SHADOW_PODS, "web-1", SHOP, decode=Shadow)
        earlier = pod_manifest(found, GuestSettings())
        earlier["spec"] |= {"terminationGracePeriodSeconds": 2_000_000_000, "nodeName": "real"}
        await made.admin.create(PODS, earlier, SHOP)
        await made.admin.delete(PODS, "web-1", SHOP)
        assert await grace(made) == 2_000_000_000
        async with at_work(made):

            async def cut():
                return await grace(made) == 3600

            await eventually(cut)


async def grace(made) -> int:
    pod = await made.pod("web-1")
    return int(pod["metadata"]["deletionGracePeriodSeconds"])
