"""How pods end that a consumer writes at its provider itself, and who makes them again."""

import dataclasses
from typing import Any, cast

import trio

from liqod import config
from liqod.kube.kinds import NAMESPACES, PODS
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.procedures import revokedconsumer
from liqod.provider.orphans import Orphans
from liqod.resources import SHADOW_PODS
from tests.simulated.direct import SETTINGS, direct, direct_pod, made_by, offer, shadow
from tests.simulated.reflecting import SHOP, THERE
from tests.simulated.test_reflected_pods import LENDER, here

HELD = labels.FINALIZER_DIRECT_POD


async def test_it_ends_there_before_it_ends_here_and_is_not_made_again():
    async with direct_pod() as (_, both):
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await trio.sleep(0.5)
        assert await both.there.find(PODS, "web", THERE) is None
        assert await shadow(both, "web") is None


async def test_one_that_is_evicted_there_is_made_again_though_its_consumer_is_away():
    async with direct_pod() as (_, both):
        first = (await both.there.get(PODS, "web", THERE))["metadata"]["uid"]
        both.stop()
        await both.there.delete(PODS, "web", THERE)
        remote_pod = await both.comes(
            PODS, "web", lambda pod: pod["metadata"]["uid"] != first and made_by(pod) == "shadowpod"
        )
        assert remote_pod["metadata"]["annotations"]["liqod.io/local-uid"]


async def test_one_that_is_taken_away_at_once_is_made_again_too():
    async with direct_pod() as (_, both):
        first = (await both.there.get(PODS, "web", THERE))["metadata"]["uid"]
        both.stop()
        await both.there.delete(PODS, "web", THERE, grace=0)
        await both.comes(PODS, "web", lambda pod: pod["metadata"]["uid"] != first)


async def test_the_consumer_goes_on_with_the_shadow_pod_that_was_made_for_it():
    async with direct() as sides:
        both = sides.both
        await both.pod("web")
        pod = await here(both, "web")
        first = (await both.there.get(PODS, "web", THERE))["metadata"]["uid"]
        await both.there.delete(PODS, "web", THERE)
        await both.comes(
            PODS, "web", lambda pod: pod["metadata"]["uid"] != first and made_by(pod) == "shadowpod"
        )
        same = await here(both, "web")
        assert same["metadata"]["uid"] == pod["metadata"]["uid"]
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await both.goes(SHADOW_PODS, "web")
        await both.goes(PODS, "web")


async def test_what_ends_while_nobody_leads_on_either_side_is_made_again():
    async with direct() as sides:
        both = sides.both
        for name in ("web", "killed"):
            await both.pod(name)
            await here(both, name)
        before = {each["metadata"]["uid"] for each in await both.there.list(PODS, Selection(THERE))}
        both.stop()
        sides.stop()
        await both.there.delete(PODS, "web", THERE)
        await both.there.delete(PODS, "killed", THERE, grace=0)
        await trio.sleep(0.5)
        for each in await both.there.list(PODS, Selection(THERE)):
            assert each["metadata"]["deletionTimestamp"], "it is held"
        await sides.lend()
        for name in ("web", "killed"):
            await both.comes(PODS, name, lambda pod: pod["metadata"]["uid"] not in before)
            assert await shadow(both, name) is not None


