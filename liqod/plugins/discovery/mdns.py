"""Sees the clusters in the same network that announce themselves by mDNS, and announces this one.

Each daemon announces ``<cluster>._liqod._tcp.local.``: the port where it takes the handshake, its
addresses, and its advert in the TXT record. It does so again every :attr:`MdnsSettings.every`
seconds, and what is not announced again within three of these times has gone. Nobody has to ask
for it, so that a thousand clusters say a thousand things in that time, not a million.
"""

import logging
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import msgspec
import trio
from msgspec import Meta

from liqod.errors import ConfigError, TransientError
from liqod.model import endpoints
from liqod.plugins.discovery import texts
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import Announcement, DiscoveryProvider, Services, Sighting
from liqod.runtime.log import Seldom

if TYPE_CHECKING:
    from liqod.plugins.discovery.mdnsedge import Edge, MdnsService

R = TypeVar("R")

NAME = "mdns"
KEPT = 3
"""So many times the time between two announcements a cluster is kept."""
SHORTEST, LONGEST = 5.0, 3600.0
"""Seconds for which an announcement may hold."""
LOOK = 1.0
"""Seconds between two looks at whether this cluster is to be announced otherwise."""
RESCAN = 10.0
"""Seconds between two looks at the interfaces, and at what is overdue."""
OVERDUE = 0.85
"""Part of its time after which a service that was not announced again is asked for."""
MOST_ASKED = 8
"""Services that are asked for at once."""
GATHERED = 0.05
"""Seconds for which what is new gathers."""
COLLECTED = 2.0
"""Seconds for which mere repetitions gather: less than the shortest time for which one holds."""
MOST_RECORDS = 20_000
"""Records within :data:`RESCAN` beyond which somebody floods the network: 4,000 clusters that all
answer at once tell no more. The plugin then ends and begins anew after a pause."""
CLOSING = 2.0
"""Seconds for saying farewell."""
NOBODY_NEAR = (
    "no cluster is met from the network of pods: name an interface of this pod that leads to "
    "others ([plugins.settings.mdns] interfaces), or use dns-srv, [[peers]] or liqod invite"
)

Sighted = Callable[[Sighting], None]
Opening = Callable[[Sequence[str], Callable[[], None]], "Edge"]
"""Opens what speaks mDNS, as :func:`open_edge` does."""
log = logging.getLogger(__name__)


class MdnsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How mDNS is used.

    Attributes:
        interfaces: names of the interfaces; those by which others may be reached, if empty. A
            daemon in a pod has to name them.
        announce: whether this cluster is announced, too.
        every: seconds between two announcements.
    """

    interfaces: tuple[str, ...] = ()
    announce: bool = True
    every: Annotated[float, Meta(ge=1, le=1200)] = 60.0


class Mdns:
    """Listens, and announces.

    Args:
        settings: how.
        services: what it is given of the daemon.
        opening: opens what speaks mDNS, in a thread; zeroconf, if not given.
    """

    def __init__(
        self, settings: MdnsSettings, services: Services, opening: Opening | None = None
    ) -> None:
        self._settings = settings
        self._services = services
        self._opening = opening or open_edge
        self._limiter = trio.CapacityLimiter(1)
        self._news = trio.Event()
        self._seen: dict[str, tuple[Sighting, float]] = {}
        self._seldom = Seldom()

    async def run(
        self,
        sighted: Sighted,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled.

        Raises:
            ConfigError: zeroconf is not installed, or the daemon is in the network of pods.
            TransientError: there is no interface, or it is flooded.
        """
        if self._services.in_cluster and not self._settings.interfaces:
            raise ConfigError(NOBODY_NEAR)
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            try:
                token.run_sync_soon(self._wake, idempotent=True)
            except trio.RunFinishedError:
                return  # the daemon has ended before zeroconf's thread

        edge = await self._threaded(self._opening, self._settings.interfaces, wake)
        try:
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._listen, edge, sighted)
                nursery.start_soon(self._look_around, edge)
                if self._settings.announce:
                    nursery.start_soon(self._announce, edge)
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                await trio.to_thread.run_sync(edge.close, abandon_on_cancel=True)
        raise AssertionError("it listens until it is cancelled")

    def _wake(self) -> None:
        self._news.set()

    async def _threaded(self, function: Callable[..., R], *args: object) -> R:
        return await trio.to_thread.run_sync(function, *args, limiter=self._limiter)

    async def _listen(self, edge: "Edge", sighted: Sighted) -> NoReturn:
        while True:
            with trio.move_on_after(COLLECTED):
                await self._news.wait()
                await trio.sleep(GATHERED)
            self._news = trio.Event()
            now = trio.current_time()
            for name, heard in edge.take().items():
                if heard == "renewed":
                    if name in self._seen:
                        self._seen[name] = (self._seen[name][0], now)
                        sighted(self._seen[name][0])
                    continue
                new = None if heard is None or edge.is_own(heard) else sighting(heard)
                before = self._seen.pop(name, None)
                if before is not None and (new is None or new.cluster_id != before[0].cluster_id):
                    sighted(msgspec.structs.replace(before[0], gone=True))
                if new is not None:
                    self._seen[name] = (new, now)
                    sighted(new)
                await trio.lowlevel.checkpoint()

    async def _look_around(self, edge: "Edge") -> NoReturn:
        """Follow the interfaces, ask for who is overdue, and end where the network is flooded."""
        records = edge.records
        while True:
            await trio.sleep(RESCAN)
            if edge.records - records > MOST_RECORDS:
                each = (edge.records - records) / RESCAN
                raise TransientError(f"{each:.0f} mDNS records a second come in: it rests")
            records = edge.records
            if await self._threaded(edge.rescan):
                log.info("the interfaces for mDNS have changed")
            now = trio.current_time()
            over = [name for name, (seen, at) in self._seen.items() if now - at > seen.ttl]
            for name in over:
                del self._seen[name]
            edge.forget(over)
            overdue = (n for n, (seen, at) in self._seen.items() if now - at > OVERDUE * seen.ttl)
            edge.query([name for name, _ in zip(overdue, range(MOST_ASKED), strict=False)])

    async def _announce(self, edge: "Edge") -> NoReturn:
        """Announce this cluster, anew when that has changed, and again now and then."""
        announced: Announcement | None = None
        due = 0.0
        while True:
            told = self._services.announcement()
            now = trio.current_time()
            pause = self._settings.every * random.uniform(0.8, 1.0)
            if told is None and announced is not None:
                await self._threaded(edge.withdraw)
            elif told is not None and told != announced:
                await self._threaded(self._publish, edge, told)
                due = now + pause
            elif told is not None and now >= due:
                await self._threaded(edge.remind)
                due = now + pause
            announced = told
            await trio.sleep(LOOK)

    def _publish(self, edge: "Edge", told: Announcement) -> None:
        name = self._services.cluster_id
        strings = texts.pack(name, told.advert)
        edge.announce(name, strings, told.port, round(KEPT * self._settings.every))


def open_edge(interfaces: Sequence[str], wake: Callable[[], None]) -> "Edge":
    """Open what speaks mDNS. To be called in a thread: importing takes its time, too.

    Args:
        interfaces: names of those that are used; those by which others may be reached, if empty.
        wake: called in another thread when there is something new to take.

    Raises:
        ConfigError: zeroconf is not installed.
        TransientError: there is no interface.
    """
    try:
        from liqod.plugins.discovery.mdnsedge import Edge
    except ImportError as error:
        raise ConfigError("it needs zeroconf: pip install zeroconf") from error
    edge = Edge(interfaces, wake)
    edge.open()
    return edge


def sighting(heard: "MdnsService") -> Sighting | None:
    """The sighting in a service's records; None where they name no cluster."""
    cluster_id, advert = texts.unpack(heard.strings)
    if not cluster_id or not 0 < heard.port < 65536:
        return None
    return Sighting(
        cluster_id=cluster_id,
        plugin=NAME,
        where=heard.name,
        ttl=min(max(heard.ttl, SHORTEST), LONGEST),
        addresses=tuple(endpoints.join(each, heard.port) for each in heard.hosts),
        advert=advert,
    )


def build(settings: MdnsSettings, services: Services) -> Mdns:
    """Made once the daemon leads."""
    return Mdns(settings, services)


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """One way of seeing clusters: listening to the network."""
    return [DiscoveryProvider(name=NAME, build=build, config_type=MdnsSettings, on_request=True)]
