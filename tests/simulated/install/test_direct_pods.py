"""Pods that a consumer of an older version wrote at its provider itself become ordinary ones."""

from contextlib import suppress
from typing import Any, cast

import pytest
import trio

from liqod import config, install
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    Kind,
)
from liqod.errors import AlreadyExists, Forbidden
from liqod.install.manifests import MANAGED
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.provider.timings import ProviderTimings
from liqod.provider.workloads import directpods
from liqod.resources import QUOTAS, SHADOW_PODS
from simulator import EmbeddedCluster
from tests.simulated.install.directpods import WEBHOOK, older, reviewed, written
from tests.simulated.lendingpods import LENDER, here
from tests.simulated.reflecting import SHOP, THERE, Pair, mapped_namespace, pair

Json = dict[str, Any]


def is_ordinary(pod: Json) -> bool:
    meta = pod["metadata"]
    owners = [(each["kind"], each["name"]) for each in meta.get("ownerReferences") or ()]
    kept = {"liqod.io/applied-hash", "liqod.io/applied-keys"} & meta["annotations"].keys()
    return (
        owners == [("ShadowPod", meta["name"])]
        and meta["labels"]["liqo.io/managed-by"] == "shadowpod"
        and not meta.get("finalizers")
        and not kept
    )


async def becomes_ordinary(both: Pair, name: str, uid: str) -> None:
    """The very pod that ran, as it ran."""
    pod = await both.comes(PODS, name, is_ordinary)
    assert pod["metadata"]["uid"] == uid
    [status] = pod["status"]["containerStatuses"]
    assert (status["restartCount"], "running" in status["state"]) == (0, True)


async def ends_on_both_sides(both: Pair, name: str) -> None:
    await both.here.delete(PODS, name, SHOP)
    await both.goes(PODS, name, client=both.here, namespace=SHOP)
    await both.goes(SHADOW_PODS, name)
    await both.goes(PODS, name)


@pytest.mark.parametrize("first", ["provider", "consumer"])
async def test_one_that_runs_becomes_an_ordinary_one_as_it_runs(first):
    async with older() as sides:
        both = sides.both
        local, uid = await sides.direct()
        await reviewed(both)
        if first == "consumer":
            await sides.upgrade_rome()
            made = await both.comes(SHADOW_PODS, "web")
            assert made["metadata"]["annotations"]["liqod.io/local-uid"] == local
            assert (await sides.stand_by("web"))["metadata"]["uid"] == uid
            await sides.upgrade_milan()
        else:
            await sides.upgrade_milan()
            await becomes_ordinary(both, "web", uid)
            await sides.upgrade_rome()
        await becomes_ordinary(both, "web", uid)
        shown = await here(both, "web")
        assert shown["metadata"]["uid"] == local
        await trio.sleep(0.5)
        await becomes_ordinary(both, "web", uid)
        await ends_on_both_sides(both, "web")


async def test_one_that_others_end_afterwards_is_made_again():
    async with older() as sides:
        both = sides.both
        _, uid = await sides.direct()
        await reviewed(both)
        await sides.upgrade_milan()
        await becomes_ordinary(both, "web", uid)
        await both.there.delete(PODS, "web", THERE)
        await both.comes(
            PODS, "web", lambda pod: pod["metadata"]["uid"] != uid and is_ordinary(pod)
        )


async def test_one_that_was_ended_while_nobody_led_is_made_again():
    async with older() as sides:
        both = sides.both
        _, uid = await sides.direct()
        await both.there.delete(PODS, "web", THERE, grace=0)
        assert (await sides.stand_by("web"))["metadata"]["deletionTimestamp"], "it is held"
        await reviewed(both)
        await sides.upgrade_milan()
        await both.comes(
            PODS, "web", lambda pod: pod["metadata"]["uid"] != uid and is_ordinary(pod)
        )
        await sides.upgrade_rome()
        await here(both, "web")
        await ends_on_both_sides(both, "web")


