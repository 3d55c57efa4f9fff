"""The pod webhook and the care for pods that it missed, with an API server that really calls."""

from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    ENDPOINT_SLICES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    RUNTIME_CLASSES,
    SECRETS,
)
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.webhook.missedpods import CONDITION, MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.consumer.webhook.timings import ORDINARY, WebhookTimings
from liqod.errors import ConfigError, Forbidden, LiqodError
from liqod.kube.client import Client
from liqod.kube.http.httpserver import HttpRequest
from liqod.model.objects import webhook
from liqod.model.objects.scheduling import TOLERATION
from liqod.resources import NAMESPACE_OFFLOADINGS
from liqod.runtime.account import Account
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, condition, eventually, offload
from tests.simulated.prepared import defined

SOON = WebhookTimings(probe_pause=0.01)
"""Timings with which nobody waits between the dry runs of a proof."""
VIRTUAL = {"key": "liqo.io/type", "operator": "In", "values": ["virtual-node"]}


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


def pod(name, namespace="shop", **spec):
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


async def verdict(context, expected=None):
    async def look():
        found = await context.client.find(MUTATING_WEBHOOKS, webhook.NAME)
        notes = ((found or {}).get("metadata") or {}).get("annotations") or {}
        text = notes.get(labels.WEBHOOK_REACHABLE)
        return text if text and expected in (None, text) else None

    return await eventually(look)


def tolerated(value):
    return dict(TOLERATION) in (value["spec"].get("tolerations") or [])


async def started(context, nursery, timings=ORDINARY):
    hook = PodWebhook(context, Account(), timings=timings)
    await nursery.start(hook.run)
    await nursery.start(hook.run_as_leader)
    return hook


