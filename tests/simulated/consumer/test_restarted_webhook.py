"""A webhook that has just begun places the first pod, too, once it has read what it needs."""

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.cluster.context import ClusterContext
from liqod.consumer.webhook import podwebhook
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from liqod.model.objects import webhook
from liqod.runtime.account import Account
from simulator import EmbeddedCluster
from tests.simulated.borrower import borrower, offload
from tests.simulated.consumer.test_webhook import pod
from tests.simulated.prepared import defined


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("rome", state=await defined("rome")) as embedded:
        yield embedded


async def first_answer(context: ClusterContext, path: str) -> HttpResponse:
    """The answer for a pod that is made as soon as the webhook listens."""
    review = {"request": {"uid": "1", "namespace": "shop", "object": pod("p")}}
    asked = HttpRequest("POST", path, {}, {}, msgspec.json.encode(review))
    made = []
    async with trio.open_nursery() as nursery:
        hook = PodWebhook(context, Account())
        await nursery.start(hook.run)
        with trio.fail_after(5):
            made.append(await hook.answer(asked))
        nursery.cancel_scope.cancel()
    return made[0]


@pytest.mark.parametrize("path", [webhook.PATH, webhook.CLOSED_PATH])
async def test_the_first_pod_is_placed(cluster: EmbeddedCluster, path: str):
    async with borrower(cluster) as context:
        await offload(context.client, "shop", {labels.FAIL_CLOSED: "true"})
    async with borrower(cluster) as context:
        answer = await first_answer(context, path)
    assert answer.status == 200
    assert isinstance(answer.body, bytes)
    assert "patch" in msgspec.json.decode(answer.body)["response"]


async def test_what_cannot_be_read_holds_no_pod_up(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
):
    async def never(self: SharedInformer) -> None:
        await trio.sleep_forever()

    async with borrower(cluster) as context:
        monkeypatch.setattr(podwebhook, "HELD", 0.1)
        monkeypatch.setattr(SharedInformer, "synced", never)
        assert (await first_answer(context, webhook.PATH)).status == 200