async def test_an_end_of_its_own_is_told_and_not_undone():
    async with direct_pod() as (sides, both):
        both.stop()
        sides.stop()
        state = {"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}}
        container = {"name": "web", "state": state, "ready": False, "restartCount": 0}
        statuses = [{**container, "image": "nginx", "imageID": ""}]
        ended = {"phase": "Failed", "reason": "Evicted", "containerStatuses": statuses}
        await both.there.patch(PODS, "web", {"status": ended}, THERE, subresource="status")
        await both.there.delete(PODS, "web", THERE)
        await sides.lend()
        await both.comes(SHADOW_PODS, "web", lambda made: made["status"]["phase"] == "Failed")
        await both.goes(PODS, "web")
        await sides.start()
        await here(both, "web", lambda pod: pod["status"]["phase"] == "Failed")


async def test_one_that_is_ended_on_both_sides_waits_for_no_daemon_there():
    async with direct_pod() as (sides, both):
        sides.stop()
        await both.there.delete(PODS, "web", THERE)
        await both.comes(PODS, "web", lambda pod: pod["metadata"].get("deletionTimestamp"))
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await both.goes(PODS, "web")
        assert await shadow(both, "web") is None


async def test_what_others_hold_stays_held_when_its_consumer_ends_it():
    async with direct_pod() as (_, both):
        more = {"metadata": {"finalizers": [HELD, "milan.example/keep"]}}
        await both.there.patch(PODS, "web", more, THERE)
        await both.here.delete(PODS, "web", SHOP)
        going = await both.comes(PODS, "web", lambda pod: pod["metadata"].get("deletionTimestamp"))
        assert going["metadata"]["finalizers"] == ["milan.example/keep"]
        await both.there.patch(PODS, "web", {"metadata": {"finalizers": None}}, THERE)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)


async def test_nothing_is_held_in_a_namespace_that_goes():
    async with direct_pod() as (_, both):
        both.stop()
        await both.there.delete(NAMESPACES, THERE)
        await both.goes(NAMESPACES, THERE, namespace=cast("Any", None))


async def test_nothing_is_held_there_though_nobody_lends_to_its_consumer_any_more():
    async with direct_pod() as (sides, both):
        both.stop()
        sides.stop()
        await both.there.delete(NAMESPACES, THERE)
        await sides.nursery.start(Orphans(sides.lender).run)
        await both.goes(NAMESPACES, THERE, namespace=cast("Any", None))


async def test_revoking_lets_go_though_no_daemon_runs():
    async with direct_pod() as (sides, both):
        both.stop()
        sides.stop()
        gone = await revokedconsumer.take(both.there, "rome", LENDER)
        assert f"Namespace {THERE}" in gone
        await both.goes(NAMESPACES, THERE, namespace=cast("Any", None))


async def test_a_provider_that_takes_them_no_more_keeps_them_running():
    async with direct_pod() as (sides, both):
        uid = (await both.there.get(PODS, "web", THERE))["metadata"]["uid"]
        sides.stop()
        sides.lender = dataclasses.replace(
            sides.lender,
            config=config.parse(SETTINGS.replace("direct_pods = true", "direct_pods = false")),
        )
        await offer(both, None)
        await sides.lend()
        remote_pod = await both.comes(PODS, "web", lambda pod: made_by(pod) == "shadowpod")
        assert remote_pod["metadata"]["uid"] == uid
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await both.goes(PODS, "web")
        await both.goes(SHADOW_PODS, "web")


async def test_a_consumer_that_knows_none_takes_them_over_with_shadow_pods():
    async with direct() as sides:
        both = sides.both
        local = await both.pod("web")
        await here(both, "web")
        uid = (await both.there.get(PODS, "web", THERE))["metadata"]["uid"]
        both.stop()
        found = await both.there.get(PODS, "web", THERE)
        marks = {k: v for k, v in found["metadata"]["labels"].items() if k != labels.MANAGED_BY}
        notes = {"liqod.io/local-uid": local["metadata"]["uid"], "liqod.io/source": "pods/web"}
        older = {
            "metadata": {"name": "web", "labels": marks, "annotations": notes},
            "spec": {"pod": {"containers": [{"name": "web", "image": "nginx"}]}},
        }
        await both.there.create(SHADOW_PODS, older, THERE)
        remote_pod = await both.comes(PODS, "web", lambda pod: made_by(pod) == "shadowpod")
        assert remote_pod["metadata"]["uid"] == uid
        await both.there.delete(SHADOW_PODS, "web", THERE)
        await both.goes(PODS, "web")
