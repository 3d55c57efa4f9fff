"""EndpointSlices made from ShadowEndpointSlices, in an embedded cluster."""

from contextlib import asynccontextmanager

import pytest
import trio

from liqod import reachability
from liqod.apimachinery.kinds import ENDPOINT_SLICES, EVENTS, NAMESPACES, NODES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.model.crossing.preference import NO_ZONE_THERE
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads.endpointtranslation import MOST
from liqod.provider.workloads.shadowendpointslices import ShadowEndpointSlices
from liqod.resources import CONFIGURATIONS, NETWORKS, SHADOW_ENDPOINT_SLICES
from liqod.runtime.backoff import Backoff
from liqod.telemetry.events import EndpointsRefused
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, TENANT, lender, shadow_slice
from tests.simulated.prepared import installed


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


@asynccontextmanager
async def lending(cluster, text="", timings=ORDINARY):
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, text) as made,
        trio.open_nursery() as nursery,
    ):
        if await made.admin.find(NAMESPACES, SHOP) is None:
            await made.map_namespace()
        nursery.start_soon(reachability.follow_reachability, made.peer)
        await nursery.start(ShadowEndpointSlices(made.peer, timings).run)
        yield made
        nursery.cancel_scope.cancel()


async def addresses(made, *wanted, ready=True):
    """The EndpointSlice, once it has these addresses in that state."""

    async def look():
        found = await made.admin.find(ENDPOINT_SLICES, "web-1", SHOP)
        if found is None:
            return None
        there = [
            (address, one["conditions"]["ready"])
            for one in found.get("endpoints") or ()
            for address in one["addresses"]
        ]
        return found if there == [(address, ready) for address in wanted] else None

    return await eventually(look)


async def gone(made):
    async def look():
        return await made.admin.find(ENDPOINT_SLICES, "web-1", SHOP) is None

    await eventually(look)


async def test_a_list_that_lacks_it_ends_no_slice(cluster):
    soon = ProviderTimings(pauses=Backoff(first=0.05, last=0.2))
    async with lending(cluster, timings=soon) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        before = await addresses(made, "10.1.0.1")
        informer = next(
            each for each in made.context.informers.all() if each.kind == SHADOW_ENDPOINT_SLICES
        )
        await informer.replace({})
        await trio.sleep(0.5)
        assert (await addresses(made, "10.1.0.1"))["metadata"]["uid"] == before["metadata"]["uid"]
        await made.admin.delete(SHADOW_ENDPOINT_SLICES, "web-1", SHOP)
        await gone(made)


async def test_a_slice_is_made_follows_and_goes(cluster):
    async with lending(cluster) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        found = await addresses(made, "10.1.0.1")
        assert found["metadata"]["labels"]["liqo.io/managed-by"] == "shadowendpointslice"
        assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        assert found["metadata"]["ownerReferences"][0]["kind"] == "ShadowEndpointSlice"
        assert found["endpoints"][0]["nodeName"] == "rome"
        assert found["ports"][0]["port"] == 8080
        changed = {"spec": shadow_slice("web-1", "10.1.0.1", "10.1.0.2")["spec"]}
        await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", changed, SHOP)
        await addresses(made, "10.1.0.1", "10.1.0.2")
        await made.settled()
        writes = made.requests()
        assert writes == {("create", "endpointslices"): 1, ("patch", "endpointslices"): 1}
        shadow = await made.admin.get(SHADOW_ENDPOINT_SLICES, "web-1", SHOP)
        assert "liqo.io/managed-by" not in shadow["metadata"]["labels"]
        await made.admin.delete(SHADOW_ENDPOINT_SLICES, "web-1", SHOP)
        await gone(made)


