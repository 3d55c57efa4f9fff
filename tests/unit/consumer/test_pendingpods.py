"""The sums of the pods on a virtual node: of those that wait, and of those that are settled."""

import random
from typing import Any, cast

import msgspec
import trio
from trio.testing import MockClock

from liqod.consumer.nodes.pendingpods import MOST_SENT, SETTLES, PendingPods
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


async def test_what_was_sent_before_anybody_counted_is_settled_as_what_comes(
    autojump_clock: MockClock,
) -> None:
    feed, heard = Feed(), [float("inf"), float("-inf")]  # the peer is silent as yet
    followed(feed)
    feed.tell("web", 1)
    pods = PendingPods("milan", lambda: (heard[0], heard[1]))
    pods.follow(cast("SharedInformer", feed))
    await trio.sleep(3600)
    assert settled(pods) == 0
    assert sent(pods) == [(1, 1)]
    heard[:] = trio.current_time(), trio.current_time()
    assert settled(pods) == 0
    heard[1] += SETTLES
    assert settled(pods) == 1
    assert sent(pods) == []


def sent(pods: PendingPods) -> list[tuple[int, int]]:
    """The CPUs of the pods that are not settled, and how many in a row are equal."""
    pods.refresh()
    return [(cost.get("cpu", 0) // NANO, number) for cost, number in pods.sent]


async def test_what_was_sent_last_is_first_until_it_is_settled(autojump_clock: MockClock) -> None:
    feed = Feed()
    followed(feed)
    feed.tell("old", 4)
    pods = followed(feed)
    assert sent(pods) == [(4, 1)]
    await trio.sleep(SETTLES)
    assert sent(pods) == []
    for name, cpu in (("a", 6), ("b", 2), ("c", 2)):
        feed.tell(name, cpu)
    assert sent(pods) == [(2, 2), (6, 1)]
    assert (pods.placed, pods.held["cpu"]) == (4, 14 * NANO)
    await trio.sleep(SETTLES / 2)
    feed.tell("late", 1, "Running")
    feed.tell("b", 2, "Pending", "Unschedulable")  # it waits, and takes no place
    assert sent(pods) == [(1, 1), (2, 1), (6, 1)]
    assert (pods.placed, pods.held["cpu"]) == (4, 13 * NANO)
    feed.end("c")
    assert sent(pods) == [(1, 1), (6, 1)]
    await trio.sleep(SETTLES / 2)
    assert sent(pods) == [(1, 1)]
    feed.tell("late", 1, "Succeeded")
    assert sent(pods) == []
    assert (pods.placed, pods.held["cpu"]) == (2, 10 * NANO)


async def test_of_a_peer_that_is_silent_no_pod_settles(autojump_clock: MockClock) -> None:
    feed, heard = Feed(), [0.0, 0.0]
    pods = PendingPods("milan", lambda: (heard[0], heard[1]))
    pods.follow(cast("SharedInformer", feed))
    feed.tell("web", 2)
    await trio.sleep(SETTLES - 1)
    feed.tell("late", 3)
    heard[1] = trio.current_time() + 1  # its last sign of life
    await trio.sleep(3600)
    assert settled(pods) == 2
    assert sent(pods) == [(3, 1)]
    heard[:] = trio.current_time() - SETTLES + 1, trio.current_time()  # it came back just now
    assert settled(pods) == 2
    heard[1] += 1
    assert settled(pods) == 5
    assert sent(pods) == []


async def test_while_a_peer_counts_fewer_pods_than_run_there_none_settles(
    autojump_clock: MockClock,
) -> None:
    feed, counts = Feed(), [1]
    pods = PendingPods("milan", counted=lambda: counts[0])
    pods.follow(cast("SharedInformer", feed))
    for name in ("web", "late"):
        feed.tell(name, 2, "Running")
    await trio.sleep(3600)
    assert settled(pods) == 0  # its own watch stands still, though its daemon leads
    assert sent(pods) == [(2, 2)]
    feed.tell("never", 3)  # no pod is made of it there
    counts[0] = 2
    assert settled(pods) == 4
    await trio.sleep(SETTLES)
    assert settled(pods) == 7
    assert sent(pods) == []


async def test_of_pods_that_ask_for_nothing_no_row_is_kept_and_of_many_the_last(
    autojump_clock: MockClock,
) -> None:
    feed = Feed()
    pods = followed(feed)
    for number in range(400):
        feed.tell(f"none-{number}", 0)
    assert sent(pods) == []
    assert pods.placed == 400
    for number in range(400):
        feed.tell(f"web-{number}", 1 + number % 2)
    rows = sent(pods)
    assert len(rows) == MOST_SENT
    assert rows[0] == (2, 1)


async def test_sums_by_differences_are_those_of_all_pods(autojump_clock: MockClock) -> None:
    chance, feed = random.Random(1), Feed()
    pods = followed(feed)
    for _ in range(300):
        name = f"web-{chance.randrange(20)}"
        phase, reason = chance.choice(
            [("Pending", ""), ("Pending", "Unschedulable"), ("Running", ""), ("Failed", "")]
        )
        feed.tell(name, chance.randrange(4), phase, reason)
        if chance.random() < 0.2:
            feed.end(f"web-{chance.randrange(20)}")
        if chance.random() < 0.5:
            pods.refresh()
        await trio.sleep(chance.random() * 3)
    whole = followed(feed)
    await trio.sleep(SETTLES)
    pods.refresh()
    whole.refresh()
    for name in ("waiting", "settled", "running", "held", "placed", "stay", "sent"):
        assert getattr(pods, name) == getattr(whole, name)
    pods.follow(None)
    pods.refresh()
    assert (pods.placed, pods.held, pods.settled, pods.sent) == (0, {}, {}, ())


async def test_that_a_pod_has_come_is_told_at_once_and_that_one_changes_is_not() -> None:
    feed = Feed()
    pods = followed(feed)
    pods.refresh()
    assert not pods.came.is_set()
    feed.tell("web", 1)
    assert pods.came.is_set()
    pods.refresh()
    feed.tell("web", 1, "Running")
    assert not pods.came.is_set()
