"""Places for the connections of a face: grants them, and selects the one to close for one more.

The source with most connections loses one: compared first by network (of IPv6 48 bits, then 56,
then 64; of IPv4 24 bits, then the address), and of that source the connection that came first. So a
source that opens many loses one of its own, and one that opens a single one keeps it. The number of
places of each face is derived in :mod:`liqod.runtime.account`.
"""

import errno
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Annotated, Final, Literal, TypeVar

import msgspec
import trio
from msgspec import Meta

from liqod.runtime.log import Seldom

log = logging.getLogger(__name__)

S = TypeVar("S", bound=trio.abc.Stream)
T = TypeVar("T")

_full = Seldom()

SourceSort = Literal["", "loopback", "link-local", "private", "public"]
"""Kind of the address of a source; empty for a source without one."""
Why = Literal["full", "memory", "source", "time"]
"""Reason why a connection is refused or ended: all places are taken, too many bytes are kept of its
requests, or its source has as many places, or as much of the time, as one may have."""

BREATH: Final = 0.1
"""Seconds of rest where the kernel has no more files or memory for a connection."""
_CAPACITY: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
_NO_LISTENER: Final = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)


class ConnectionSlot:
    """One connection's place.

    Attributes:
        source: its source.
        scope: ends the connection.
        idle: it may be ended for another one.
        buffered: kept bytes of its requests.
        forget: releases these.
    """

    __slots__ = ("buffered", "forget", "idle", "places", "scope", "source")

    def __init__(
        self,
        places: "ConnectionLimiter",
        source: str,
        scope: trio.CancelScope,
        forget: Callable[[], None] | None,
    ) -> None:
        self.places, self.source, self.scope, self.forget = places, source, scope, forget
        self.idle, self.buffered = True, 0

    def release(self) -> None:
        """Release the place: the connection has ended, or has another place."""
        self.places.release(self)

    def weigh(self, buffered: int) -> bool:
        """Note the number of kept bytes of its requests; False where that is too much.

        Another that has more is ended.
        """
        return self.places.weigh(self, buffered)


class PlacesReport(msgspec.Struct, frozen=True):
    """The places of a face in another process of this machine.

    Attributes:
        taken: number of connections that have one.
        refused: since the process began, as :attr:`ConnectionLimiter.refused` has it: the kind of
            source, the reason, the number.
    """

    taken: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    refused: Annotated[
        tuple[tuple[SourceSort, Why, Annotated[int, Meta(ge=0, le=1 << 53)]], ...],
        Meta(max_length=64),
    ] = ()


