"""Two or three embedded clusters with liqod installed, all their daemons in this process.

Each daemon has the rights of its own service account, the commands have an administrator's, and a
peering user has what was generated for it.
"""

import time
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
import trio.testing

from liqod import config
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, PODS, SECRETS, Kind
from liqod.cluster.context import Addressing, ApiEndpoint, ClusterContext
from liqod.cluster.memorylimits import informers
from liqod.clusterset import imports
from liqod.clusterset.sharing import Sharing
from liqod.consumer import returns
from liqod.consumer import timings as consumer
from liqod.consumer.foreignclusters import ForeignClusters
from liqod.consumer.identities.clusterkeys import KeyBootstrap, cluster_keys
from liqod.consumer.identities.formerkey import FormerKey
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.timings import ConsumerTimings
from liqod.discovery.sightings import SeenCluster
from liqod.handshake.handshakemanager import HandshakeManager
from liqod.handshake.timings import HandshakeTimings
from liqod.identity import keys
from liqod.identity.signingrequests import SigningRequests
from liqod.inspect.components import Components
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.leaderelection import LeaderElection
from liqod.model import ids
from liqod.network.failover.role import Role
from liqod.network.gatewayhost import GatewayHost
from liqod.network.machineconnection import MachineConnection
from liqod.network.orders.greeting import Generation
from liqod.network.remotemachine import RemoteMachine
from liqod.network.sweeping import NetworkGarbageCollector
from liqod.ownkeycontroller import OwnKeyController, pass_keys_to
from liqod.peers.knownkeys import KnownKeys
from liqod.peers.peercontroller import PeerController
from liqod.peertask import PeerTasks
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.procedures import kubeconfigpeering, peeringusers, unpeering
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.provider.garbagecollector import GarbageCollector
from liqod.provider.policies.policycontroller import PolicyController
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.runtime.account import Account
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import walled
from liqod.telemetry.hub import Hub
from simulator import EmbeddedCluster
from tests.simulated.borrower import Json, eventually, offload
from tests.simulated.localmachine import NOWHERE, LocalMachine
from tests.simulated.prepared import installed, quiet

SETTINGS = "[webhook]\nenabled = false\n"
AT_ROME, AT_MILAN = "liqo-tenant-milan", "liqo-tenant-rome"
USER = ids.slice_user("milan", "rome")


Dial = Callable[[], Awaitable[trio.abc.Stream]]


