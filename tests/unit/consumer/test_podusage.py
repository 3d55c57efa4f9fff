"""Requests to a peer for its guests' usage: how often, and how its refusals are handled."""

from typing import Any, cast

import msgspec
import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import PODS
from liqod.consumer.nodes import podusage
from liqod.consumer.nodes.podusage import PodLocation, PodUsage
from liqod.consumer.timings import ORDINARY
from liqod.errors import Forbidden, LiqodError, NotFound, ProtocolError, Unreachable
from liqod.kube.pages import read_page
from liqod.model.crossing.usage import STALE, Counters, PodMetrics, samples
from liqod.runtime.gather import gather
from tests.testbed.held import held

STARTED = {"running": {"startedAt": "2023-11-14T22:12:20Z"}}


def body(namespace: str, name: str = "web") -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"},
            "spec": {"containers": [{"name": "main"}]},
            "status": {"containerStatuses": [{"name": "main", "state": STARTED}]},
        }
    )


class World:
    """A peer that answers, or does not; it counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.wrong: dict[str, LiqodError] = {}
        self.slow = False
        self.usage = PodUsage(self.lead, trio.current_time)

    def lead(self, node: str, namespace: str) -> PodLocation:
        return PodLocation(cast("Any", self), f"{namespace}-rome")

    async def list(self, kind: Any, selection: Any, decode: Any) -> list[PodMetrics]:
        self.asked.append(selection.namespace)
        await trio.sleep(60 if self.slow else 0.1)
        if error := self.wrong.get(selection.namespace):
            raise error
        container = {"name": "main", "usage": {"cpu": "500m", "memory": "1Mi"}}
        found = [
            {
                "metadata": {"name": name},
                "timestamp": str(len(self.asked)),
                "containers": [container],
            }
            for name in ("web", "not-ours")
        ]
        return msgspec.convert(found, list[PodMetrics])


async def test_ten_scrapers_cost_one_request(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    assert world.usage.requested_at is None
    await trio.sleep(ORDINARY.usage_fresh)
    assert world.asked == [], "nobody scrapes, nobody is asked"
    one = [body("shop")]
    found = await gather(*(lambda: world.usage.of("milan", one) for _ in range(10)))
    assert world.asked == ["shop-rome"]
    [(pod, _)] = found[0][0].pods
    assert (pod.namespace, pod.name) == ("shop", "web")
    await trio.sleep(ORDINARY.usage_fresh)
    await world.usage.of("milan", [*one, body("other")])
    assert sorted(world.asked) == ["other-rome", "shop-rome", "shop-rome"]


async def test_a_node_without_pods_asks_nobody(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    reading, complete = await world.usage.of("milan", [])
    assert (reading.pods, complete, world.asked) == ((), True, [])


async def test_a_refusal_is_no_zero(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.wrong["shop-rome"] = NotFound("the server could not find the requested resource")
    for _ in range(3):
        with pytest.raises(NotFound, match=r"it has no metrics\.k8s\.io"):
            await world.usage.of("milan", [body("shop")])
    assert len(world.asked) == 1, "a refusal is remembered, too"
    assert "metrics.k8s.io" in world.usage.problem
    reading, complete = await world.usage.of("milan", [body("shop"), body("other")])
    assert not complete
    assert [pod.namespace for pod, _ in reading.pods] == ["other"]
    world.wrong["shop-rome"] = Forbidden("pods.metrics.k8s.io is forbidden")
    await trio.sleep(ORDINARY.usage_fresh)
    with pytest.raises(Forbidden, match="does not tell what pods use"):
        await world.usage.of("milan", [body("shop")])
    world.wrong.clear()
    await trio.sleep(ORDINARY.usage_fresh)
    await world.usage.of("milan", [body("shop")])
    assert not world.usage.problem


async def test_a_slow_peer_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    world.slow = True
    started = trio.current_time()
    with pytest.raises(Unreachable, match="no answer within 8 s"):
        await world.usage.of("milan", [body("shop"), body("other")])
    assert trio.current_time() - started == pytest.approx(podusage.DEADLINE)


async def test_what_nobody_asks_for_is_forgotten(autojump_clock: trio.testing.MockClock) -> None:
    world = World()
    for number in range(20):
        await world.usage.of("milan", [body(f"shop{number}")])
        await trio.sleep(STALE / 2)
    assert len(held(world.usage, trio.Lock)) <= 3
    assert len({f"shop{number}" for number in range(20)} & {*held(world.usage, str)}) <= 3
    await world.usage.of("turin", [body("shop")])
    await trio.sleep(STALE + 1)
    await world.usage.of("milan", [body("shop")])
    assert len(held(world.usage, Counters)) == 1
    assert "turin" not in held(world.usage, str)


async def test_the_list_of_a_real_metrics_server_is_one() -> None:
    """It has no version, and its items have no UID."""
    item = {
        "metadata": {"name": "web", "namespace": "shop-rome", "labels": {"app": "web"}},
        "timestamp": "2026-11-23T10:05:17Z",
        "window": "9.993s",
        "containers": [{"name": "main", "usage": {"cpu": "200288989n", "memory": "240Ki"}}],
    }
    kind = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
    text = msgspec.json.encode({**kind, "metadata": {}, "items": [item]})
    page = await read_page(text, podusage.POD_METRICS)
    [found] = [msgspec.json.decode(slim.body, type=PodMetrics) for slim in page.found]
    assert samples([found])["web"].containers == {"main": (0.200288989, 240 << 10)}
    with pytest.raises(ProtocolError, match="no version"):
        await read_page(text, PODS)
