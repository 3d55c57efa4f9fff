"""The Kubernetes client against an embedded API server, and through its faults."""

from collections.abc import AsyncIterator

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES
from liqod.errors import Overloaded, Unreachable
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.selection import Selection
from simulator import EmbeddedCluster, Fault
from tests.kube_cases import *  # noqa: F403  # the cases
from tests.kube_cases import config_map, until


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster("kube") as started:
        yield started


@pytest.fixture
def given(cluster: EmbeddedCluster) -> Credentials:
    return from_kubeconfig(cluster.kubeconfig)


@pytest.fixture
async def place(given: Credentials) -> str:
    async with Client(given) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "place"}})
    return "place"


async def test_a_watch_that_is_cut_and_expires(cluster, given, place) -> None:
    async with Client(given) as client, trio.open_nursery() as nursery:
        informer = SharedInformer(client, CONFIG_MAPS, Selection(place))
        await nursery.start(informer.run)
        for number in range(12):
            fault = Fault(verb="watch", cut=1, expire=number % 3 == 0, times=1)
            with cluster.faults.during(fault):
                await client.create(CONFIG_MAPS, config_map(f"c{number}"), place)
                if number:
                    await client.delete(CONFIG_MAPS, f"c{number - 1}", place)
        expected = {(place, "c11")}
        await until(lambda: {key for key in informer.store if key[1][0] == "c"} == expected)
        nursery.cancel_scope.cancel()


async def test_a_server_under_load(cluster, given, place) -> None:
    async with Client(given) as client:
        with cluster.faults.during(Fault(verb="create", status=429, times=2)):
            await client.create(CONFIG_MAPS, config_map("made"), place)
        with cluster.faults.during(Fault(verb="get", status=500, times=2)):
            await client.get(CONFIG_MAPS, "made", place)
        with (
            cluster.faults.during(Fault(verb="create", status=500, times=1)),
            pytest.raises(Overloaded),
        ):
            await client.create(CONFIG_MAPS, config_map("not-made"), place)
        with cluster.faults.during(Fault(verb="get", drop=True, times=1)):
            await client.get(CONFIG_MAPS, "made", place)


async def test_a_frozen_server(cluster, given, place) -> None:
    async with Client(given, deadline=0.5) as client:
        cluster.faults.freeze()
        with pytest.raises(Unreachable, match=r"within 0\.5 s"):
            await client.get(CONFIG_MAPS, "made", place)
        cluster.faults.thaw()
        await client.list(CONFIG_MAPS, Selection(place))
