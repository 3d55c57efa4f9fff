"""Three clusters: rome has a Service with pods at home, at milan and at turin."""

import dataclasses
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest
import trio

from liqod import config
from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, SERVICES
from liqod.cluster import transitaddresses
from liqod.cluster.tenancy import tenant_namespace
from liqod.cluster.transitaddresses import Passage, TransitAddresses
from liqod.consumer.link import ProviderPeer
from liqod.kube.selection import Selection
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.network import ipam
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.resources import CONFIGURATIONS, IPS, NAMESPACE_MAPS, SHADOW_ENDPOINT_SLICES
from tests.simulated.addressed import Rome
from tests.simulated.borrower import Switch, eventually
from tests.simulated.reflecting import SHOP, THERE, Pair, beside, pair

POD = "10.10.0.0/16"
OWN = ClusterCidrs(pod=(POD,), external=("10.70.0.0/16",))
"""The networks of each of the three: all the same."""
TRANSIT = '[network]\ntransit = [["milan", "turin"]]\n'
PERMITTED = '[[peers]]\nid = "rome"\ndirect_connections = ["turin"]\n'
DIRECT = {"liqo.io/use-direct-connections": "true"}


def ranges(number: int) -> PeerRanges:
    seen = ClusterCidrs(pod=(f"10.{number}.0.0/16",), external=(f"10.{number + 1}.0.0/16",))
    return PeerRanges(own=OWN, peer=OWN, seen=seen)


