"""Edits wait for their time; what makes and ends objects does not."""

import time
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.queue import KeyedQueue
from liqod.peers.peer import Peer
from liqod.provider.workloads import editlimiter
from liqod.provider.workloads.editlimiter import EditLimiter, is_edit

NOTHING: Any = None
KEY = ("shop-rome", "web")
NOW = "2026-01-01T00:00:00Z"


def body(uid: str = "1", **more: object) -> bytes:
    meta = {"name": "web", "uid": uid, **more}
    return msgspec.json.encode({"metadata": meta, "status": {"phase": "Running"}})


ENDED = body().replace(b"Running", b"Failed")


@pytest.mark.parametrize(
    ("old", "new", "told", "edit"),
    [
        (None, body(), True, False),
        (body(), None, True, False),
        (body(), body(uid="2"), True, False),
        (body(), body(deletionTimestamp=NOW), True, False),
        (body(), body(labels={"a": "b"}), True, True),
        (body(deletionTimestamp=NOW), body(deletionTimestamp=NOW, labels={}), True, True),
        (body(), ENDED, True, True),
        (body(), ENDED, False, False),
    ],
)
def test_an_edit_is_of_what_was_there_and_stays(
    old: bytes | None, new: bytes | None, told: bool, edit: bool
):
    assert is_edit(StoreChange(KEY, old, new), status=told) is edit


def busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_edits_without_end_have_their_share_and_hold_nothing_up(
    autojump_clock: trio.testing.MockClock,
):
    host: Any = Peer("rome", NOTHING, "liqo-tenant-rome")
    queue: KeyedQueue[Key] = KeyedQueue()
    paced = EditLimiter(host, queue, credit=0.0)
    worked: list[Key] = []
    new = ("shop-rome", "new")

    async def work(key: Key) -> None:
        worked.append(key)
        busy(0.005)

    async def metered(key: Key) -> None:
        await paced.meter(key, work(key))

    async with trio.open_nursery() as nursery:
        await nursery.start(paced.run)
        nursery.start_soon(partial(queue.run, metered, concurrency=8))
        for number in range(100):
            paced.queue.add(("shop-rome", f"edited-{number}"))
        await trio.sleep(10.0)
        assert 5 <= len(worked) <= 10 * editlimiter.SHARE / 0.005 + 1
        queue.add(new)
        await trio.sleep(0.01)
        assert new in worked
        await trio.sleep(200.0)
        assert len(worked) == 101
        nursery.cancel_scope.cancel()
