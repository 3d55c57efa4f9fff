"""What a consumer that may write pods at a provider itself cannot do there: a real API server and
the provider's own review refuse."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio

from liqod.consumer.webhook.server import PodWebhook
from liqod.errors import Forbidden, Invalid, LiqodError
from liqod.kube.client import Client
from liqod.kube.kinds import MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.model.objects import webhook
from liqod.model.objects.realnodes import on_real_nodes
from liqod.provider.policies.fences import Fences
from liqod.provider.tenants import bindings
from liqod.resources import SHADOW_PODS
from tests.cluster.forging import SLICE_USER, as_user
from tests.cluster.providing import Milan, provider
from tests.cluster.test_lending import ask, at_work, policies_hold
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, SHOP, TENANT, USER, Lender, lender

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
CONFIG = """
[webhook]
port = 0
host = "127.0.0.1"
[provider]
direct_pods = true
"""
HELD = labels.FINALIZER_DIRECT_POD
MILANS = "milan.example/keep"
MARKS = {
    labels.MANAGED_BY: labels.MANAGED_BY_CONSUMER,
    labels.CREATOR_USER: USER,
    labels.ORIGIN: CONSUMER,
    labels.DESTINATION: "milan",
}


@pytest.fixture(scope="module")
def milan() -> Iterator[Milan]:
    yield from provider(CONFIG, _lend)


async def _lend(made: Lender) -> None:
    await bindings.bind(made.home.client, bindings.direct(CONSUMER, TENANT, SHOP))
    await made.grant(cpu="64", pods="500")
    await policies_hold(made)


@pytest.fixture
async def lending(milan: Milan) -> AsyncIterator[Lender]:
    async with (
        Client(milan.admin) as admin,
        lender(admin, milan.daemon, CONFIG) as made,
        trio.open_nursery() as nursery,
    ):
        hook = PodWebhook(made.home)
        await nursery.start(Fences(made.home).run)
        await nursery.start(hook.run)
        await nursery.start(hook.lead)
        async with at_work(made):
            await admitted(made)
            yield made
        nursery.cancel_scope.cancel()


def pod(name: str, *, spec: Json | None = None, **meta: Any) -> Json:
    """A direct pod as a liqod writes it."""
    container = {"name": "web", "image": "web"}
    wanted = on_real_nodes({"containers": [container], "automountServiceAccountToken": False})
    marks = {**MARKS, **meta.pop("labels", {})}
    notes = {labels.LOCAL_UID: f"uid-of-{name}", **meta.pop("annotations", {})}
    found = {key: value for key, value in marks.items() if value}
    held = {"finalizers": [HELD], **meta}
    return {
        "metadata": {"name": name, "labels": found, "annotations": notes, **held},
        "spec": {**wanted, **(spec or {})},
    }


async def write(made: Lender, obj: Json) -> Json:
    return await as_user(made, SLICE_USER, "POST", PODS, obj)


async def patch(made: Lender, name: str, change: Json) -> Json:
    return await as_user(made, SLICE_USER, "PATCH", PODS, change, name=name)


async def end(made: Lender, name: str, grace: int | None = None) -> Json:
    body = {"apiVersion": "v1", "kind": "DeleteOptions"}
    more = {} if grace is None else {"gracePeriodSeconds": grace}
    return await as_user(made, SLICE_USER, "DELETE", PODS, {**body, **more}, name=name)


async def admitted(made: Lender) -> None:
    """Until the API server asks the webhook, and takes an ordinary pod."""

    async def held() -> bool:
        try:
            await write(made, pod("probe", labels={labels.MANAGED_BY: ""}))
        except Forbidden:
            return True
        await made.admin.delete(PODS, "probe", SHOP, grace=0)
        return False

    names = (f"probe-{number}" for number in itertools.count())

    async def look() -> bool:
        name = next(names)
        try:
            await write(made, pod(name))
        except LiqodError:
            return False
        await part(made, name)
        return True

    await eventually(held, seconds=30)
    await eventually(look, seconds=60)


async def part(made: Lender, name: str) -> None:
    """End a pod as a liqod does: with its word first."""
    word = {"annotations": {labels.DELETION_GRACE: "1"}, "finalizers": []}
    await patch(made, name, {"metadata": word})
    await end(made, name, 1)


def container(**more: Any) -> Json:
    return {"containers": [{"name": "web", "image": "web", **more}]}


FOREIGN_OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "u"}
WRITTEN: dict[str, Json] = {
    "no mark": pod("x", labels={labels.MANAGED_BY: ""}),
    "the mark of a ShadowPod's": pod("x", labels={labels.MANAGED_BY: "shadowpod"}),
    "another's slice": pod("x", labels={labels.CREATOR_USER: "another-rome"}),
    "nobody's slice": pod("x", labels={labels.CREATOR_USER: ""}),
    "another origin": pod("x", labels={labels.ORIGIN: "turin"}),
    "finalizers": pod("x", finalizers=[HELD, "rome.example/keep"]),
    "nothing that holds it": pod("x", finalizers=[]),
    "owners": pod("x", ownerReferences=[FOREIGN_OWNER]),
    "a label of a controller's": pod("x", labels={"cloud.example/role": "admin"}),
    "an annotation of a controller's": pod("x", annotations={"iam.example/role": "admin"}),
    "a run": pod("x", spec={"restartPolicy": "Never"}),
    "a restart on failure": pod("x", spec={"restartPolicy": "OnFailure"}),
    "privileges": pod("x", spec=container(securityContext={"privileged": True})),
    "capabilities": pod(
        "x", spec=container(securityContext={"capabilities": {"add": ["NET_ADMIN"]}})
    ),
    "a host port": pod("x", spec=container(ports=[{"containerPort": 80, "hostPort": 80}])),
    "the host's network": pod("x", spec={"hostNetwork": True}),
    "the host's processes": pod("x", spec={"hostPID": True}),
    "a host path": pod("x", spec={"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
    "network storage": pod(
        "x", spec={"volumes": [{"name": "v", "nfs": {"server": "a", "path": "/"}}]}
    ),
    "an inline driver": pod("x", spec={"volumes": [{"name": "v", "csi": {"driver": "d"}}]}),
    "a node": pod("x", spec={"nodeName": "milan-0"}),
    "a scheduler": pod("x", spec={"schedulerName": "mine"}),
    "a priority": pod("x", spec={"priorityClassName": "system-node-critical"}),
    "reserved nodes": pod("x", spec={"tolerations": [{"operator": "Exists"}]}),
    "one reserved node": pod(
        "x", spec={"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]}
    ),
    "a ServiceAccount": pod("x", spec={"serviceAccountName": "builder"}),
    "decades to end": pod("x", spec={"terminationGracePeriodSeconds": 1_000_000_000}),
    "virtual nodes": pod("x", spec={"affinity": {}}),
    "virtual nodes by one of two terms": pod(
        "x",
        spec={
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                        ]
                    }
                }
            }
        },
    ),
    "more than was granted": pod("x", spec=container(resources={"requests": {"cpu": "65"}})),
    "an object of 200 kB": pod("x", annotations={"note": "x" * 200_000}),
}
CHANGED: dict[str, Json] = {
    "another image": {"spec": {"containers": [{"name": "web", "image": "another"}]}},
    "a deadline": {"spec": {"activeDeadlineSeconds": 1}},
    "tolerations": {"spec": {"tolerations": [{"operator": "Exists"}]}},
    "the mark": {"metadata": {"labels": {labels.MANAGED_BY: "shadowpod"}}},
    "no mark": {"metadata": {"labels": {labels.MANAGED_BY: None}}},
    "another's slice": {"metadata": {"labels": {labels.CREATOR_USER: "another-rome"}}},
    "another origin": {"metadata": {"labels": {labels.ORIGIN: "turin"}}},
    "finalizers": {"metadata": {"finalizers": [HELD, MILANS, "rome.example/keep"]}},
    "the end of what others hold": {"metadata": {"finalizers": [HELD]}},
    "owners": {"metadata": {"ownerReferences": [FOREIGN_OWNER]}},
    "a label of a controller's": {"metadata": {"labels": {"cloud.example/role": "admin"}}},
    "an annotation of a controller's": {"metadata": {"annotations": {"iam.example/role": "a"}}},
}


async def refused(made: Lender, doing: Any, what: str) -> None:
    try:
        await doing
    except (Forbidden, Invalid):
        return
    pytest.fail(f"{what} was taken")


async def placed(made: Lender, name: str) -> None:
    """Be the scheduler: what has no node ends without a grace."""
    if await made.admin.find(NODES, "milan-9") is None:
        await made.admin.create(NODES, {"metadata": {"name": "milan-9"}})
    target = {"apiVersion": "v1", "kind": "Node", "name": "milan-9"}
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    await made.admin.create_subresource(PODS, name, SHOP, "binding", bound, decode=dict)


async def test_what_it_may_not_write(lending: Lender) -> None:
    for what, obj in WRITTEN.items():
        await refused(lending, write(lending, obj), what)
    assert await lending.admin.find(PODS, "x", SHOP) is None


async def test_what_it_may_not_change_or_end(lending: Lender) -> None:
    await write(lending, pod("web"))
    await placed(lending, "web")
    more = {"metadata": {"finalizers": [HELD, MILANS]}}
    await lending.admin.patch(PODS, "web", more, SHOP)
    for what, change in CHANGED.items():
        await refused(lending, patch(lending, "web", change), what)
    await patch(lending, "web", {"metadata": {"labels": {"tier": "front"}}})
    found = await lending.admin.get(PODS, "web", SHOP)
    for subresource, verb in (
        ("status", "PATCH"),
        ("ephemeralcontainers", "PATCH"),
        ("resize", "PATCH"),
        ("binding", "POST"),
        ("eviction", "POST"),
    ):
        doing = as_user(lending, SLICE_USER, verb, PODS, {}, name="web", subresource=subresource)
        await refused(lending, doing, subresource)
    await refused(lending, as_user(lending, SLICE_USER, "PUT", PODS, found, name="web"), "a PUT")
    await refused(lending, as_user(lending, SLICE_USER, "DELETE", PODS, {}), "all at once")
    await refused(lending, end(lending, "web", 0), "an end without a grace")
    own = {"metadata": {"name": "own"}, "spec": container()}
    await lending.admin.create(PODS, own, SHOP)
    await refused(lending, end(lending, "own"), "somebody else's pod")
    await refused(
        lending, patch(lending, "own", {"metadata": {"labels": MARKS}}), "taking a pod over"
    )
    await ask(lending, "lent")
    await lending.made("lent")
    await refused(lending, end(lending, "lent"), "the pod of a ShadowPod")
    word = {"annotations": {labels.DELETION_GRACE: "1"}, "finalizers": [MILANS]}
    await patch(lending, "web", {"metadata": word})
    await end(lending, "web", 1)
    going = await lending.admin.get(PODS, "web", SHOP)
    assert going["metadata"]["deletionGracePeriodSeconds"] == 1
    await lending.admin.patch(PODS, "web", {"metadata": {"finalizers": None}}, SHOP)
    await lending.admin.delete(PODS, "web", SHOP, grace=0)
    await eventually(lambda: _gone(lending, "web"))
    await lending.settled()
    assert await lending.admin.find(SHADOW_PODS, "web", SHOP) is None


async def test_a_burst_ends_at_what_was_granted(lending: Lender) -> None:
    before = len(await lending.admin.list(PODS, Selection(SHOP)))
    taken: list[str] = []
    said: list[str] = []

    async def one(number: int) -> None:
        asks = container(resources={"requests": {"cpu": "8"}})
        try:
            await write(lending, pod(f"burst-{number}", spec=asks))
        except Forbidden as error:
            said.append(str(error))
        else:
            taken.append(f"burst-{number}")

    async with trio.open_nursery() as burst:
        for number in range(16):
            burst.start_soon(one, number)
    assert len(taken) in (7, 8), taken
    assert all("OverQuota" in each for each in said)
    assert len(await lending.admin.list(PODS, Selection(SHOP))) == before + len(taken)
    for name in taken:
        await part(lending, name)


async def test_one_of_which_nobody_was_asked_does_not_stay(lending: Lender) -> None:
    found = await lending.admin.get(MUTATING_WEBHOOKS, webhook.GUESTS_NAME)
    assert found["webhooks"][0]["failurePolicy"] == "Fail"
    without = [{**found["webhooks"][0], "objectSelector": {"matchLabels": {"no": "pod"}}}]
    await lending.admin.patch(MUTATING_WEBHOOKS, webhook.GUESTS_NAME, {"webhooks": without})
    try:
        await write(lending, pod("sly", spec={"schedulerName": "mine"}))
    except Forbidden:
        return  # it was put right before the API server had noticed
    await eventually(lambda: _gone(lending, "sly"))


async def _gone(made: Lender, name: str) -> bool:
    return await made.admin.find(PODS, name, SHOP) is None


async def test_what_somebody_ends_here_is_made_again(lending: Lender) -> None:
    await write(lending, pod("kept"))
    first = (await lending.admin.get(PODS, "kept", SHOP))["metadata"]["uid"]
    await lending.admin.delete(PODS, "kept", SHOP)
    remote_pod = await lending.made("kept", other_than=first)
    assert remote_pod["metadata"]["labels"][labels.MANAGED_BY] == "shadowpod"
    await lending.admin.delete(SHADOW_PODS, "kept", SHOP)
    assert await lending.admin.find(NAMESPACES, SHOP) is not None