class ConnectionLimiter:
    """The connections of one face.

    Args:
        most: in all.
        of_one: of one source; None: as many.
        max_buffered: kept bytes of the requests of all, at the most; None: not counted.
        stays: as in :class:`liqod.runtime.account.PortShare`.
        name: their purpose, for the log; empty: nothing is logged.

    Attributes:
        refused: number of refused or ended ones, by the kind of their source and the reason; those
            of another process that serves the face are among them.
        elsewhere: the last report of that process; it counts there, against places of its own.
    """

    def __init__(
        self,
        most: int,
        of_one: int | None = None,
        max_buffered: int | None = None,
        stays: bool = False,
        name: str = "",
    ) -> None:
        self._name = name
        self.most = most
        self.of_one = most if of_one is None else of_one
        self.max_buffered = max_buffered
        self._stays = stays
        self._buffered = 0
        self._sources: dict[str, dict[ConnectionSlot, None]] = {}
        self._count = 0
        self._by_network: Counter[str] = Counter()
        self.refused: Counter[tuple[str, Why]] = Counter()
        self.elsewhere = PlacesReport()

    @property
    def report(self) -> PlacesReport:
        """The report of this process's places, for another one."""
        refused = ((sort, why, count) for (sort, why), count in sorted(self.refused.items()))
        return msgspec.convert({"taken": len(self), "refused": tuple(refused)}, PlacesReport)

    def take_report(self, report: PlacesReport) -> None:
        """Count what another process refuses: the difference to its last report.

        A process that began anew counts from 0.
        """
        before = {(sort, why): count for sort, why, count in self.elsewhere.refused}
        for sort, why, count in report.refused:
            had = before.get((sort, why), 0)
            self.refused[sort, why] += count - had if count >= had else count
        self.elsewhere = report

    def __len__(self) -> int:
        return self._count

    @property
    def buffered(self) -> int | None:
        """Kept bytes of the requests of all; None: not counted."""
        return None if self.max_buffered is None else self._buffered

    def enter(
        self,
        source: str,
        scope: trio.CancelScope | None = None,
        *,
        idle: bool = True,
        forget: Callable[[], None] | None = None,
    ) -> ConnectionSlot | None:
        """A place for one more; None where no other is ended for it.

        Args:
            source: its source (:func:`source_of`, or a proved one).
            scope: ends it in favour of another; None: it is never ended so.
            idle: whether that may happen at once.
            forget: releases its kept bytes, before it would do so itself.
        """
        place = ConnectionSlot(self, source, scope or trio.CancelScope(), forget)
        place.idle = idle and scope is not None
        self._add(place)
        why: Why = "full"
        if len(self._sources[source]) > self.of_one:
            victim, why = self._first_idle(source), "source"
        elif self._count > self.most:
            victim = self._most_crowded()
        else:
            return place
        if self._count > self.most:
            self._log_full(victim or place)
        self.refuse((victim or place).source, why)
        if victim is place or victim is None:
            self.release(place)
            return None
        self._end(victim)
        return place

    @contextmanager
    def within(self, source: str, seconds: float) -> Iterator[trio.CancelScope]:
        """Hold a place during the block, for so many seconds; cancelled where there is none."""
        with trio.move_on_after(seconds) as scope:
            place = self.enter(source, scope)
            if place is None:
                scope.cancel()
            try:
                yield scope
            finally:
                if place is not None:
                    place.release()

    def release(self, place: ConnectionSlot) -> None:
        """Remove a connection that has ended, if it has a place."""
        mine = self._sources.get(place.source, {})
        if place not in mine:
            return
        del mine[place]
        if not mine:
            del self._sources[place.source]
        self._count -= 1
        self._buffered -= place.buffered
        for network in networks_of(place.source):
            self._by_network[network] -= 1
            if not self._by_network[network]:
                del self._by_network[network]

    def refuse(self, source: str, why: Why) -> None:
        """Count a connection that is refused, or ended for another."""
        self.refused[sort_of(source), why] += 1

    def weigh(self, place: ConnectionSlot, buffered: int) -> bool:
        """As :meth:`ConnectionSlot.weigh`."""
        if place in self._sources.get(place.source, {}):
            self._buffered += buffered - place.buffered
        place.buffered = buffered
        while self.max_buffered is not None and self._buffered > self.max_buffered:
            victim = self._heaviest()
            self.refuse((victim or place).source, "memory")
            if victim is None or victim is place:
                return False
            self._end(victim)
        return True

    def _log_full(self, place: ConnectionSlot) -> None:
        """Log now and then that all places are taken, and the source of the ended connection."""
        if self._name and _full.allows(self._name):
            extra = {"places": self.most, "from": place.source}
            log.warning("all places are taken: %s", self._name, extra=extra)

    def _add(self, place: ConnectionSlot) -> None:
        self._sources.setdefault(place.source, {})[place] = None
        self._count += 1
        self._by_network.update(networks_of(place.source))

    def _end(self, place: ConnectionSlot) -> None:
        self.release(place)
        if place.forget is not None:
            place.forget()
        place.scope.cancel()

    def _first_idle(self, source: str) -> ConnectionSlot | None:
        return next((each for each in self._sources[source] if each.idle), None)

    def _most_crowded(self) -> ConnectionSlot | None:
        """The idle connection to close when a new one needs its place; None where none is idle.

        It is the first idle one of the source with most connections that has any. Of sources with
        as many, it is the one that came first; where these stay, the one that came last, which may
        be the newcomer.
        """
        found: ConnectionSlot | None = None
        most = [0]
        for source in self._sources:
            crowds = [self._by_network[each] for each in networks_of(source)]
            if crowds > most or (self._stays and crowds == most):
                idle = self._first_idle(source)
                if idle is not None:
                    found, most = idle, crowds
        return found

    def _heaviest(self) -> ConnectionSlot | None:
        """The first idle one that holds something, of the source that holds most."""
        weights = {
            source: sum(each.buffered for each in mine) for source, mine in self._sources.items()
        }
        for source in sorted(weights, key=weights.__getitem__, reverse=True):
            for each in self._sources[source]:
                if each.idle and each.buffered:
                    return each
        return None


