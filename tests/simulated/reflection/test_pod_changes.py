"""Changes of a pod after its creation, with both sides at work."""

import dataclasses
from contextlib import AsyncExitStack
from typing import Any

import pytest

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS, Kind
from liqod.errors import Forbidden, Invalid, NotFound
from liqod.kube.client import Client
from liqod.plugins.reflectors.pods import CHANGED
from liqod.provider.timings import ProviderTimings
from liqod.provider.workloads import podupdates
from liqod.resources import QUOTAS, SHADOW_PODS
from liqod.runtime.backoff import Backoff
from tests.simulated.lendingpods import LENDER, here, lending, lending_to, ready
from tests.simulated.reflecting import SHOP, THERE, Pair, pair

Json = dict[str, Any]

WEB = {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}
DEBUGGER = {"name": "debugger", "image": "busybox", "targetContainerName": "web", "stdin": True}


async def change(both: Pair, spec: Json, subresource: str = "") -> None:
    await both.here.patch(PODS, "web", {"spec": spec}, SHOP, subresource=subresource)


async def there(both: Pair, holds: Any) -> Json:
    return await both.comes(PODS, "web", holds, namespace=THERE)


def container(pod: Json) -> Json:
    found: Json = pod["spec"]["containers"][0]
    return found


def said(pod: Json) -> tuple[str, str]:
    """Returns reason and message of the pod's condition about its changes."""
    conditions = pod.get("status", {}).get("conditions") or []
    found: Json = next((each for each in conditions if each["type"] == CHANGED), {})
    return found.get("reason", ""), found.get("message", "")


async def test_what_one_may_change_here_changes_there_and_the_pod_stays() -> None:
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        before = await there(both, ready)
        added = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
        local = await both.here.get(PODS, "web", SHOP)
        tolerations = [*local["spec"]["tolerations"], added]
        whole = {**container(local), "image": "web:2"}
        told = {"containers": [whole], "tolerations": tolerations, "activeDeadlineSeconds": 3600}
        await change(both, told)
        after = await there(both, lambda pod: container(pod)["image"] == "web:2")
        assert after["spec"]["activeDeadlineSeconds"] == 3600
        resources = {"requests": {"cpu": "2"}}
        await change(both, {"containers": [{**whole, "resources": resources}]}, "resize")
        await change(both, {"ephemeralContainers": [DEBUGGER]}, "ephemeralcontainers")
        after = await there(both, lambda pod: "ephemeralContainers" in pod["spec"])
        after = await there(both, lambda pod: container(pod)["resources"] == resources)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"]["ephemeralContainers"][0]["targetContainerName"] == "web"
        assert said(await both.here.get(PODS, "web", SHOP)) == ("", "")


async def test_an_added_toleration_follows_where_guests_may_have_it() -> None:
    async with pair() as both, AsyncExitStack() as stack:
        allowed = config.parse('[guests]\ntolerations = ["spot"]\n')
        both.lender = dataclasses.replace(both.lender, config=allowed)
        await stack.enter_async_context(lending_to(both))
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        local = await both.here.get(PODS, "web", SHOP)
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute"} for key in ("spot", "own")
        ]
        await change(both, {"tolerations": [*local["spec"]["tolerations"], *added]})

        def tolerated(pod: Json) -> bool:
            return "spot" in {each.get("key") for each in pod["spec"]["tolerations"]}

        pod = await there(both, tolerated)
        assert "own" not in {each.get("key") for each in pod["spec"]["tolerations"]}


async def test_growing_beyond_the_quota_is_refused_and_said_until_it_fits() -> None:
    timings = ProviderTimings(refused_update=Backoff(first=0.2, last=0.2))
    async with lending(timings=timings) as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        before = await there(both, ready)
        large = {**container(before), "resources": {"requests": {"cpu": "200"}}}
        await change(both, {"containers": [large]}, "resize")
        pod = await here(both, "web", lambda pod: said(pod)[0] == "OverQuota")
        assert said(pod)[1].startswith("milan: cpu: the pod asks for 200, and the consumer has ")
        assert ready(pod)
        after = await both.there.get(PODS, "web", THERE)
        assert container(after)["resources"] == {"requests": {"cpu": "1"}}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        more = {"spec": {"resources": {"pods": "10", "cpu": "300"}}}
        await both.there.patch(QUOTAS, "milan-rome", more, LENDER)
        await there(both, lambda pod: container(pod)["resources"] == large["resources"])
        await here(both, "web", lambda pod: said(pod) == ("", ""))


