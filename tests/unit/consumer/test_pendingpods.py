"""The sums of the pods on a virtual node: of those that wait, and of those that are settled."""

from typing import Any, cast

import msgspec
import trio
from trio.testing import MockClock

from liqod.consumer.nodes.pendingpods import SETTLES, PendingPods
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import Key, StoreChange
from liqod.model.objects.quantities import NANO


class Feed:
    """Stands for an informer and its store: hands on what it is given."""

    def __init__(self) -> None:
        self.synced = True
        self.store = self
        self._found: dict[Key, bytes] = {}
        self._told: Any = None

    def subscribe(self, told: Any) -> None:
        self._told = told

    def get(self, key: Key) -> bytes | None:
        return self._found.get(key)

    def tell(self, name: str, cpu: int, phase: str = "Pending", reason: str = "") -> None:
        requests = {"requests": {"cpu": str(cpu)}}
        spec = {"nodeName": "milan", "containers": [{"name": "c", "resources": requests}]}
        body = {"spec": spec, "status": {"phase": phase, "reason": reason}}
        self._set(name, msgspec.json.encode(body))

    def end(self, name: str) -> None:
        self._set(name, None)

    def _set(self, name: str, body: bytes | None) -> None:
        key = ("shop", name)
        old = self._found.pop(key, None)
        if body is not None:
            self._found[key] = body
        self._told(StoreChange(key=key, old=old, new=body))


def followed(feed: Feed) -> PendingPods:
    pods = PendingPods("milan")
    pods.follow(cast("SharedInformer", feed))
    return pods


def settled(pods: PendingPods) -> int:
    pods.refresh()
    return pods.settled.get("cpu", 0) // NANO


async def test_a_pod_is_settled_some_time_after_it_was_sent(autojump_clock: MockClock) -> None:
    feed = Feed()
    pods = followed(feed)
    feed.tell("web", 1)
    assert settled(pods) == 0
    await trio.sleep(SETTLES / 2)
    feed.tell("web", 1, "Running")
    feed.tell("late", 2)
    assert settled(pods) == 0
    await trio.sleep(SETTLES / 2)
    assert settled(pods) == 1
    await trio.sleep(SETTLES / 2)
    assert settled(pods) == 3
    feed.tell("late", 2, "Pending", "Unschedulable")
    assert settled(pods) == 1
    assert pods.waiting["cpu"] == 2 * NANO
    feed.end("web")
    assert settled(pods) == 0
    feed.tell("web", 1)
    assert settled(pods) == 0


async def test_what_was_sent_before_anybody_counted_is_settled(autojump_clock: MockClock) -> None:
    feed = Feed()
    followed(feed)
    feed.tell("web", 1)
    assert settled(followed(feed)) == 1
    feed.synced = False
    pods = followed(feed)
    feed.tell("listed", 2)
    assert settled(pods) == 3
