"""One daemon process: what :mod:`liqod.daemon` runs, without sockets and signals."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn

import trio

from liqod import config
from liqod.apimachinery import labels
from liqod.cluster.context import ApiEndpoint, ClusterContext
from liqod.cluster.memorylimits import informers
from liqod.cluster.preflight import RETRY
from liqod.consumer import returns
from liqod.consumer.foreignclusters import ForeignClusters
from liqod.consumer.identities.clusterkeys import KeyBootstrap
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.webhook.missedpods import MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.errors import ConfigError, Forbidden, LiqodError, TransientError
from liqod.inspect.components import Components
from liqod.inspect.inspector import Inspector
from liqod.install import check_revision
from liqod.kube.client import Client
from liqod.kube.leaderelection import LeaderElection, LeadershipLost
from liqod.peers.peercontroller import PeerController
from liqod.peertask import PeerTasks
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.provider.garbagecollector import GarbageCollector
from liqod.provider.policies.policycontroller import PolicyController
from liqod.resources import DEFINITIONS
from liqod.runtime.account import Account
from liqod.runtime.supervise import leaves
from liqod.telemetry.hub import Hub
from tests.stateful.audit import CONSUMER, Broken

if TYPE_CHECKING:
    from tests.stateful.site import Site

SETTINGS = """
[webhook]
enabled = {webhook}
host = "{name}.hook"
port = 9443
advertise = "{name}.hook:9443"
[peer_defaults]
pod_network = "routed"
pod_cidrs = ["10.0.0.0/8"]
[consumer]
drain_timeout = 20.0
return_unschedulable = 15.0
return_image = 15.0
return_refused = 15.0
[certificates]
lifetime = 604800
"""
"""Only the consumer has pods to be asked about; and a certificate's week passes in a script."""
RESTART = 2.0
"""Seconds until a daemon that ended is started again, as a service manager does."""
PLUGINS = loader.load(sources=loader.built_in())


class Process:
    """One daemon process.

    Args:
        site: the cluster beside which it runs.
        name: the network's name of it.
        elects: whether it leads only while it holds the Lease.

    Attributes:
        leads: whether it does the work now.
        scope: ends it.
        ended: it has.
        inspector: what looks at it, where the site has one.
    """

    def __init__(self, site: "Site", name: str, *, elects: bool) -> None:
        self.name = name
        self.leads = False
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.inspector: Inspector | None = None
        self._site = site
        self._components = Components()
        self._plugins = PluginHost(PLUGINS)
        self._elects = elects
        self._dial = site.network.dialer(name)
        self._work: tuple[trio.Nursery, ...] = ()

    @property
    def tasks(self) -> int:
        """How many tasks its work has."""
        return sum(map(_count, self._work))

    async def run(self) -> None:
        """Run it, and start it again when it ends by itself, until :attr:`scope` is cancelled."""
        try:
            with self.scope:
                while True:
                    try:
                        await self._serve()
                    except* Exception as group:
                        self._site.crashes += [
                            each for each in leaves(group) if not isinstance(each, LiqodError)
                        ]
                    await trio.sleep(RESTART)
        finally:
            self.ended.set()

    async def _serve(self) -> NoReturn:
        """Serves as a standby does too, and works while it leads."""
        site = self._site
        async with (
            Client(site.beside(site.token), user_agent="liqod", dial=self._dial) as client,
            trio.open_nursery() as servers,
            trio.open_nursery() as infra,
        ):
            context = self._context(client, infra)
            if site.inspected:
                self.inspector = inspector = Inspector(
                    context, self._components, self._plugins, Account()
                )
                servers.start_soon(inspector.sampler.run)
                servers.start_soon(inspector.doctor.run)
            webhook = self._components.admission = PodWebhook(
                context, Account(), open_listeners=site.network.listen
            )
            if context.config.webhook.enabled:
                await servers.start(webhook.run)
            while True:
                await _installed(client)
                try:
                    async with self._leadership(context):
                        await self._lead(context, webhook, infra)
                except* LeadershipLost:
                    pass  # it stands by again
        raise AssertionError("it ends by cancellation only")

    def _context(self, client: Client, infra: trio.Nursery) -> ClusterContext:
        site, name = self._site, self._site.name
        webhook = str(name == CONSUMER).lower()
        settings = config.parse(SETTINGS.format(name=name, webhook=webhook))
        return ClusterContext(
            cluster_id=name,
            client=client,
            informers=informers(client, infra, settings),
            config=settings,
            hub=Hub(),
            endpoint=ApiEndpoint(site.cluster.server, site.cluster.ca.certificate),
        )

    @asynccontextmanager
    async def _leadership(self, context: ClusterContext) -> AsyncIterator[None]:
        if not self._elects:
            yield
            return
        identity = self.name.replace("#", "-")
        async with LeaderElection(
            context.client, labels.LEADER_LEASE, context.namespace, identity
        ).leadership():
            yield

    async def _lead(
        self, context: ClusterContext, webhook: PodWebhook, infra: trio.Nursery
    ) -> None:
        """Runs the work of a leader."""
        if self._site.leader is not None:
            self._site.crashes.append(Broken(f"{self._site.leader.name} leads beside {self.name}"))
        self.leads = True
        self._become("leading")
        try:
            async with trio.open_nursery() as nursery:
                self._work = (infra, nursery)
                await nursery.start(KeyBootstrap(context).run)
                if context.config.webhook.enabled:
                    await nursery.start(webhook.run_as_leader)
                await nursery.start(MissedPods(context, webhook.doubt).run)
                tasks = PeerTasks(self._plugins, components=self._components)
                policies, signing = self._components.guest_policies, tasks.signing_requests
                await nursery.start(OffloadingController(context).run)
                await nursery.start(returns.run, context)
                await nursery.start(ForeignClusters(context).run)
                await nursery.start(PolicyController(context, policies).run)
                await nursery.start(GarbageCollector(context, signing).run)
                await nursery.start(PeerController(context, tasks.run, tasks.arbiter.end).run)
        finally:
            self.leads = False
            self._become("standing by")
            self._work = ()

    def _become(self, state: str) -> None:
        if self.inspector is not None:
            self.inspector.become(state)


async def _installed(client: Client) -> None:
    """Wait until the custom resources are there."""
    while True:
        try:
            await check_revision(client)
        except ConfigError:
            now = trio.current_time()
            client.missing.update((each.resource.KIND, now) for each in DEFINITIONS)
        except (Forbidden, TransientError):
            pass
        else:
            client.wake()
            return
        await trio.sleep(RETRY)


def _count(nursery: trio.Nursery) -> int:
    return sum(1 + sum(map(_count, task.child_nurseries)) for task in nursery.child_tasks)