_seldom = Seldom(60.0)


async def accepted(accept: Callable[[], Awaitable[T]], seldom: Seldom = _seldom) -> T:
    """The next connection of a listener, after any time without kernel resources for one.

    Args:
        accept: accepts one.
        seldom: limits the log messages about missing resources.

    Raises:
        OSError: there is no listener.
    """
    while True:
        try:
            return await accept()
        except OSError as error:
            if error.errno in _NO_LISTENER:
                raise
            if error.errno in _CAPACITY:
                if seldom.allows(error.errno):
                    why = error.strerror or str(error)
                    log.warning("no connection can be taken: %s (LimitNOFILE=)", why)
                await trio.sleep(BREATH)


async def serve_listeners(
    welcome: Callable[[S], Awaitable[object]], listeners: Sequence[trio.abc.Listener[S]]
) -> None:
    """Hand each connection to a task of its own, until cancelled."""
    async with trio.open_nursery() as nursery:
        for each in listeners:
            nursery.start_soon(serve_one, welcome, each, nursery)


async def serve_one(
    welcome: Callable[..., Awaitable[object]],
    listener: "trio.abc.Listener[trio.abc.Stream]",
    nursery: trio.Nursery,
) -> None:
    """The same for one listener, which ends with this, with tasks in a nursery."""
    async with listener:
        while True:
            nursery.start_soon(_attend, welcome, await accepted(listener.accept))


async def _attend(welcome: Callable[..., Awaitable[object]], stream: trio.abc.Stream) -> None:
    """Welcome a connection, which ends with this, also where it was cancelled before it began."""
    try:
        await welcome(stream)
    finally:
        await trio.aclose_forcefully(stream)


def source_of(address: str) -> str:
    """The source to which an address belongs: itself for IPv4, its network of 64 bits for IPv6."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found, 64), strict=False))
    return str(found)


@lru_cache(4096)
def networks_of(source: str) -> tuple[str, ...]:
    """The networks that a source lies in, the widest first, and itself."""
    try:
        found = ip_network(source)
    except ValueError:
        return (source,)
    lengths = (24,) if found.version == 4 else (48, 56)
    wide = (found.supernet(new_prefix=each) for each in lengths if each < found.prefixlen)
    return (*(str(each) for each in wide), source)


@lru_cache(4096)
def sort_of(source: str) -> str:
    """The kind of address of a source, of which there are few; empty: it is no address."""
    try:
        found = ip_network(source)
    except ValueError:
        return ""
    for sort in ("loopback", "link_local", "private"):
        if getattr(found, f"is_{sort}"):
            return sort.replace("_", "-")
    return "public"


def address_of(stream: object) -> str:
    """The other host's address, as its source (:func:`source_of`); empty where there is none."""
    sock = getattr(stream, "socket", stream)
    try:
        found = sock.getpeername()  # type: ignore[attr-defined]
    except (OSError, AttributeError):  # it has left already, or is no socket
        return ""
    return source_of(str(found[0])) if isinstance(found, tuple) else ""
