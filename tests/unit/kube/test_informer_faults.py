"""Following a kind through everything that a server and a network can do to it."""

import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import PODS, SECRETS
from liqod.kube.cache.informer import SharedInformer
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import followed, settle
from tests.unit.kube.peers import Asked, peer, silent


async def test_pages_that_expire_on_the_way(autojump_clock):
    cluster = Cluster(1200, watch_list=False)

    async with peer(cluster) as (server, client), trio.open_nursery() as nursery:
        once = [True]

        async def answer(asked: Asked) -> None:
            if asked.query.get("continue") == "500" and once:
                once.clear()
                await asked.refuse(410, "Expired")
            else:
                await cluster(asked)

        server.answer = answer
        informer = SharedInformer(client, PODS)
        await nursery.start(informer.run)
        assert len(informer.store) == 1200
        assert not once
        nursery.cancel_scope.cancel()


async def test_a_watch_that_is_cut_resumes_where_it_was(autojump_clock):
    cluster = Cluster(2)
    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.put("a")
        await settle()
        it.asked()
        it.told()
        cluster.cut()
        cluster.put("b")
        await settle()
        assert it.asked() == [("look", ""), ("watch", "11")]
        assert it.told() == [("b", "+")]


async def test_a_server_restored_from_a_backup_is_listed_again(autojump_clock):
    """It would take up a watch of a version to come, and say nothing until it gets there."""
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        backup = dict(cluster.objects), cluster.version
        for name in ("late", "p0"):
            cluster.put(name)
        cluster.remove("p1")
        await settle()
        it.told()
        cluster.objects, cluster.version = backup
        cluster.history.clear()
        cluster.cut()
        await settle()
        assert set(it.told()) == {("late", "-"), ("p0", "~"), ("p1", "+")}
        cluster.put("next")
        await settle()
        assert it.told() == [("next", "+")]


async def test_a_server_that_was_away_is_listed_again(autojump_clock):
    """It may have been restored, and its versions may have passed ours since."""
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.asked()
        it.server.refusing = True
        cluster.cut()
        await settle(5)
        it.server.refusing = False
        await settle(60)
        assert ("initial", "") in it.asked()


async def test_a_server_of_which_only_a_load_balancer_was_left_is_listed_again(autojump_clock):
    """That takes connections and hangs up; what is behind it may have been restored meanwhile."""
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()

        async def hang_up(asked: Asked) -> None:
            asked.conn.close()

        backup = dict(cluster.objects)
        cluster.put("late")
        await settle()
        it.server.answer = hang_up
        cluster.cut()
        await settle(5)
        cluster.objects = backup
        cluster.history.clear()
        for _ in range(3):
            cluster.put("next")
        it.server.answer = cluster
        await settle(60)
        assert it.names() == {"p0", "next"}


