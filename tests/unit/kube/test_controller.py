"""The shape of a controller, and the example of architecture.md, beside an embedded server."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod import config
from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import Conflict
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import Key, StoreChange
from liqod.kube.client import Client
from liqod.kube.controller import Controller
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.deletion import delete_all, set_finalizers
from liqod.kube.http.cpubudget import CpuBudget
from liqod.kube.queue import RunningQueue
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, by_key, by_name
from liqod.resources import TENANTS
from liqod.telemetry import registry
from liqod.telemetry.events import KeyFailed
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster, Fault
from tests.unit.kube import notes
from tests.unit.kube.notes import NOTE, Notes

CASE = "case"
"""The label by which an object is a test's own."""
ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def cluster() -> AsyncIterator[tuple[EmbeddedCluster, ClusterContext]]:
    """An API server with the namespaces ``liqo`` and ``place``, and its context."""
    nothing: Any = None
    async with (
        EmbeddedCluster("rome") as server,
        Client(from_kubeconfig(server.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        for name in ("liqo", "place"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        informers = Informers(client, nursery)
        yield (
            server,
            ClusterContext("rome", client, informers, config.parse(""), Hub(), nothing),
        )
        nursery.cancel_scope.cancel()


async def until(look: Callable[[], Awaitable[Any]]) -> Any:
    with trio.fail_after(10):
        while not (found := await look()):  # noqa: ASYNC110  # of a server's doing
            await trio.sleep(0.01)
    return found


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {CASE: "yes"}, **more}}


class Looks(Controller[str]):
    """Writes down what it is asked to look at."""

    def __init__(self, context: ClusterContext, *watches: Watched[str], **more: Any) -> None:
        super().__init__(context, "looks", *watches, **more)
        self.looked: list[str] = []
        self.prepared: list[int] = []
        self.fails = 0
        self.again: float | None = None

    async def prepare(self) -> None:
        self.prepared.append(len(self.looked))

    async def reconcile(self, key: str) -> float | None:
        self.looked.append(key)
        if self.fails:
            self.fails -= 1
            raise Conflict("not now")
        return self.again


@asynccontextmanager
async def at_work(*controllers: Controller[Any]) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for each in controllers:
            await nursery.start(each.run)
        yield
        nursery.cancel_scope.cancel()


async def test_everything_has_been_read_before_the_first_key_is_looked_at():
    async with cluster() as (_, context):
        await context.client.create(CONFIG_MAPS, config_map("a"), "place")

        def both(change: StoreChange) -> Iterator[str]:
            yield f"{len(secrets.store)} of {change.key[1]}"

        maps = Watched(CONFIG_MAPS, both, within=("place",), selection=Selection(labels=CASE))
        secrets: Watched[str] = Watched(SECRETS, selection=Selection(labels=CASE))
        await context.client.create(SECRETS, config_map("s"), "place")
        room = Looks(context, maps, secrets)
        assert list(registry.current().of(RunningQueue)) == []
        async with at_work(room):
            assert room.prepared == [0]
            assert [each.queue for each in registry.current().of(RunningQueue)] == [room.queue]
            assert (room.name, room.watches) == ("looks", (maps, secrets))
            await until(lambda: seen(room, 1))
            assert room.looked == ["1 of a"]
            await context.client.create(CONFIG_MAPS, config_map("elsewhere"), "liqo")
            await context.client.create(CONFIG_MAPS, config_map("b"), "place")
            await until(lambda: seen(room, 2))
            assert room.looked == ["1 of a", "1 of b"]
        assert list(registry.current().of(RunningQueue)) == []
        assert context.informers.all() == []


async def test_the_first_keys_are_reconciled_where_there_is_no_object():
    async with cluster() as (_, context):
        maps = Watched(CONFIG_MAPS, by_name, Selection("place", labels=CASE))
        room = Looks(context, maps, first=("one", "two"))
        async with at_work(room):
            await until(lambda: seen(room, 2))
        assert room.looked == ["one", "two"]
        assert room.prepared == [0]
        # Each time that it runs: what it is for may be gone since.
        async with at_work(room):
            await until(lambda: seen(room, 4))
        assert room.looked == ["one", "two"] * 2


async def seen(room: Looks, count: int) -> bool:
    await trio.lowlevel.checkpoint()
    return len(room.looked) >= count


async def test_namespaces_are_followed_and_left_while_it_runs():
    async with cluster() as (_, context):
        maps = Watched(CONFIG_MAPS, by_name, within=(), selection=Selection(labels=CASE))
        room = Looks(context, maps)
        await context.client.create(CONFIG_MAPS, config_map("a"), "place")
        async with at_work(room):
            maps.follow("place")
            maps.follow("place")
            await until(lambda: seen(room, 1))
            maps.unfollow("place")
            maps.unfollow("place")
            await context.client.create(CONFIG_MAPS, config_map("b"), "place")

            async def shown() -> bool:
                await trio.lowlevel.checkpoint()
                return ("place", "b") in maps.store

            await until(shown)
            assert room.looked == ["a"]


async def test_what_fails_comes_again_and_is_published():
    async with cluster() as (_, context):
        room = Looks(context, Watched(NAMESPACES, by_name))
        room.fails = 1
        async with at_work(room):

            async def again() -> bool:
                await trio.lowlevel.checkpoint()
                return len(room.looked) > len(set(room.looked))

            await until(again)
        (told,) = [each.payload for each in context.hub.history if each.payload.topic == "looks"]
        assert isinstance(told, KeyFailed)
        assert told.failed == "not now"
        assert room.looked.count(told.key) == 2


class Noting(CpuBudget):
    """A budget that notes what it is charged."""

    def __init__(self) -> None:
        super().__init__()
        self.charged: list[float] = []

    def charge(self, used: float) -> None:
        self.charged.append(used)
        super().charge(used)


async def test_what_is_waited_for_brings_keys_and_a_budget_is_charged():
    async with cluster() as (_, context):
        changed = trio.Event()
        budget = Noting()
        room = Looks(context, budget=budget)

        async def wait() -> None:
            nonlocal changed
            await changed.wait()
            changed = trio.Event()

        async def run() -> None:
            await room.whenever(wait, lambda: ("x", "y"))

        beside = Looks(context, tasks=(run,))
        async with at_work(room, beside):
            changed.set()
            await until(lambda: seen(room, 2))
            assert room.looked == ["x", "y"]
            await trio.testing.wait_all_tasks_blocked()
            assert sum(budget.charged) > 0


async def test_another_clusters_objects_are_followed_by_an_informer_of_its_own():
    async with cluster() as (_, context), cluster() as (_, other):
        theirs = Watched(
            CONFIG_MAPS,
            by_name,
            selection=Selection("place", labels=CASE),
            client=other.client,
        )
        room = Looks(context, theirs)
        await other.client.create(CONFIG_MAPS, config_map("theirs"), "place")
        async with at_work(room):
            assert ("place", "theirs") in theirs.store
            assert context.informers.all() == other.informers.all() == []


async def test_gone_is_what_the_api_server_says_is_gone():
    async with cluster() as (server, context):
        maps: Watched[Key] = Watched(CONFIG_MAPS, by_key)
        client = context.client
        await client.create(CONFIG_MAPS, config_map("held", finalizers=["example.io/x"]), "place")
        await client.create(CONFIG_MAPS, config_map("there"), "place")
        async with at_work(Looks(context, maps)):  # type: ignore[arg-type]  # no key is looked at
            assert await maps.surely_gone(("place", "never"))
            assert not await maps.surely_gone(("place", "there"))
            await client.delete(CONFIG_MAPS, "held", "place")
            assert await maps.surely_gone(("place", "held"))
            assert not await maps.surely_gone(("place", "held"), ending=False)
            maps.informer.suspect = "it lists nothing"
            assert not await maps.surely_gone(("place", "never"))
        tenants: Watched[str] = Watched(TENANTS, wait=False)
        async with at_work(Looks(context, tenants)):
            assert not await tenants.surely_gone(("place", "never")), "it was not even read"
            tenants.store.synced = True
            assert not await tenants.surely_gone(("place", "never")), "the kind is not defined"
        assert server


async def test_finalizers_are_written_over_the_version_that_was_read():
    async with cluster() as (_, context):
        client = context.client
        made = await client.create(CONFIG_MAPS, config_map("a", finalizers=["x.io/a"]), "place")
        assert not await set_finalizers(client, CONFIG_MAPS, made.metadata, add=["x.io/a"])
        change = {"add": ["x.io/b"], "remove": ["x.io/a"]}
        assert await set_finalizers(client, CONFIG_MAPS, made.metadata, **change)
        live = await client.get(CONFIG_MAPS, "a", "place", decode=Partial)
        assert live.metadata.finalizers == ("x.io/b",)
        with pytest.raises(Conflict):
            await set_finalizers(client, CONFIG_MAPS, made.metadata, **change)
        assert await set_finalizers(client, CONFIG_MAPS, live.metadata, remove=["x.io/b"])
        await client.delete(CONFIG_MAPS, "a", "place")
        assert not await set_finalizers(client, CONFIG_MAPS, live.metadata, remove=["x.io/b"])


async def test_what_was_made_anew_is_not_deleted():
    async with cluster() as (_, context):
        client = context.client
        old = await client.create(CONFIG_MAPS, config_map("a"), "place")
        await client.delete(CONFIG_MAPS, "a", "place")
        assert await delete_all(client, CONFIG_MAPS, [old]) == []
        await client.create(CONFIG_MAPS, config_map("a"), "place")
        with pytest.raises(Conflict):
            await delete_all(client, CONFIG_MAPS, [old])
        now = await client.get(CONFIG_MAPS, "a", "place", decode=Partial)
        assert await delete_all(client, CONFIG_MAPS, [now]) == [now]


async def test_the_example_of_the_page():
    async with cluster() as (server, context):
        client, room = context.client, Notes(context)
        async with at_work(room):

            async def text() -> Any:
                found = await client.find(CONFIG_MAPS, "place", "liqo")
                return None if found is None else found["data"]["text"]

            async def labelled(value: str | None) -> None:
                await client.patch(NAMESPACES, "place", {"metadata": {"labels": {NOTE: value}}})

            async def is_(wanted: str | None) -> None:
                async def look() -> bool:
                    return bool(await text() == wanted)

                await until(look)

            await labelled("quiet")
            await is_("quiet")
            await client.patch(CONFIG_MAPS, "place", {"data": {"text": "edited"}}, "liqo")
            await is_("quiet")
            with server.faults.during(Fault(verb="patch", path="configmaps", status=422, times=1)):
                await labelled("loud")
                await is_("loud")
            await labelled(None)
            await is_(None)


def test_the_example_on_the_page_is_the_one_that_is_run():
    page = (ROOT / "docs/background/architecture.md").read_text()
    shown = re.search(r"## Writing a controller\n.*?```python\n(.*?)```", page, re.S)
    assert shown is not None
    source = Path(notes.__file__).read_text()
    assert source.endswith(shown[1])
