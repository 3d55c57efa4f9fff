"""The composition root: one nested ``async with``; the order of starting is the order of reading.

    health ⊃ cluster ⊃ webhook, kubelet ⊃ election ⊃ components of the whole cluster ⊃ peers

A standby has everything up to the election: it answers the webhook and the health probes and
writes nothing but the Lease by which it shows itself. Parts stop in reverse order, and in time
(:mod:`liqod.shutdown`).
"""

import dataclasses
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

from liqod import __version__, advertsigner, healthz
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import LEASES
from liqod.cluster import memorylimits, preflight
from liqod.cluster.context import ClusterContext
from liqod.cluster.podselection import select_pods
from liqod.clusterlabels import ClusterLabels
from liqod.clusterset import imports
from liqod.clusterset.sharing import Sharing
from liqod.config import Config, load
from liqod.consumer import returns
from liqod.consumer.foreignclusters import ForeignClusters
from liqod.consumer.identities.clusterkeys import ClusterKeys, KeyBootstrap, cluster_keys
from liqod.consumer.identities.formerkey import FormerKey
from liqod.consumer.namespaces.offloadingcontroller import OffloadingController
from liqod.consumer.nodes.kubelet import KubeletServer
from liqod.consumer.volumeprovisioner import VolumeProvisioner
from liqod.consumer.webhook.missedpods import MissedPods
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.errors import ConfigError, Forbidden, LiqodError, TransientError
from liqod.handshake.handshakemanager import HandshakeManager
from liqod.identity.signingrequests import SigningRequests
from liqod.inspect import metrics
from liqod.inspect.components import Components
from liqod.inspect.inspector import Inspector
from liqod.install.verbs import check_revision
from liqod.kube import candidates
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.http.resolver import HostResolver
from liqod.kube.leaderelection import LeaderElection, LeadershipLost
from liqod.leader import LeaderComponents
from liqod.loopwatchdog import LoopWatchdog
from liqod.model.view import whereabouts
from liqod.model.view.daemonfacts import LEADING
from liqod.model.view.whereabouts import Whereabouts
from liqod.network import ipam, machinesocketdial
from liqod.network.machineconnection import MachineConnection
from liqod.network.orders.overlay import ReleaseOverlay
from liqod.network.overlay.takeover import Takeover
from liqod.network.overlay.writer import OverlayWriter
from liqod.network.owngeneration import OwnGeneration
from liqod.network.remotemachine import RemoteMachine
from liqod.network.sweeping import NetworkGarbageCollector, sweep_once
from liqod.network.yieldedtunnels import YieldedTunnels
from liqod.ownkeycontroller import OwnKeyController, pass_keys_to
from liqod.peers.knownkeys import KnownKeys
from liqod.peers.peercontroller import PeerController
from liqod.peertask import PeerTasks
from liqod.plugins import loader
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.provider.garbagecollector import GarbageCollector
from liqod.provider.policies.policycontroller import PolicyController
from liqod.provider.workloads import directpods
from liqod.reflection.overridecontroller import OverrideController
from liqod.reflection.overrides import OverrideProblems
from liqod.reflection.statusarbitration import StatusArbiter
from liqod.reflection.statuscleanup import Retractions
from liqod.resources import DEFINITIONS
from liqod.runtime import account, log, sdnotify
from liqod.runtime.arguments import Parser
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import explain, walled
from liqod.sharedport import Connect
from liqod.shutdown import ShutdownWatchdog
from liqod.telemetry import registry
from liqod.telemetry.hub import Hub

logger = logging.getLogger("liqod")


def parser() -> Parser:
    """The options of ``liqod run``."""
    made = Parser(prog="liqod run", description="Run the daemon of this cluster until SIGTERM.")
    made.add_argument("--config", metavar="FILE", help="TOML file (default: $LIQOD_CONFIG)")
    made.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="the daemon's own (default: $LIQOD_KUBECONFIG, or kubeconfig of the configuration)",
    )
    made.add_argument("--verbose", "-v", action="store_true", help="log more")
    # Liqo's name: `liqoctl` looks for it among the arguments of the Deployment.
    made.add_argument(
        "--api-server-address-override",
        metavar="URL",
        default="",
        dest="advertise",
        help="api_server.advertise where the configuration does not say it",
    )
    return made


