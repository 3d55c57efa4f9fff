"""Clusters that were seen: what discovery plugins report, and the peerings that follow from it.

A sighting peers with nobody: whoever may announce a cluster is not the operator. Where the
configuration has an entry for the cluster, and that or a sighting brings a peering user's
kubeconfig, the daemon does what ``liqod peer`` does, as often as it takes, each peer behind a wall
of its own, and until the sighting goes. From the tenant namespace on, the peer is
:mod:`liqod.peers`' affair.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec
import trio

from liqod.context import ClusterContext
from liqod.errors import PluginError, ProtocolError
from liqod.identity import certificates
from liqod.inspect.events import DiscoveryBegun, DiscoveryFailed, PeeringStep, Sighted
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.log import PEER, Seldom
from liqod.model import ids
from liqod.plugins.calls import Gauge
from liqod.plugins.providers import Configured, DiscoveryProvider, Services, Sighting
from liqod.plugins.sound import odd
from liqod.procedures import Progress, peering
from liqod.procedures.slicerequest import Asked
from liqod.resources import IDENTITIES, Identity
from liqod.supervise import HEALTHY_AFTER, Failure, Supervision, explain
from liqod.ticks import sleep_until_tick

MOST_SEEN = 1024
"""Sightings that are kept: whoever is in the same network may announce any number."""
CHECK_EVERY = 30.0
"""Seconds between checks of the end of a certificate."""

logger = logging.getLogger(__name__)


class Discovery:
    """Runs the discovery plugins and keeps what they have seen.

    Args:
        home: this cluster.

    Attributes:
        home: the same, with the configuration as it was read last.
        sightings: the newest of each plugin and cluster.
    """

    def __init__(self, home: ClusterContext) -> None:
        self.home = home
        self._introductions: dict[str, tuple[str, trio.CancelScope]] = {}
        self._seldom = Seldom()
        self._restart = trio.CancelScope()
        self.sightings: dict[tuple[str, str], Sighting] = {}

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Run the plugins until cancelled."""
        self.home.rooms.discovery = self
        task_status.started()
        try:
            while True:
                await self._run_plugins()
        finally:
            self.home.rooms.discovery = None

    async def _run_plugins(self) -> None:
        """Begin with no sightings; until cancelled or restarted."""
        self._introductions.clear()
        self.sightings.clear()
        with trio.CancelScope() as self._restart:
            async with trio.open_nursery() as nursery:
                for provider in self.home.plugins.discovery:
                    nursery.start_soon(self._watch, nursery, provider)
                await trio.sleep_forever()

    def reload(self, home: ClusterContext) -> None:
        """Begin anew with another configuration; peerings that exist are not touched."""
        self.home = home
        self._restart.cancel()

    def waits(self, cluster_id: str) -> bool:
        """Whether a cluster could be peered with, and nobody has said that it shall be."""
        if cluster_id in (self.home.cluster_id, *self._named()):
            return False
        return any(
            seen.kubeconfig
            for (_, seen_id), seen in self.sightings.items()
            if seen_id == cluster_id
        )

    async def _watch(self, nursery: trio.Nursery, provider: DiscoveryProvider) -> None:
        """One plugin behind its wall."""
        home = self.home
        services = Services(
            cluster_id=home.cluster_id,
            share=home.informers.share,
            configured=tuple(
                Configured(peer.id, kubeconfig=peer.kubeconfig) for peer in home.config.peers
            ),
        )
        settings = home.plugins.settings.get(("discovery", provider.name))
        gauge = home.gauge("discovery", provider.name)

        def sighted(seen: Sighting) -> None:
            self._sighted(nursery, provider.name, seen)

        async def live() -> None:
            await trio.sleep(gauge.rests)
            plugin = gauge.ask(provider.build, settings, services)
            async with trio.open_nursery() as beside:
                beside.start_soon(_attend, gauge)
                await gauge.run(plugin.run, sighted)
                raise gauge.noted(PluginError("it ended by itself"))

        report = _reporter(home, f"discovery plugin {provider.name}", plugin=provider.name)
        await Supervision(live, report).forever()

    def _sighted(self, nursery: trio.Nursery, plugin: str, seen: Sighting) -> None:
        """Take note of a sighting; a cluster id that cannot be one is dropped, and said so."""
        problem = odd(seen)
        if problem is not None:
            if self._seldom.allows((plugin, "cannot be")):
                logger.warning("the plugin %s saw a cluster that cannot be: %s", plugin, problem)
            return
        seen = msgspec.structs.replace(seen, plugin=plugin)
        key = (plugin, seen.cluster_id)
        if self.sightings.get(key) == seen or (seen.gone and key not in self.sightings):
            return
        if key not in self.sightings and len(self.sightings) >= MOST_SEEN:
            if self._seldom.allows((plugin, "too many")):
                logger.warning("the plugin %s sees more clusters than are kept", plugin)
            return
        if seen.gone:
            self.sightings.pop(key, None)
        else:
            self.sightings[key] = seen
        self.home.hub.publish(Sighted(**msgspec.structs.asdict(seen)))
        self._adjust(nursery, seen.cluster_id)

    def _adjust(self, nursery: trio.Nursery, peer: str) -> None:
        """Have the introduction to a cluster run, end, or begin anew, as its sightings say now."""
        wanted = self._credentials(peer)
        running, scope = self._introductions.get(peer, ("", None))
        if wanted == running:
            return
        if scope is not None:
            scope.cancel()
            del self._introductions[peer]
        if wanted:
            scope = trio.CancelScope()
            self._introductions[peer] = (wanted, scope)
            nursery.start_soon(self._introduce, peer, wanted, scope)

    def _credentials(self, peer: str) -> str:
        """The kubeconfig to peer with a cluster by; empty where the operator names no such peer.

        Whoever may announce a cluster is not the operator: only an entry in the configuration is
        the operator's word. A path that stands there counts before one that was sighted.
        """
        if peer == self.home.cluster_id or peer not in self._named():
            return ""
        own = self.home.config.peer(peer).kubeconfig
        if own:
            return own
        found = (
            seen.kubeconfig
            for (_, cluster_id), seen in self.sightings.items()
            if cluster_id == peer and seen.kubeconfig
        )
        return next(found, "")

    def _named(self) -> set[str]:
        return {peer.id for peer in self.home.config.peers}

    async def _introduce(self, peer: str, path: str, scope: trio.CancelScope) -> None:
        """Peer with one cluster, until it has worked, and again when what it gave has expired."""
        PEER.set(peer)
        home = self.home

        async def live() -> NoReturn:
            while True:
                await introduce(home, peer, Path(path))
                logger.info("peered, as the configuration asks")
                await until_expired(home, peer)

        with scope:
            await Supervision(live, _reporter(home, f"peering with {peer}", cluster=peer)).forever()


