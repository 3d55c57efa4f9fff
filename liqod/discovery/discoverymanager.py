"""Runs the discovery plugins, keeps their sightings, and peers with the configured clusters.

A sighting alone causes no peering: the announcer of a cluster is not the operator. If the
configuration has an entry for the cluster, and that or a sighting has a peering user's
kubeconfig, the daemon peers as ``liqod peer`` does, with retries, each peer behind a wall
of its own, and until the sighting ends. Once the tenant namespace exists, the peer is managed by
:mod:`liqod.peers.peercontroller`.

Only this module decides a cluster's identity: plugins pass adverts on as received.
"""

import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import trio

from liqod.cluster.context import ClusterContext
from liqod.discovery import configuredpeering
from liqod.discovery.adverts import Adverts, NoAdverts
from liqod.discovery.publishing import publish
from liqod.discovery.sightings import (
    AdvertContent,
    KeptSighting,
    SeenCluster,
    SightingRank,
    SightingStore,
    key_of,
)
from liqod.errors import LiqodError, PluginError
from liqod.plugins.callguard import CallGuard
from liqod.plugins.host import PluginHost
from liqod.plugins.providers import (
    LONGEST_TTL,
    Configured,
    DiscoveryProvider,
    Services,
    Sighting,
)
from liqod.plugins.typecheck import shown, waits
from liqod.plugins.validation import sighting_problem
from liqod.runtime.log import PEER, Seldom
from liqod.runtime.supervise import HEALTHY_AFTER, Failure, Supervision, explain
from liqod.runtime.ticks import sleep_until_tick
from liqod.runtime.tokenbucket import TokenBucket
from liqod.telemetry.events import ClusterSighted, DiscoveryBegun, DiscoveryFailed

BURST = 2048
"""Changes of one plugin's sightings that are processed at once ..."""
PACE = 50.0
"""... and per second from then on: an announcer can send without end, and a signature takes some
0.1 ms to verify."""
TICK = 1.0
"""Seconds between two checks for expired sightings."""

logger = logging.getLogger(__name__)


