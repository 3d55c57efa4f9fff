"""ShadowPods that are changed behind the books, in an embedded cluster."""

import pytest

from liqod.kube.kinds import PODS
from liqod.resources import SHADOW_PODS
from liqod.simulator import EmbeddedCluster
from tests.simulated.lender import SHOP
from tests.simulated.test_shadowpods import at_work, lending


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan") as embedded:
        yield embedded


def spec(cpu):
    """A spec of that size, to be patched in."""
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"pod": {"containers": [container]}}}


async def test_a_pod_costs_what_it_was_made_with_whatever_is_said_later(cluster):
    async with lending(cluster) as made:
        await made.grant(cpu="4")
        async with at_work(made):
            await made.ask_for("big", cpu="4")
            await made.made("big")
        await made.admin.patch(SHADOW_PODS, "big", spec("1m"), SHOP)
        async with at_work(made):
            await made.ask_for("more", cpu="1")
            status = await made.told("more", "reason", "OverQuota")
            assert "0 of 4 left" in status["message"]


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
