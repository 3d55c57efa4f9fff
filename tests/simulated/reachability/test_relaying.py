"""``liqod peer --relay-kubeconfig``: the way by a relay, and what is said where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.tenancy import tenant_namespace
from liqod.errors import ConfigError
from liqod.procedures.networkobjects import NetworkOptions
from liqod.procedures.relaying import Relay
from liqod.resources import IPS
from liqod.resources.networking import GATEWAY_CLIENTS, GatewayEndpoint
from tests.simulated.addressed import MILAN, Rome, rome

TOLD = GatewayEndpoint(addresses=("192.0.2.7",), port=51840, protocol="UDP")


async def relays_to(context: Rome, peer: str, address: str) -> None:
    """The relay has an address for a peer."""
    metadata = {"name": f"relay-{peer}", "labels": {labels.IP_TYPE: labels.RELAY}}
    wanted: dict[str, Any] = {"metadata": metadata, "spec": {"ip": "169.254.19.1"}}
    await context.client.create(IPS, wanted, labels.LIQO_NAMESPACE)
    status = {"status": {"ip": address, "cidr": "10.70.0.0/20"}}
    await context.client.patch(
        IPS, f"relay-{peer}", status, labels.LIQO_NAMESPACE, subresource="status"
    )


@pytest.mark.parametrize(
    ("told", "asked", "words"),
    [
        (
            GatewayEndpoint(("192.0.2.7",), 443, protocol="TCP"),
            NetworkOptions(backend="websocket"),
            "carry UDP",
        ),
        (TOLD, NetworkOptions(client_port=40000), "--gw-client-port"),
        (TOLD, NetworkOptions(), "does not relay to turin"),
    ],
)
async def test_what_is_in_the_way_is_said(
    told: GatewayEndpoint, asked: NetworkOptions, words: str
) -> None:
    async with rome() as hub:
        with pytest.raises(ConfigError, match=words):
            await Relay(hub.client).behind(told, asked, hub.client, "turin")


async def test_the_relay_comes_last_and_as_it_is_seen_by_who_dials() -> None:
    """Here both are one cluster, called rome, which has a peer of that name as well."""
    async with rome() as hub, hub.kept():
        await relays_to(hub, "turin", "10.70.0.9")
        with pytest.raises(ConfigError, match="has not joined its network with rome"):
            await Relay(hub.client).behind(TOLD, NetworkOptions(), hub.client, "turin")
        await joined_with_rome(hub)
        found = await Relay(hub.client).behind(TOLD, NetworkOptions(), hub.client, "turin")
        seen = (await hub.seen("rome"))["external"][0].rpartition(".")[0]
        assert found.addresses == ("192.0.2.7", f"{seen}.9")
        assert (found.port, found.protocol) == (51840, "UDP")


async def test_two_tunnels_do_not_go_by_each_other() -> None:
    async with rome() as hub, hub.kept():
        await relays_to(hub, "milan", "10.70.0.9")
        await joined_with_rome(hub)
        await hub.configured("milan", ["10.244.0.0/16"], ["10.70.0.0/20"])
        behind = (await hub.seen("milan"))["external"][0].rpartition(".")[0]
        await Relay(hub.client).behind(TOLD, NetworkOptions(), hub.client, "milan")
        gateway = {
            "metadata": {"name": "rome", "labels": {labels.REMOTE_CLUSTER_ID: "rome"}},
            "spec": {"endpoint": {"addresses": ["198.51.100.3", f"{behind}.2"], "port": 51840}},
        }
        await hub.client.create(GATEWAY_CLIENTS, gateway, MILAN)
        with pytest.raises(ConfigError, match="may itself go by milan"):
            await Relay(hub.client).behind(TOLD, NetworkOptions(), hub.client, "milan")


async def joined_with_rome(hub: Rome) -> None:
    """The cluster has joined its network with one called rome."""
    await hub.client.create(NAMESPACES, tenant_namespace("rome"))
    await hub.configured("rome", ["10.244.0.0/16"], ["10.70.0.0/20"])
    await hub.seen("rome")
