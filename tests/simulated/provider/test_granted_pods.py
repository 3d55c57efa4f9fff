"""Pods made from ShadowPods as far as a consumer was granted room: the others wait and say why."""

import pytest
import trio

from liqod.apimachinery.kinds import PODS
from liqod.model import ids
from liqod.provider.slices.ledger import QuotaLedger
from liqod.resources import QUOTAS, SHADOW_PODS
from simulator import EmbeddedCluster
from tests.simulated.lender import CONSUMER, SHOP, TENANT, USER
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import SOON, at_work, lending


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


async def test_one_over_quota_waits_with_a_reason_and_a_smaller_one_does_not(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="2")
        await made.ask_for("web-1", cpu="1500m")
        await made.made("web-1")
        await made.set_phase("web-1", "Running")
        await made.ask_for("web-2", cpu="1")
        status = await made.told("web-2", "reason", "OverQuota")
        assert "500m of 2 left" in status["message"]
        await made.ask_for("web-3", cpu="500m")
        await made.made("web-3")
        await made.settled()
        before = made.requests()
        await trio.sleep(0.3)
        assert made.requests() == before, "who waits asks for nothing"
        assert await made.pod("web-2") is None
        await made.admin.delete(SHADOW_PODS, "web-1", SHOP)
        await made.made("web-2")
        await made.told("web-2", "reason", "")


async def test_an_end_frees_what_it_held(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="1")
        await made.ask_for("job-1")
        await made.made("job-1")
        await made.ask_for("job-2")
        await made.told("job-2", "reason", "OverQuota")
        await made.set_phase("job-1", "Succeeded")
        await made.made("job-2")


async def test_the_next_daemon_books_what_exists_before_it_admits_anything(cluster):
    async with lending(cluster) as made:
        await made.grant(cpu="1")
        async with at_work(made, SOON):
            await made.ask_for("web-1")
            await made.made("web-1")
        await made.ask_for("a-web")
        async with at_work(made, SOON):
            await made.told("a-web", "reason", "OverQuota")
            assert await made.pod("a-web") is None


async def test_labels_do_not_lift_the_bound_of_the_consumer(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="1")
        await made.ask_for("web-1", user="")
        await made.made("web-1")
        await made.ask_for("web-2")
        await made.told("web-2", "reason", "OverQuota")
        await made.ask_for("web-3", user="somebody-else")
        status = await made.told("web-3", "reason", "OverQuota")
        assert "the consumer" in status["message"], "a name that no slice has names nobody"
        await made.ask_for("web-4", user=ids.slice_user("another", CONSUMER))
        await made.told("web-4", "reason", "UnknownUser")


async def test_a_cordoned_slice_keeps_what_it_has_and_gets_nothing_new(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        await made.made("web-1")
        await made.regrant(cordoned=True)
        await made.settled()
        await made.ask_for("web-2")
        await made.told("web-2", "reason", "Cordoned")
        first = (await made.pod("web-1"))["metadata"]["uid"]
        await made.admin.delete(PODS, "web-1", SHOP, grace=0)
        await made.made("web-1", other_than=first)
        await made.regrant(cordoned=False)
        await made.made("web-2")


async def test_without_a_grant_nothing_is_made_until_there_is_one(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.ask_for("web-1")
        await made.told("web-1", "reason", "NothingGranted")
        await made.grant()
        await made.made("web-1")


async def test_a_quota_that_goes_admits_nothing_new(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        await made.made("web-1")
        await made.admin.delete(QUOTAS, USER, TENANT)
        await made.settled()
        await made.ask_for("web-2")
        await made.told("web-2", "reason", "NothingGranted")
        assert await made.pod("web-1") is not None


async def test_no_pod_gives_way_where_another_one_that_had_to_has_a_node_meanwhile(
    cluster, monkeypatch
):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="2")
        for name in ("web-1", "web-2"):
            await made.ask_for(name)
            await made.made(name)
        found = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"phase": "Pending", "conditions": [found]}}
        await made.admin.patch(PODS, "web-1", status, SHOP, subresource="status")
        await made.set_phase("web-2", "Running")
        await made.settled()
        both = [(SHOP, "web-1"), (SHOP, "web-2")]
        monkeypatch.setattr(QuotaLedger, "displaced", lambda *_: both)
        await made.ask_for("web-3")
        await made.told("web-3", "reason", "OverQuota")
        await made.settled()
        assert await made.pod("web-1") is not None
