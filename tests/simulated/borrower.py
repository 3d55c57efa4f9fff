"""A borrowing cluster without a peer: an embedded cluster, its Home, and a link to switch."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

import trio

from liqod import config
from liqod.consumer.hindrances import Hindrances
from liqod.errors import NotFound
from liqod.home import ApiEndpoint, Home, Peer
from liqod.inspect.hub import Hub
from liqod.kube.client import Client
from liqod.kube.credentials import from_kubeconfig
from liqod.kube.informers import Informers
from liqod.kube.kinds import CUSTOM_RESOURCES, NAMESPACES
from liqod.plugins.loader import Plugins
from liqod.resources import NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS, VIRTUAL_NODES, manifests

Json = dict[str, Any]
HARD = {"cpu": "20", "memory": "80Gi", "pods": "100"}


class Cluster(Protocol):
    """An embedded cluster, or a real one."""

    @property
    def kubeconfig(self) -> str: ...

    @property
    def server(self) -> str: ...


class Switch:
    """A link that a test turns on and off."""

    def __init__(self, up: bool = True, reason: str = "its API server answers") -> None:
        self.up = up
        self.reason = reason
        self._changed = trio.Event()
        self.hindrances = Hindrances(lambda: None)

    @property
    def sound(self) -> bool:
        return self.up

    @property
    def why(self) -> str:
        return self.reason

    async def wait_changed(self) -> None:
        await self._changed.wait()

    def set(self, up: bool, reason: str) -> None:
        self.up, self.reason = up, reason
        changed, self._changed = self._changed, trio.Event()
        changed.set()


@asynccontextmanager
async def borrower(cluster: Cluster, text: str = "", **more: Any) -> AsyncIterator[Home]:
    """The Home of a daemon named rome, in a cluster that has what :func:`define` makes."""
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        yield Home(
            cluster_id="rome",
            client=client,
            informers=Informers(client, nursery),
            config=config.parse(text or '[webhook]\nport = 0\nhost = "127.0.0.1"\n'),
            hub=Hub(),
            plugins=cast("Plugins", None),
            endpoint=ApiEndpoint(cluster.server, b""),
            version="v1.35.4",
            **{"kubelet_port": 12345, **more},
        )
        nursery.cancel_scope.cancel()


async def define(client: Client) -> None:
    """Create the custom resources and liqod's namespace."""
    for manifest in manifests.crd_manifests():
        await client.create(CUSTOM_RESOURCES, manifest)
    await served(client)
    await client.create(NAMESPACES, {"metadata": {"name": "liqo"}})


async def served(client: Client) -> None:
    """Wait until the last kinds that tests use can be listed."""

    async def look() -> bool:
        for kind in (VIRTUAL_NODES, NAMESPACE_OFFLOADINGS, NAMESPACE_MAPS):
            try:
                await client.list(kind)
            except NotFound:
                return False
        return True

    await eventually(look)


async def peer_of(home: Home, name: str, link: Switch | None = None) -> Peer:
    """A provider, with its tenant namespace."""
    tenant = f"liqo-tenant-{name}"
    labels = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": name}
    await home.client.create(NAMESPACES, {"metadata": {"name": tenant, "labels": labels}})
    return Peer(name, home, tenant, cast("Any", link or Switch()))


async def virtual_node(home: Home, peer: str, name: str = "", **spec: Any) -> None:
    """Create a VirtualNode, named as the peer unless named otherwise."""
    await home.client.create(
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


async def offload(client: Client, namespace: str, **spec: Any) -> None:
    """Create a namespace, where there is none, and its NamespaceOffloading, as a user does."""
    if await client.find(NAMESPACES, namespace) is None:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(
        NAMESPACE_OFFLOADINGS,
        {"metadata": {"name": "offloading", "namespace": namespace}, "spec": spec},
    )


async def eventually(ask: Callable[[], Awaitable[Any]], *, seconds: float = 60.0) -> Any:
    """The first answer that is neither None nor False. Raises TooSlowError."""
    with trio.fail_after(seconds):
        while True:
            answer = await ask()
            if answer is not None and answer is not False:
                return answer
            await trio.sleep(0.02)


def condition(obj: Json | None, type_: str) -> Json:
    """A condition of an object's status; empty where there is none."""
    found = (obj or {}).get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})
