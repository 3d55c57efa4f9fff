"""A write at a peer is believed until the watch shows it, and not for ever."""

from typing import Any, cast

import msgspec
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS
from liqod.apimachinery.meta import Partial
from liqod.plugins.contracts import Watch
from liqod.plugins.reflectors import pods
from liqod.plugins.reflectors.configmaps import REFLECTOR
from liqod.reflection.remotecache import OWN_WRITE_SEEN, RemoteCache
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import settle
from tests.unit.kube.peers import peer, pod

SOURCE = ("configmaps", "conf")
WRITTEN = {"metadata": {"name": "conf", "uid": "1", "resourceVersion": "7"}}


async def test_a_write_that_the_watch_never_shows_is_looked_at_again(autojump_clock):
    told: list[tuple[str, str]] = []
    cache = RemoteCache(
        cast("Any", None),
        CONFIG_MAPS,
        Watch.METADATA,
        ("shop", "shop-rome"),
        (REFLECTOR,),
        ("rome", "milan"),
        enqueue={REFLECTOR.name: lambda key, after: told.append(key)},
    )
    # It was removed there before its answer came, and the watch has shown both by then.
    cache.wrote(SOURCE, msgspec.convert(WRITTEN, Partial))
    assert cache.sources == {SOURCE}
    cache.mend()
    assert told == []
    await trio.sleep(OWN_WRITE_SEEN + 1)
    cache.mend()
    assert told == [("shop", "conf")]
    assert cache.sources == frozenset()
    assert cache.settled("conf") is None
    cache.mend()
    assert told == [("shop", "conf")]


async def test_an_answer_that_comes_after_the_deletion_was_observed_is_not_believed(autojump_clock):
    cluster = Cluster(1)
    async with peer(cluster) as (_, client), trio.open_nursery() as nursery:
        cache = RemoteCache(
            client,
            PODS,
            Watch.FULL,
            ("shop", "a"),
            (REFLECTOR,),
            ("rome", "milan"),
            enqueue={REFLECTOR.name: lambda key, after: None},
        )
        nursery.start_soon(cache.run)
        await cache.has_synced.wait()
        answer = msgspec.convert(cluster.objects["p0"], Partial)
        cluster.remove("p0")
        await settle()
        assert not cache.wrote(SOURCE, answer)
        assert cache.find("p0") is None
        assert cache.settled("p0") is None
        assert cache.sources == frozenset()

        # One of which the watch has not told yet is there.
        later = msgspec.convert(pod("p1", version=cluster.version + 1), Partial)
        assert cache.wrote(SOURCE, later)
        assert cache.find("p1") == later
        nursery.cancel_scope.cancel()


async def test_what_went_is_kept_until_it_was_judged_though_another_has_its_name(autojump_clock):
    cluster, source = Cluster(0), ("pods", "p0")
    async with peer(cluster) as (_, client), trio.open_nursery() as nursery:
        cache = RemoteCache(
            client,
            PODS,
            Watch.FULL,
            ("shop", "a"),
            (pods.REFLECTOR,),
            ("rome", "milan"),
            enqueue={"pods": lambda key, after: None},
        )
        nursery.start_soon(cache.run)
        await cache.has_synced.wait()

        async def passes(reason: str) -> bytes:
            cluster.put("p0", status={"reason": reason})
            cluster.remove("p0")
            cluster.put("p0")
            await settle()
            return cache.gone(source) or b""

        first = await passes("first")
        assert b'"first"' in first
        assert all("status" not in each for each in cache.bodies(source))
        second = await passes("second")
        assert b'"second"' in second
        cache.judged(source, first)  # by a decision that did not see the second one
        assert cache.gone(source) == second
        cache.judged(source, second)
        assert cache.gone(source) is None
        nursery.cancel_scope.cancel()
