"""Two embedded clusters with the reflection of one namespace between them: to try a plugin on.

    async def test_a_gadget_follows():
        async with trial(loader.load(), DEFINITION) as both:
            await both.here.create(GADGETS, LAMP, both.namespace)
            there = await both.comes(GADGETS, "lamp")

Rome borrows from milan, and ``shop`` is offloaded there. Nothing else of a peering is there: the
namespace map and the virtual node are written as the daemons would, and the identities are milan's
administrator's. No Kubernetes, no root, no network but the loopback; a second or two for each.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

import trio

from liqod import config, reachability
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, NAMESPACES, Kind
from liqod.cluster.context import Addressing, ApiEndpoint, ClusterContext
from liqod.cluster.memorylimits import informers
from liqod.consumer.degradations import Degradations
from liqod.consumer.link import ProviderPeer
from liqod.consumer.peerdaemon import PeerDaemon
from liqod.consumer.remote import Remote
from liqod.consumer.remotes import Remotes
from liqod.errors import AlreadyExists, NotFound
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.reflection.engine import Engine
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.reflection.statuscleanup import Retractions
from liqod.resources import NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS, VIRTUAL_NODES, crdmanifests
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster
from simulator.waiting import eventually

Json = dict[str, Any]
TENANT = "liqo-tenant-milan"
SHOP = "shop"
THERE = "shop-rome"


class Switch:
    """A link that a test turns on and off."""

    def __init__(self, up: bool = True, reason: str = "its API server answers") -> None:
        self.up = up
        self.reason = reason
        self.probed = True
        self.reconnections = 0
        self.skew: float | None = None
        self._changed = trio.Event()
        self.degradations = Degradations(lambda: None)
        self.daemon = PeerDaemon()

    @property
    def healthy(self) -> bool:
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
    """Rome and a peer, milan as a rule, a client for each, and the engine between them.

    Attributes:
        here: a client of rome's administrator, for the test.
        there: one of the peer's.
        namespace: the offloaded namespace here.
        remote_namespace: its name at the peer.
        link: whether the peer answers; ``link.set(False, "why")`` takes it away.
        others: the other peers, in the order in which they were named.
        arbiter: what rome's peers say of objects there.
        plugins: rome's plugins; ``plugins.calls`` is what their calls came to.
        context: rome, as the engine has it; ``context.hub.history`` is what was decided and why.
    """

    namespace = SHOP
    remote_namespace = THERE

    def __init__(
        self,
        rome: EmbeddedCluster,
        milan: EmbeddedCluster,
        context: ClusterContext,
        lender: ClusterContext,
        name: str = "milan",
        arbiter: StatusArbiter | None = None,
        plugins: PluginHost | None = None,
    ) -> None:
        self.rome = rome
        self.milan = milan
        self.context = context
        self.lender = lender
        self.arbiter = StatusArbiter() if arbiter is None else arbiter
        self.plugins = plugins or PluginHost(loader.load(sources=loader.built_in()))
        self.name = name
        self.tenant = f"liqo-tenant-{name}"
        self.here = Client(from_kubeconfig(rome.kubeconfig))
        self.there = Client(from_kubeconfig(milan.kubeconfig))
        self.link = Switch()
        self.peer = ProviderPeer(name, context, self.tenant, link=cast("Any", self.link))
        self.identities = Identities(**{name: Client(from_kubeconfig(milan.kubeconfig))})
        self.others: tuple[Pair, ...] = ()
        self._engine: trio.CancelScope | None = None
        self._ended = trio.Event()

    async def prepare(self) -> None:
        """Namespaces on both sides, a virtual node, and a map that milan has accepted."""
        for name in (self.tenant, SHOP):
            with suppress(AlreadyExists):  # another peer has the shop, too
                await self.here.create(NAMESPACES, {"metadata": {"name": name}})
        await self.there.create(NAMESPACES, mapped_namespace(THERE))
        await self.node(self.name)
        await self.here.create(
            NAMESPACE_MAPS,
            {
                "metadata": {
                    "name": self.name,
                    "namespace": self.tenant,
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
                    "namespace": self.tenant,
                    "labels": {"liqo.io/resourceslice-name": name},
                },
                "spec": {"clusterID": self.name, **spec},
            },
        )

    async def map(self, remote: str | None) -> None:
        """Write milan's mapping of the namespace: its name there, or nothing any more."""
        entry = None if remote is None else {"remoteNamespace": remote, "phase": "Accepted"}
        status = {"currentMapping": {SHOP: entry}}
        await self.here.patch(
            NAMESPACE_MAPS, self.name, {"status": status}, self.tenant, subresource="status"
        )

    async def desire(self, remote: str | None) -> None:
        """Write the mapping of the namespace that rome asks for; None for none."""
        await self.here.patch(
            NAMESPACE_MAPS, self.name, {"spec": {"desiredMapping": {SHOP: remote}}}, self.tenant
        )

    async def start(self, nursery: trio.Nursery, **options: Any) -> Engine:
        """Start the engine; :meth:`stop` ends it."""
        engine = Engine(
            self.peer, cast("Remotes", self.identities), self.plugins, self.arbiter, **options
        )

        async def run(task_status: trio.TaskStatus[None]) -> None:
            self.peer.reach.set(None)  # nothing is known at the start
            ended = trio.Event()
            try:
                async with trio.open_nursery() as own:
                    self._engine, self._ended = own.cancel_scope, ended
                    own.start_soon(reachability.follow_reachability, self.peer)
                    await engine.run(task_status=task_status)
            finally:
                ended.set()

        if self._engine is not None and self._engine.cancel_called:
            # A new process shares no cache with the one before.
            await self._ended.wait()
        await nursery.start(lambda task_status: run(task_status))
        return engine

    def stop(self) -> None:
        """End the engine, as a crash would."""
        assert self._engine is not None
        self._engine.cancel()

    async def aclose(self) -> None:
        """Close the clients."""
        for client in (self.here, self.there, *self.identities.slices.values()):
            await client.aclose()

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
        found: Json = await eventually(
            lambda: (client or self.there).find(kind, name, namespace),
            lambda found: found is not None and holds(found),
            seconds=seconds,
        )
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
        await eventually(
            lambda: (client or self.there).find(kind, name, namespace),
            lambda found: found is None,
            seconds=seconds,
        )


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