async def test_pods_of_offloaded_namespaces_are_changed_and_others_are_not(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await started(context, nursery)
        await offload(context.client, "shop", podOffloadingStrategy="Remote")
        assert await verdict(context) == "true"

        async def admitted():
            made = await context.client.create_full(PODS, pod("probe"), dry_run=True)
            return made if tolerated(made) else None

        made = await eventually(admitted)
        required = made["spec"]["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert required == {"nodeSelectorTerms": [{"matchExpressions": [VIRTUAL]}]}
        other = await context.client.create_full(PODS, pod("p", "default"), dry_run=True)
        assert not tolerated(other)
        await context.client.create(
            RUNTIME_CLASSES, {"metadata": {"name": "liqo"}, "handler": "liqo"}
        )
        runtime = pod("p", runtimeClassName="liqo")
        assert not tolerated(await context.client.create_full(PODS, runtime, dry_run=True))


async def test_standby_serves_with_the_leaders_certificate(cluster, nursery):
    async with borrower(cluster) as context:
        standby = PodWebhook(context, Account())
        await nursery.start(standby.run)
        leader = await started(context, nursery)
        assert await verdict(context) == "true"
        assert leader.port != standby.port
        found = await context.client.get(MUTATING_WEBHOOKS, webhook.NAME)
        for each in found["webhooks"]:
            each["clientConfig"]["url"] = f"https://127.0.0.1:{standby.port}{webhook.PATH}"
        number = "17"
        # The leader repairs the announcement at once, so the standby is asked by another one.
        other = {"metadata": {"name": "standby"}, "webhooks": found["webhooks"][1:]}
        await context.client.create(MUTATING_WEBHOOKS, other)
        await context.client.delete(MUTATING_WEBHOOKS, webhook.NAME)

        async def proved():
            probe = webhook.probe_pod("liqo", number)
            made = await context.client.create_full(PODS, probe, dry_run=True)
            return webhook.proved(made, number)

        await eventually(proved)


async def test_announcement_is_mended(cluster, nursery):
    async with borrower(cluster) as context:
        await started(context, nursery)
        await verdict(context)
        await context.client.delete(MUTATING_WEBHOOKS, webhook.NAME)
        await verdict(context, "true")
        found = await context.client.get(MUTATING_WEBHOOKS, webhook.NAME)
        found["webhooks"][0]["failurePolicy"] = "Fail"
        await context.client.patch(MUTATING_WEBHOOKS, webhook.NAME, {"webhooks": found["webhooks"]})

        async def mended():
            now = await context.client.get(MUTATING_WEBHOOKS, webhook.NAME)
            return now["webhooks"][0]["failurePolicy"] == "Ignore"

        await eventually(mended)


async def test_lost_certificates_are_made_again_and_proved(cluster, nursery):
    async with borrower(cluster) as context:
        await started(context, nursery)
        await verdict(context)
        before = await context.client.get(SECRETS, "liqod-webhook", "liqo")
        await context.client.delete(SECRETS, "liqod-webhook", "liqo")

        async def another():
            now = await context.client.find(SECRETS, "liqod-webhook", "liqo")
            return now is not None and now["data"]["ca.crt"] != before["data"]["ca.crt"]

        await eventually(another)

        async def proved():
            made = await context.client.create_full(
                PODS, webhook.probe_pod("liqo", "1"), dry_run=True
            )
            return webhook.proved(made, "1")

        await eventually(proved)


async def test_unreachable_webhook_is_told(cluster, nursery):
    text = '[webhook]\nport = 0\nhost = "127.0.0.1"\nadvertise = "127.0.0.1:1"\n'
    async with borrower(cluster, text) as context:
        await started(context, nursery, SOON)
        assert "https://127.0.0.1:1/mutate-pod" in await verdict(context)


async def unready(context):
    """The Service leads to a pod that is not ready yet."""
    end: dict[str, Any] = {"conditions": {"ready": False}, "addresses": ["10.0.0.1"]}
    body = {
        "metadata": {"name": "liqod-1", "labels": {"kubernetes.io/service-name": "liqod"}},
        "addressType": "IPv4",
        "endpoints": [end],
    }
    await context.client.create(ENDPOINT_SLICES, body, "liqo")


async def ready(context):
    """That pod is."""
    end: dict[str, Any] = {"conditions": {"ready": True}, "addresses": ["10.0.0.1"]}
    await context.client.patch(ENDPOINT_SLICES, "liqod-1", {"endpoints": [end]}, "liqo")


async def test_the_way_is_not_judged_before_a_pod_of_the_service_is_ready(cluster, nursery):
    async with borrower(cluster, in_cluster=True) as context:
        await unready(context)
        hook = await started(context, nursery, WebhookTimings(probe_pause=0.01, ready_again=0.05))
        await eventually(lambda: context.client.find(MUTATING_WEBHOOKS, webhook.NAME))
        care = hook.controller
        assert care is not None
        for _ in range(3):
            await care.prove()
            assert care.reachable is None
        found = await context.client.get(MUTATING_WEBHOOKS, webhook.NAME)
        assert labels.WEBHOOK_REACHABLE not in (found["metadata"].get("annotations") or {})
        await ready(context)
        await care.prove()
        assert await verdict(context, "nothing answers it at liqod.liqo.svc")


async def test_a_service_that_stays_without_a_ready_pod_is_told_as_that(cluster, nursery):
    """And not as an address that is wrong."""
    late = WebhookTimings(probe_pause=0.01, ready_again=0.05, ready_within=0.0)
    async with borrower(cluster, in_cluster=True) as context:
        await unready(context)
        await started(context, nursery, late)
        await verdict(context, webhook.NO_ENDPOINT)
        assert "pod is not ready" in webhook.remedy(webhook.NO_ENDPOINT)


@pytest.mark.parametrize(
    ("setting", "chosen"), [("false", {labels.FAIL_CLOSED: "true"}), ("true", {})]
)
async def test_a_namespace_that_fails_closed_has_no_pod_made_while_nobody_answers(
    cluster, nursery, setting: str, chosen: dict[str, str]
):
    closed = f'[webhook]\nport = 0\nhost = "127.0.0.1"\nfail_closed = {setting}\n'
    async with borrower(cluster, closed + 'advertise = "127.0.0.1:1"\n') as context:
        await started(context, nursery, SOON)
        await nursery.start(OffloadingController(context).run)
        await verdict(context)
        await offload(context.client, "shop", chosen, podOffloadingStrategy="Remote")
        await offload(context.client, "open", chosen)
        await marked(context, "shop", closed=True)
        await marked(context, "open", closed=False)
        with pytest.raises(LiqodError, match=r'failed calling webhook "closed\.liqod\.io"'):
            await context.client.create(PODS, pod("slipped"))
        await context.client.create(PODS, pod("slipped", "open"))
        # Who asks no more for it has pods made again, and who leaves leaves no label.
        patch = {"metadata": {"annotations": {labels.FAIL_CLOSED: "false"}}}
        await context.client.patch(NAMESPACE_OFFLOADINGS, "offloading", patch, "shop")
        await marked(context, "shop", closed=False)
        await context.client.create(PODS, pod("slipped"))


async def marked(context, namespace, *, closed):
    """Wait until a namespace is offloaded, and fails closed or does not."""
    wanted = dict.fromkeys(webhook.CHOSEN if closed else webhook.CHOSEN[:1], "true")

    async def look():
        found = await context.client.get(NAMESPACES, namespace)
        marks = found["metadata"].get("labels") or {}
        return {key: marks[key] for key in webhook.CHOSEN if key in marks} == wanted

    await eventually(look)


async def test_in_a_namespace_that_fails_closed_who_answers_places_pods(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        hook = await started(context, nursery)
        await verdict(context, "true")
        await offload(
            context.client, "shop", {labels.FAIL_CLOSED: "true"}, podOffloadingStrategy="Remote"
        )
        await marked(context, "shop", closed=True)
        made = await context.client.create_full(PODS, pod("web"))
        assert tolerated(made)
        # A replica that has read nothing yet lets nothing by.
        monkey = PodWebhook(context, Account())
        body = msgspec.json.encode({"request": {"uid": "1", "namespace": "shop", "object": made}})
        asked = HttpRequest("POST", webhook.CLOSED_PATH, {}, {}, body)
        assert (await monkey.answer(asked)).status == 503
        assert (await hook.answer(asked)).status == 200


async def test_a_pod_that_came_by_has_the_webhook_asked_at_once(cluster, nursery, monkeypatch):
    always = WebhookTimings(doubt_pause=0.0, probe_pause=0.1)
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        hook = await started(context, nursery, always)
        await nursery.start(MissedPods(context, hook.doubt).run)
        await verdict(context, "true")
        await offload(context.client, "shop", podOffloadingStrategy="Remote")
        await marked(context, "shop", closed=False)
        cut = (await context.client.get(MUTATING_WEBHOOKS, webhook.NAME))["webhooks"]
        for each in cut:
            each["clientConfig"]["url"] = "https://127.0.0.1:1/gone"

        async def no_repair(client, kind, name, change, *more, patch=Client.patch):
            if kind == MUTATING_WEBHOOKS and change.get("webhooks", cut) != cut:
                raise Forbidden("nobody may repair it")
            return await patch(client, kind, name, change, *more)

        monkeypatch.setattr(Client, "patch", no_repair)
        await context.client.patch(MUTATING_WEBHOOKS, webhook.NAME, {"webhooks": cut})  # untold
        with trio.fail_after(10):
            await context.client.create(PODS, pod("slipped"))
            assert "nothing answers it" in await eventually(lambda: not_true(context))


async def not_true(context):
    return text if (text := await verdict(context)) != "true" else None


async def test_webhook_switched_off_is_withdrawn(cluster, nursery):
    async with borrower(cluster) as context, trio.open_nursery() as first:
        await started(context, first)
        await verdict(context)
        first.cancel_scope.cancel()
    async with trio.open_nursery() as second:
        text = "[webhook]\nenabled = false\n"
        async with borrower(cluster, text) as context:
            await second.start(PodWebhook(context, Account()).run_as_leader)
            assert await context.client.find(MUTATING_WEBHOOKS, webhook.NAME) is None
            second.cancel_scope.cancel()


async def test_missed_pod_gets_its_toleration(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(OffloadingController(context).run)
        await nursery.start(MissedPods(context, PodWebhook(context, Account()).doubt).run)
        await offload(context.client, "shop")
        await context.client.create(
            PODS, pod("early", nodeSelector={"liqo.io/type": "virtual-node"})
        )
        await context.client.create(PODS, pod("elsewhere", "default"))

        async def given():
            return tolerated(await context.client.get(PODS, "early", "shop"))

        await eventually(given)
        assert not tolerated(await context.client.get(PODS, "elsewhere", "default"))


async def test_missed_pod_that_was_there_before_its_namespace_was_offloaded(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(MissedPods(context, PodWebhook(context, Account()).doubt).run)
        await offload(context.client, "shop", podOffloadingStrategy="Local")
        await context.client.create(PODS, pod("early"))
        await trio.sleep(0.1)
        assert not tolerated(await context.client.get(PODS, "early", "shop"))
        spec = {"spec": {"podOffloadingStrategy": "LocalAndRemote"}}
        await context.client.patch(NAMESPACE_OFFLOADINGS, "offloading", spec, "shop")

        async def given():
            return tolerated(await context.client.get(PODS, "early", "shop"))

        await eventually(given)


async def test_pod_that_cannot_follow_is_told_why(cluster, nursery):
    async with borrower(cluster) as context:
        await nursery.start(MissedPods(context, PodWebhook(context, Account()).doubt).run)
        await offload(context.client, "shop")
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "db"}}]
        await context.client.create(PODS, pod("db", volumes=volumes))

        async def told():
            return condition(await context.client.get(PODS, "db", "shop"), CONDITION) or None

        found = await eventually(told)
        assert (found["status"], found["reason"]) == ("False", "PersistentVolumeClaim")
        assert not tolerated(await context.client.get(PODS, "db", "shop"))
        await trio.sleep(0.1)
        version = (await context.client.get(PODS, "db", "shop"))["metadata"]["resourceVersion"]
        await trio.sleep(0.2)
        after = await context.client.get(PODS, "db", "shop")
        assert after["metadata"]["resourceVersion"] == version


async def test_port_in_use_is_named(cluster):
    free = '[kubelet]\nport = 0\nlisten = "127.0.0.1"\n'
    async with borrower(cluster, free) as context, trio.open_nursery() as nursery:
        port = await nursery.start(KubeletServer(context, PodProxies(), Account()).run)
        taken = free.replace("= 0", f"= {port}")
        async with borrower(cluster, taken) as other:
            with pytest.RaisesGroup(
                pytest.RaisesExc(ConfigError, match=rf"{port}.*kubelet\.port"),
                flatten_subgroups=True,
            ):
                await nursery.start(KubeletServer(other, PodProxies(), Account()).run)
        nursery.cancel_scope.cancel()


async def test_way_is_proved_again_after_a_rotation(cluster, nursery):
    async with borrower(cluster) as context:
        hook = await started(context, nursery)
        await verdict(context, "true")
        before = await context.client.get(SECRETS, "liqod-webhook", "liqo")
        probes = context.client.stats.requests[("create", "pods")]
        # Hosts are what a certificate is made for: other ones make it due.
        await context.client.patch(SECRETS, "liqod-webhook", {"data": {"hosts": "eA=="}}, "liqo")

        async def rotated():
            now = await context.client.get(SECRETS, "liqod-webhook", "liqo")
            return now["data"]["tls.crt"] != before["data"]["tls.crt"]

        await eventually(rotated)

        async def proved():
            return context.client.stats.requests[("create", "pods")] > probes

        await eventually(proved)
        after = await context.client.get(SECRETS, "liqod-webhook", "liqo")
        assert after["data"]["ca.crt"] == before["data"]["ca.crt"]
        assert hook.controller is not None
        assert hook.controller.reachable is True
