"""Following a kind of which some objects were left out, as their owner had too many."""

from typing import Any

import pytest

from liqod.kube.cache.informer import SUSPECT_ABOVE
from liqod.kube.cache.memoryquota import MemoryQuota
from liqod.kube.cache.relist import REREAD
from tests.unit.kube.cluster import Cluster
from tests.unit.kube.following import Followed, followed, settle

FAT = {"x": "y" * 10_000}


def stub(_: bytes) -> bytes:
    return b"{}"


def bounded(objects: int) -> dict[str, Any]:
    """Room for so many fat objects of the peer that has the namespace, and for a few stubs."""
    holdings = MemoryQuota(objects * 11_000, "")
    holdings.belongs("a", "milan")
    return {"part": holdings.part(stub)}


def lists(it: Followed) -> list[str]:
    """The requests since last asked that name all objects."""
    return [verb for verb, _ in it.asked() if verb in ("initial", "list")]


@pytest.mark.parametrize("watch_list", [True, False], ids=["initial", "list"])
async def test_what_was_left_out_is_read_once_it_fits(autojump_clock, watch_list):
    cluster = Cluster(watch_list=watch_list)
    async with followed(cluster, **bounded(1)) as it:
        await it.informer.synced()
        for number in range(7):
            cluster.put(f"fat{number}", spec=FAT)
        await settle()
        left = {f"fat{number}" for number in range(7)} - it.names()
        assert "fat6" in left
        it.told()
        it.asked()
        await settle(10 * REREAD)
        assert lists(it) == []  # there is no room, and no list for nothing
        cluster.remove("fat0")
        cluster.remove("fat6")  # its end is not missed either
        await settle(2 * REREAD)
        assert it.names() == set(cluster.objects)
        new = {name for name, what in it.told() if what == "+"}
        assert new == left - {"fat6"}
        assert lists(it) == ["initial" if watch_list else "list"]
        await settle(10 * REREAD)
        assert lists(it) == []


async def test_it_is_read_once_it_fits_where_a_list_left_it_out(autojump_clock):
    cluster = Cluster()
    for number in range(10):
        cluster.put(f"fat{number}", spec=FAT)
    async with followed(cluster, **bounded(1)) as it:
        await it.informer.synced()
        assert len(it.names()) < len(cluster.objects)
        for name in sorted(it.names()):
            cluster.remove(name)
        await settle(2 * REREAD)
        assert it.names()
        assert it.names() <= set(cluster.objects)


async def test_an_owner_at_the_bound_causes_no_list_more_often(autojump_clock):
    """It frees room again and again, and fills it at once."""
    cluster = Cluster(SUSPECT_ABOVE + 1)
    async with followed(cluster, **bounded(1)) as it:
        await it.informer.synced()
        it.asked()
        rounds = 200
        for number in range(rounds):
            cluster.put(f"fat{number}", spec=FAT)
            if number >= 10:
                cluster.remove(f"fat{number - 10}")
            await settle(REREAD / 20)
        assert 0 < len(lists(it)) <= rounds / 20