async def test_hints_come_and_go_as_they_are_told(cluster):
    async with lending(cluster) as made:
        told = shadow_slice("web-1", "10.1.0.1")
        await made.admin.create(SHADOW_ENDPOINT_SLICES, told, SHOP)
        await addresses(made, "10.1.0.1")
        for wanted in ({"forZones": [{"name": "elsewhere.liqod.io"}]}, None):
            told["spec"]["template"]["endpoints"][0]["hints"] = wanted
            change = {"spec": told["spec"]}
            await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", change, SHOP)

            async def look(wanted=wanted):
                found = await made.admin.find(ENDPOINT_SLICES, "web-1", SHOP)
                return found is not None and found["endpoints"][0].get("hints") == wanted

            await eventually(look)


async def test_a_consumer_is_told_where_the_endpoints_here_do_not_come_first(cluster):
    async def said(made):
        found = await made.admin.list(EVENTS, Selection(SHOP))
        return [each["message"] for each in found if each["reason"] == "NodesWithoutZone"] or None

    async with lending(cluster) as made:
        zone = {"topology.kubernetes.io/zone": "a"}
        virtual = {"liqo.io/type": "virtual-node"}
        for name, marks in (("one", zone), ("two", zone), ("rome", virtual)):
            await made.admin.create(NODES, {"metadata": {"name": name, "labels": marks}})
        told = shadow_slice("web-1", "10.1.0.1")
        told["spec"]["template"]["endpoints"][0]["hints"] = NO_ZONE_THERE
        await made.admin.create(SHADOW_ENDPOINT_SLICES, told, SHOP)
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("other", "10.1.0.2"), SHOP)
        await addresses(made, "10.1.0.1")
        await made.settled()
        assert await said(made) is None
        # The label goes from a node.
        await made.admin.patch(NODES, "two", {"metadata": {"labels": {next(iter(zone)): None}}})
        [message] = await eventually(lambda: said(made))
        assert message.startswith("at milan: it has nodes without the label topology.")
        await made.settled()
        assert len(await said(made)) == 1


async def test_drift_is_corrected(cluster):
    async with lending(cluster) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        await addresses(made, "10.1.0.1")
        await made.admin.patch(ENDPOINT_SLICES, "web-1", {"endpoints": []}, SHOP)
        await addresses(made, "10.1.0.1")
        await made.admin.delete(ENDPOINT_SLICES, "web-1", SHOP)
        await addresses(made, "10.1.0.1")


async def test_addresses_of_this_cluster_are_refused_by_name(cluster):
    async with lending(cluster) as made:
        node = {
            "metadata": {"name": "worker"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]},
        }
        await made.admin.create(NODES, node)
        await made.admin.patch(NODES, "worker", {"status": node["status"]}, subresource="status")
        await made.settled()
        bad = ("10.96.0.1", "10.244.3.4", "127.0.0.1", "192.0.2.7")
        shadow = shadow_slice("web-1", "10.1.0.1", *bad)
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow, SHOP)
        await addresses(made, "10.1.0.1")

        async def told():
            reasons = [
                event.payload.reason
                for event in made.context.hub.history
                if isinstance(event.payload, EndpointsRefused)
            ]
            return any(all(address in reason for address in bad) for reason in reasons)

        await eventually(told)


async def test_the_network_of_a_node_that_comes_later_is_this_clusters_too(cluster):
    async with lending(cluster) as made:
        shadow = shadow_slice("web-1", "10.1.0.1", "10.77.0.5")
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow, SHOP)
        await addresses(made, "10.1.0.1", "10.77.0.5")
        spec = {"podCIDR": "10.77.0.0/24", "podCIDRs": ["10.77.0.0/24"]}
        await made.admin.create(NODES, {"metadata": {"name": "late"}, "spec": spec})
        await addresses(made, "10.1.0.1")


