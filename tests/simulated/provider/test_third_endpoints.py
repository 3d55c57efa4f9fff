"""Endpoints of a third cluster that a consumer names, at a provider that has joined its network."""

from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest
import trio

from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES
from liqod.consumer.link import ProviderPeer
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model.crossing.thirdclusters import annotations_for
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.provider.workloads import endpointcrossing
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.resources import SHADOW_ENDPOINT_SLICES
from liqod.telemetry.events import EndpointsRefused
from simulator import EmbeddedCluster
from tests.simulated.borrower import Switch, eventually
from tests.simulated.lender import SHOP, Lender, lender, shadow_slice
from tests.simulated.prepared import installed

POD = "10.244.0.0/16"
EXTERNAL = "10.70.0.0/16"
PERMITTED = '[[peers]]\nid = "rome"\ndirect_connections = ["turin"]\n'
NOBODY = '[[peers]]\nid = "rome"\n'


def ranges(seen, external):
    """All clusters have the same networks, and milan an alias for each."""
    own = ClusterCidrs(pod=(POD,), external=(EXTERNAL,))
    return PeerRanges(own=own, peer=own, seen=ClusterCidrs(pod=(seen,), external=(external,)))


class Milan(NamedTuple):
    lender: Lender
    turin: ProviderPeer
    nursery: trio.Nursery

    async def tells(self, *addresses, by_way=None, name="db-1", owner="turin", keys=(), **more):
        """Rome tells of endpoints at a third cluster."""
        made = shadow_slice(name, *addresses)
        ways = {each: (by_way or {}).get(each, "") for each in addresses}
        made["metadata"]["annotations"] = annotations_for(owner, ways, keys) | more
        await self.lender.admin.create(SHADOW_ENDPOINT_SLICES, made, SHOP)

    async def has(self, *wanted, name="db-1"):
        """The slice, once it has these endpoints: address, cluster, readiness."""

        async def look():
            found = await self.lender.admin.find(ENDPOINT_SLICES, name, SHOP)
            there = found and [
                (each["addresses"][0], each["nodeName"], each["conditions"]["ready"])
                for each in found.get("endpoints") or ()
            ]
            return found if there == list(wanted) else None

        return await eventually(look)

    async def says(self, text):
        """The one Event about the slice, once it has that in it."""

        async def look():
            found = await self.lender.admin.list(EVENTS, Selection(SHOP))
            said = [each for each in found if text in each["message"]]
            return said[0] if len(said) == 1 else None

        return await eventually(look)

    def refusals(self):
        """The reasons for which endpoints were refused, as the operator is told them."""
        told = (each.payload for each in self.lender.context.hub.history)
        return [each.reason for each in told if isinstance(each, EndpointsRefused)]

    def begin(self, **more):
        """Milan's task of turin begins, with the networks joined."""
        turin = self.turin
        turin.network.set_ranges(ranges("10.82.0.0/16", "10.83.0.0/16"))
        turin.reach.set("")
        self.nursery.start_soon(turin.neighbours.follow, turin)


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


@asynccontextmanager
async def lending(cluster, text=PERMITTED):
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, text) as made,
        trio.open_nursery() as nursery,
    ):
        if await admin.find(NAMESPACES, SHOP) is None:
            await made.map_namespace()
        made.peer.network.set_ranges(ranges("10.81.0.0/16", "10.84.0.0/16"))
        made.peer.reach.set("")
        nursery.start_soon(made.peer.neighbours.follow, made.peer)
        link = cast("Any", Switch())
        near = made.peer.neighbours
        turin = ProviderPeer("turin", made.context, "liqo-tenant-turin", neighbours=near, link=link)
        await nursery.start(ShadowEndpointSlices(made.peer).run)
        yield Milan(made, turin, nursery)
        nursery.cancel_scope.cancel()


async def test_the_direct_way_is_taken_while_it_carries_and_else_the_one_through_the_consumer(
    cluster,
):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", by_way={"10.244.0.5": "10.70.0.9"})
        found = await milan.has(("10.82.0.5", "turin", True))
        assert "liqo.io/direct-connections-data" not in found["metadata"].get("annotations", {})
        milan.turin.reach.set("nothing comes back")
        await milan.has(("10.84.0.9", "rome", True))
        milan.lender.peer.reach.set("nothing comes back")
        await milan.has(("10.84.0.9", "rome", False))
        milan.turin.reach.set("")
        await milan.has(("10.82.0.5", "turin", True))
        milan.turin.network.set_ranges(ranges("10.85.0.0/16", "10.83.0.0/16"))
        await milan.has(("10.85.0.5", "turin", True))


async def test_one_that_is_down_alone_is_not_ready_and_comes_back(cluster):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5")
        await milan.has(("10.82.0.5", "turin", True))
        milan.turin.reach.set("nothing comes back")
        await milan.has(("10.82.0.5", "turin", False))
        milan.turin.reach.set("")
        await milan.has(("10.82.0.5", "turin", True))


async def test_where_milan_is_not_joined_with_it_nothing_is_published_and_that_is_told_quietly(
    cluster,
):
    async with lending(cluster) as milan:
        await milan.tells("10.244.0.5")
        await milan.has()
        event = await milan.says("joined no network with turin")
        assert (event["type"], event["reason"]) == ("Normal", "EndpointsLeftOut")
        milan.begin()
        await milan.has(("10.82.0.5", "turin", True))


