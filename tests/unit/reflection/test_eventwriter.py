"""Events of a peer's are written at a pace, in bounded memory, and Warnings beside Normals."""

from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import PODS
from liqod.errors import AlreadyExists, Forbidden, NotFound, Unreachable
from liqod.model.objects.remoteevents import TYPES, LocalObject, local_event, read
from liqod.reflection import eventwriter
from liqod.reflection.eventwriter import LEFT_OUT, ORDINARY, OVERHEAD, REFUSED, EventWriter
from liqod.runtime.tokenbucket import TokenBucket
from tests.testbed.held import held

PULLED = {
    "metadata": {"uid": "uid-there"},
    "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{web}"},
    "type": "Normal",
    "reason": "Pulled",
    "message": 'Successfully pulled image "nginx:1.29" in 1.062s (1.062s including waiting). '
    "Image size: 72099501 bytes.",
    "source": {"component": "kubelet", "host": "worker-1"},
    "firstTimestamp": "2026-05-01T11:58:00Z",
    "lastTimestamp": "2026-05-01T11:59:00Z",
    "count": 1,
}


class Home:
    """This cluster's API server, as far as Events go; it takes no time."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[float, str, str]] = []
        self.error: Exception | None = None

    def _note(self, verb: str, name: str) -> None:
        self.asked.append((trio.current_time(), verb, name))
        if self.error is not None:
            raise self.error

    async def create(self, kind, body, namespace):
        event = msgspec.json.decode(body)
        name = event["metadata"]["name"]
        self._note("create", name)
        if name in self.there:
            raise AlreadyExists("it is there")
        self.there[name] = event

    async def patch(self, kind, name, patch, namespace):
        self._note("patch", name)
        if name not in self.there:
            raise NotFound("there is none")
        self.there[name] |= {key: value for key, value in patch.items() if key != "metadata"}

    def types(self) -> Counter[str]:
        return Counter(each["type"] for each in self.there.values())


def event(name: str, *, uid: str = "", type: str = "Normal", count: int = 1, text: str = "m"):
    return {
        "metadata": {"name": name, "namespace": "shop", "annotations": {}},
        "involvedObject": {"uid": uid or name},
        "type": type,
        "reason": "Reason",
        "message": text,
        "count": count,
        "lastTimestamp": "2026-05-01T12:00:00Z",
    }


@asynccontextmanager
async def writing():
    context = Home()
    writer = EventWriter(context, "milan")  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        yield context, writer
        nursery.cancel_scope.cancel()


async def test_one_that_is_told_again_and_again_is_written_now_and_then(autojump_clock):
    async with writing() as (context, writer):
        for count in range(1, 61):  # a probe that fails every 10 s for ten minutes
            writer.enqueue(event("web", count=count), seen=count > 1)
            await trio.sleep(10)
        await trio.sleep(ORDINARY.pace)
        assert context.there["web"]["count"] == 60
        assert [verb for _, verb, _ in context.asked].count("create") == 1
        times = [at for at, _, _ in context.asked]
        gaps = [after - before for before, after in pairwise(times)]
        assert min(gaps) >= ORDINARY.pace
        assert len(times) <= 600 / ORDINARY.pace + 2


async def test_what_was_written_is_remembered_as_long_as_the_next_has_to_wait(autojump_clock):
    async with writing() as (context, writer):
        for number in range(50):
            writer.enqueue(event(f"web-{number}"))
            await trio.sleep(ORDINARY.pace)
        assert len(context.there) == 50
        assert len([each for each in held(writer, tuple) if each[:1] == ("shop",)]) <= 2


async def test_a_thousand_pods_at_once_are_told_of_at_the_pace_of_one_kubelet(autojump_clock):
    found = read(msgspec.json.encode(PULLED))
    assert found is not None
    async with writing() as (context, writer):
        began = trio.current_time()
        for pod in range(1000):
            about = LocalObject(
                PODS, "shop", f"web-6b7f6db8b5-{pod:05}", f"{pod:036}", None, "milan"
            )
            for number in range(5):
                made = local_event(found, about, "milan", "2026-05-01T12:00:00Z")
                made["metadata"]["name"] += f"{number}"
                writer.enqueue(made)
        assert writer.waiting == 5000, "none of them is left out"
        await trio.sleep(1)
        assert ORDINARY.burst <= len(context.there) <= ORDINARY.burst + ORDINARY.rate * 1.1
        await trio.sleep_until(began + (5000 - ORDINARY.burst) / ORDINARY.rate - 1)
        assert len(context.there) < 5000
        await trio.sleep(2)
        assert len(context.there) == 5000
        assert not writer.counts["Normal", LEFT_OUT]


async def test_a_flood_is_left_out_counted_and_said_once(
    autojump_clock, caplog: pytest.LogCaptureFixture
):
    async with writing() as (context, writer):
        for number in range(20_000):
            writer.enqueue(event(f"flood-{number}", text="x" * 1000))
        assert sum(map(len, held(writer, bytes))) + OVERHEAD * writer.waiting <= ORDINARY.most_bytes
        assert writer.counts["Normal", LEFT_OUT] + writer.waiting == 20_000
        assert writer.counts["Normal", LEFT_OUT] > 15_000
        assert len(held(writer, TokenBucket)) <= eventwriter.OBJECTS + len(TYPES)
        # Warnings have room, and a turn, of their own.
        writer.enqueue(event("warning", type="Warning"))
        await trio.sleep(0.1)
        assert context.types()["Warning"] == 1
        assert [each.getMessage() for each in caplog.records] == [
            "a peer tells more Events than are written here"
        ]
        # What has been written makes room for as much again.
        left_out = writer.counts["Normal", LEFT_OUT]
        await trio.sleep(20_000 / ORDINARY.rate)
        assert writer.waiting == 0
        for number in range(20_000):
            writer.enqueue(event(f"again-{number}", text="x" * 1000))
        assert writer.counts["Normal", LEFT_OUT] == 2 * left_out


async def test_one_object_has_no_more_events_than_at_home(autojump_clock):
    async with writing() as (context, writer):
        for number in range(1000):
            writer.enqueue(event(f"web.{number}", uid="web"))
        writer.enqueue(event("other", uid="other"))
        await trio.sleep(60)
        assert len(context.there) == ORDINARY.object_burst + 1
        assert "other" in context.there
        # What is there already may go on counting.
        writer.enqueue(event("web.3", uid="web", count=7), seen=True)
        await trio.sleep(ORDINARY.pace)
        assert context.there["web.3"]["count"] == 7


async def test_it_is_created_where_it_is_not_there_and_counted_where_it_is(autojump_clock):
    async with writing() as (context, writer):
        context.there["before"] = event("before")
        writer.enqueue(event("before", count=2))
        writer.enqueue(event("gone", count=5), seen=True)
        await trio.sleep(1)
        assert context.there["before"]["count"] == 2
        assert context.there["gone"]["count"] == 5


async def test_what_cannot_be_written_now_waits_and_what_is_refused_does_not(
    autojump_clock, caplog: pytest.LogCaptureFixture
):
    async with writing() as (context, writer):
        context.error = Unreachable("it is away")
        writer.enqueue(event("web"))
        await trio.sleep(10)
        assert context.there == {}
        writer.enqueue(event("web", count=3), seen=True)
        context.error = None
        await trio.sleep(120)
        assert context.there["web"]["count"] == 3
        context.error = Forbidden("no right")
        for number in range(20):
            writer.enqueue(event(f"no-{number}"))
        await trio.sleep(10)
        assert writer.waiting == 0
        assert writer.counts["Normal", REFUSED] == 20
        said = [each.getMessage() for each in caplog.records]
        assert said.count("an Event of a peer's is not taken here") == 1
        assert len(context.asked) < 40