async def test_410_lists_again(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.told()
        cluster.objects.pop("p0")
        cluster.objects["p9"] = {**cluster.objects["p1"], "metadata": {"name": "p9"}}
        cluster.forget()
        cluster.cut()
        await settle()
        assert [verb for verb, _ in it.asked()] == ["initial", "look", "watch", "initial"]
        assert it.told() == [("p9", "+"), ("p0", "-")]
        assert it.informer.problem is None


async def test_410_as_an_event_lists_again(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        await cluster.watches[0].event("ERROR", {"code": 410, "reason": "Expired"})
        cluster.remove("p0")
        await settle()
        assert [verb for verb, _ in it.asked()] == ["initial", "initial"]
        assert it.names() == {"p1", "p2"}


@pytest.mark.parametrize("data", [b"garbage\n", b'{"type":"ADDED","object":{}}\n', b"\xff\xfe\n"])
async def test_garbage_lists_again(autojump_clock, data):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        await cluster.watches[0].chunk(data)
        cluster.remove("p0")
        await settle()
        assert [verb for verb, _ in it.asked()] == ["initial", "initial"]
        assert it.names() == {"p1", "p2"}


async def test_an_error_event_other_than_410_resumes(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        await cluster.watches[0].event("ERROR", {"code": 500, "message": "etcd is away"})
        await settle()
        assert it.asked() == [("initial", ""), ("look", ""), ("watch", "10")]
        cluster.put("x")
        await settle()
        assert "x" in it.names()
        assert it.informer.problem is None


async def test_an_unreachable_server_is_tried_with_growing_pauses(autojump_clock):
    cluster = Cluster(3)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.server.refusing = True
        cluster.cut()
        await settle(600)
        assert it.names() == {"p0", "p1", "p2"}
        assert it.informer.problem is not None
        assert "Connection refused" in it.informer.problem
        it.server.refusing = False
        cluster.remove("p0")
        await settle(31)
        assert it.asked() == [("initial", ""), ("initial", "")]
        assert it.names() == {"p1", "p2"}
        assert it.informer.problem is None


async def test_many_that_follow_one_server_tell_of_its_outage_once(autojump_clock, caplog):
    cluster = Cluster(1)
    async with peer(cluster) as (server, client), trio.open_nursery() as nursery:
        caplog.set_level("INFO")
        for _ in range(5):
            await nursery.start(SharedInformer(client, PODS).run)
        for _ in range(2):
            server.refusing = True
            cluster.cut()
            await settle(100)
            server.refusing = False
            await settle(100)
        told = [record.message for record in caplog.records]
        assert told == ["the API server does not answer", "the API server answers again"] * 2
        nursery.cancel_scope.cancel()


async def test_a_server_that_starts_kind_by_kind_is_told_of_once(autojump_clock, caplog):
    starting = False

    async def answer(asked: Asked) -> None:
        if starting and "secrets" in asked.path:
            await asked.refuse(429, "TooManyRequests", "storage is (re)initializing")
        else:
            await cluster(asked)

    cluster = Cluster(1)
    async with peer(answer) as (_, client), trio.open_nursery() as nursery:
        caplog.set_level("INFO")
        for kind in (PODS, SECRETS):
            await nursery.start(SharedInformer(client, kind).run)
        for _ in range(4):
            starting = True
            cluster.cut()
            await settle(3)
            starting = False
            await settle(7)
        told = [record.message for record in caplog.records]
        assert told == ["the API server does not answer", "the API server answers again"]
        nursery.cancel_scope.cancel()


async def test_the_first_that_is_back_calls_the_others(autojump_clock):
    cluster = Cluster(1)
    async with peer(cluster) as (server, client), trio.open_nursery() as nursery:
        informers = [SharedInformer(client, PODS) for _ in range(20)]
        for informer in informers:
            await nursery.start(informer.run)
        server.refusing = True
        cluster.cut()
        await settle(300)
        assert all(informer.problem for informer in informers)
        server.refusing = False
        client.wake()  # somebody else has noticed it
        cluster.put("new")
        await settle(1)
        assert not any(informer.problem for informer in informers)
        assert all(("a", "new") in informer.store for informer in informers)
        nursery.cancel_scope.cancel()


async def test_a_server_that_refuses_all_while_it_starts_is_followed_soon(autojump_clock):
    """A server that starts knows the permissions a few seconds after it listens."""
    starting = False

    async def answer(asked: Asked) -> None:
        if starting:
            await asked.refuse(403, "Forbidden", "pods is forbidden")
        else:
            await cluster(asked)

    cluster = Cluster(1)
    async with peer(answer) as (server, client), trio.open_nursery() as nursery:
        informer = SharedInformer(client, PODS)
        await nursery.start(informer.run)
        server.refusing = True
        cluster.cut()
        await settle(300)
        server.refusing, starting = False, True
        informer.wake()
        await settle(3)
        starting = False
        await settle(3)
        assert informer.problem is None
        nursery.cancel_scope.cancel()


async def test_a_server_that_refuses_is_asked_now_and_then(autojump_clock):
    async def forbid(asked: Asked) -> None:
        await asked.refuse(403, "Forbidden", "pods is forbidden")

    async with peer(forbid) as (server, client), trio.open_nursery() as nursery:
        informer = SharedInformer(client, PODS)
        nursery.start_soon(informer.run)
        await trio.sleep(600)
        assert 20 < len(server.asked) < 60
        assert informer.problem == "pods is forbidden"
        assert not informer.store.synced
        nursery.cancel_scope.cancel()


async def test_the_server_says_when_to_come_again(autojump_clock):
    cluster = Cluster(1)

    async def busy(asked: Asked) -> bool:
        await asked.refuse(429, "TooManyRequests", "later", headers={"retry_after": "20"})
        return True

    cluster.faults.append(busy)
    async with followed(cluster) as it:
        await it.informer.synced()
        assert 20 <= trio.current_time() < 21


async def test_garbage_for_ever_is_asked_for_now_and_then_and_told_seldom(autojump_clock, caplog):
    async def nonsense(asked: Asked) -> None:
        await asked.begin()
        await asked.bookmark(5, initial_end=True)
        await asked.chunk(b"garbage\n")

    async with peer(nonsense) as (server, client), trio.open_nursery() as nursery:
        informer = SharedInformer(client, PODS)
        nursery.start_soon(informer.run)
        await trio.sleep(600)
        assert 60 < len(server.asked) < 130
        assert "nonsense" in (informer.problem or "")
        assert len([each for each in caplog.records if each.levelname == "WARNING"]) <= 10
        nursery.cancel_scope.cancel()


async def test_a_silent_watch_is_given_up(autojump_clock):
    cluster = Cluster(1)

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.faults.append(silent)
        cluster.cut()
        await settle(700)
        watch = [("look", ""), ("watch", "10")]
        assert it.asked()[:5] == [("initial", ""), *watch, *watch]
        assert len(it.server.conns) >= 3


async def test_silence_after_bookmarks_is_noticed_sooner(autojump_clock):
    cluster = Cluster(1)

    async def falls_silent(asked: Asked) -> bool:
        await asked.begin()
        cluster.version = 77
        await asked.bookmark(77)
        await trio.sleep_forever()
        return True

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.faults.append(falls_silent)
        cluster.cut()
        await settle(160)
        assert it.asked()[-1] == ("watch", "77")


async def test_waking_shortens_the_pause(autojump_clock):
    cluster = Cluster(1)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.server.refusing = True
        cluster.cut()
        await settle(300)
        it.server.refusing = False
        cluster.put("new")
        it.informer.wake()
        await settle(0.1)
        assert "new" in it.names()


async def test_404_is_not_believed_at_once(autojump_clock):
    cluster = Cluster(2)
    away = True

    async with followed(cluster) as it:
        await it.informer.synced()

        async def missing(asked: Asked) -> None:
            if away:
                await asked.refuse(404, "NotFound", "the server could not find the resource")
            else:
                await cluster(asked)

        it.server.answer = missing
        cluster.cut()
        await settle(20)
        assert it.names() == {"p0", "p1"}
        assert it.informer.suspect is not None
        away = False
        await settle(10)
        assert it.informer.suspect is None
        assert it.names() == {"p0", "p1"}
        away = True
        cluster.cut()
        await settle(60)
        assert it.names() == set()
        assert it.informer.suspect is None
        assert it.informer.problem == "the server could not find the resource"
        away = False
        await settle(60)
        assert it.names() == {"p0", "p1"}