async def test_by_the_consumers_word_alone_no_address_of_another_cluster_is_published(cluster):
    async with lending(cluster, NOBODY) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", "10.244.0.6", by_way={"10.244.0.6": "10.70.0.9"})
        await milan.has(("10.84.0.9", "rome", True))
        event = await milan.says("direct_connections of [[peers]] rome does not name turin")
        assert event["type"] == "Normal"


@pytest.mark.parametrize(
    "address",
    [
        "10.82.0.5",  # milan's alias, which turin itself does not use
        "10.70.0.9",  # what turin lends to milan alone
        "10.96.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "192.0.2.7",
    ],
)
async def test_an_address_that_is_no_pods_of_that_cluster_is_left_out(cluster, address):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells(address, "10.244.0.5")
        await milan.has(("10.82.0.5", "turin", True))


@pytest.mark.parametrize("owner", ["rome", "milan", "genoa", "../x", ""])
async def test_another_name_leads_nowhere(cluster, owner):
    everybody = '[[peers]]\nid = "rome"\ndirect_connections = ["*"]\n'
    async with lending(cluster, everybody) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", owner=owner)
        await milan.has()


async def test_of_another_cluster_of_that_id_nothing_is_published_and_the_operator_is_told(
    cluster,
):
    """Rome's turin is not milan's: its address would be another pod's here."""
    async with lending(cluster) as milan:
        milan.begin()
        milan.turin.neighbours.know({"turin": frozenset({"a" * 64})})
        await milan.tells("10.244.0.5", keys={"b" * 64})
        await milan.tells("10.244.0.6", by_way={"10.244.0.6": "10.70.0.9"}, name="db-2", keys={"b"})
        await milan.has()
        await milan.has(("10.84.0.9", "rome", True), name="db-2")
        said = f"another cluster is turin here: its key is {'a' * 16}…, and not {'b' * 16}…"
        assert any(said in each for each in milan.refusals())
        # Milan follows turin to another key, which is the one that rome knows.
        milan.turin.neighbours.know({"turin": frozenset({"a" * 64, "b" * 64})})
        await milan.has(("10.82.0.5", "turin", True))


async def test_nothing_is_published_before_it_is_known_which_cluster_has_that_id(cluster):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", keys={"b" * 64})
        await trio.sleep(endpointcrossing.SETTLE / 2)
        await milan.has()
        milan.turin.neighbours.know({"turin": frozenset({"b" * 64})})
        await milan.has(("10.82.0.5", "turin", True))


async def test_an_address_that_is_said_to_be_of_two_clusters_is_of_none(cluster):
    both = '{"clusterAddresses": {"turin": ["10.244.0.5"], "genoa": ["10.244.0.5"]}}'
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", **{"liqo.io/direct-connections-data": both})
        await milan.has()


async def test_a_slice_that_cannot_be_read_is_not_taken_for_the_consumers(cluster):
    async with lending(cluster) as milan:
        await milan.tells("10.244.0.5", **{"liqo.io/direct-connections-data": "nonsense"})
        await milan.has()


async def test_what_a_consumer_of_liqos_writes_into_one_slice_is_understood(cluster):
    """It names the addresses beside its own in the same slice."""
    data = '{"clusterAddresses": {"turin": ["10.244.7.7"]}}'
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5", "10.244.7.7", **{"liqo.io/direct-connections-data": data})
        await milan.has(("10.81.0.5", "rome", True), ("10.82.7.7", "turin", True))


async def test_a_daemon_that_starts_leaves_what_there_is_until_it_knows_its_peers(cluster):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5")
        before = await milan.has(("10.82.0.5", "turin", True))
    async with lending(cluster) as milan:  # turin's task has not begun
        await trio.sleep(endpointcrossing.SETTLE / 2)
        now = await milan.has(("10.82.0.5", "turin", True))
        assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await milan.has()  # it does not begin


@pytest.mark.long
async def test_ranges_that_do_not_come_keep_endpoints_for_minutes_and_not_for_good(cluster):
    async with lending(cluster) as milan:
        milan.begin()
        await milan.tells("10.244.0.5")
        await milan.tells("10.244.0.6", by_way={"10.244.0.6": "10.70.0.9"}, name="db-2")
        before = await milan.has(("10.82.0.5", "turin", True))
        milan.turin.network.set_ranges(None, "turin refuses the range")
        await trio.sleep(endpointcrossing.LASTS - 5)
        now = await milan.has(("10.82.0.5", "turin", True))
        assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        await milan.has()
        event = await milan.says("turin refuses the range")
        assert (event["type"], event["reason"]) == ("Normal", "EndpointsLeftOut")
        await milan.has(("10.84.0.9", "rome", True), name="db-2")
        milan.turin.reach.set("nothing comes back")  # any change: it is not waited for once more
        await milan.tells("10.244.0.7", by_way={"10.244.0.7": "10.70.0.8"}, name="db-3")
        await milan.has(("10.84.0.8", "rome", True), name="db-3")

        milan.turin.network.set_ranges(ranges("10.85.0.0/16", "10.83.0.0/16"))
        milan.turin.reach.set("")
        await milan.has(("10.85.0.5", "turin", True))
        milan.turin.network.set_ranges(None, "turin refuses the range")
        await trio.sleep(endpointcrossing.LASTS - 5)
        await milan.has(("10.85.0.5", "turin", True))
        await milan.has()
