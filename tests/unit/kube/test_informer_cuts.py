"""Following a kind over watches that are cut, fall silent, or bring what is no list."""

import trio

from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import followed, settle
from tests.unit.kube.peers import Asked, silent


async def test_watches_cut_each_second_bring_what_they_have_and_are_a_trouble(
    autojump_clock, caplog
):
    cluster = Cluster(1)

    async def cutting():
        while True:
            await trio.sleep(1)
            cluster.cut()

    async with followed(cluster) as it, trio.open_nursery() as nursery:
        await it.informer.synced()
        nursery.start_soon(cutting)
        await settle(60)
        assert it.informer.trouble == "its watches end early, again and again"
        for number in range(20):
            cluster.put(f"new-{number}")
            await settle(2.1)
            assert f"new-{number}" in it.names()
        assert [verb for verb, _ in it.asked()].count("initial") == 1
        nursery.cancel_scope.cancel()
        await settle(12)
        assert it.informer.trouble is None
    assert not caplog.records


async def test_a_watch_that_is_begun_anew_goes_on_where_it_was(autojump_clock):
    cluster = Cluster(1)

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.faults.append(silent)
        cluster.cut()
        await settle(5)
        cluster.put("new")
        await settle(5)
        assert "new" not in it.names()
        it.informer.restart()
        await settle(1)
        assert "new" in it.names()


async def test_an_answer_that_is_no_list_removes_nothing(autojump_clock):
    cluster = Cluster(1)

    async def lacking(asked: Asked) -> bool:
        await asked.reply(200, b'{"kind":"Recipe","apiVersion":"kitchen/v1"}')
        return True

    async with followed(cluster) as it:
        await it.informer.synced()
        cluster.forget()
        cluster.faults += [lacking] * 3
        cluster.cut()
        await settle(30)
        assert it.names() == {"p0"}
        assert not it.informer.trouble