@pytest.mark.parametrize("held", [True, False])
async def test_one_that_its_consumer_has_ended_is_not_made_again(held):
    async with older() as sides:
        both = sides.both
        await sides.direct()
        ended: Json = {"annotations": {"liqod.io/deletion-grace": "30"}}
        ended |= {} if held else {"finalizers": []}
        await both.there.patch(PODS, "web", {"metadata": ended}, THERE)
        await reviewed(both)
        await sides.upgrade_milan()
        await both.goes(PODS, "web")
        assert await both.there.find(SHADOW_PODS, "web", THERE) is None


@pytest.mark.parametrize("phase", ["Running", "Pending"])
async def test_one_that_ends_here_first_ends_there_when_its_provider_is_upgraded(phase):
    """A provider of the older version ends it as soon: it takes it over, too."""
    async with older() as sides:
        both = sides.both
        _, uid = await sides.direct(phase=phase)
        await reviewed(both)
        await both.here.delete(PODS, "web", SHOP)
        await sides.upgrade_rome()
        await both.comes(SHADOW_PODS, "web")
        assert (await sides.stand_by("web"))["metadata"]["uid"] == uid
        assert await both.here.find(PODS, "web", SHOP) is not None, "it ends there first"
        await sides.upgrade_milan()
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await both.goes(SHADOW_PODS, "web")
        await both.goes(PODS, "web")


async def test_one_whose_pod_is_gone_here_goes_with_the_shadow_pod_that_it_gets():
    async with older() as sides:
        both = sides.both
        await sides.direct()
        await reviewed(both)
        await both.here.delete(PODS, "web", SHOP, grace=0)
        await sides.upgrade_milan()
        await both.comes(PODS, "web", is_ordinary)
        await sides.upgrade_rome()
        await both.goes(SHADOW_PODS, "web")
        await both.goes(PODS, "web")


async def test_a_change_here_meanwhile_reaches_the_pod_that_runs():
    async with older() as sides:
        both = sides.both
        _, uid = await sides.direct()
        await reviewed(both)
        image = [{"name": "web", "image": "nginx:2"}]
        local = await both.here.get(PODS, "web", SHOP)
        containers = [{**local["spec"]["containers"][0], **image[0]}]
        await both.here.patch(PODS, "web", {"spec": {"containers": containers}}, SHOP)
        await sides.upgrade_rome()
        await both.comes(SHADOW_PODS, "web")
        await sides.upgrade_milan()
        changed = await both.comes(
            PODS, "web", lambda pod: pod["spec"]["containers"][0]["image"] == "nginx:2"
        )
        assert changed["metadata"]["uid"] == uid


async def test_its_share_is_booked():
    async with older() as sides:
        both = sides.both
        await both.there.patch(QUOTAS, "milan-rome", {"spec": {"resources": {"pods": "1"}}}, LENDER)
        _, uid = await sides.direct()
        await reviewed(both)
        await sides.upgrade_milan()
        await sides.upgrade_rome()
        await both.pod("more")
        told = await both.comes(
            SHADOW_PODS, "more", lambda made: "reason" in made.get("status", {})
        )
        assert told["status"]["reason"] == "OverQuota"
        await becomes_ordinary(both, "web", uid)


async def test_what_was_installed_for_them_goes_last():
    async with older() as sides:
        both = sides.both
        await sides.direct()
        await reviewed(both)
        await sides.upgrade_milan()
        await both.comes(PODS, "web", is_ordinary)
        assert await both.there.find(ROLE_BINDINGS, f"{LENDER}-pods", THERE) is None
        notes = (await both.there.get(NAMESPACES, THERE))["metadata"]["annotations"]
        assert "liqod.io/direct-pods" not in notes
        assert await both.there.find(MUTATING_WEBHOOKS, "liqod-guests") is None


