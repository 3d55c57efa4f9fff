"""Pods that a consumer writes at its provider itself, with both sides at work."""

import dataclasses
from typing import Any, cast

import msgspec
import trio

from liqod.consumer.webhook.server import PodWebhook
from liqod.context import GuestReview
from liqod.kube.http.server import Request
from liqod.kube.kinds import MUTATING_WEBHOOKS, PODS
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.model.objects import webhook
from liqod.provider.workloads import directpods
from liqod.resources import QUOTAS, SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.direct import SETTINGS, Sides, direct, direct_pod, made_by, offer, shadow
from tests.simulated.reflecting import SHOP, THERE
from tests.simulated.test_reflected_pods import LENDER, here


async def test_a_pod_costs_the_consumer_one_write_there_and_the_provider_none():
    async with direct() as sides:
        both = sides.both
        await both.pod("warm-up")
        await here(both, "warm-up")
        before, lent = both.requests(), dict(sides.lender.client.stats.requests)
        local = await both.pod("web", metadata={"labels": {"app": "web"}})
        await here(both, "web")
        assert both.since(before) == [("create", "pods"), ("patch", "pods/status")]
        assert dict(sides.lender.client.stats.requests) == lent
        remote_pod = await both.there.get(PODS, "web", THERE)
        assert made_by(remote_pod) == "consumer"
        assert remote_pod["metadata"]["labels"]["app"] == "web"
        assert (
            remote_pod["metadata"]["annotations"]["liqod.io/local-uid"] == local["metadata"]["uid"]
        )
        assert await shadow(both, "web") is None


async def test_labels_follow():
    async with direct() as sides:
        both = sides.both
        await both.pod("web", metadata={"labels": {"app": "web", "tier": "front"}})
        await here(both, "web")
        change = {"metadata": {"labels": {"tier": None, "zone": "a"}}}
        await both.here.patch(PODS, "web", change, SHOP)
        remote_pod = await both.comes(PODS, "web", lambda pod: "zone" in pod["metadata"]["labels"])
        assert "tier" not in remote_pod["metadata"]["labels"]
        assert made_by(remote_pod) == "consumer"


async def test_what_runs_once_has_a_shadow_pod():
    async with direct() as sides:
        both = sides.both
        await both.pod("job", spec={"restartPolicy": "Never"})
        await here(both, "job")
        assert made_by(await both.there.get(PODS, "job", THERE)) == "shadowpod"


async def test_what_is_not_lent_waits_as_a_shadow_pod_and_says_why():
    async with direct() as sides:
        both = sides.both
        large = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "200"}}}]
        }
        await both.pod("large", spec=large)

        def told(pod: dict[str, Any]) -> bool:
            return "asks for 200" in str(pod.get("status"))

        await here(both, "large", told)
        assert await shadow(both, "large") is not None
        assert await both.there.find(PODS, "large", THERE) is None
        await both.there.patch(
            QUOTAS, "milan-rome", {"spec": {"resources": {"cpu": "1000"}}}, LENDER
        )
        await both.comes(PODS, "large", lambda pod: made_by(pod) == "shadowpod")


async def test_there_are_as_many_as_there_may_be_shadow_pods():
    text = SETTINGS + 'object_quota = {"count/shadowpods.offloading.liqo.io" = "2"}\n'
    async with direct(text) as sides:
        both = sides.both
        for name in ("one", "two", "three"):
            await both.pod(name)
            await both.comes(PODS, name)
        pods = await both.there.list(PODS, Selection(THERE))
        assert sorted(map(made_by, pods)) == ["consumer", "consumer", "shadowpod"]


async def test_none_is_lent_while_nobody_knows_of_the_policies():
    async with direct() as sides:
        sides.both.lender.fence.known = False
        await sides.both.pod("web")
        await sides.both.comes(PODS, "web", lambda pod: made_by(pod) == "shadowpod")


async def test_a_burst_is_held_to_the_quota_together():
    async with direct() as sides:
        both = sides.both
        async with trio.open_nursery() as burst:
            for number in range(16):
                burst.start_soon(both.pod, f"web-{number}")

        async def filled() -> bool:
            return len(await both.there.list(PODS, Selection(THERE))) == 10

        await eventually(filled)
        await trio.sleep(0.5)
        assert len(await both.there.list(PODS, Selection(THERE))) == 10


async def test_without_an_answer_of_the_webhook_pods_go_by_shadow_pods():
    async with direct() as sides:
        both = sides.both
        found = await both.there.get(MUTATING_WEBHOOKS, webhook.GUESTS_NAME)
        hook = found["webhooks"][0]
        nowhere = {**hook, "clientConfig": {**hook["clientConfig"], "url": "https://127.0.0.1:1/x"}}
        sides.lender.guest_reviewers.clear()
        await both.there.patch(MUTATING_WEBHOOKS, webhook.GUESTS_NAME, {"webhooks": [nowhere]})
        await both.pod("web")
        await here(both, "web")
        assert made_by(await both.there.get(PODS, "web", THERE)) == "shadowpod"


async def test_what_was_offloaded_by_shadow_pods_goes_on_so():
    async with direct(offered=False) as sides:
        both = sides.both
        await both.pod("old")
        await here(both, "old")
        uid = (await both.there.get(PODS, "old", THERE))["metadata"]["uid"]
        await offer(both, labels.TRUE)
        await both.pod("new")
        await here(both, "new")
        assert made_by(await both.there.get(PODS, "new", THERE)) == "consumer"
        old = await both.there.get(PODS, "old", THERE)
        assert (made_by(old), old["metadata"]["uid"]) == ("shadowpod", uid)
        assert await shadow(both, "old") is not None