async def until_expired(home: ClusterContext, peer: str) -> None:
    """Wait until the certificate that a peer gave for the control plane has ended.

    One that is renewed in time never does; one that could not be, for the peer was away too long,
    opens no door through which another could come. A peer that was left stays left.
    """
    name = ids.control_plane_identity(peer)
    async with home.informers.share(IDENTITIES) as identities:
        while True:
            await trio.sleep(CHECK_EVERY)
            found = (each for each in identities.store.values(Identity) if each.name == name)
            given = next((each.spec.auth_params.signed_crt for each in found), b"")
            with suppress(ProtocolError):
                if given and certificates.read(given).ends <= time.time():
                    return


async def introduce(
    home: ClusterContext, peer: str, path: Path, progress: Progress | None = None
) -> None:
    """Do what ``liqod peer`` does, with the daemon's own rights in this cluster.

    Args:
        home: this cluster.
        peer: the cluster's id.
        path: a peering user's kubeconfig.
        progress: told each step; without one the hub is.

    Raises:
        ConfigError: the kubeconfig cannot be used, or leads to another cluster than ``peer``.
        LiqodError: as the handshake.
    """

    def publish(step: str) -> None:
        home.hub.publish(PeeringStep(step=step), peer)

    asked = Asked(resources=home.config.peer(peer).resources)
    async with Client(credentials.from_other_side(path), user_agent="liqod") as remote:
        await peering.peer(
            home.client,
            remote,
            asked,
            progress=progress or publish,
            liqo=home.namespace,
            expected=peer,
        )


async def _attend(gauge: Gauge) -> NoReturn:
    """What has run for a while works; what is parked is not left running. Raises PluginError."""
    while True:
        await sleep_until_tick(HEALTHY_AFTER)
        if gauge.rests:
            raise gauge.noted(PluginError(f"it is {gauge.trouble}"))
        gauge.well()


def _reporter(
    home: ClusterContext, what: str, *, plugin: str = "", cluster: str = ""
) -> Callable[[Failure | None, BaseException | None], None]:
    """Says of a task that failed why, and when it is tried again."""

    failed = False

    def report(failure: Failure | None, error: BaseException | None) -> None:
        nonlocal failed
        if failure is None or error is None:
            if failed:
                home.hub.publish(DiscoveryBegun(plugin=plugin, cluster=cluster))
            failed = False
            return
        failed = True
        told = msgspec.structs.asdict(failure)
        home.hub.publish(DiscoveryFailed(plugin=plugin, cluster=cluster, **told))
        logger.warning("%s failed: %s; next try in %.0f s", what, explain(error), failure.retry_in)

    return report