@asynccontextmanager
async def context_of(
    cluster: EmbeddedCluster, name: str, text: str = ""
) -> AsyncIterator[ClusterContext]:
    """The ClusterContext of a daemon in that cluster."""
    async with (
        Client(from_kubeconfig(cluster.kubeconfig)) as client,
        trio.open_nursery() as nursery,
    ):
        settings = config.parse(
            text or '[peer_defaults]\npod_network = "routed"\npod_cidrs = ["10.0.0.0/8"]\n'
        )
        yield ClusterContext(
            cluster_id=name,
            client=client,
            informers=informers(client, nursery, settings),
            config=settings,
            hub=Hub(),
            endpoint=ApiEndpoint(cluster.server, b""),
            addressing=Addressing(("10.10.0.0/16",), ("10.20.0.0/16",)),
        )
        nursery.cancel_scope.cancel()


async def define(client: Client) -> None:
    """Create the custom resources and liqod's namespace."""
    for manifest in crdmanifests.crd_manifests():
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


@asynccontextmanager
async def trial(
    plugins: Plugins, *definitions: Json, peers: tuple[str, ...] = ("milan",)
) -> AsyncIterator[Pair]:
    """Rome with one peer or several, and these plugins at work between them.

    Args:
        plugins: what :func:`liqod.plugins.loader.load` gives.
        definitions: CustomResourceDefinitions that all clusters get.
        peers: their ids; the first is the one that is yielded, and ``others`` has the rest.
    """
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        rome = await _cluster(stack, "rome", definitions)
        context = await enter(context_of(rome, "rome"))
        pairs: list[Pair] = []
        arbiter, host = StatusArbiter(), PluginHost(plugins)
        for name in peers:
            cluster = await _cluster(stack, name, definitions)
            lender = await enter(context_of(cluster, name))
            made = Pair(rome, cluster, context, lender, name, arbiter, host)
            stack.push_async_callback(made.aclose)
            await made.prepare()
            pairs.append(made)
        pairs[0].others = tuple(pairs[1:])
        async with trio.open_nursery() as nursery:
            await nursery.start(Retractions(context, arbiter).run)
            for made in pairs:
                await made.start(nursery)
            yield pairs[0]
            nursery.cancel_scope.cancel()


async def _cluster(
    stack: AsyncExitStack, name: str, definitions: tuple[Json, ...]
) -> EmbeddedCluster:
    """A cluster with liqod's definitions and others."""
    cluster = await stack.enter_async_context(EmbeddedCluster(name, nodes=1))
    async with Client(from_kubeconfig(cluster.kubeconfig)) as admin:
        await define(admin)
        for each in definitions:
            await admin.create(CUSTOM_RESOURCES, each)
            await eventually(partial(_established, admin, each["metadata"]["name"]))
    return cluster


async def _established(client: Client, name: str) -> bool:
    found = await client.get(CUSTOM_RESOURCES, name)
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
