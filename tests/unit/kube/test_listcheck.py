"""Lists that name none of what was known: believed late, or not while one of it can be had."""

import pytest

from liqod.kube.cache.informer import SUSPECT_GRACE
from liqod.kube.selection import Selection
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import followed, settle
from tests.unit.kube.peers import Asked


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


@pytest.mark.parametrize("count", [1, 11])
@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_empty_list_is_not_believed_while_one_can_be_had(
    autojump_clock, count, watch_list
):
    cluster = Cluster(count, watch_list=watch_list)
    async with followed(cluster) as it:
        await it.informer.synced()
        it.told()
        cluster.hides = True
        cluster.forget()
        cluster.cut()
        await settle(10 * SUSPECT_GRACE)
        assert it.told() == []
        assert it.informer.suspect == "the server lists none, but has a/p0"
        cluster.hides = False
        await settle(10)
        assert it.informer.suspect is None
        assert it.told() == []


async def test_an_object_that_changed_says_nothing_where_only_some_are_followed(autojump_clock):
    cluster = Cluster(2)
    async with followed(cluster, selection=Selection(labels="a=b")) as it:
        await it.informer.synced()
        cluster.hides = True
        cluster.forget()
        for each in cluster.objects.values():
            each["metadata"]["resourceVersion"] = str(cluster.version)
        cluster.cut()
        await settle()
        assert it.names() == set()


async def test_what_may_not_be_read_says_nothing(autojump_clock):
    cluster = Cluster(2)
    async with followed(cluster) as it:
        await it.informer.synced()

        async def refuse(asked: Asked) -> None:
            if "/pods/" in asked.path:
                await asked.refuse(403, "Forbidden", "not you")
            else:
                await cluster(asked)

        it.server.answer = refuse
        cluster.hides = True
        cluster.forget()
        cluster.cut()
        await settle()
        assert it.names() == set()


async def test_few_questions_are_asked_and_none_at_rest(autojump_clock):
    cluster = Cluster(10)
    async with followed(cluster) as it:
        await it.informer.synced()
        await settle(3600)
        assert "get" not in {verb for verb, _ in it.asked()}
        cluster.objects = {}
        cluster.forget()
        cluster.cut()
        await settle()
        assert [verb for verb, _ in it.asked()].count("get") == 3
        assert it.names() == set()