class DiscoveryManager:
    """Runs the discovery plugins and keeps their sightings.

    Args:
        adverts: signs and verifies adverts.
        expiry_check: seconds between checks of the expiry of a peering's certificate.

    Attributes:
        context: the same, with the configuration last read.
        book: the kept sightings.
    """

    def __init__(
        self,
        context: ClusterContext,
        plugins: PluginHost,
        adverts: Adverts | None = None,
        expiry_check: float = configuredpeering.CHECK_EVERY,
    ) -> None:
        self.context, self._expiry_check = context, expiry_check
        self._plugins = plugins
        self.book = SightingStore()
        self._adverts: Adverts = adverts or NoAdverts()
        self._introductions: dict[str, tuple[str, trio.CancelScope]] = {}
        self._seldom = Seldom()
        self._restart = trio.CancelScope()
        self._allowances: dict[str, TokenBucket] = {}
        self._ending = trio.Event()

    @property
    def own_key(self) -> str:
        """SHA-256 of this cluster's public key, in hex; empty while unknown."""
        return self._adverts.key

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Run the plugins until cancelled."""
        task_status.started()
        while True:
            await self._run_plugins()

    async def _run_plugins(self) -> None:
        """Run the plugins, beginning without sightings, until cancelled or restarted."""
        self._introductions.clear()
        self.book = SightingStore()
        with trio.CancelScope() as self._restart:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._expire, nursery)
                for provider in self._plugins.loaded.discovery:
                    nursery.start_soon(self._watch, nursery, provider)
                await trio.sleep_forever()

    def reload(self, context: ClusterContext) -> None:
        """Restart with another configuration; existing peerings are not touched."""
        self.context = context
        self._restart.cancel()

    def seen(self, cluster_id: str) -> SeenCluster | None:
        """All sightings of a cluster; None without any."""
        return self.book.seen(cluster_id)

    def clusters(self) -> Iterator[SeenCluster]:
        """All clusters seen, with their sightings."""
        return (seen for each in self.book.clusters() if (seen := self.seen(each)) is not None)

    def waits(self, cluster_id: str) -> bool:
        """True if a cluster could be peered with, and is not in the configuration."""
        if cluster_id in (self.context.cluster_id, *self._named()):
            return False
        seen = self.seen(cluster_id)
        return seen is not None and bool(seen.kubeconfig)

    async def _watch(self, nursery: trio.Nursery, provider: DiscoveryProvider) -> None:
        """Run one plugin behind its wall."""
        context = self.context
        services = Services(
            cluster_id=context.cluster_id,
            share=context.informers.share,
            configured=tuple(
                Configured(peer.id, kubeconfig=peer.kubeconfig, addresses=peer.addresses)
                for peer in context.config.peers
            ),
            announcement=self._adverts.announcement,
            publish=partial(publish, context.client),
            in_cluster=context.in_cluster,
        )
        settings = self._plugins.settings("discovery", provider.name)
        gauge = self._plugins.gauge("discovery", provider.name)

        def sighted(seen: Sighting) -> None:
            self._sighted(nursery, provider.name, seen)

        async def live() -> None:
            await trio.sleep(gauge.rests)
            run = gauge.call(_built, provider, settings, services)
            async with trio.open_nursery() as beside:
                beside.start_soon(_attend, gauge)
                await gauge.run(run, sighted)
                raise gauge.noted(PluginError("it ended by itself"))

        report = _reporter(context, f"discovery plugin {provider.name}", plugin=provider.name)
        await Supervision(live, report).forever()

    def _sighted(self, nursery: trio.Nursery, plugin: str, seen: Sighting) -> None:
        """Process a sighting; an invalid one is dropped and logged."""
        now = trio.current_time()
        before = self._before(plugin, seen)
        if before is not None:  # most sightings: verifying them again would cost the most
            self.book.take(msgspec.structs.replace(before, until=_until(seen, now)))
            return
        problem = sighting_problem(seen)
        if problem is not None:
            if self._seldom.allows((plugin, "cannot be")):
                logger.warning("the plugin %s saw a cluster that cannot be: %s", plugin, problem)
            return
        seen = seen if seen.plugin == plugin else msgspec.structs.replace(seen, plugin=plugin)
        if seen.gone:
            if self.book.drop(key_of(seen)) is not None:
                self._changed(nursery, seen)
            return
        # A sighting without expiry comes from the operator's configuration.
        allowance = self._allowances.setdefault(plugin, TokenBucket(PACE, BURST))
        if seen.ttl and not allowance.takes(now):
            if self._seldom.allows((plugin, "too fast")):
                logger.warning("the plugin %s sees more changes than are looked into", plugin)
            return
        self._keep(nursery, seen, now)

    def _before(self, plugin: str, seen: Sighting) -> KeptSighting | None:
        """The kept entry of a sighting that has no news except its expiry; else None."""
        if type(seen) is not Sighting or seen.plugin != plugin or type(seen.ttl) is not float:
            return None
        try:
            entry = self.book.entries.get(key_of(seen))
        except TypeError:  # a value that is no text has no place in the book
            return None
        if entry is None or not 0 <= seen.ttl <= LONGEST_TTL:
            return None
        told = entry.seen
        same = told is seen or told == msgspec.structs.replace(seen, ttl=told.ttl)
        return entry if same else None

    def _keep(self, nursery: trio.Nursery, seen: Sighting, now: float) -> None:
        """Keep a new or changed sighting, if there is a place for it."""
        verified, problem = self._read(seen)
        if verified is not None and verified.key == self._adverts.key:
            return  # this cluster itself
        entry = KeptSighting(
            seen=seen,
            since=time.time(),
            until=_until(seen, now),
            verified=verified,
            problem=problem,
            worth=self._worth(seen.cluster_id, verified),
        )
        most = self.book.fullest or seen.plugin
        displaced = self.book.take(entry)
        if displaced is None or displaced:
            if self._seldom.allows((most, "too many")):
                logger.warning("the plugin %s sees more clusters than are kept", most)
            if displaced is None:
                return
        for each in displaced:
            self._changed(nursery, msgspec.structs.replace(each.seen, gone=True))
        if seen.ttl:
            self._ending.set()
        self._changed(nursery, entry.seen, entry)

    def _read(self, seen: Sighting) -> tuple[AdvertContent | None, str]:
        """The content of a sighting's advert, and the reason that it is invalid."""
        if not seen.advert:
            return None, ""
        try:
            verified = self._adverts.read(seen.advert)
        except LiqodError as error:
            return None, str(error)
        if verified.cluster_id != seen.cluster_id:
            return None, f"its advert is that of {verified.cluster_id}"
        return verified, ""

    def _worth(self, cluster_id: str, verified: AdvertContent | None) -> SightingRank:
        """The rank of a sighting when not all can be kept."""
        if cluster_id in self._named():
            return SightingRank.NAMED
        return SightingRank.CLAIMED if verified is None else SightingRank.VERIFIED

    def _changed(
        self, nursery: trio.Nursery, seen: Sighting, entry: KeptSighting | None = None
    ) -> None:
        """Report a new, changed or ended sighting, and act on it."""
        told = ClusterSighted(
            plugin=seen.plugin,
            cluster_id=seen.cluster_id,
            where=seen.where,
            gone=seen.gone,
            addresses=seen.addresses,
            key=entry.verified.key if entry is not None and entry.verified is not None else "",
            problem=entry.problem if entry is not None else "",
            tenant_namespace=seen.tenant_namespace,
            secret=seen.secret,
            kubeconfig=seen.kubeconfig,
        )
        self.context.hub.publish(told)
        self._adjust(nursery, seen.cluster_id)

    async def _expire(self, nursery: trio.Nursery) -> NoReturn:
        """Drop expired sightings."""
        while True:
            if not self.book.ends:
                self._ending = trio.Event()
                await self._ending.wait()
            await sleep_until_tick(TICK)
            for entry in self.book.expired(trio.current_time()):
                self._changed(nursery, msgspec.structs.replace(entry.seen, gone=True))

    def _adjust(self, nursery: trio.Nursery, peer: str) -> None:
        """Start, end or restart the peering with a cluster, according to its present sightings."""
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
        """The kubeconfig for peering with a cluster; empty if it is not configured.

        The announcer of a cluster is not the operator: only an entry in the configuration is the
        operator's decision. A path in that entry has priority over one from a sighting.
        """
        if peer == self.context.cluster_id or peer not in self._named():
            return ""
        seen = self.seen(peer)
        return self.context.config.peer(peer).kubeconfig or (
            "" if seen is None else seen.kubeconfig
        )

    def _named(self) -> set[str]:
        return {peer.id for peer in self.context.config.peers}

    async def _introduce(self, peer: str, path: str, scope: trio.CancelScope) -> None:
        """Peer with one cluster, until success, and again when its certificate has expired."""
        PEER.set(peer)
        context, check_every = self.context, self._expiry_check

        async def live() -> NoReturn:
            while True:
                await configuredpeering.peer_with(context, peer, Path(path))
                logger.info("peered, as the configuration asks")
                await configuredpeering.until_expired(context, peer, check_every)

        with scope:
            await Supervision(
                live, _reporter(context, f"peering with {peer}", cluster=peer)
            ).forever()


