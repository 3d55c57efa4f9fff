"""Peers relayed to each other, and let in by a relay: those that are named, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from liqod import config
from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.network.ranges import Entrance
from liqod.resources import CONFIGURATIONS, IPS
from liqod.resources.networking import GATEWAY_SERVERS
from tests.simulated.addressed import MILAN, SETTINGS, TURIN, Rome, gone, rome
from tests.simulated.borrower import eventually
from tests.simulated.reachability.test_inband import entrances, known, with_settings

RELAYS = SETTINGS + 'relay = ["milan", "tur*"]\nrelay_rate = 40\n'


def way(shown: str, gateway: str) -> Entrance:
    return Entrance(shown, "udp", 0, gateway, rate=5_000_000)


async def test_peers_that_are_named_reach_each_others_gateways_and_not_their_own() -> None:
    async with rome(RELAYS) as context, context.kept():
        async with known(context, "milan") as milan, known(context, "turin") as turin:
            [to_turin], [to_milan] = await entrances(milan, 1), await entrances(turin, 1)
            # Where a peer's gateway is: the first of its external range, as it is seen here.
            first = {
                peer: (await context.seen(peer))["external"][0].partition("/")[0]
                for peer in ("milan", "turin")
            }
            shown = {peer: await context.lent(f"relay-{peer}") for peer in first}
            assert to_turin == way(shown["turin"], first["turin"])
            assert to_milan == way(shown["milan"], first["milan"])
            for peer in (milan, turin):
                assert peer.network.ranges is not None
                assert dict(peer.network.ranges.lent) == {}
        # One that goes is relayed to no more.
        await context.client.delete(CONFIGURATIONS, "turin", TURIN)
        await gone(context.client, IPS, "relay-turin", "liqo")


@pytest.mark.parametrize("relay", ['relay = ["milan"]', 'relay = ["turin"]', ""])
async def test_who_is_not_named_is_relayed_neither_way(relay: str) -> None:
    async with (
        rome(SETTINGS + relay) as context,
        context.kept(),
        known(context, "milan") as milan,
        known(context, "turin") as turin,
    ):
        await context.lend("printer", "192.168.1.77")
        await context.lent("printer")
        assert await entrances(milan, 0) == await entrances(turin, 0) == ()


async def test_it_goes_with_the_setting() -> None:
    async with rome(RELAYS) as context:
        async with context.kept(), known(context, "milan") as milan, known(context, "turin"):
            await entrances(milan, 1)
        without = Rome(with_settings(context, SETTINGS), context.client)
        async with without.kept():
            for peer in ("milan", "turin"):
                await gone(context.client, IPS, f"relay-{peer}", "liqo")


async def test_a_peers_own_ip_of_such_a_name_relays_nothing() -> None:
    """A peering user writes IPs in its tenant namespace."""
    async with rome(RELAYS) as context, context.kept(), known(context, "milan") as milan:
        metadata = {
            "name": "relay-turin",
            "labels": {labels.IP_TYPE: labels.RELAY},
            "annotations": {labels.RELAYS_TO: "turin", labels.RELAYED_AT: "192.168.1.10"},
        }
        wanted = {"metadata": metadata, "spec": {"ip": "192.168.7.7"}}
        await context.client.create(IPS, wanted, MILAN)
        await context.lent("relay-turin", MILAN)
        assert await entrances(milan, 0) == ()
        assert milan.network.ranges is not None


async def server(
    context: Rome, peer: str, port: int, *, accepted: bool, protocol: str = ""
) -> None:
    """A gateway of this cluster's for a peer."""
    metadata = {"name": peer, "labels": {labels.REMOTE_CLUSTER_ID: peer}}
    place = f"liqo-tenant-{peer}"
    wanted: dict[str, Any] = {"metadata": metadata, "spec": {"mtu": 1340}}
    await context.client.create(GATEWAY_SERVERS, wanted, place)
    condition = {
        "type": "Accepted",
        "status": "True" if accepted else "False",
        "reason": "Because",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    endpoint = {"addresses": ["192.168.1.10"], "port": port, "protocol": protocol or "UDP"}
    patch = {"status": {"endpoint": endpoint, "conditions": [condition]}}
    await context.client.patch(GATEWAY_SERVERS, peer, patch, place, subresource="status")


async def test_a_relay_that_is_named_is_let_in_to_gateways_alone() -> None:
    async with rome(SETTINGS + 'relayed_by = ["milan"]') as context, context.kept():
        await server(context, "turin", 51841, accepted=True)
        # Its own gateway it reaches as it does; and what is refused is nowhere.
        await server(context, "milan", 51840, accepted=True)
        async with known(context, "milan") as milan, known(context, "turin") as turin:
            found = await entrances(milan, 1)
            assert found == (Entrance("10.70.0.0", "udp", 51841, "169.254.19.1", 51841),)
            assert await entrances(turin, 0) == ()
            await context.client.delete(GATEWAY_SERVERS, "turin", TURIN)
            assert await entrances(milan, 0) == ()


async def test_gateways_that_are_refused_or_carry_no_udp_are_not_opened() -> None:
    async with rome(SETTINGS + 'relayed_by = ["*"]') as context, context.kept():
        await server(context, "turin", 443, accepted=True, protocol="TCP")
        await server(context, "milan", 51840, accepted=False)
        async with known(context, "milan") as milan, known(context, "turin") as turin:
            await context.lend("printer", "192.168.1.77")
            await context.lent("printer")

            async def lent() -> bool | None:
                ranges = milan.network.ranges
                return (ranges is not None and bool(ranges.lent)) or None

            await eventually(lent)
            assert await entrances(milan, 0) == await entrances(turin, 0) == ()


@pytest.mark.parametrize("rate", [0, -1, 30_001])
def test_a_rate_that_the_kernel_cannot_keep_is_refused(rate: int) -> None:
    with pytest.raises(ConfigError, match=r"network\.relay_rate"):
        config.parse(f"[network]\nrelay_rate = {rate}\n")
