"""A borrowing cluster without a peer: an embedded cluster, its context, and a link to switch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import trio

from liqod import config
from liqod.apimachinery.kinds import NAMESPACES
from liqod.cluster.context import ApiEndpoint, ClusterContext
from liqod.cluster.memorylimits import informers
from liqod.consumer.link import ProviderPeer
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.resources import NAMESPACE_OFFLOADINGS, VIRTUAL_NODES
from liqod.telemetry.hub import Hub
from simulator.trial import Switch as Switch
from simulator.trial import define as define
from simulator.trial import served as served
from simulator.waiting import eventually as eventually

Json = dict[str, Any]
HARD = {"cpu": "20", "memory": "80Gi", "pods": "100"}


class Cluster(Protocol):
    """An embedded cluster, or a real one."""

    @property
    def kubeconfig(self) -> str: ...

    @property
    def server(self) -> str: ...


@asynccontextmanager
async def borrower(cluster: Cluster, text: str = "", **more: Any) -> AsyncIterator[ClusterContext]:
    """The context of a daemon named rome, in a cluster that has what :func:`define` makes."""
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        settings = config.parse(text or '[webhook]\nport = 0\nhost = "127.0.0.1"\n')
        yield ClusterContext(
            cluster_id="rome",
            client=client,
            informers=informers(client, nursery, settings),
            config=settings,
            hub=Hub(),
            endpoint=ApiEndpoint(cluster.server, b""),
            version="v1.35.4",
            **{"kubelet_port": 12345, **more},
        )
        nursery.cancel_scope.cancel()


async def peer_of(context: ClusterContext, name: str, link: Switch | None = None) -> ProviderPeer:
    """A provider, with its tenant namespace."""
    tenant = f"liqo-tenant-{name}"
    labels = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": name}
    await context.client.create(NAMESPACES, {"metadata": {"name": tenant, "labels": labels}})
    return ProviderPeer(name, context, tenant, link=cast("Any", link or Switch()))


async def virtual_node(context: ClusterContext, peer: str, name: str = "", **spec: Any) -> None:
    """Create a VirtualNode, named as the peer unless named otherwise."""
    await context.client.create(
        VIRTUAL_NODES,
        {
            "metadata": {"name": name or peer, "namespace": f"liqo-tenant-{peer}"},
            "spec": {
                "clusterID": peer,
                "createNode": True,
                "resourceQuota": {"hard": HARD},
                **spec,
            },
        },
    )


async def offload(
    client: Client, namespace: str, annotations: dict[str, str] | None = None, /, **spec: Any
) -> None:
    """Create a namespace, where there is none, and its NamespaceOffloading, as a user does."""
    metadata = {"name": "offloading", "namespace": namespace, "annotations": annotations or {}}
    if await client.find(NAMESPACES, namespace) is None:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(
        NAMESPACE_OFFLOADINGS,
        {"metadata": metadata, "spec": spec},
    )


def condition(obj: Json | None, type_: str) -> Json:
    """A condition of an object's status; empty where there is none."""
    found = (obj or {}).get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})
