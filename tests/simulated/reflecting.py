"""Two embedded clusters with a reflection engine between them, and nothing else of a peering.

Rome borrows from milan: the namespace map and the virtual node are written by the test, and the
identities are milan's administrator's.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import trio

from liqod import config
from liqod.consumer.remotes import Remote, Remotes
from liqod.home import Addressing, ApiEndpoint, Home, Peer
from liqod.inspect.hub import Hub
from liqod.kube.client import Client
from liqod.kube.credentials import from_kubeconfig
from liqod.kube.informers import Informers
from liqod.kube.kinds import NAMESPACES, PODS, Kind
from liqod.plugins import loader
from liqod.plugins.loader import Plugins
from liqod.reflection.engine import Engine
from liqod.resources import NAMESPACE_MAPS, VIRTUAL_NODES
from liqod.simulator import EmbeddedCluster
from tests.simulated.borrower import Switch, eventually
from tests.simulated.prepared import defined

Json = dict[str, Any]
TENANT = "liqo-tenant-milan"
SHOP = "shop"
THERE = "shop-rome"


class Identities:
    """The identities that milan gave: one client for each slice."""

    def __init__(self, **slices: Client) -> None:
        self.slices = slices
        self._changed = trio.Event()

    def slice(self, name: str) -> Remote | None:
        client = self.slices.get(name)
        if client is None:
            return None
        return Remote(
            client=client,
            credentials=cast("Any", None),
            namespace="liqo-tenant-rome",
            user=f"{name}-rome",
            expires=0.0,
            secret=f"kubeconfig-resourceslice-{name}",
            slice=name,
        )

    def any_slice(self) -> Remote | None:
        return next((self.slice(name) for name in sorted(self.slices)), None)

    def control(self) -> None:
        return None

    async def changed(self) -> None:
        await self._changed.wait()

    def change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()


class Pair:
    """Rome and milan, a client for each, and the engine between them."""

    def __init__(
        self, rome: EmbeddedCluster, milan: EmbeddedCluster, home: Home, lender: Home
    ) -> None:
        self.rome = rome
        self.milan = milan
        self.home = home
        self.lender = lender
        self.here = Client(from_kubeconfig(rome.kubeconfig))
        self.there = Client(from_kubeconfig(milan.kubeconfig))
        """What the test asks with; the engine and milan's own rooms have other clients."""
        self.link = Switch()
        self.peer = Peer("milan", home, TENANT, cast("Any", self.link))
        self.identities = Identities(milan=Client(from_kubeconfig(milan.kubeconfig)))
        self._engine: trio.CancelScope | None = None

    async def prepare(self) -> None:
        """Namespaces on both sides, a virtual node, and a map that milan has accepted."""
        for name in (TENANT, SHOP):
            await self.here.create(NAMESPACES, {"metadata": {"name": name}})
        await self.there.create(NAMESPACES, mapped_namespace(THERE))
        await self.node("milan")
        await self.here.create(
            NAMESPACE_MAPS,
            {
                "metadata": {
                    "name": "milan",
                    "namespace": TENANT,
                    "labels": {"liqo.io/replication": "true"},
                },
                "spec": {"desiredMapping": {SHOP: THERE}},
            },
        )
        await self.map(THERE)

    async def node(self, name: str, **spec: Any) -> None:
        """One more virtual node, whose slice is called as it is."""
        await self.here.create(
            VIRTUAL_NODES,
            {
                "metadata": {
                    "name": name,
                    "namespace": TENANT,
                    "labels": {"liqo.io/resourceslice-name": name},
                },
                "spec": {"clusterID": "milan", **spec},
            },
        )

    async def map(self, remote: str | None) -> None:
        """What milan says of the namespace: its name there, or nothing any more."""
        entry = None if remote is None else {"remoteNamespace": remote, "phase": "Accepted"}
        status = {"currentMapping": {SHOP: entry}}
        await self.here.patch(
            NAMESPACE_MAPS, "milan", {"status": status}, TENANT, subresource="status"
        )

    async def desire(self, remote: str | None) -> None:
        """What rome asks for."""
        await self.here.patch(
            NAMESPACE_MAPS, "milan", {"spec": {"desiredMapping": {SHOP: remote}}}, TENANT
        )

    async def start(self, nursery: trio.Nursery, **options: Any) -> Engine:
        """Start the engine; :meth:`stop` ends it."""
        engine = Engine(self.peer, cast("Remotes", self.identities), **options)

        async def run(task_status: trio.TaskStatus[None]) -> None:
            with trio.CancelScope() as self._engine:
                await engine.run(task_status=task_status)

        await nursery.start(lambda task_status: run(task_status))
        return engine

    def stop(self) -> None:
        """End the engine, as a crash would."""
        assert self._engine is not None
        self._engine.cancel()

    async def pod(self, name: str, *, node: str = "milan", **more: Any) -> Json:
        """A pod of rome, bound to a virtual node; the pod as it was made."""
        spec = {
            "containers": [{"name": "web", "image": "nginx"}],
            "tolerations": [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}],
            **more.pop("spec", {}),
        }
        if node:
            spec["nodeName"] = node
        manifest = {"metadata": {"name": name, **more.pop("metadata", {})}, "spec": spec, **more}
        return await self.here.create_full(PODS, manifest, SHOP)

    async def second_slice(self, name: str) -> None:
        """One more identity at milan."""
        self.identities.slices[name] = Client(from_kubeconfig(self.milan.kubeconfig))
        self.identities.change()

    async def aclose(self) -> None:
        """Close the clients."""
        for client in (self.here, self.there, *self.identities.slices.values()):
            await client.aclose()

    def requests(self) -> list[tuple[str, str]]:
        """What the engine has asked so far, on both sides: verb and kind."""
        return [
            key
            for client in (self.home.client, *self.identities.slices.values())
            for key, count in client.stats.requests.items()
            for _ in range(count)
        ]

    def since(self, before: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """What it has asked since."""
        new = self.requests()
        for each in before:
            new.remove(each)
        return sorted(new)

    async def comes(
        self,
        kind: Kind,
        name: str,
        holds: Callable[[Json], Any] = lambda found: True,
        *,
        client: Client | None = None,
        namespace: str = THERE,
        seconds: float = 30.0,
    ) -> Json:
        """The object, as soon as it is there and ``holds`` is true of it."""

        async def look() -> Json | None:
            found = await (client or self.there).find(kind, name, namespace)
            return found if found is not None and holds(found) else None

        found: Json = await eventually(look, seconds=seconds)
        return found

    async def goes(
        self,
        kind: Kind,
        name: str,
        *,
        client: Client | None = None,
        namespace: str = THERE,
        seconds: float = 30.0,
    ) -> None:
        """Wait until it is not there any more."""

        async def look() -> bool:
            return await (client or self.there).find(kind, name, namespace) is None

        await eventually(look, seconds=seconds)


def mapped_namespace(name: str) -> Json:
    """A namespace of milan as its provider makes it for rome."""
    return {
        "metadata": {
            "name": name,
            "labels": {"liqo.io/remote-cluster-id": "rome"},
            "annotations": {
                "liqo.io/managed-by-namespace-map": "liqo-tenant-rome/milan",
                "liqo.io/original-name": SHOP,
            },
        }
    }


Keep = Callable[[], Awaitable[None]]


@asynccontextmanager
async def home_of(
    cluster: EmbeddedCluster, name: str, plugins: Plugins | None = None, text: str = ""
) -> AsyncIterator[Home]:
    """The Home of a daemon in that cluster."""
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        yield Home(
            cluster_id=name,
            client=client,
            informers=Informers(client, nursery),
            config=config.parse(text or '[peer_defaults]\npod_network = "routed"\n'),
            hub=Hub(),
            plugins=plugins or loader.load(sources=loader.built_in()),
            endpoint=ApiEndpoint(cluster.server, b""),
            addressing=Addressing(("10.10.0.0/16",), ("10.20.0.0/16",)),
        )
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def pair(plugins: Plugins | None = None, text: str = "") -> AsyncIterator[Pair]:
    """Rome and milan, prepared; the engine is not started yet."""
    async with (
        EmbeddedCluster("rome", pod_cidr="10.10.0.0/16", state=await defined("rome")) as rome,
        EmbeddedCluster(
            "milan",
            nodes=2,
            start_delay=0.05,
            pod_cidr="10.30.0.0/16",
            state=await defined("milan"),
        ) as milan,
        home_of(rome, "rome", plugins, text) as home,
        home_of(milan, "milan") as lender,
    ):
        made = Pair(rome, milan, home, lender)
        try:
            await made.prepare()
            yield made
        finally:
            await made.aclose()
