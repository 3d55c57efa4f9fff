"""Following a kind: first objects, changes, subscribers, sharing, rest."""

import json

import trio
import trio.testing

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import StoreChange
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import followed, settle
from tests.unit.kube.peers import Asked, Steps, peer


async def test_initial_events_then_changes(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        assert it.informer.store.synced
        assert sorted(it.told()) == [("p0", "+"), ("p1", "+"), ("p2", "+")]
        assert it.asked() == [("initial", "")]
        query = it.server.asked[0].query
        assert query["resourceVersionMatch"] == "NotOlderThan"
        assert query["allowWatchBookmarks"] == "true"
        assert 300 <= int(query["timeoutSeconds"]) <= 600
        cluster.put("p1", spec={"x": 1})
        cluster.put("new")
        cluster.remove("p0")
        await settle()
        assert it.told() == [("p1", "~"), ("new", "+"), ("p0", "-")]
        assert it.names() == {"p1", "p2", "new"}
        body = json.loads(it.informer.store.get(("a", "p1")) or b"")
        assert body["spec"] == {"x": 1}
        assert "managedFields" not in body["metadata"]
        assert it.asked() == []


async def test_list_and_watch_where_initial_events_are_not_known(autojump_clock):
    cluster = Cluster(3, watch_list=False)
    async with followed(cluster) as it:
        await it.informer.synced()
        assert it.names() == {"p0", "p1", "p2"}
        await settle()
        assert it.asked() == [("initial", ""), ("list", ""), ("watch", "10")]
        cluster.remove("p0")
        await settle()
        assert it.names() == {"p1", "p2"}
        assert not it.client.watch_list  # the next informer of this client does not ask again


async def test_a_server_that_ignores_the_wish_for_initial_events(autojump_clock):
    cluster = Cluster(3)

    async def ignore(asked: Asked) -> bool:
        await asked.begin()
        for obj in cluster.objects.values():
            await asked.event("ADDED", obj)
        await trio.sleep(50)
        await asked.bookmark(10)
        await trio.sleep_forever()
        return True

    cluster.faults.append(ignore)
    async with followed(cluster) as it:
        await it.informer.synced()
        assert it.asked()[:2] == [("initial", ""), ("list", "")]


async def test_bookmarks_move_the_point_of_resumption(autojump_clock):
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.asked()
        cluster.version = 500  # other kinds changed
        await settle(61)
        cluster.cut()
        await settle()
        assert it.asked() == [("look", ""), ("watch", "500")]


async def test_a_watch_that_ends_in_time_goes_on_at_once(autojump_clock):
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.asked()
        await settle(610)
        assert len(it.asked()) == 1
        await settle(7200)
        assert 2 <= len(it.asked()) <= 4  # bookmarks show that the server lives
        assert it.informer.problem is None
        assert it.informer.last_contact > trio.current_time() - 61


async def test_at_rest_nothing_is_done(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        await settle(10)
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        await trio.sleep(3600)
        trio.lowlevel.remove_instrument(steps)
        assert steps.count < 1000  # a bookmark a minute and a new watch now and then, both sides
        assert sum(it.client.stats.requests.values()) < 15


async def test_subscribers_of_one_namespace_and_late_ones(autojump_clock):
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()
        mine: list[StoreChange] = []
        others: list[StoreChange] = []
        stop = it.informer.subscribe(mine.append, namespace="a")
        it.informer.subscribe(others.append, namespace="b")
        assert [change.key for change in mine] == [("a", "p0")]
        cluster.put("p1")
        await settle()
        stop()
        stop()
        cluster.put("p2")
        await settle()
        assert [change.key[1] for change in mine] == ["p0", "p1"]
        assert others == []


async def test_a_handler_that_fails_hurts_nobody(autojump_clock, caplog):
    cluster = Cluster(0)
    async with followed(cluster) as it:

        def fail(change: StoreChange) -> None:
            raise ValueError("broken handler")

        it.informer.subscribe(fail)
        after: list[StoreChange] = []
        it.informer.subscribe(after.append)
        cluster.put("p1")
        await settle()
        assert len(after) == 1
        assert "broken handler" in caplog.text


async def test_taking_in_a_flood_lets_others_have_their_turn(autojump_clock):
    cluster = Cluster(3000)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while not it.informer.store.synced:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with followed(cluster) as it:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
        assert turns >= 3000 // 64


async def test_unclaimed_objects_are_not_kept(autojump_clock):
    cluster = Cluster(2)
    async with followed(cluster, keep=lambda obj: b'"name":"p1"' in obj) as it:
        await it.informer.synced()
        assert it.names() == {"p1"}


async def test_sharing(autojump_clock):
    cluster = Cluster(2)
    async with peer(cluster) as (server, client), trio.open_nursery() as nursery:
        informers = Informers(client, nursery)
        async with informers.share(PODS) as one:
            assert len(one.store) == 2
            async with (
                informers.share(PODS, indexes={"uid": lambda obj: [obj.metadata.uid]}) as two,
                informers.share(CONFIG_MAPS) as other,
            ):
                assert two is one
                assert other is not one
                assert one.store.indexed("uid", "uid-p1") == {("a", "p1")}
                assert len(informers.all()) == 2
            cluster.put("p2")
            await settle()
            assert len(one.store) == 3
        await settle(0.1)
        assert informers.all() == []
        assert all(conn.wire.closed for conn in server.conns)
        async with informers.share(PODS) as again:
            assert again is not one
        nursery.cancel_scope.cancel()
