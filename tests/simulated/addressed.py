"""rome with a node and two tenants, and the component that keeps its addresses: Networks,
Configurations and IPs as a test makes them and sees them answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, Kind
from liqod.cluster import memorylimits
from liqod.cluster.context import Addressing, ApiEndpoint, ClusterContext
from liqod.cluster.tenancy import tenant_namespace
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.model import ids
from liqod.network import ipam
from liqod.resources import CONFIGURATIONS, IPS, NETWORKS, Configuration
from liqod.telemetry.events import KeyFailed
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.prepared import installed, quiet

MILAN = "liqo-tenant-milan"
TURIN = "liqo-tenant-turin"
SETTINGS = """
[network]
pools = ["10.64.0.0/13", "fd00:64::/40"]
reserved = ["10.65.0.0/16"]
lendable = ["192.168.7.0/24"]
"""


async def pod_alias(client: Client, peer: str, last: int) -> str:
    """The address of a joined peer's pod as it is seen here, by its place in the peer's range."""
    place = ids.tenant_namespace(peer)
    found = await client.get(CONFIGURATIONS, peer, place, decode=Configuration)
    assert found.status.remote is not None
    return str(ip_network(found.status.remote.cidr.pod[0])[last])


class Rome:
    """A cluster with a node, two tenants, and somebody who keeps its addresses.

    Args:
        home: for the daemon, with its own rights.
        client: an administrator's.
    """

    def __init__(self, context: ClusterContext, client: Client) -> None:
        self.context = context
        self.client = client

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ipam.run, self.context)
            yield
            nursery.cancel_scope.cancel()

    async def configured(
        self, peer: str, pod: list[str], external: list[str] | None = None, namespace: str = ""
    ) -> None:
        """A peer's Configuration comes."""
        await self.client.create(
            CONFIGURATIONS,
            {
                "metadata": {"name": peer, "labels": {labels.REMOTE_CLUSTER_ID: peer}},
                "spec": {"remote": {"cidr": {"pod": pod, "external": external or []}}},
            },
            namespace or f"liqo-tenant-{peer}",
        )

    async def seen(self, peer: str) -> dict[str, list[str]]:
        """The aliases of a peer, as soon as there are."""
        found = await eventually(
            lambda: self.client.get(CONFIGURATIONS, peer, f"liqo-tenant-{peer}"),
            lambda found: condition(found).get("status") == "True",
        )
        return dict(found["status"]["remote"]["cidr"])

    async def refused(self, peer: str) -> str:
        """Why a peer's ranges are not believed, as soon as they are not."""
        found = await eventually(
            lambda: self.client.get(CONFIGURATIONS, peer, f"liqo-tenant-{peer}"),
            lambda found: condition(found).get("reason") == "RangesRefused",
        )
        return str(condition(found)["message"])

    async def lend(self, name: str, address: str, namespace: str = "liqo", **spec: Any) -> None:
        """Somebody makes an IP."""
        wanted = {"metadata": {"name": name}, "spec": {"ip": address, **spec}}
        await self.client.create(IPS, wanted, namespace)

    async def lent(self, name: str, namespace: str = "liqo") -> str:
        """The address of an IP, as soon as it has one."""
        found = await eventually(
            lambda: self.client.get(IPS, name, namespace),
            lambda found: found.get("status", {}).get("ip"),
        )
        return str(found["status"]["ip"])

    async def failed(self, words: str) -> str:
        """Waits for the report of a key that fails with some words, and returns it."""
        return str(
            await eventually(lambda: next((each for each in self.failures if words in each), None))
        )

    @property
    def failures(self) -> list[str]:
        """All that failed so far."""
        told = (each.payload for each in self.context.hub.history)
        return [each.failed for each in told if isinstance(each, KeyFailed)]


def condition(found: dict[str, Any]) -> dict[str, Any]:
    """The condition of a Configuration."""
    given = found.get("status", {}).get("conditions", [])
    return next((each for each in given if each["type"] == "NetworkCIDRsConfigured"), {})


@asynccontextmanager
async def rome(settings: str = SETTINGS) -> AsyncIterator[Rome]:
    async with (
        EmbeddedCluster(
            "rome", service_cidr6="fd00:96::/112", state=await installed("rome")
        ) as server,
        Client(from_kubeconfig(server.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        found = from_kubeconfig(server.kubeconfig)
        text = await daemonkubeconfig.daemon_kubeconfig(client, found, "liqo", "rome", quiet)
        for peer in ("milan", "turin"):
            await client.create(NAMESPACES, tenant_namespace(peer))
        await client.create(NODES, node("one", "10.244.0.0/24", "192.168.1.10"))
        async with Client(from_kubeconfig(text)) as daemon:
            context = ClusterContext(
                "rome",
                daemon,
                memorylimits.informers(daemon, nursery, config.parse(settings)),
                config.parse(settings),
                Hub(),
                ApiEndpoint("https://172.20.0.1:6443", b""),
                addressing=Addressing(("10.244.0.0/24",), ("10.96.0.0/12",)),
            )
            yield Rome(context, client)
            nursery.cancel_scope.cancel()


def node(name: str, pods: str, address: str) -> dict[str, Any]:
    """A Node with a range of pods."""
    return {
        "metadata": {"name": name},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ]
        },
    }


async def networks(client: Client, namespace: str) -> dict[str, tuple[str, str]]:
    """Returns the CIDRs that each Network of a namespace wants and has, by its name."""
    found = await client.list(NETWORKS)
    return {
        each["metadata"]["name"]: (each["spec"]["cidr"], each.get("status", {}).get("cidr", ""))
        for each in found
        if each["metadata"]["namespace"] == namespace
    }


async def gone(client: Client, kind: Kind, name: str, namespace: str) -> None:
    await eventually(lambda: client.find(kind, name, namespace), lambda found: found is None)
