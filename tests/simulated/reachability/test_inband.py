"""Access to the API server through the tunnel: for the peers that are named, and no others."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ENDPOINT_SLICES
from liqod.cluster.context import ClusterContext
from liqod.model.network.ranges import Entrance
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.peers.peer import Peer
from liqod.resources import CONFIGURATIONS, IPS
from tests.simulated.addressed import SETTINGS, Rome, gone, rome
from tests.simulated.borrower import eventually

LETS_MILAN = SETTINGS + 'in_band = ["mil*"]\n'
WAYS = (
    Entrance("10.70.0.1", "tcp", 6443, "172.20.0.10", 7443),
    Entrance("10.70.0.1", "tcp", 8118, "169.254.19.1", 8118),
)


async def api_servers(context: Rome, *addresses: str) -> None:
    """Writes the EndpointSlice in which API servers publish their addresses."""
    metadata = {"name": "kubernetes", "labels": {labels.SERVICE_NAME: "kubernetes"}}
    ready = {"conditions": {"ready": True}}
    wanted = {
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], **ready} for each in addresses],
        "ports": [{"name": "https", "port": 7443}],
    }
    await context.client.create(ENDPOINT_SLICES, wanted, "default")


@asynccontextmanager
async def known(context: Rome, name: str) -> AsyncIterator[Peer]:
    """A peer with whom the networks are joined."""
    peer = Peer(name, context.context, f"liqo-tenant-{name}")
    await context.configured(name, ["10.244.0.0/16"], ["10.70.0.0/20"])
    await context.seen(name)
    local = {"cidr": {"pod": ["10.244.0.0/16"], "external": ["10.70.0.0/20"]}}
    patch = {"spec": {"local": local}}
    await context.client.patch(CONFIGURATIONS, name, patch, f"liqo-tenant-{name}")
    async with trio.open_nursery() as nursery:
        await nursery.start(PeerCIDRs(peer).run)
        yield peer
        nursery.cancel_scope.cancel()


async def entrances(peer: Peer, count: int) -> tuple[Entrance, ...]:
    async def look() -> tuple[Entrance, ...] | None:
        ranges = peer.network.ranges
        return ranges.entrances if ranges is not None and len(ranges.entrances) == count else None

    found: tuple[Entrance, ...] = await eventually(look)
    return found


async def test_those_who_are_named_reach_the_api_server_and_nobody_else() -> None:
    async with rome(LETS_MILAN) as context:
        await api_servers(context, "172.20.0.9", "172.20.0.10")
        async with (
            context.kept(),
            known(context, "milan") as milan,
            known(context, "turin") as turin,
        ):
            assert await entrances(milan, 2) == WAYS
            assert await entrances(turin, 0) == ()
            for peer in (milan, turin):
                assert peer.network.ranges is not None
                # It is lent to nobody as other hosts are, with all of their ports.
                assert "10.70.0.1" not in peer.network.ranges.lent
            # Other hosts are lent beside it.
            await context.lend("printer", "192.168.1.77")
            assert await context.lent("printer") == "10.70.0.2"
            # It moves.
            patch = {"endpoints": [{"addresses": ["172.20.0.11"]}]}
            await context.client.patch(ENDPOINT_SLICES, "kubernetes", patch, "default")

            async def moved() -> bool | None:
                return (await entrances(milan, 2))[0].host == "172.20.0.11" or None

            await eventually(moved)


async def test_those_whose_pods_may_reach_the_api_server_and_nobody_else() -> None:
    """At the port at which pods look for it, and by no proxy."""
    settings = SETTINGS + '[[peers]]\nid = "milan"\napi_server = "asked"\n'
    async with rome(settings) as context:
        await api_servers(context, "172.20.0.10")
        async with (
            context.kept(),
            known(context, "milan") as milan,
            known(context, "turin") as turin,
        ):
            expected = Entrance("10.70.0.1", "tcp", 443, "172.20.0.10", 7443)
            assert await entrances(milan, 1) == (expected,)
            assert await entrances(turin, 0) == ()
    elsewhere = settings + '[api_server]\nfor_pods = "api.rome.example"\n'
    async with rome(elsewhere) as context, context.kept(), known(context, "milan") as milan:
        assert await entrances(milan, 0) == ()


async def test_it_goes_with_the_setting() -> None:
    async with rome(LETS_MILAN) as context:
        async with context.kept(), known(context, "milan") as milan:
            # Nothing is said by API servers: what the configuration says is an address, too.
            found = await entrances(milan, 2)
            assert (found[0].host, found[0].to) == ("172.20.0.1", 6443)
        without = Rome(with_settings(context, SETTINGS), context.client)
        async with without.kept():
            await gone(context.client, IPS, labels.API_SERVER_PROXY, "liqo")


async def test_one_that_somebody_else_made_is_left_and_opens_nothing() -> None:
    """Of a Liqo that was here before, say, or by hand."""
    async with rome() as context, context.kept(), known(context, "milan") as milan:
        metadata = {
            "name": labels.API_SERVER_PROXY,
            "annotations": {labels.API_SERVER: "172.20.0.1:6443"},
        }
        wanted = {"metadata": metadata, "spec": {"ip": "172.20.0.1"}}
        await context.client.create(IPS, wanted, "liqo")
        await context.lent(labels.API_SERVER_PROXY)
        assert await entrances(milan, 0) == ()
        assert milan.network.ranges is not None
        assert dict(milan.network.ranges.lent) == {}


async def test_a_peers_own_ip_of_that_name_opens_nothing() -> None:
    """A peering user writes IPs in its tenant namespace."""
    async with rome(LETS_MILAN) as context, context.kept(), known(context, "milan") as milan:
        await entrances(milan, 2)
        marks = {labels.IP_TYPE: labels.API_SERVER_PROXY}
        metadata = {
            "name": labels.API_SERVER_PROXY,
            "labels": marks,
            "annotations": {labels.API_SERVER: "192.168.1.10:10250"},
        }
        wanted = {"metadata": metadata, "spec": {"ip": "192.168.1.10"}}
        await context.client.create(IPS, wanted, "liqo-tenant-milan")
        assert "one of this cluster's nodes" in await context.failed("liqo-tenant-milan/api-server")
        assert [each.port for each in await entrances(milan, 2)] == [6443, 8118]
        assert milan.network.ranges is not None
        assert dict(milan.network.ranges.lent) == {}


async def test_an_address_that_leads_nowhere_is_refused_by_name() -> None:
    async with rome(LETS_MILAN) as context:
        await api_servers(context, "127.0.0.1")
        async with context.kept():
            said = await context.failed("in_band")
            assert "the API server is at '127.0.0.1'" in said
            assert "default/kubernetes" in said


def with_settings(context: Rome, settings: str) -> ClusterContext:
    """The same cluster, configured otherwise."""
    return dataclasses.replace(context.context, config=config.parse(settings))


async def test_that_nothing_is_joined_is_known_at_once() -> None:
    """Waiting tasks need this report: a peering without a network would wait in vain."""
    async with rome(SETTINGS) as context, trio.open_nursery() as nursery:
        milan = Peer("milan", context.context, "liqo-tenant-milan")
        await nursery.start(PeerCIDRs(milan).run)
        with trio.fail_after(1.0):
            await milan.network.looked.wait()
        assert not milan.network.started
        nursery.cancel_scope.cancel()