async def test_an_api_server_that_knows_no_resizing_says_so_and_the_pod_runs_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        before = await there(both, ready)
        patch = Client.patch

        async def older(self: Client, kind: Kind, name: str, *rest: Any, **more: Any) -> Any:
            if more.get("subresource") == "resize" and self is both.lender.client:
                raise NotFound("the server could not find the requested resource")
            return await patch(self, kind, name, *rest, **more)

        monkeypatch.setattr(Client, "patch", older)
        larger = {**container(before), "resources": {"requests": {"cpu": "2"}}}
        await change(both, {"containers": [larger]}, "resize")
        pod = await here(both, "web", lambda pod: said(pod)[0] == "Unsupported")
        assert "knows no pods/resize" in said(pod)[1]
        assert ready(pod)
        after = await both.there.get(PODS, "web", THERE)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_debugger_that_is_refused_keeps_no_other_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It can never be taken back here, and is asked for again with each that follows it."""
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        await there(both, ready)
        patch = Client.patch

        async def stricter(self: Client, kind: Kind, name: str, body: Any, *rest: Any, **more: Any):
            asked = body["spec"].get("ephemeralContainers", ()) if "spec" in body else ()
            if self is both.lender.client and any(each["name"] == "tracer" for each in asked):
                raise Forbidden("violates PodSecurity: must not include SYS_PTRACE")
            return await patch(self, kind, name, body, *rest, **more)

        monkeypatch.setattr(Client, "patch", stricter)
        tracer = {**DEBUGGER, "name": "tracer"}
        debuggers = [tracer, DEBUGGER]
        for number in (1, 2):
            asked = {"ephemeralContainers": debuggers[:number]}
            await change(both, asked, "ephemeralcontainers")
            pod = await here(both, "web", lambda pod: said(pod)[0] == "Refused")
            assert "ephemeralContainers: violates PodSecurity" in said(pod)[1]
        found = await there(both, lambda pod: "ephemeralContainers" in pod["spec"])
        assert [each["name"] for each in found["spec"]["ephemeralContainers"]] == ["debugger"]
        told = pod["status"]["ephemeralContainerStatuses"][0]
        assert "SYS_PTRACE" in told["state"]["waiting"]["message"]
        assert ready(pod)


async def test_what_no_api_server_takes_is_not_tried_again_until_it_is_another_change() -> None:
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        pod = await there(both, ready)
        guaranteed = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {}}
        bad = {**container(pod), "resources": {**guaranteed, "limits": {"cpu": "x"}}}
        shadowed = {"spec": {"pod": {"containers": [bad]}}}
        await both.there.patch(SHADOW_PODS, "web", shadowed, THERE)
        await there(both, lambda pod: labels.CHANGES in pod["metadata"]["annotations"])
        with pytest.raises(Invalid):
            await change(both, {"volumes": []})


async def test_a_pod_that_is_made_again_there_has_the_newest_spec() -> None:
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        pod = await there(both, ready)
        await change(both, {"containers": [{**container(pod), "image": "web:2"}]})
        await change(both, {"ephemeralContainers": [DEBUGGER]}, "ephemeralcontainers")
        pod = await there(both, lambda pod: "ephemeralContainers" in pod["spec"])
        first = pod["metadata"]["uid"]
        await both.there.delete(PODS, "web", THERE, grace=0)
        again = await there(
            both,
            lambda pod: pod["metadata"]["uid"] != first and "ephemeralContainers" in pod["spec"],
        )
        assert container(again)["image"] == "web:2"


async def test_what_the_peer_made_another_stays_so_where_nothing_was_changed() -> None:
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        pod = await there(both, ready)
        mirrored = {"containers": [{**container(pod), "image": "mirror/web:1"}]}
        await both.there.patch(PODS, "web", {"spec": mirrored}, THERE)
        edited = {"spec": {"pod": {"hostname": "edited"}}}
        await both.there.patch(SHADOW_PODS, "web", edited, THERE)
        await both.comes(SHADOW_PODS, "web", lambda found: "hostname" not in found["spec"]["pod"])
        await both.pod("other")
        await here(both, "other")
        assert container(await both.there.get(PODS, "web", THERE))["image"] == "mirror/web:1"
        assert said(await both.here.get(PODS, "web", SHOP)) == ("", "")


async def test_the_next_daemon_finds_a_changed_pod_as_it_is_and_writes_nothing() -> None:
    async with lending() as (both, nursery):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        pod = await there(both, ready)
        await change(both, {"containers": [{**container(pod), "image": "web:2"}]})
        await change(both, {"ephemeralContainers": [DEBUGGER]}, "ephemeralcontainers")
        await there(both, lambda pod: "ephemeralContainers" in pod["spec"])
        both.stop()
        changed = {"spec": {"activeDeadlineSeconds": 3600}}
        await both.here.patch(PODS, "web", changed, SHOP)
        before = (await both.there.get(SHADOW_PODS, "web", THERE))["metadata"]["generation"]
        await both.start(nursery)
        await there(both, lambda pod: pod["spec"].get("activeDeadlineSeconds") == 3600)
        both.stop()
        await both.start(nursery)
        await both.pod("other")
        await here(both, "other")
        after = (await both.there.get(SHADOW_PODS, "web", THERE))["metadata"]["generation"]
        assert after == before + 1


async def test_it_is_said_where_the_peer_takes_over_no_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(*args: object) -> None:
        """A Liqo provider's way with a changed ShadowPod."""

    monkeypatch.setattr(podupdates.PodUpdates, "follow", nothing)
    async with lending() as (both, _):
        await both.pod("web", spec={"containers": [WEB]})
        await here(both, "web")
        pod = await there(both, ready)
        await change(both, {"containers": [{**container(pod), "image": "web:2"}]})
        found = await here(both, "web", lambda pod: said(pod)[0] == "NotTakenOver")
        assert said(found)[1] == "milan has not taken over what was changed: image"
        await change(both, {"containers": [{**container(pod), "image": "web:1"}]})
        await here(both, "web", lambda pod: said(pod) == ("", ""))
