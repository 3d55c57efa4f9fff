"""Following a kind through everything that a server and a network can do to it."""

import json

import pytest
import trio
import trio.testing

from liqod.kube.informer import SUSPECT_GRACE, Informer
from liqod.kube.kinds import PODS
from liqod.kube.objects import MAX_OBJECT
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import deep, followed, settle
from tests.unit.kube.peers import Asked, peer


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
        informer = Informer(client, PODS)
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
        assert it.asked() == [("watch", "11")]
        assert it.told() == [("b", "+")]


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
        assert [verb for verb, _ in it.asked()] == ["initial", "watch", "initial"]
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
        assert it.asked() == [("initial", ""), ("watch", "10")]
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
        assert it.asked() == [("initial", ""), ("watch", "10")]
        assert it.names() == {"p1", "p2"}
        assert it.informer.problem is None


async def test_a_server_that_refuses_is_asked_now_and_then(autojump_clock):
    async def forbid(asked: Asked) -> None:
        await asked.refuse(403, "Forbidden", "pods is forbidden")

    async with peer(forbid) as (server, client), trio.open_nursery() as nursery:
        informer = Informer(client, PODS)
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


async def test_garbage_for_ever_is_asked_for_now_and_then(autojump_clock):
    async def nonsense(asked: Asked) -> None:
        await asked.begin()
        await asked.bookmark(5, initial_end=True)
        await asked.chunk(b"garbage\n")

    async with peer(nonsense) as (server, client), trio.open_nursery() as nursery:
        informer = Informer(client, PODS)
        nursery.start_soon(informer.run)
        await trio.sleep(600)
        assert 20 < len(server.asked) < 60
        assert "nonsense" in (informer.problem or "")
        nursery.cancel_scope.cancel()


async def test_a_silent_watch_is_given_up(autojump_clock):
    cluster = Cluster(1)

    async def silent(asked: Asked) -> bool:
        await asked.begin()
        await trio.sleep_forever()
        return True

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.faults.append(silent)
        cluster.cut()
        await settle(700)
        assert it.asked()[:3] == [("initial", ""), ("watch", "10"), ("watch", "10")]
        assert len(it.server.conns) >= 3


async def test_silence_after_bookmarks_is_noticed_sooner(autojump_clock):
    cluster = Cluster(1)

    async def falls_silent(asked: Asked) -> bool:
        await asked.begin()
        await asked.bookmark(77)
        await trio.sleep_forever()
        return True

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.faults.append(falls_silent)
        cluster.cut()
        await settle(160)
        assert it.asked()[-1] == ("watch", "77")


async def test_a_huge_object_is_skipped_and_the_rest_goes_on(autojump_clock, caplog):
    cluster = Cluster(2)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.told()
        huge = {"x": "y" * MAX_OBJECT}
        cluster.put("huge", spec=huge)
        cluster.put("small")
        cluster.put("huge", spec=huge, more=1)
        await settle()
        assert it.told() == [("small", "+")]
        assert len(cluster.asked) == 1  # the same watch all the time
        await settle(2000)
        assert it.names() == {"p0", "p1", "small"}
        reports = [record for record in caplog.records if record.message == "object not readable"]
        assert [getattr(record, "object") for record in reports] == ["", "a/huge"]  # noqa: B009


async def test_an_object_that_grew_huge_stays_as_it_was_known(autojump_clock):
    cluster = Cluster(2)
    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.put("p0", spec={"x": "y" * MAX_OBJECT})
        cluster.forget()
        cluster.cut()
        await settle(30)
        assert it.names() == {"p0", "p1"}
        assert [verb for verb, _ in it.asked()][-2:] == ["list", "watch"]
        cluster.remove("p0")
        await settle(700)
        assert it.names() == {"p1"}


async def test_an_object_nested_too_deeply_hides_no_others(autojump_clock, caplog):
    cluster = Cluster(2)
    async with followed(cluster) as it:
        await it.informer.synced()
        await cluster.watches[0].chunk(b'{"type":"ADDED","object":' + deep() + b"}\n")
        cluster.put("p2")
        await settle()
        assert it.names() == {"p0", "p1", "p2"}
        assert len(cluster.asked) == 1

        async def listed(asked: Asked) -> bool:
            items = [json.dumps(obj).encode() for obj in cluster.objects.values()]
            items.insert(1, deep())
            head = b'{"metadata":{"resourceVersion":"%d"}' % cluster.version
            await asked.reply(200, head + b', "items" : [ ' + b" , ".join(items) + b"]}")
            return True

        cluster.objects.pop("p0")
        cluster.faults.append(listed)
        await settle(700)
        assert it.names() == {"p1", "p2"}
        assert "a/deep" in [getattr(record, "object", None) for record in caplog.records]


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


async def test_an_empty_list_is_not_believed_at_once(autojump_clock):
    cluster = Cluster(11)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.told()
        kept, cluster.objects = cluster.objects, {}
        cluster.forget()
        cluster.cut()
        await settle(20)
        assert it.told() == []
        assert len(it.names()) == 11
        assert it.informer.suspect == "the server lists none where 11 were known"
        cluster.objects = kept
        await settle(10)
        assert it.informer.suspect is None
        assert it.told() == []


async def test_an_empty_list_is_believed_after_the_grace_time(autojump_clock):
    cluster = Cluster(11)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.told()
        cluster.objects = {}
        cluster.forget()
        cluster.cut()
        await settle(SUSPECT_GRACE + 10)
        assert it.informer.suspect is None
        assert len(it.told()) == 11
        assert it.names() == set()
        cluster.put("again")
        await settle()
        assert it.names() == {"again"}


async def test_few_objects_may_go_at_once(autojump_clock):
    cluster = Cluster(10)
    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.objects = {}
        cluster.forget()
        cluster.cut()
        await settle()
        assert it.names() == set()


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
