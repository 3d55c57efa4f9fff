"""Following a kind of which some objects are too large or too deeply nested to be read."""

import json

from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.rawobjects import MAX_OBJECT
from liqod.kube.cache.troublelog import MOST_NAMED, TroubleLog
from liqod.kube.client import Client
from liqod.kube.watch import AFTER_SKIP
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import deep, followed, settle
from tests.unit.kube.peers import CREDENTIALS, Asked


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
        await settle(2 * AFTER_SKIP)
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


async def test_of_ever_more_unreadable_objects_only_so_many_are_named(autojump_clock, caplog):
    client = Client(CREDENTIALS)
    telling = TroubleLog(client, PODS, lambda: None)
    for number in range(2 * MOST_NAMED):
        telling.oversize(f"a/huge-{number}")
    telling.oversize("a/huge-0")
    reports = [record for record in caplog.records if record.message == "object not readable"]
    assert len(reports) == MOST_NAMED