async def test_one_whose_shadow_pod_is_refused_runs_on_until_there_is_room(monkeypatch):
    async with older(ProviderTimings(direct_pods=0.1)) as sides:
        both = sides.both
        _, uid = await sides.direct()
        _, other = await sides.direct("other")
        await reviewed(both)
        create = both.lender.client.create

        async def full(kind: Any, *args: Any, **more: Any) -> Any:
            if kind is SHADOW_PODS:
                raise Forbidden("exceeded quota: few")
            return await create(kind, *args, **more)

        monkeypatch.setattr(both.lender.client, "create", full)
        await sides.upgrade_milan()
        for name, known in (("web", uid), ("other", other)):
            pod = await sides.stand_by(name)
            assert pod["metadata"]["uid"] == known
            assert pod["metadata"]["finalizers"] == ["liqod.io/direct-pod"]
        assert await both.there.find(MUTATING_WEBHOOKS, "liqod-guests"), "nobody makes more"
        monkeypatch.setattr(both.lender.client, "create", create)
        await becomes_ordinary(both, "web", uid)
        await becomes_ordinary(both, "other", other)
        await both.goes(MUTATING_WEBHOOKS, "liqod-guests", namespace=cast("Any", None))


async def test_none_holds_a_namespace_that_goes():
    async with older(ProviderTimings(direct_pods=0.1)) as sides:
        both = sides.both
        await sides.direct()
        await reviewed(both)
        await both.there.delete(NAMESPACES, THERE)
        await sides.upgrade_milan()
        await both.goes(NAMESPACES, THERE, namespace=cast("Any", None))


async def test_others_finalizers_and_pods_stay():
    async with older() as sides:
        both = sides.both
        await sides.direct()
        more = {"metadata": {"finalizers": ["liqod.io/direct-pod", "milan.example/keep"]}}
        await both.there.patch(PODS, "web", more, THERE)
        foreign: Json = {
            "metadata": {"name": "alike", "labels": {"liqo.io/managed-by": "consumer"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        }
        await both.there.create(PODS, foreign, "default")
        await reviewed(both)
        await sides.upgrade_milan()
        pod = await both.comes(PODS, "web", lambda pod: pod["metadata"].get("ownerReferences"))
        assert pod["metadata"]["finalizers"] == ["milan.example/keep"]
        assert not await both.there.list(SHADOW_PODS, Selection("default"))
        alike = await both.there.get(PODS, "alike", "default")
        assert alike["metadata"]["labels"] == foreign["metadata"]["labels"]


async def test_a_cluster_that_never_took_any_is_asked_one_thing_at_the_start():
    async with pair() as both:
        before = dict(both.lender.client.stats.requests)
        assert await directpods.take_over(both.lender.client)
        after = both.lender.client.stats.requests
        assert sum(after.values()) - sum(before.values()) == 1


async def test_none_holds_up_the_end_of_an_installation():
    async with (
        EmbeddedCluster("milan") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        await install.install(client, install.Options(cluster_id="milan"), lambda _: None)
        await client.create(NAMESPACES, mapped_namespace(THERE))
        account = {"metadata": {"name": "default"}}
        with suppress(AlreadyExists):
            await client.create(SERVICE_ACCOUNTS, account, THERE)
        await client.create(PODS, written({"metadata": {"name": "web", "uid": "1"}}), THERE)
        await client.create(MUTATING_WEBHOOKS, WEBHOOK)
        await install.uninstall(client, "liqo", purge=True, progress=lambda _: None)
        assert await client.find(NAMESPACES, THERE) is None


@pytest.mark.long
async def test_an_upgrade_takes_away_the_role_and_the_policies():
    async with (
        EmbeddedCluster("milan") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
    ):
        options = install.Options(cluster_id="milan")
        await install.install(client, options, lambda _: None)
        policies = ("liqod-guest-pods", "liqod-guest-pods-changes")
        left: list[tuple[Kind, str, Json]] = [
            (CLUSTER_ROLES, "liqod-direct-pods", {"rules": []}),
            *((ADMISSION_POLICIES, name, {"spec": {}}) for name in policies),
        ]
        for kind, name, body in left:
            await client.create(kind, {"metadata": {"name": name, "labels": dict(MANAGED)}, **body})
        await install.install(client, options, lambda _: None)
        for kind, name, _ in left:
            assert await client.find(kind, name) is None


def test_a_file_that_still_has_the_setting_is_read_and_told(caplog):
    known = config.parse("[provider]\ndirect_pods = true\ndrain_timeout = 7.0\n")
    assert known == config.parse("[provider]\ndrain_timeout = 7.0\n")
    [said] = caplog.messages
    assert said.startswith("provider.direct_pods is no setting any more")