async def test_a_restart_of_the_provider_touches_none_and_counts_them():
    async with direct() as sides:
        both = sides.both
        for number in range(9):
            await both.pod(f"web-{number}")
        for number in range(9):
            await here(both, f"web-{number}")
        before = {pod["metadata"]["uid"] for pod in await both.there.list(PODS, Selection(THERE))}
        sides.stop()
        await sides.lend()
        await both.pod("last")
        await here(both, "last")
        await both.pod("beyond")
        await here(both, "beyond", lambda pod: "OverQuota" in str(pod.get("status")))
        after = {pod["metadata"]["uid"] for pod in await both.there.list(PODS, Selection(THERE))}
        assert before < after
        assert len(after) == 10


async def test_a_pod_that_nobody_was_asked_about_is_deleted():
    async with direct_pod() as (_, both):
        found = await both.there.get(PODS, "web", THERE)
        marks, spec = found["metadata"]["labels"], {"containers": [{"name": "c", "image": "i"}]}
        await both.there.delete(MUTATING_WEBHOOKS, webhook.GUESTS_NAME)
        await both.there.create(
            PODS, {"metadata": {"name": "sly", "labels": marks}, "spec": spec}, THERE
        )
        await both.goes(PODS, "sly")
        await trio.sleep(0.3)
        assert await both.there.find(PODS, "sly", THERE) is None
        assert await shadow(both, "sly") is None
        # Its announcement comes back by itself.
        await both.comes(MUTATING_WEBHOOKS, webhook.GUESTS_NAME, namespace=cast("Any", None))


async def review_of(sides: Sides, name: str, **spec: Any) -> GuestReview:
    """What the API server asks about a pod like one that is there."""
    pod = await sides.both.there.get(PODS, "web", THERE)
    marks, live = pod["metadata"]["labels"], pod["spec"]
    kept = {key: value for key, value in live.items() if key != "nodeName"} | spec
    finalizers = [labels.FINALIZER_DIRECT_POD]
    asked = {"metadata": {"name": name, "labels": marks, "finalizers": finalizers}, "spec": kept}
    return GuestReview(THERE, name, marks[labels.CREATOR_USER], msgspec.json.encode(asked))


async def test_false_questions_hold_what_others_were_granted_for_seconds_only(monkeypatch):
    monkeypatch.setattr(directpods, "EXPECTATION", 2.0)
    async with direct() as sides:
        await sides.both.pod("web")
        await here(sides.both, "web")
        reviewer = sides.lender.guest_reviewers[THERE]
        for number in range(9):
            assert await reviewer(await review_of(sides, f"a-{number}")) == ""
        beyond = await review_of(sides, "beyond")
        assert "OverQuota" in await reviewer(beyond)

        async def doubted() -> bool:
            return "never stored" in await reviewer(beyond)

        await eventually(doubted)
        assert sides.room is not None
        for number in range(8):
            await sides.both.pod(f"shop-{number}")
            await sides.both.comes(PODS, f"shop-{number}", by_shadow_pod)
        monkeypatch.setattr(directpods, "PAUSE", 0.0)
        assert await reviewer(beyond) == ""


def by_shadow_pod(pod: dict[str, Any]) -> bool:
    return made_by(pod) == "shadowpod"


async def test_a_standby_admits_nothing_and_who_leads_no_more_neither():
    async with direct_pod() as (sides, both):
        asked = await review_of(sides, "next")
        standby = PodWebhook(home_of_another_replica(sides))
        assert "does not lend" in await answer(standby, asked)
        leader = PodWebhook(sides.lender)
        assert await answer(leader, asked) == ""
        sides.stop()

        async def ended() -> bool:
            return not sides.lender.guest_reviewers

        await eventually(ended)
        assert "does not lend" in await answer(leader, asked)
        await both.pod("later")
        await both.comes(SHADOW_PODS, "later")


def home_of_another_replica(sides: Sides) -> Any:
    """A process that stands by knows the same cluster, and lends in no namespace."""
    return dataclasses.replace(sides.lender, guest_reviewers={})


async def answer(hook: PodWebhook, asked: GuestReview) -> str:
    """What a webhook says against a pod; empty where it admits it."""
    request = {
        "uid": "1",
        "namespace": asked.namespace,
        "name": asked.name,
        "object": msgspec.Raw(asked.pod),
        "userInfo": {"username": asked.user},
    }
    body = msgspec.json.encode({"request": request})
    response = await hook.answer(Request("POST", webhook.GUESTS_PATH, {}, {}, body))
    found = msgspec.json.decode(cast("bytes", response.body))["response"]
    assert found["allowed"] is ("status" not in found)
    return str(found.get("status", {}).get("message", ""))


async def test_what_who_led_before_admitted_stays_and_is_counted():
    async with direct_pod() as (sides, both):
        both.stop()  # it would end what stands for nothing at home
        for name, cpu, stays in (("late", "1", True), ("greedy", "200", False)):
            container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
            asked = await review_of(sides, name, containers=[container])
            found = await both.there.get(MUTATING_WEBHOOKS, webhook.GUESTS_NAME)
            await both.there.delete(MUTATING_WEBHOOKS, webhook.GUESTS_NAME)
            await both.there.create(PODS, msgspec.json.decode(asked.pod), THERE)
            del found["metadata"]
            if stays:
                await both.comes(
                    PODS, name, lambda pod: pod.get("status", {}).get("phase") == "Running"
                )
                assert sides.room is not None
                assert sides.room._ledger.holds((THERE, name))
            else:
                await both.goes(PODS, name)
            await both.comes(MUTATING_WEBHOOKS, webhook.GUESTS_NAME, namespace=cast("Any", None))