def members(*addresses: tuple[str, str, str]) -> dict[str, Any]:
    """A slice of the Service: each endpoint's name, address and node."""
    endpoints = [
        {
            "addresses": [address],
            "nodeName": node,
            "hostname": hostname,
            "conditions": {"ready": True},
        }
        for hostname, address, node in addresses
    ]
    return {
        "metadata": {"name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
    }


ALL = (
    ("db-0", "10.10.0.5", "worker"),
    ("db-1", "10.72.0.5", "milan"),
    ("db-2", "10.74.0.5", "turin"),
)
SERVICE = {"metadata": {"name": "db"}, "spec": {"clusterIP": "None", "ports": [{"port": 5432}]}}


class Three(NamedTuple):
    """Rome's reflection to milan, and milan's provider of rome with turin beside it."""

    milan: Pair
    turin: Pair
    nursery: trio.Nursery
    lends: ProviderPeer
    joined: ProviderPeer

    async def annotate(self, notes: dict[str, str]) -> None:
        patch = {"metadata": {"annotations": notes}}
        await self.milan.here.patch(SERVICES, "db", patch, SHOP)

    async def finds(self, wanted: dict[str, str]) -> None:
        """Waits until milan's clients find these members and no others."""

        async def look() -> bool:
            found = await self.milan.there.list(ENDPOINT_SLICES, Selection(THERE))
            return wanted == {
                endpoint["hostname"]: endpoint["addresses"][0]
                for each in found
                for endpoint in each.get("endpoints") or ()
                if endpoint["conditions"]["ready"]
            }

        await eventually(look)

    async def is_given(self, passage: Passage) -> None:
        """Waits until a passage is wanted, gives it an address, and waits until milan has it."""
        transit = self.milan.context.transit

        async def wanted() -> bool:
            return transit.wants(passage)

        await eventually(wanted)
        transit.give("milan", {passage: "10.70.0.9"})
        await self.finds({"db-0": "10.82.0.5", "db-2": "10.83.0.9"})

    async def told(self, why: str = "") -> list[tuple[str, str, str]]:
        """Kind, name and type of the objects with an Event of endpoints that are elsewhere."""
        found = await self.milan.here.list(EVENTS, Selection(SHOP))
        return [
            (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["type"])
            for each in found
            if each["reason"] == "EndpointElsewhere"
            and "endpoints at turin are not told to milan" in each["message"]
            and why in each["message"]
        ]


@asynccontextmanager
async def three(text: str = "[peer_defaults]\n"):
    async with (
        pair(text=text) as milan,
        beside(milan, "turin") as turin,
        trio.open_nursery() as nursery,
    ):
        turin.peer.neighbours = milan.peer.neighbours
        for peer, number in ((milan.peer, 72), (turin.peer, 74)):
            peer.network.set_ranges(ranges(number))
            await nursery.start(peer.neighbours.follow, peer)
        for each in (milan, turin):
            await each.start(nursery)
        lender = dataclasses.replace(milan.lender, config=config.parse(PERMITTED))
        link = cast("Any", Switch())
        rome = ProviderPeer("rome", lender, "liqo-tenant-rome", link=link)
        joined = ProviderPeer(
            "turin", lender, "liqo-tenant-turin", neighbours=rome.neighbours, link=link
        )
        rome.network.set_ranges(ranges(82))
        rome.reach.set("")
        await nursery.start(ShadowEndpointSlices(rome).run)
        await milan.here.create(SERVICES, SERVICE, SHOP)
        await milan.here.create(ENDPOINT_SLICES, members(*ALL), SHOP)
        yield Three(milan, turin, nursery, rome, joined)
        nursery.cancel_scope.cancel()


async def test_what_has_no_way_is_left_out_and_told_once_on_the_service():
    async with three() as of:
        await of.finds({"db-0": "10.82.0.5"})
        second = members(("db-3", "10.74.0.6", "turin"))
        second["metadata"]["name"] = "db-2"
        await of.milan.here.create(ENDPOINT_SLICES, second, SHOP)

        async def look() -> bool:
            return bool(await of.told())

        await eventually(look)
        await trio.sleep(3)
        assert await of.told() == [("Service", "db", "Normal")]


async def test_members_at_a_third_cluster_are_found_by_name_where_the_two_are_joined():
    async with three() as of:
        await of.annotate(DIRECT)
        await of.finds({"db-0": "10.82.0.5"})
        of.joined.network.set_ranges(ranges(84))
        of.joined.reach.set("")
        await of.nursery.start(of.joined.neighbours.follow, of.joined)
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.84.0.5"})
        # The slice follows: one more there, the first one gone.
        moved = members(ALL[0], ("db-3", "10.74.0.6", "turin"))
        await of.milan.here.patch(ENDPOINT_SLICES, "db-1", {"endpoints": moved["endpoints"]}, SHOP)
        await of.finds({"db-0": "10.82.0.5", "db-3": "10.84.0.6"})
        await of.annotate({"liqo.io/use-direct-connections": "false"})
        await of.finds({"db-0": "10.82.0.5"})
        await of.milan.here.delete(ENDPOINT_SLICES, "db-1", SHOP)
        await of.finds({})
        assert await of.milan.there.list(SHADOW_ENDPOINT_SLICES, Selection(THERE)) == []


async def test_rome_tells_the_addresses_of_a_peer_by_the_ranges_that_it_has_now():
    async with three() as of:
        await of.annotate(DIRECT)
        of.joined.network.set_ranges(ranges(84))
        of.joined.reach.set("")
        await of.nursery.start(of.joined.neighbours.follow, of.joined)
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.84.0.5"})
        of.turin.peer.network.set_ranges(None, "its ranges change")
        await of.finds({"db-0": "10.82.0.5"})
        of.turin.peer.network.set_ranges(ranges(74))
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.84.0.5"})


async def test_the_way_through_rome_is_published_for_as_long_as_milan_is_told_of_it():
    passage = Passage("milan", "turin", "10.74.0.5")
    async with three(TRANSIT) as of:
        transit = of.milan.context.transit
        await of.finds({"db-0": "10.82.0.5"})

        async def look() -> bool:
            # What turin's pods reach at milan is the other half of the pair.
            both = {passage, Passage("turin", "milan", "10.72.0.5")}
            return {*transit.wanted()} == both and transit.is_settled("milan")

        await eventually(look)
        transit.give("milan", {passage: "10.70.0.9"})
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.83.0.9"})
        # Where they are joined too, that way is taken, and rome's while it fails.
        await of.annotate(DIRECT)
        of.joined.network.set_ranges(ranges(84))
        of.joined.reach.set("")
        await of.nursery.start(of.joined.neighbours.follow, of.joined)
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.84.0.5"})
        of.joined.reach.set("nothing comes back")
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.83.0.9"})
        # While milan cannot be written, it keeps what it was told, and so does rome.
        of.milan.link.set(False, "it does not answer")
        gone = {"endpoints": members(ALL[0])["endpoints"]}
        await of.milan.here.patch(ENDPOINT_SLICES, "db-1", gone, SHOP)
        await trio.sleep(2)
        assert transit.wants(passage)
        of.milan.link.set(True, "")

        async def released() -> bool:
            return not transit.wants(passage)

        await eventually(released)
        await of.finds({"db-0": "10.82.0.5"})
        assert await of.told() == []


async def test_an_endpoint_beyond_the_limit_is_left_out_and_told_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transitaddresses, "MOST", 1)
    first = Passage("milan", "turin", "10.74.0.5")
    async with three(TRANSIT) as of:
        await of.is_given(first)
        second = members(("db-3", "10.74.0.6", "turin"))
        second["metadata"]["name"] = "db-2"
        await of.milan.here.create(ENDPOINT_SLICES, second, SHOP)

        async def look() -> bool:
            return bool(await of.told("1 endpoints at turin are published to milan already"))

        await eventually(look)
        await of.finds({"db-0": "10.82.0.5", "db-2": "10.83.0.9"})