def command(arguments: list[str]) -> int:
    """``liqod run``: parse its options, run the daemon, return the exit status."""
    options = parser().parse_args(arguments)
    log.set_up(os.environ, verbose=options.verbose)
    variables = dict(os.environ)
    if options.kubeconfig is not None:
        variables["LIQOD_KUBECONFIG"] = options.kubeconfig
    try:
        config = load(options.config, variables, advertise=options.advertise)
        tables = config.plugins
        plugins = loader.load(blocked=tables.blocked, settings=tables.settings)
    except ConfigError as error:
        logger.error("%s", error)
        return 2
    loader.log_loaded(plugins)
    status = 0
    try:
        read = partial(load, options.config, variables, advertise=options.advertise)
        trio.run(Daemon(config, plugins, read).run)
    except* LiqodError as group:
        logger.error("%s", explain(group))
        status = 1
    return status


class Daemon:
    """One daemon process.

    Args:
        config: the configuration it starts with.
        plugins: what was loaded.
        read: reads the configuration again, on SIGHUP.
    """

    def __init__(self, config: Config, plugins: Plugins, read: Callable[[], Config]) -> None:
        self._config = config
        self._plugins = PluginHost(plugins)
        self._read = read
        self._health = healthz.HealthServer()
        self._leader: LeaderComponents | None = None
        self._leads = Observable(False)
        self._generation = OwnGeneration()
        self._led_by = Observable("")
        self._inspector: Inspector | None = None
        self._calls: Connect | None = None
        self._hub = Hub()
        self._components = Components()
        self._identity = candidates.new_identity()

    async def run(self) -> None:
        """Everything, until SIGTERM or SIGINT."""
        registry.new_registry()
        trio.socket.set_custom_hostname_resolver(HostResolver())
        self._account = account.derived()
        self._stalls = LoopWatchdog(self._hub)
        ending = ShutdownWatchdog()
        async with trio.open_nursery() as outer:
            await outer.start(self._stalls.run)
            await outer.start(self._follow_signals, outer.cancel_scope, ending)
            outer.start_soon(sdnotify.watchdog)
            if self._config.health.enabled:
                probes = self._account[account.PROBES]
                await outer.start(self._health.serve, self._config.health, probes)
            sdnotify.notify("READY=1", "STATUS=looking for the API server")
            settings = self._config.cluster
            found = await credentials.load(
                Path(settings.kubeconfig) if settings.kubeconfig else None,
                settings.context or None,
            )
            async with (
                Client(found, user_agent=f"liqod/{__version__}") as client,
                self._context(client, found) as context,
            ):
                await self._serve(context)
        ending.done()

    async def _follow_signals(
        self,
        scope: trio.CancelScope,
        ending: ShutdownWatchdog,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            ending.follow(signal.SIGTERM, signal.SIGINT)
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    self._reload()
                    continue
                logger.info("stopping on %s", signal.Signals(number).name)
                sdnotify.notify("STOPPING=1", "STATUS=stopping")
                scope.cancel()
        raise AssertionError("signals never end")

    def _reload(self) -> None:
        sdnotify.reloading()
        try:
            config = self._read()
        except ConfigError as error:
            logger.error("not reloaded: %s", error)
        else:
            self._config = msgspec.structs.replace(
                self._config,
                peers=config.peers,
                peer_defaults=config.peer_defaults,
                policies=config.policies,
            )
            changed = self._leader.reload(self._config) if self._leader is not None else []
            logger.info("reloaded; peers that start anew: %s", ", ".join(changed) or "none")
        sdnotify.notify("READY=1")

    @asynccontextmanager
    async def _context(
        self, client: Client, found: credentials.Credentials
    ) -> AsyncIterator[ClusterContext]:
        """This cluster's context, as soon as its API server has given the facts for it."""
        facts = await preflight.discover(client, found, self._config, self._wait)
        async with trio.open_nursery() as infra:
            yield ClusterContext(
                cluster_id=facts.cluster_id,
                client=client,
                informers=memorylimits.informers(client, infra, self._config),
                config=self._config,
                hub=self._hub,
                endpoint=facts.endpoint,
                version=facts.version,
                addressing=facts.addressing,
                node_address=facts.node_address,
                in_cluster=facts.in_cluster,
                own_pods=await select_pods(client),
            )
            infra.cancel_scope.cancel()

    async def _serve(self, context: ClusterContext) -> None:
        """Serve what every replica serves; do the work while this one leads."""
        async with trio.open_nursery() as servers:
            self._inspector = inspector = Inspector(
                context, self._components, self._plugins, self._account
            )
            self._health.metrics = partial(metrics.render, inspector)
            await servers.start(inspector.run)
            kubelet = KubeletServer(context, self._components.pod_proxies, self._account)
            await servers.start(kubelet.run)
            self._components.serving = kubelet.serving
            context = dataclasses.replace(context, kubelet_port=kubelet.port)
            webhook = self._components.admission = PodWebhook(context, self._account)
            if self._config.webhook.enabled:
                await servers.start(webhook.run)
                self._health.hindrance = webhook.hindrance
            folder = Path(self._config.network.machine)
            connect = partial(machinesocketdial.dial, folder)
            if self._config.network.enabled:
                self._calls = partial(machinesocketdial.calls, folder)
            own = (self._leads, self._generation)
            self._machine = MachineConnection(context, *own, connect)
            self._components.machine = self._machine.machine
            servers.start_soon(self._machine.run)
            while True:
                await self._installed(context)
                self._become("standing by")
                try:
                    async with self._leadership(context):
                        self._become(LEADING)
                        await self._run_as_leader(context, webhook)
                except* LeadershipLost as group:
                    held_up = self._stalls.lately()
                    logger.warning("%s%s", explain(group), f": {held_up}" if held_up else "")
                    self._leader = None
                    self._leads.set(False)
                finally:
                    self._components.stand_by()

    async def _installed(self, context: ClusterContext) -> None:
        """Wait until the custom resources are those that this version needs, or newer."""
        told = ""
        while True:
            try:
                await check_revision(context.client)
                context.client.wake()
                return
            except (ConfigError, Forbidden, TransientError) as error:
                if isinstance(error, ConfigError):
                    now = trio.current_time()
                    context.client.missing.update((each.resource.KIND, now) for each in DEFINITIONS)
                if str(error) != told:
                    told = str(error)
                    self._wait(told)
                await trio.sleep(preflight.RETRY)

    def _wait(self, reason: str) -> None:
        """Say why nothing is done yet."""
        self._health.become(f"waiting: {reason}", ready=False)
        if self._inspector is not None:
            self._inspector.become(f"waiting: {reason}")
        sdnotify.notify(f"STATUS=waiting: {reason}")
        logger.warning("not ready yet: %s; trying again every %.0f s", reason, preflight.RETRY)

    @asynccontextmanager
    async def _leadership(self, context: ClusterContext) -> AsyncIterator[None]:
        if not self._config.election.enabled:
            # Nobody renews the one of an earlier start, by which peers would see a dead daemon.
            await context.client.delete(LEASES, labels.LEADER_LEASE, context.namespace)
            self._generation.lead_alone()
            yield
            return
        identity = self._identity
        async with trio.open_nursery() as nursery:
            shown = trio.CancelScope()

            async def wait() -> None:
                with shown:
                    async with trio.open_nursery() as waiting:
                        waiting.start_soon(
                            candidates.show, context.client, context.namespace, identity
                        )
                        waiting.start_soon(self._run_as_standby, context)

            def stand_by(leader: str) -> None:
                self._led_by.set(leader)
                self._become(f"standing by; {leader} leads")
                if not nursery.child_tasks:
                    nursery.start_soon(wait)

            here = Whereabouts(socket.gethostname(), sdnotify.unit(), context.in_cluster)
            election = LeaderElection(
                context.client,
                labels.LEADER_LEASE,
                context.namespace,
                identity,
                standing_by=stand_by,
                cut_off=self._wait,
                on_term=self._generation.enter,
                notes=whereabouts.noted(here),
            )
            async with election.leadership():
                shown.cancel()
                yield

    async def _run_as_standby(self, context: ClusterContext) -> None:
        """Keep this machine ready to be the gateway, and be it, while another daemon leads."""
        if not self._machine.role.others:
            self._machine.overlay.have(ReleaseOverlay())
            self._machine.machine.release()
            if context.config.network.enabled:
                yielded = YieldedTunnels(context, self._machine.machine, self._led_by)
                await walled(yielded.name, yielded.run)
            return
        own = self._machine
        await own.machine.look()
        await own.machine.wait_usable()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Takeover(context, own.role, own.overlay, self._identity).run)
            tasks = PeerTasks(self._plugins, own.machine, self._components)
            await nursery.start(
                PeerController(context, tasks.run_as_standby, tasks.arbiter.end).run
            )

    async def _run_as_leader(self, context: ClusterContext, webhook: PodWebhook) -> None:
        """The components of the whole cluster, then the peers, until cancelled."""
        logger.info("leading as %s", context.cluster_id)
        async with trio.open_nursery() as nursery:
            await nursery.start(KeyBootstrap(context).run)
            former_key = self._components.former_key = FormerKey(context)
            await nursery.start(former_key.run)
            nursery.start_soon(
                preflight.follow_id, context.informers, context.namespace, context.cluster_id
            )
            await nursery.start(webhook.run_as_leader)
            await nursery.start(OffloadingController(context).run)
            await nursery.start(MissedPods(context, webhook.doubt).run)
            await nursery.start(returns.run, context)
            nursery.start_soon(walled, "volumes of claims", VolumeProvisioner(context).run)
            await nursery.start(ForeignClusters(context).run)
            await nursery.start(PolicyController(context, self._components.guest_policies).run)
            signing_requests = SigningRequests()
            await nursery.start(GarbageCollector(context, signing_requests).run)
            await nursery.start(directpods.run, context)
            arbiter = StatusArbiter()
            await nursery.start(Retractions(context, arbiter).run)
            problems = OverrideProblems()
            await nursery.start(OverrideController(context, problems).run)
            machine = self._machine.machine
            await machine.look()
            overlay = partial(self._keep_overlay, context, machine)
            nursery.start_soon(walled, "the nodes' overlay", overlay)
            nursery.start_soon(sweep_once, context, machine, self._components.peers.keys())
            # An installation from before may lack the rights: nothing else waits for them, and
            # nothing else ends with them.
            nursery.start_soon(walled, "addresses of networks", partial(ipam.run, context))
            nursery.start_soon(
                walled, "leftovers of networks", partial(_leftovers, context, machine)
            )
            context = dataclasses.replace(context, config=self._config)
            nursery.start_soon(walled, "labels that are shown", partial(_shown_labels, context))
            sharing = Sharing(context.client) if context.config.services.enabled else None
            imported = partial(imports.run, context, sharing)
            nursery.start_soon(walled, "imports of services", imported)
            tasks = PeerTasks(
                self._plugins,
                machine,
                self._components,
                arbiter,
                signing_requests=signing_requests,
                override_problems=problems,
                sharing=sharing,
            )
            keys = KnownKeys(context, tasks.neighbours)
            nursery.start_soon(walled, "keys of clusters", keys.run)
            adverts = await advertsigner.adverts_of(context, lambda: handshake.port)
            seen = self._components.discovery = DiscoveryManager(context, self._plugins, adverts)
            pair = await cluster_keys(context.client, context.namespace)
            known = (context, pair.private, self._account, seen.seen, seen.clusters)
            handshake = HandshakeManager(*known, self._calls)
            self._components.handshake = handshake
            peers = PeerController(context, tasks.run, arbiter.end)
            self._leader = leader = LeaderComponents(context, peers, seen, handshake)
            self._leads.set(True)
            nursery.start_soon(walled, "the handshake", handshake.run)
            take = [pass_keys_to(handshake, context.client), adverts.take]
            if sharing is not None:
                take.append(partial(_sign_by, sharing))
            await nursery.start(OwnKeyController(context, *take).run)
            await nursery.start(leader.peers.run)
            await nursery.start(leader.discovery.run)
            nursery.start_soon(leader.notify_systemd)

    async def _keep_overlay(self, context: ClusterContext, machine: RemoteMachine) -> NoReturn:
        """Lead from the other nodes to this one, which is the gateway, once it can be."""
        own = self._machine
        await machine.wait_usable()
        await OverlayWriter(context, machine, own.role, own.overlay, self._identity).run()
        raise AssertionError("controllers end by cancellation only")

    def _become(self, state: str) -> None:
        self._health.become(state, ready=True)
        if self._inspector is not None:
            self._inspector.become(state)
        sdnotify.notify(f"STATUS={state}")
        logger.info("%s", state)


async def _shown_labels(context: ClusterContext) -> NoReturn:
    """One that begins anew each time."""
    await ClusterLabels(context).run()
    raise AssertionError("controllers end by cancellation only")


async def _leftovers(context: ClusterContext, machine: RemoteMachine) -> NoReturn:
    """One that begins anew each time."""
    await NetworkGarbageCollector(context, machine).run()
    raise AssertionError("controllers end by cancellation only")


def _sign_by(sharing: Sharing, own: ClusterKeys) -> None:
    """Have exports that are shared on signed with a key from now on."""
    sharing.take(own.private)