async def test_ranges_that_mean_something_else_here_are_no_peers(cluster):
    """External addresses lend hosts, and under its alias another peer's pods are reached."""
    async with lending(cluster) as made:
        said = ["10.10.0.7", "10.70.0.1", "10.71.0.5", "10.72.0.5"]
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", *said), SHOP)
        await addresses(made, *said)
        await made.admin.create(NAMESPACES, {"metadata": {"name": "liqo-tenant-turin"}})
        for place, cidr in (
            ("liqo", "10.70.0.0/20"),
            ("liqo-tenant-turin", "10.71.0.0/16"),
            (TENANT, "10.72.0.0/16"),
        ):
            body = {"metadata": {"name": "range"}, "spec": {"cidr": cidr}}
            await made.admin.create(NETWORKS, body, place)
            told = {"status": {"cidr": cidr}}
            await made.admin.patch(NETWORKS, "range", told, place, subresource="status")
        # Its own pods may have the very addresses under which they are seen through a tunnel.
        await addresses(made, "10.10.0.7", "10.72.0.5")


async def test_nothing_is_ready_while_the_peer_does_not_answer(cluster):
    async with lending(cluster) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        await addresses(made, "10.1.0.1")
        made.link.set(False, "its API server does not answer")
        await addresses(made, "10.1.0.1", ready=False)
        made.link.set(True, "its API server answers")
        await addresses(made, "10.1.0.1")


async def told(made, what):
    async def look():
        found = await made.admin.list(EVENTS, Selection(SHOP))
        said = [each["message"] for each in found if each["reason"] == "TooLarge"]
        about = {each["involvedObject"]["name"] for each in found}
        return about == {"web-1"} and len(said) == 1 and what in said[0]

    await eventually(look)


async def test_what_was_made_of_a_slice_that_became_too_large_stays(cluster):
    async with lending(cluster) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        before = await addresses(made, "10.1.0.1")
        grown = shadow_slice("web-1", *(f"10.1.{n >> 8}.{n & 255}" for n in range(1000)))
        for each in grown["spec"]["template"]["endpoints"]:
            each["hints"] = {"forZones": [{"name": "z" * 63}] * 16}
        await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", {"spec": grown["spec"]}, SHOP)
        await told(made, "more than 1 MiB")
        await made.settled()
        assert (await addresses(made, "10.1.0.1"))["metadata"]["uid"] == before["metadata"]["uid"]
    async with lending(cluster) as made:  # and when another daemon reads it all anew
        await made.settled()
        assert (await addresses(made, "10.1.0.1"))["metadata"]["uid"] == before["metadata"]["uid"]
        less = {"spec": shadow_slice("web-1", "10.1.0.2")["spec"]}
        await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", less, SHOP)
        await addresses(made, "10.1.0.2")
        await made.admin.delete(SHADOW_ENDPOINT_SLICES, "web-1", SHOP)
        await gone(made)


async def test_of_an_endpoint_a_few_addresses_are_read(cluster):
    async with lending(cluster) as made:
        asked = shadow_slice("web-1", "10.1.0.1")
        named = [f"10.1.0.{n}" for n in range(1, 21)]
        asked["spec"]["template"]["endpoints"][0]["addresses"] = named
        await made.admin.create(SHADOW_ENDPOINT_SLICES, asked, SHOP)
        await addresses(made, *named[:MOST])


async def test_what_was_made_stays_where_its_consumer_has_too_much_here(cluster):
    soon = ProviderTimings(room_again=0.1)
    routed = '[peer_defaults]\npod_network = "routed"\npod_cidrs = ["10.0.0.0/8"]\n'
    text = f"{routed}[guests]\nmax_bytes = {1 << 20}\n"
    async with lending(cluster, text, soon) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        await addresses(made, "10.1.0.1")
        grown = shadow_slice("web-1", "10.1.0.1", "10.1.0.2")
        grown["spec"]["template"]["endpoints"][0]["hints"] = {"a": "b" * (1 << 19)}
        holdings = made.context.informers.holdings
        holdings.change(SHOP, 1 << 19)
        await made.admin.patch(SHADOW_ENDPOINT_SLICES, "web-1", {"spec": grown["spec"]}, SHOP)
        await told(made, "too much here already")
        await addresses(made, "10.1.0.1")
        holdings.change(SHOP, -(1 << 19))
        await addresses(made, "10.1.0.1", "10.1.0.2")