def _until(seen: Sighting, now: float) -> float:
    """The Trio time at which a sighting ends unless it is repeated."""
    return now + seen.ttl if seen.ttl else math.inf


def _built(
    provider: DiscoveryProvider, settings: Any, services: Services
) -> Callable[..., Awaitable[NoReturn]]:
    """The function ``run`` of a discovery. Raises TypeError if it has none."""
    plugin = provider.build(settings, services)
    run = getattr(plugin, "run", None)
    if run is None or not waits(run):
        what = f"build returned {shown(plugin)}, without a function run to be awaited"
        raise TypeError(what)
    return run  # type: ignore[no-any-return]


async def _attend(gauge: CallGuard) -> NoReturn:
    """Mark a plugin as working when it has run for a while."""
    while True:
        await sleep_until_tick(HEALTHY_AFTER)
        gauge.well()


def _reporter(
    context: ClusterContext, what: str, *, plugin: str = "", cluster: str = ""
) -> Callable[[Failure | None, BaseException | None], None]:
    """A callback that reports the failure of a task, its reason and the next attempt."""

    failed = False

    def report(failure: Failure | None, error: BaseException | None) -> None:
        nonlocal failed
        if failure is None or error is None:
            if failed:
                context.hub.publish(DiscoveryBegun(plugin=plugin, cluster=cluster))
            failed = False
            return
        failed = True
        told = msgspec.structs.asdict(failure)
        context.hub.publish(DiscoveryFailed(plugin=plugin, cluster=cluster, **told))
        logger.warning("%s failed: %s; next try in %.0f s", what, explain(error), failure.retry_in)

    return report
