"""Edits wait for their time; what makes and ends objects does not."""

import time

import msgspec
import pytest
import trio
import trio.testing

from liqod.kube.cache.store import Change, Key
from liqod.kube.queue import KeyedQueue
from liqod.provider.workloads import edits
from liqod.provider.workloads.edits import Edits, is_edit

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
    assert is_edit(Change(KEY, old, new), told=told) is edit


def busy(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def test_edits_without_end_have_their_share_and_hold_nothing_up(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(edits, "CREDIT", 0.0)
    queue: KeyedQueue[Key] = KeyedQueue()
    paced = Edits(queue)
    worked: list[Key] = []
    new = ("shop-rome", "new")

    async def worker(key: Key) -> None:
        worked.append(key)
        busy(0.005)

    def failed(key: Key, error: Exception) -> None:
        raise error

    async def run(task_status: trio.TaskStatus[None]) -> None:
        await paced.run(worker, concurrency=8, on_error=failed, task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(run)
        for number in range(100):
            paced.add(("shop-rome", f"edited-{number}"))
        await trio.sleep(10.0)
        assert 5 <= len(worked) <= 10 * edits.SHARE / 0.005 + 1
        queue.add(new)
        await trio.sleep(0.01)
        assert new in worked
        await trio.sleep(200.0)
        assert len(worked) == 101
        nursery.cancel_scope.cancel()
