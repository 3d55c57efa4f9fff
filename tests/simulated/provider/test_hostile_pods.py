"""ShadowPods that are changed behind the books, in an embedded cluster."""

import pytest

from liqod.apimachinery.kinds import PODS
from liqod.cluster.memorylimits import stub_over_limit, trim_to
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


def spec(cpu):
    """A spec of that size, to be patched in."""
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"pod": {"containers": [container]}}}


def runs_with(cpu):
    """A status as a kubelet writes it, to be patched in."""
    container = {"name": "web", "ready": True, "resources": {"requests": {"cpu": cpu}}}
    container |= {"image": "web", "imageID": "", "restartCount": 0}
    return {"status": {"phase": "Running", "containerStatuses": [container]}}


async def test_a_pod_costs_what_it_runs_with_whatever_is_said_later(cluster):
    async with lending(cluster) as made:
        await made.grant(cpu="4")
        async with at_work(made):
            await made.ask_for("big", cpu="4")
            await made.made("big")
            await made.admin.patch(PODS, "big", runs_with("4"), SHOP, subresource="status")
        await made.admin.patch(SHADOW_PODS, "big", spec("1m"), SHOP)
        async with at_work(made):
            await eventually(lambda: asks_for(made, "big", "1m"))
            await made.ask_for("more", cpu="1")
            status = await made.told("more", "reason", "OverQuota")
            assert "0 of 4 left" in status["message"]
            await made.admin.patch(PODS, "big", runs_with("1m"), SHOP, subresource="status")
            await made.made("more")


async def asks_for(made, name, cpu):
    pod = await made.pod(name)
    return pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == cpu


async def test_a_pod_that_outlives_its_shadow_is_on_the_books_of_the_next_daemon(cluster):
    async with lending(cluster) as made:
        await made.grant(cpu="4")
        async with at_work(made):
            await made.ask_for("big", cpu="4")
            await made.made("big")
            held = {"metadata": {"finalizers": ["test/held"]}}
            await made.admin.patch(PODS, "big", held, SHOP)
            await made.admin.delete(SHADOW_PODS, "big", SHOP)
            await made.settled()
        assert await made.pod("big") is not None
        async with at_work(made):
            await made.ask_for("more", cpu="1")
            await made.told("more", "reason", "OverQuota")
            await made.ask_for("big", cpu="1m")
            await made.settled()
            assert (await made.shadow("more"))["status"]["reason"] == "OverQuota"
            free = {"metadata": {"finalizers": None}}
            await made.admin.patch(PODS, "big", free, SHOP)
            await made.made("more")


async def test_a_huge_one_is_refused_and_not_kept(cluster):
    async with lending(cluster) as made, at_work(made):
        await made.grant(cpu="4")
        await made.ask_for("huge", annotations={"fat": "x" * 200_000})
        status = await made.told("huge", "reason", "TooLarge")
        assert "(max_pod_bytes under [guests])" in status["message"]
        assert await made.pod("huge") is None
        kept = {"trim": trim_to(131072), "counted": stub_over_limit}
        async with made.context.informers.share(SHADOW_PODS, **kept) as shared:
            assert len(shared.store.get((SHOP, "huge")) or b"") < 1500
        await made.admin.patch(SHADOW_PODS, "huge", {"metadata": {"annotations": None}}, SHOP)
        await made.made("huge")


async def test_what_guests_may_not_have_is_refused_by_its_setting(cluster):
    async with lending(cluster) as made, at_work(made):
        await made.grant(cpu="4")
        await made.ask_for("gpu", pod={"runtimeClassName": "nvidia"})
        status = await made.told("gpu", "reason", "NotAllowed")
        assert "runtime_classes under [guests]" in status["message"]
        await made.ask_for("ordinary")
        await made.made("ordinary")
        assert await made.pod("gpu") is None