async def test_a_reflection_that_begins_anew_keeps_what_it_finds_and_lets_the_rest_go():
    passage = Passage("milan", "turin", "10.74.0.5")
    async with three(TRANSIT) as of:
        transit = of.milan.context.transit
        await of.is_given(passage)
        before = await of.milan.there.get(SHADOW_ENDPOINT_SLICES, "db-1", THERE)
        of.milan.stop()
        await of.milan.start(of.nursery)
        await trio.sleep(5)
        now = await of.milan.there.get(SHADOW_ENDPOINT_SLICES, "db-1", THERE)
        assert now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert transit.wants(passage)
        of.milan.stop()
        await of.milan.here.delete(ENDPOINT_SLICES, "db-1", SHOP)
        await of.milan.start(of.nursery)

        async def released() -> bool:
            return not transit.wants(passage)

        await eventually(released)
        await of.finds({})


async def test_a_peer_that_was_gone_and_is_joined_again_is_told_again():
    passage = Passage("milan", "turin", "10.74.0.5")
    async with three(TRANSIT) as of:
        transit = of.milan.context.transit

        async def wanted() -> bool:
            return bool(transit.wants(passage))

        await eventually(wanted)
        # It could not be written meanwhile, and so has what it was told.
        of.milan.link.set(False, "it does not answer")
        of.milan.peer.network.set_ranges(None, "not joined")
        await trio.sleep(3)
        transit.forget("milan")
        assert not transit.wants(passage)
        of.milan.peer.network.set_ranges(ranges(72))
        of.milan.link.set(True, "")
        await eventually(wanted)


async def test_where_nothing_is_offloaded_any_more_nothing_is_published():
    """Its network may stay joined: it borrows, too."""
    passage = Passage("milan", "turin", "10.74.0.5")
    async with three(TRANSIT) as of:
        transit = of.milan.context.transit

        async def settled() -> bool:
            return bool(transit.wants(passage) and transit.is_settled("milan"))

        await eventually(settled)
        await of.milan.here.delete(NAMESPACE_MAPS, "milan", of.milan.tenant)

        async def released() -> bool:
            return not transit.users("milan")

        await eventually(released)
        # Another daemon finds none, and what the one before it has opened goes.
        again = TransitAddresses([("milan", "turin")])
        of.milan.stop()
        vars(of.milan.context)["transit"] = again
        await of.milan.start(of.nursery)

        async def gone_through() -> bool:
            return again.is_settled("milan")

        await eventually(gone_through)


async def joined(rome: Rome, peer: Pair) -> str:
    """Rome's networks are joined with a peer's; the first address of that one's pods here."""
    marks = tenant_namespace(peer.name)["metadata"]["labels"]
    await rome.client.patch(NAMESPACES, peer.tenant, {"metadata": {"labels": marks}})
    await rome.configured(peer.name, [POD], ["10.70.0.0/20"])
    alias = (await rome.seen(peer.name))["pod"][0]
    local = {"spec": {"local": {"cidr": {"pod": [POD], "external": ["10.70.0.0/20"]}}}}
    await rome.client.patch(CONFIGURATIONS, peer.name, local, peer.tenant)
    return alias.rpartition(".")[0] + ".5"


async def test_the_way_through_rome_gets_an_address_of_romes_and_milan_finds_it():
    text = f'[cluster]\npod_cidrs = ["{POD}"]\n{TRANSIT}external_cidr = "10.70.0.0/20"\n'
    async with three(text) as of:
        rome = Rome(of.milan.context, of.milan.here)
        of.nursery.start_soon(ipam.run, of.milan.context)
        await joined(rome, of.milan)
        address = await joined(rome, of.turin)
        for each in (of.milan, of.turin):
            await of.nursery.start(PeerCIDRs(each.peer).run)
        at_turin = members(ALL[0], ("db-2", address, "turin"))["endpoints"]
        await rome.client.patch(ENDPOINT_SLICES, "db-1", {"endpoints": at_turin}, SHOP)

        async def look() -> Any:
            return of.milan.context.transit.address("milan", "turin", address)

        shown = await eventually(look)
        assert shown.startswith("10.70.")
        await of.finds({"db-0": "10.82.0.5", "db-2": shown.replace("10.70.", "10.83.")})
        gone = {"endpoints": at_turin[:1]}
        await rome.client.patch(ENDPOINT_SLICES, "db-1", gone, SHOP)
        await of.finds({"db-0": "10.82.0.5"})

        async def closed() -> bool:
            found = await rome.client.list(IPS)
            return not any(
                "liqod.io/transit-from" in each["metadata"]["annotations"] for each in found
            )

        await eventually(closed)