@dataclass
class Member:
    """One cluster, its administrator, and the components of its daemon, which stop and start.

    With ``leads`` the components run behind the election, as in a daemon, so there is a Lease; with
    ``meets`` it meets other daemons.
    """

    id: str
    cluster: EmbeddedCluster
    admin: Client
    credentials: Credentials
    nursery: trio.Nursery
    settings: str = SETTINGS
    advertise: str = ""
    leads: bool = False
    meets: bool = False
    plugins: Plugins = field(default_factory=Plugins)
    machines: Mapping[str, GatewayHost] = field(default_factory=dict)
    dials: Mapping[str, Dial] = field(default_factory=dict)
    """To the machines that are programs of their own."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Of the machines that are not the only gateway."""
    running: trio.CancelScope | None = None
    current: ClusterContext | None = None
    said: list[str] = field(default_factory=list)
    handshake: HandshakeManager | None = None
    sharing: Sharing | None = None
    components: Components = field(default_factory=Components)
    host: PluginHost = field(init=False)
    timings: ProviderTimings = ORDINARY
    consumer_timings: ConsumerTimings = consumer.ORDINARY
    handshake_timings: HandshakeTimings = field(default_factory=HandshakeTimings)
    around: list[SeenCluster] = field(default_factory=list)
    """Clusters that its discovery sees."""

    @property
    def context(self) -> ClusterContext:
        """The context of the daemon's components."""
        assert self.current is not None
        return self.current

    async def start(self) -> None:
        """Start the daemon's components."""
        self.current = await self.nursery.start(self._run)

    async def stop(self) -> None:
        """Stop them at once, as a crash would."""
        assert self.running is not None
        self.running.cancel()
        self.running = None
        self.components.stand_by()
        await trio.testing.wait_all_tasks_blocked()

    async def _run(self, *, task_status: trio.TaskStatus[ClusterContext]) -> None:
        with trio.CancelScope() as self.running:
            async with (
                Client(self.credentials, user_agent="liqod") as client,
                self._leadership(client),
                trio.open_nursery() as nursery,
            ):
                context, self.host = self.context_of(client, nursery), PluginHost(self.plugins)
                await nursery.start(KeyBootstrap(context).run)
                self.components.former_key = FormerKey(context, self.consumer_timings)
                await nursery.start(self.components.former_key.run)
                await nursery.start(OffloadingController(context, self.consumer_timings).run)
                await nursery.start(returns.run, context)
                await nursery.start(ForeignClusters(context).run)
                await nursery.start(PolicyController(context, self.components.guest_policies).run)
                signing_requests = SigningRequests()
                await nursery.start(GarbageCollector(context, signing_requests, self.timings).run)
                machine = await self._machine(context, nursery)
                await nursery.start(NetworkGarbageCollector(context, machine).run)
                if self.meets:
                    pair = await cluster_keys(client)
                    everybody = partial(iter, self.around)
                    self.handshake = HandshakeManager(
                        *(context, pair.private, Account(), self._seen, everybody),
                        timings=self.handshake_timings,
                    )
                    self.components.handshake = self.handshake
                    await nursery.start(self.handshake.run)
                    await nursery.start(
                        OwnKeyController(context, pass_keys_to(self.handshake, client)).run
                    )
                sharing = Sharing(context.client) if context.config.services.enabled else None
                self.sharing = sharing
                if sharing is not None:
                    sharing.take((await cluster_keys(client)).private)
                imported = partial(imports.run, context, sharing)
                nursery.start_soon(walled, "imports of services", imported)
                tasks = PeerTasks(
                    self.host,
                    machine,
                    self.components,
                    timings=self.timings,
                    consumer_timings=self.consumer_timings,
                    signing_requests=signing_requests,
                    sharing=sharing,
                )
                await nursery.start(KnownKeys(context, tasks.neighbours).run)
                await nursery.start(PeerController(context, tasks.run, tasks.arbiter.end).run)
                task_status.started(context)

    async def _machine(self, context: ClusterContext, nursery: trio.Nursery) -> RemoteMachine:
        """Its machine, of this process or of a program of its own."""
        if self.id in self.dials:
            generation = Observable(Generation(leads=True, started=time.monotonic_ns()))
            made = MachineConnection(context, Observable(True), generation, self.dials[self.id])
            nursery.start_soon(made.run)
            await made.machine.look()
            await made.machine.wait_usable()
            return made.machine
        host = self.machines.get(self.id, NOWHERE)
        local = LocalMachine(self.id, host, self.roles.get(self.id))
        await nursery.start(local.run)
        return local.remote

    @asynccontextmanager
    async def _leadership(self, client: Client) -> AsyncIterator[None]:
        if not self.leads:
            yield
            return
        async with LeaderElection(
            client, labels.LEADER_LEASE, "liqo", f"{self.id}-host"
        ).leadership():
            yield

    def _seen(self, cluster_id: str) -> SeenCluster | None:
        return next((each for each in self.around if each.cluster_id == cluster_id), None)

    def context_of(self, client: Client, nursery: trio.Nursery) -> ClusterContext:
        """The context of a daemon that works with that client."""
        server = self.advertise or self.cluster.server
        settings = config.parse(self.settings)
        return ClusterContext(
            cluster_id=self.id,
            client=client,
            informers=informers(client, nursery, settings),
            config=settings,
            hub=Hub(),
            endpoint=ApiEndpoint(server, self.cluster.ca.certificate),
            addressing=Addressing(service_cidrs=settings.cluster.service_cidrs),
            kubelet_port=12345,
        )

    def progress(self, step: str) -> None:
        """Keep what a command said."""
        self.said.append(step)

    async def peering_user(self, consumer: "Member", **more: Any) -> bytes:
        """A kubeconfig for that consumer."""
        return await peeringusers.generate(
            self.admin,
            consumer.id,
            here=self.id,
            server=self.cluster.server,
            ca=self.cluster.ca.certificate,
            **more,
        )

    async def peer(self, provider: "Member", **asked: Any) -> None:
        """Become that cluster's consumer."""
        user = await provider.peering_user(self)
        wanted = ResourceRequest(
            **{"resources": {"cpu": "2", "memory": "4Gi", "pods": "20"}, **asked}
        )
        async with Client(from_kubeconfig(user)) as remote:
            with trio.fail_after(60):
                got = await kubeconfigpeering.peer(
                    self.admin, remote, wanted, progress=self.progress
                )
        assert got == provider.id

    async def unpeer(self, peer: "Member") -> unpeering.Departed:
        """End all peerings with that cluster, from this side."""
        with trio.fail_after(60):
            return await unpeering.unpeer(self.admin, peer.id, progress=self.progress)

    async def until(self, kind: Kind, name: str, namespace: str | None, ask: Callable[[Json], Any]):
        """The object, as soon as the question is answered by something true."""

        async def look() -> Json | None:
            found = await self.admin.find(kind, name, namespace)
            return found if found is not None and ask(found) else None

        return await eventually(look)

    async def gone(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        """Wait until there is no such object."""

        async def look() -> bool:
            return await self.admin.find(kind, name, namespace) is None

        await eventually(look)

    def everything(self) -> set[tuple[str, str, str]]:
        """Every object in the cluster, by resource, namespace and name, but what comes and goes."""
        storage = self.cluster.registry.storage
        return {
            (resource, item.namespace, item.name)
            for resource in storage.names()
            if not resource.startswith(("events", "leases"))
            for item in storage.of(resource).items()
        }


@asynccontextmanager
async def member(
    name: str,
    nursery: trio.Nursery,
    *,
    port: int = 0,
    nodes: int = 0,
    services: bool = False,
    service_cidr6: str = "",
    **more: Any,
) -> AsyncIterator[Member]:
    """A cluster with liqod installed and its daemon's components running."""
    async with (
        EmbeddedCluster(
            name,
            port=port,
            nodes=nodes,
            service_cidr6=service_cidr6,
            state=await installed(name, services=services),
        ) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        served(name, cluster, admin, nursery, **more) as made,
    ):
        yield made


@asynccontextmanager
async def served(
    name: str, cluster: EmbeddedCluster, admin: Client, nursery: trio.Nursery, **more: Any
) -> AsyncIterator[Member]:
    """A daemon's components for a cluster that has liqod installed."""
    text = await daemonkubeconfig.daemon_kubeconfig(
        admin, from_kubeconfig(cluster.kubeconfig), "liqo", name, quiet
    )
    made = Member(name, cluster, admin, from_kubeconfig(text), nursery, **more)
    await made.start()
    yield made
    if made.running is not None:
        made.running.cancel()


@asynccontextmanager
async def members(*names: str, **more: Any) -> AsyncIterator[list[Member]]:
    """Several of them."""
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(member(name, nursery, **more)) for name in names]
        nursery.cancel_scope.cancel()


async def borrow_a_pod(rome: Member, milan: Member) -> None:
    """One pod of rome's that has been made at milan."""
    await rome.peer(milan)
    await offload(rome.admin, "shop")
    await eventually(lambda: milan.admin.find(NAMESPACES, "shop-rome"))
    tolerated = [{"key": "virtual-node.liqo.io/not-allowed", "operator": "Exists"}]
    containers = [{"name": "web", "image": "web"}]
    spec = {"nodeName": "milan", "containers": containers, "tolerations": tolerated}
    pod = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec}
    await rome.admin.create(PODS, pod, "shop")
    await eventually(lambda: milan.admin.find(PODS, "web", "shop-rome"))


async def keyed(who: Member) -> str:
    """The name that a cluster's rights have at a provider that signs names with a key."""
    found = await who.admin.get(SECRETS, labels.KEYS_SECRET, "liqo")
    public = keys.public_pem(b64decode(found["data"][labels.PRIVATE_KEY_FIELD]))
    return ids.keyed(who.id, keys.print_of(public))


def verdicts(found):
    """The verdicts on a slice."""
    return {c["type"]: c["status"] for c in found.get("status", {}).get("conditions", ())}
