"""A lending cluster with one consumer, rome, that exists in its objects only; and what it asks for.

Works on any API server: tests give two kubeconfigs, an administrator's and the daemon's own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import trio

from liqod import config
from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.cluster.context import Addressing, ApiEndpoint, ClusterContext
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.cluster.memorylimits import informers
from liqod.consumer.link import ProviderPeer
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.model import ids
from liqod.resources import QUOTAS, SHADOW_ENDPOINT_SLICES, SHADOW_PODS
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster
from tests.simulated.borrower import Json, Switch, eventually
from tests.simulated.prepared import installed, quiet

CONSUMER = "rome"
TENANT = "liqo-tenant-rome"
SHOP = "shop-rome"
USER = ids.slice_user("milan", CONSUMER)
GRANTED = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@dataclass
class Lender:
    """Hands to the cluster and to the component's own view of it."""

    admin: Client
    peer: ProviderPeer
    link: Switch
    guest_policies: GuestPolicies = field(default_factory=GuestPolicies)

    @property
    def context(self) -> ClusterContext:
        return self.peer.context

    async def map_namespace(self, name: str = SHOP, **labels: str) -> None:
        metadata = {
            "name": name,
            "labels": {"liqo.io/remote-cluster-id": CONSUMER, **labels},
            "annotations": {"liqo.io/managed-by-namespace-map": f"{TENANT}/milan"},
        }
        await self.admin.create(NAMESPACES, {"metadata": metadata})

    async def grant(self, user: str = USER, *, cordoned: bool = False, **resources: str) -> None:
        spec = {
            "user": user,
            "resources": resources or GRANTED,
            "limitsEnforcement": "None",
            "cordoned": cordoned,
        }
        await self.admin.create(
            QUOTAS, {"metadata": {"name": user, "namespace": TENANT}, "spec": spec}
        )

    async def regrant(self, user: str = USER, **spec: Any) -> None:
        await self.admin.patch(QUOTAS, user, {"spec": spec}, TENANT)

    async def ask_for(self, name: str, namespace: str = SHOP, **more: Any) -> None:
        await self.admin.create(SHADOW_PODS, shadow_pod(name, **more), namespace)

    async def pod(self, name: str, namespace: str = SHOP) -> Json | None:
        return await self.admin.find(PODS, name, namespace)

    async def shadow(self, name: str, namespace: str = SHOP) -> Json:
        return await self.admin.get(SHADOW_PODS, name, namespace)

    async def made(self, name: str, *, other_than: str = "") -> Json:
        """The pod, once it is there (and is not the one of that UID)."""

        async def look() -> Json | None:
            pod = await self.pod(name)
            return pod if pod is not None and pod["metadata"]["uid"] != other_than else None

        return cast("Json", await eventually(look))

    async def told(self, name: str, field: str, value: str) -> Json:
        """The ShadowPod's status, once it says so."""

        async def look() -> Json | None:
            status: Json = (await self.shadow(name)).get("status", {})
            return status if status.get(field, "") == value else None

        return cast("Json", await eventually(look))

    async def set_phase(self, name: str, phase: str) -> None:
        """Be the kubelet."""
        await self.admin.patch(PODS, name, {"status": {"phase": phase}}, SHOP, subresource="status")

    async def settled(self) -> None:
        """Until nothing more is written: two looks at the component's requests that are equal."""
        before = -1
        while (now := sum(self.context.client.stats.requests.values())) != before:
            before = now
            await trio.sleep(0.15)

    def requests(self) -> dict[tuple[str, str], int]:
        """Counts the component's requests to the API server, without watches and lists."""
        return {
            key: number
            for key, number in self.context.client.stats.requests.items()
            if key[0] not in ("watch", "list")
        }


def shadow_pod(name: str, *, user: str = USER, cpu: str = "1", **more: Any) -> Json:
    """A ShadowPod as a liqod writes it; ``pod`` overrides its spec, ``labels`` its labels."""
    labels = {
        "offloading.liqo.io/origin": CONSUMER,
        "offloading.liqo.io/destination": "milan",
        "app": "web",
        **({"liqo.io/creator-user": user} if user else {}),
        **more.get("labels", {}),
    }
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    notes = more.get("annotations", {"liqod.io/local-uid": f"uid-of-{name}"})
    return {
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "spec": {"pod": {"containers": [container], **more.get("pod", {})}},
    }


def shadow_slice(name: str, *addresses: str, ready: bool = True) -> Json:
    """A ShadowEndpointSlice as a consumer writes it."""
    endpoints = [
        {"addresses": [address], "conditions": {"ready": ready}, "nodeName": CONSUMER}
        for address in addresses
    ]
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    labels = {"kubernetes.io/service-name": "web", "offloading.liqo.io/origin": CONSUMER}
    template = {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}
    return {
        "apiVersion": SHADOW_ENDPOINT_SLICES.api_version,
        "kind": SHADOW_ENDPOINT_SLICES.name,
        "metadata": {"name": name, "labels": labels},
        "spec": {"template": template},
    }


@asynccontextmanager
async def lender(admin: Client, kubeconfig: str, text: str = "") -> AsyncIterator[Lender]:
    """The daemon's view of a cluster in which liqod is installed, with a tenant."""
    tenant = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": CONSUMER}
    if await admin.find(NAMESPACES, TENANT) is None:
        await admin.create(NAMESPACES, {"metadata": {"name": TENANT, "labels": tenant}})
    async with (
        Client(from_kubeconfig(kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        settings = config.parse(
            text or '[peer_defaults]\npod_network = "routed"\npod_cidrs = ["10.0.0.0/8"]\n'
        )
        context = ClusterContext(
            cluster_id="milan",
            client=client,
            informers=informers(client, nursery, settings),
            config=settings,
            hub=Hub(),
            endpoint=ApiEndpoint(client.server, b""),
            addressing=Addressing(("10.244.0.0/16",), ("10.96.0.0/16",)),
        )
        link = Switch()
        yield Lender(admin, ProviderPeer(CONSUMER, context, TENANT, link=cast("Any", link)), link)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def installed_lender() -> AsyncIterator[tuple[Lender, trio.Nursery]]:
    """milan, embedded and installed, as its daemon sees it with no more than its own rights.

    Beside it a nursery for what is to work there, which ends with it.
    """
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
    ):
        credentials = from_kubeconfig(cluster.kubeconfig)
        own = await daemonkubeconfig.daemon_kubeconfig(admin, credentials, "liqo", "milan", quiet)
        async with lender(admin, own.decode()) as milan, trio.open_nursery() as nursery:
            yield milan, nursery
            nursery.cancel_scope.cancel()
