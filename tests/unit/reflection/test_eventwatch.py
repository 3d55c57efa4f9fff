"""Where a watch of Events goes on from, and which Events are about what is ours."""

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import trio
import trio.testing

from liqod.apimachinery.kinds import PODS, SERVICES, Kind
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.apimachinery.rawobjects import Slim
from liqod.errors import Expired, Forbidden, Unreachable
from liqod.kube.pages import Page
from liqod.kube.selection import Selection
from liqod.kube.watch import WatchEvent
from liqod.model.objects.remoteevents import read
from liqod.reflection.eventwatch import (
    LISTED_EVERY,
    PODLIKE,
    REFUSED_AGAIN,
    EventWatch,
    is_about,
)
from liqod.reflection.reflectioncontext import PeerEvents

Json = dict[str, Any]


def event(name: str, *, created: str | None = "2026-05-01T12:00:00Z", uid: str = "") -> bytes:
    return msgspec.json.encode(
        {
            "metadata": {"name": name, "uid": name, "creationTimestamp": created},
            "involvedObject": {"kind": "Pod", "name": "web", "uid": uid},
            "type": "Normal",
            "reason": name,
        }
    )


class There:
    """The peer's API server: lists, versions, and watches that a test ends."""

    def __init__(self) -> None:
        self.version_now = 10
        self.listed: list[str] = []
        self.watched: list[str] = []
        self.error: Exception | None = None
        self.end: trio.Event = trio.Event()
        self.expires = self.early = False
        self.more: list[str] = []

    def cut(self) -> None:
        """End the watch."""
        self.end.set()

    async def version(self, kind, namespace=None):
        return str(self.version_now)

    async def pages(self, kind, selection):
        if self.error is not None:
            raise self.error
        self.listed.append(str(self.version_now))
        yield Page([Slim(("", "a"), "3", event("a"))], str(self.version_now), "")

    @asynccontextmanager
    async def watch(self, kind, selection, *, resource_version, seconds, budget):
        if self.error is not None:
            raise self.error
        if self.expires:
            self.expires = False
            raise Expired("too old")
        self.watched.append(resource_version)
        self.end = trio.Event()

        async def following(silence):
            if self.more:
                name = self.more.pop()
                return WatchEvent("ADDED", Slim(("", name), str(self.version_now), event(name)))
            with trio.move_on_after(seconds):
                await self.end.wait()
                if self.early:
                    self.early = False
                    return None
                raise Unreachable("cut")
            return None

        yield SimpleNamespace(next=following)


@asynccontextmanager
async def following():
    """The watch of one namespace where everything is known, and what it tells."""
    there, known = There(), trio.Event()
    known.set()
    said: list[Json] = []
    cache = SimpleNamespace(used=known, has_synced=known)
    mapped: Any = SimpleNamespace(
        client=there,
        namespace="shop",
        remote_namespace="shop-rome",
        caches=dict.fromkeys(PODLIKE, cache),
    )
    events = PeerEvents(None, "milan", "all")  # type: ignore[arg-type]
    here = SimpleNamespace(client=SimpleNamespace(list=nothing))
    context: Any = SimpleNamespace(
        events=events, opened={PODS: known}, peer=SimpleNamespace(id="milan", context=here)
    )
    translation: Any = SimpleNamespace(event=lambda body: (told(body), "state"))
    watch = EventWatch(mapped, context, translation)
    events.writer = SimpleNamespace(enqueue=lambda each, seen: said.append(each))  # type: ignore[assignment]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.testing.wait_all_tasks_blocked()
        yield there, watch, said
        nursery.cancel_scope.cancel()


def told(body: bytes) -> Json:
    found: Json = msgspec.json.decode(body)
    return found


async def nothing(kind: Kind, where: Selection, decode: Any) -> list[Any]:
    return []


async def test_where_nothing_happens_no_event_is_read_again(autojump_clock):
    async with following() as (there, _, _):
        for _ in range(20):
            there.version_now += 100  # other namespaces go on
            await trio.sleep(300)
        assert len(there.listed) == 1
        assert len(there.watched) > 15
        # Each begins where the server was as the one before began: never older than a watch.
        assert int(there.watched[-1]) >= there.version_now - 300


async def test_a_cut_is_gone_on_from_and_what_the_server_has_let_go_is_read_once_a_minute(
    autojump_clock,
):
    async with following() as (there, _, said):
        there.more = ["b"]
        there.version_now = 50
        there.cut()
        await trio.sleep(5)
        assert there.watched[:2] == ["10", "10"]
        assert [each["reason"] for each in said] == ["a", "b"]
        there.version_now, there.expires = 70, True
        there.cut()
        await trio.sleep(LISTED_EVERY / 2)
        assert there.listed == ["10"]
        await trio.sleep(LISTED_EVERY)
        assert there.listed == ["10", "70"]
        assert there.watched[-1] == "70"
        for _ in range(10):
            there.expires = True
            there.cut()
            await trio.sleep(LISTED_EVERY / 2)
        assert len(there.listed) <= 8


async def test_a_watch_that_a_server_ends_early_is_gone_on_from_where_it_was(autojump_clock):
    async with following() as (there, _, said):
        there.version_now = 50
        there.cut()
        await trio.sleep(5)
        there.early = True  # the server has more for us, and stops
        there.cut()
        await trio.sleep(5)
        assert there.watched == ["10"] * 3
        there.more = ["b"]
        there.cut()
        await trio.sleep(5)
        assert [each["reason"] for each in said] == ["a", "b"]


async def test_after_an_interruption_what_came_meanwhile_is_read(autojump_clock):
    async with following() as (there, watch, _):
        there.error = Unreachable("away")
        watch.restart()
        there.cut()
        await trio.sleep(2 * LISTED_EVERY)
        there.error, there.expires = None, True
        watch.wake()
        await trio.sleep(60)
        assert len(there.listed) == 2


async def test_who_may_not_read_them_asks_seldom(autojump_clock, caplog):
    async with following() as (there, watch, _):
        there.error = Forbidden("no right")
        watch.restart()
        await trio.sleep(3 * REFUSED_AGAIN)
        said = [each.getMessage() for each in caplog.records]
        assert said.count("Events of pods there cannot be read") == 1
        there.error = None
        await trio.sleep(REFUSED_AGAIN + 1)
        assert len(there.watched) >= 2


def test_an_event_is_about_the_object_that_is_there_and_not_about_one_before():
    made = ObjectMeta(name="web", uid="u", creation_timestamp="2026-05-01T12:00:00Z")
    there = Partial(metadata=made)

    def about(kind, **more):
        found = read(event("e", **more))
        assert found is not None
        return is_about(found, there, kind)

    assert about(PODS)
    assert about(PODS, uid="of-one-of-its-pods", created="2026-05-01T12:00:09Z")
    assert not about(PODS, created="2026-05-01T11:59:59Z")
    assert not about(PODS, created=None)
    assert about(SERVICES, uid="u")
    assert not about(SERVICES, uid="another")
