"""Pages of a virtual node: figures, pods and health, requested as metrics-server and others do."""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCES,
    NODES,
    PODS,
)
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.consumer.nodes.podusage import POD_METRICS
from liqod.consumer.timings import ConsumerTimings
from liqod.plugins import loader
from liqod.runtime.account import Account
from simulator.access.identities import User
from tests.simulated.borrower import eventually
from tests.simulated.consumer.test_podstreams import PORTS, Peered
from tests.simulated.kubeletcaller import Caller
from tests.simulated.members import SETTINGS, Member, borrow_a_pod, members

RESOURCE = "/virtualnodes/milan/metrics/resource"
SUMMARY = "/stats/summary"
PAGES = {"metrics": RESOURCE, "stats": SUMMARY, "pods": "/pods", "healthz": "/healthz"}
DEFINITION = {
    "metadata": {"name": "pods.metrics.k8s.io"},
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodMetrics", "plural": "pods"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
"""Serves what a metrics-server would."""
ANEW = ConsumerTimings(usage_fresh=0.0, readers_kept=0.0)
"""Each page is asked for anew, and so is the right to it."""


@pytest.fixture
async def caller() -> AsyncIterator[Peered]:
    plugins = loader.load(sources=loader.built_in())
    async with (
        members(
            *("rome", "milan"), plugins=plugins, settings=SETTINGS + PORTS, consumer_timings=ANEW
        ) as (rome, milan),
        trio.open_nursery() as nursery,
    ):
        places = Account()
        port = await nursery.start(
            KubeletServer(rome.context, rome.components.pod_proxies, places, timings=ANEW).run
        )
        await borrow_a_pod(rome, milan)
        started = [{"name": "web", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]
        status = {"status": {"phase": "Running", "containerStatuses": started}}
        await milan.admin.patch(PODS, "web", status, "shop-rome", subresource="status")
        await rome.until(PODS, "web", "shop", lambda pod: pod["status"].get("containerStatuses"))
        yield Peered(port, rome.cluster.ca, rome, milan, places)
        nursery.cancel_scope.cancel()


async def asked(caller: Caller, target: str, more: str = "", **how: Any) -> tuple[int, str]:
    """A page: the status and the text, also where it comes in pieces."""
    async with caller.ask(target, f"{more}Connection: close\r\n", method="GET", **how) as answer:
        said = await answer.rest()
        if answer.headers.get("transfer-encoding") == "chunked":
            said = b"".join(said.split(b"\r\n")[1::2])  # JSON has no line ends of that kind
        return answer.status, said.decode()


async def used(milan: Member, cpu: str, memory: str = "32Mi", **more: Any) -> None:
    """Have milan's metrics-server say what the pod uses, beside a sidecar of milan's own."""
    usage = {"cpu": cpu, "memory": memory}
    containers = [{"name": name, "usage": usage} for name in ("web", "injected")]
    await milan.admin.delete(POD_METRICS, "web", "shop-rome")
    stamp = {"timestamp": str(trio.current_time()), "window": "15s"}
    body = {"metadata": {"name": "web"}, **stamp, "containers": containers, **more}
    await milan.admin.create(POD_METRICS, body, "shop-rome")


@pytest.mark.long
@pytest.mark.pods
async def test_figures_are_the_peers_and_never_zeros(
    caller: Peered,
) -> None:
    rome, milan = caller.rome, caller.milan
    status, said = await asked(caller, RESOURCE)
    assert status == 404
    assert "the peer milan: it has no metrics.k8s.io" in said
    assert "it has no metrics.k8s.io" in rome.components.pod_proxies["milan"].usage.problem

    await milan.admin.create(CUSTOM_RESOURCES, DEFINITION)
    await eventually(lambda: _served(milan))
    await used(milan, "250m")
    await milan.admin.create(
        POD_METRICS, {"metadata": {"name": "stranger"}, "containers": []}, "shop-rome"
    )
    status, said = await asked(caller, RESOURCE)
    assert status == 200, said
    assert 'container="web",namespace="shop",pod="web"' in said
    assert "injected" not in said
    assert "stranger" not in said
    assert "shop-rome" not in said
    assert "resource_scrape_error 0" in said
    await used(milan, "500m")
    _, said = await asked(caller, SUMMARY)
    [pod] = json.loads(said)["pods"]
    assert pod["podRef"]["namespace"] == "shop"
    assert pod["cpu"]["usageNanoCores"] == 500_000_000
    assert pod["memory"]["workingSetBytes"] == 32 << 20

    for hostile in ("-1", "1e30"):
        await used(milan, hostile)
        status, said = await asked(caller, RESOURCE)
        assert status == 200
        assert "container_cpu" not in said

    role = "liqo-virtual-kubelet-remote-base"
    await milan.admin.delete(CLUSTER_ROLES, role)

    async def refused() -> bool:
        status, said = await asked(caller, RESOURCE)
        return status == 403 and "the peer milan: it does not tell what pods use" in said

    await eventually(refused)


async def _served(milan: Member) -> bool:
    return bool(await milan.admin.list(POD_METRICS) == [])


@pytest.mark.long
@pytest.mark.pods
async def test_pods_and_health_are_a_kubelets(caller: Peered) -> None:
    status, said = await asked(caller, "/pods")
    assert status == 200
    [pod] = json.loads(said)["items"]
    assert (pod["metadata"]["namespace"], pod["spec"]["nodeName"]) == ("shop", "milan")
    assert await asked(caller, "/healthz") == (200, "ok")
    for path in ("/configz", "/metrics", "/metrics/cadvisor", "/logs/", "/runningpods/"):
        status, said = await asked(caller, path)
        assert (status, "a virtual node has no" in said) == (404, True), path
    forwarded = "X-Forwarded-Uri: /api/v1/nodes/{}/proxy/pods\r\n"
    assert (await asked(caller, "/pods", forwarded.format("milan")))[0] == 200
    status, said = await asked(caller, "/pods", forwarded.format("rome"))
    assert (status, said) == (404, "rome is no virtual node here\n")
    annotations = (await caller.rome.admin.get(NODES, "milan"))["metadata"]["annotations"]
    assert annotations[labels.METRICS_PATH] == RESOURCE

    caller.rome.components.pod_proxies["turin"] = cast("Any", _Other())
    status, said = await asked(caller, "/pods")
    assert status == 404
    assert "name one, as /virtualnodes/NAME/pods or through the API server" in said
    assert (await asked(caller, "/virtualnodes/milan/pods"))[0] == 200
    del caller.rome.components.pod_proxies["turin"]

    await caller.milan.cluster.stop()

    async def ill() -> bool:
        status, said = await asked(caller, "/healthz")
        return status == 503 and "the peer milan: it does not answer" in said

    await eventually(ill)
    await caller.milan.cluster.start()


class _Other:
    """The way to another peer."""

    nodes = ("turin",)

    def has(self, node: str) -> bool:
        return node in self.nodes


@pytest.mark.long
async def test_each_page_asks_for_its_right(caller: Peered) -> None:
    """As a kubelet with KubeletFineGrainedAuthz: and a right to another node is none."""
    admin = caller.rome.admin
    rules: list[dict[str, Any]] = [{"apiGroups": [""], "resources": ["none"], "verbs": ["get"]}]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "scraper"}
    reference = {**subject, "kind": "ClusterRole", "name": "scraper"}
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "scraper"}, "rules": rules})
    binding = {"metadata": {"name": "scraper"}, "roleRef": reference, "subjects": [subject]}
    await admin.create(CLUSTER_ROLE_BINDINGS, binding)
    tokens = caller.rome.cluster.api.authenticator.tokens
    tokens["scrape"] = User("scraper", ("system:authenticated",))
    headers = "Authorization: Bearer scrape\r\n"
    nobody = caller.anonymous()

    async def status(page: str) -> int:
        return (await asked(caller, page, headers, of=nobody))[0]

    for given in ("metrics", "stats", "pods", "healthz", "proxy", "nothing"):
        rules[0] = {"apiGroups": [""], "resources": [f"nodes/{given}"], "verbs": ["get"]}
        await admin.patch(CLUSTER_ROLES, "scraper", {"rules": rules})
        allowed = {name for name, page in PAGES.items() if await status(page) != 403}
        by_proxy = {"pods", "healthz"} if given == "proxy" else set[str]()
        assert allowed == ({given} & PAGES.keys()) | by_proxy, given
        assert (await asked(caller, "/pods", of=nobody))[0] == 401

        rules[0]["resourceNames"] = ["turin"]
        await admin.patch(CLUSTER_ROLES, "scraper", {"rules": rules})
        for page in PAGES.values():
            assert await status(page) == 403, (given, page)