async def test_without_a_pod_network_none_is_made_and_one_that_was_goes(cluster):
    async with lending(cluster) as made:
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)
        await addresses(made, "10.1.0.1")
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        lender(admin, cluster.kubeconfig, "[peer_defaults]\n") as made,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(ShadowEndpointSlices(made.peer).run)
        made.peer.network.looked.set()  # the machine does not answer: nothing was read
        await made.settled()
        await addresses(made, "10.1.0.1")
        await nursery.start(PeerCIDRs(made.peer).run)
        await gone(made)
        nursery.cancel_scope.cancel()


async def configuration(made, *, pod="10.244.0.0/16", alias="10.71.0.0/16"):
    """Rome's ranges and their aliases, as milan's Configuration has them; without aliases where
    there are none."""
    cidr = {"pod": [pod], "external": ["10.70.0.0/16"]}
    body = {
        "metadata": {"name": "rome"},
        "spec": {"local": {"cidr": cidr}, "remote": {"cidr": cidr}},
    }
    if await made.admin.find(CONFIGURATIONS, "rome", TENANT) is None:
        await made.admin.create(CONFIGURATIONS, body, TENANT)
    await made.admin.patch(CONFIGURATIONS, "rome", {"spec": body["spec"]}, TENANT)
    seen = {"cidr": {"pod": [alias], "external": ["10.72.0.0/16"]}} if alias else None
    status = {"status": {"remote": seen}}
    await made.admin.patch(CONFIGURATIONS, "rome", status, TENANT, subresource="status")


async def test_endpoints_behind_a_tunnel_are_relayed_under_their_aliases(cluster):
    async with (
        lending(cluster, "[peer_defaults]\n") as made,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(PeerCIDRs(made.peer).run)
        await made.admin.create(
            SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.244.0.1", "10.9.0.1"), SHOP
        )
        await configuration(made, alias="")
        await made.settled()
        assert await made.admin.find(ENDPOINT_SLICES, "web-1", SHOP) is None
        assert "aliases" in made.peer.network.waits
        await configuration(made)
        await addresses(made, "10.71.0.1")
        made.peer.network.set_connected(True)
        # Its API server is frozen, and packets get through: nothing is withdrawn.
        made.link.set(False, "it accepts connections but answers nothing")
        await made.settled()
        await addresses(made, "10.71.0.1")
        made.link.set(True, "its API server answers")
        made.peer.network.set_connected(False, "nothing comes back")
        await addresses(made, "10.71.0.1", ready=False)
        # A daemon that starts does not know it yet, and leaves it so.
        made.peer.reach.set(None)
        await configuration(made, alias="10.72.0.0/16")
        await addresses(made, "10.72.0.1", ready=False)
        made.peer.network.set_connected(True)
        await configuration(made, alias="10.73.0.0/16")
        await addresses(made, "10.73.0.1")
        await made.admin.delete(CONFIGURATIONS, "rome", TENANT)
        await gone(made)
        nursery.cancel_scope.cancel()


async def test_a_slice_of_that_name_that_is_not_ours_is_left_alone(cluster):
    soon = ProviderTimings(pauses=Backoff(first=0.05, last=0.2))
    async with lending(cluster, timings=soon) as made:
        theirs = {"metadata": {"name": "web-1"}, "addressType": "IPv4", "endpoints": []}
        await made.admin.create(ENDPOINT_SLICES, theirs, SHOP)
        before = await made.admin.get(ENDPOINT_SLICES, "web-1", SHOP)
        await made.admin.create(SHADOW_ENDPOINT_SLICES, shadow_slice("web-1", "10.1.0.1"), SHOP)

        async def told():
            return any("not this one's" in str(event.payload) for event in made.context.hub.history)

        await eventually(told)
        assert await made.admin.get(ENDPOINT_SLICES, "web-1", SHOP) == before
        await made.admin.delete(ENDPOINT_SLICES, "web-1", SHOP)
        await addresses(made, "10.1.0.1")
