"""Speaks mDNS by zeroconf, in a thread of its own. Imported where the plugin is switched on.

Everything of zeroconf happens in its thread; what was heard is stored here, each service once,
and fetched by :meth:`Edge.take`. Everything that is kept is bounded. Of a service that was read,
zeroconf's cache keeps the pointer alone, by which farewells and names that are taken are known: the
rest was half of what a thousand clusters took. A service that is announced again as it was is known
by the hashes of its records.
"""

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from zeroconf import IPVersion, RecordUpdateListener, ServiceInfo, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser

from liqod.errors import TransientError
from liqod.plugins.discovery.adapters import Adapter, adapters, addresses, zeroconf_interfaces
from liqod.plugins.providers import MOST_ADDRESSES

TYPE: Final = "_liqod._tcp.local."
"""The service."""
MOST_NAMES = 1536
"""Services that are remembered."""
MOST_ASKED = 8
"""Questions for one service each that are under way."""
ASKED_FOR = 3000
"""Milliseconds for which a service is asked for."""
_A, _PTR, _TXT, _AAAA, _SRV, _NSEC = 1, 12, 16, 28, 33, 47


class MdnsService(msgspec.Struct, frozen=True):
    """A service as it was announced.

    Attributes:
        name: of this instance, without the type.
        server: the host's name.
        hosts: its addresses.
        port: where it listens.
        strings: of its TXT record.
        ttl: seconds for which it was announced.
    """

    name: str
    server: str
    hosts: tuple[str, ...]
    port: int
    strings: tuple[bytes, ...]
    ttl: float


class _Announcement(msgspec.Struct):
    """The records of a service in one packet.

    Attributes:
        changed: whether its pointer is new, or a record of it has expired.
        ttl: seconds for which it was announced; 0 where only the pointer was.
        server: the host's name; empty without an SRV record.
        service: hash of the SRV record; 0 without one.
        text: hash of the TXT record; 0 without one.
    """

    changed: bool = False
    ttl: float = 0.0
    server: str = ""
    service: int = 0
    text: int = 0


class _Known(msgspec.Struct, frozen=True):
    """A service that was read.

    Attributes:
        ttl: seconds for which it was announced.
        prints: hashes of its SRV record, its TXT record and its addresses; 0 for what is not known.
    """

    ttl: float
    prints: tuple[int, int, int]


RENEWED: Final = "renewed"
"""The note of a service that was announced again as it was."""
News = MdnsService | Literal["renewed"] | None
"""None of what has gone."""


class Edge(RecordUpdateListener):
    """The one place where mDNS is spoken. Methods block, and are to be called in a thread.

    Args:
        interfaces: names of those that are used; all, if empty.
        wake: called in the thread of zeroconf when there is something new to take.
        zeroconf: hears and speaks, where one is there already; ``open`` makes one.
        request: asks for one service, in the thread of zeroconf; by zeroconf, if not given.
        most: services that are remembered.

    Attributes:
        records: how many have been heard, of any service.
    """

    def __init__(
        self,
        interfaces: Sequence[str],
        wake: Callable[[], None],
        *,
        zeroconf: Zeroconf | None = None,
        request: Callable[[str], None] | None = None,
        most: int = MOST_NAMES,
    ) -> None:
        super().__init__()
        self._names = tuple(interfaces)
        self._wake, self._most = wake, most
        self._lock = threading.Lock()
        self._news: dict[str, News] = {}
        self._services: dict[str, _Known] = {}
        self._announced: dict[str, _Announcement] = {}
        self._hosts: dict[str, set[bytes]] = {}
        self._queries = 0
        self._zeroconf = zeroconf
        self._request = request or self._query_zeroconf
        self._browser: AsyncServiceBrowser | None = None
        self._own: ServiceInfo | None = None
        self._server = f"liqod-{secrets.token_hex(4)}.local."
        self._adapters: tuple[Adapter, ...] = ()
        self.records = 0

    def open(self) -> None:
        """Begin to listen, and ask who is there. Raises TransientError."""
        self._adapters = adapters(self._names)
        try:
            self._zeroconf = Zeroconf(
                interfaces=zeroconf_interfaces(self._adapters), ip_version=IPVersion.All
            )
        except OSError as error:
            raise TransientError(f"mDNS cannot be listened to: {error}") from error
        self._zeroconf.add_listener(self, None)
        loop = self._zeroconf.loop
        assert loop is not None
        loop.call_soon_threadsafe(self._browse)

    def _browse(self) -> None:
        """Ask who is there; zeroconf's thread. The listener hears the answers."""
        if self._zeroconf is not None and not self._zeroconf.done:
            self._browser = AsyncServiceBrowser(self._zeroconf, TYPE, handlers=[_ignore])

    def close(self) -> None:
        """Say that this cluster goes, and end."""
        if self._zeroconf is not None:
            self._zeroconf.close()

    def take(self) -> dict[str, News]:
        """Take the news since the last call, by instance."""
        with self._lock:
            news, self._news = self._news, {}
        return news

    def is_own(self, heard: MdnsService) -> bool:
        """True for this cluster's own announcement that comes back."""
        return heard.server.lower() == self._server

    def announce(self, name: str, strings: Iterable[bytes], port: int, ttl: int) -> None:
        """Announce this cluster, or announce it anew; under another name if that one is taken."""
        assert self._zeroconf is not None
        own = self._own
        info = ServiceInfo(
            TYPE,
            f"{name}.{TYPE}" if own is None else own.name,
            port=port,
            properties=b"".join(bytes([len(each)]) + each for each in strings),
            server=self._server,
            parsed_addresses=addresses(self._adapters),
            host_ttl=ttl,
            other_ttl=ttl,
        )
        self._own = info
        if own is None:
            self._zeroconf.register_service(info, allow_name_change=True)
        else:
            self._zeroconf.update_service(info)

    def withdraw(self) -> None:
        """Announce this cluster no more."""
        own, self._own = self._own, None
        if own is not None and self._zeroconf is not None:
            self._zeroconf.unregister_service(own)

    def remind(self) -> None:
        """Say again what was announced, in one packet."""
        if self._own is not None and self._zeroconf is not None:
            self._zeroconf.send(self._zeroconf.generate_service_broadcast(self._own, None))

    def rescan(self) -> bool:
        """Follow the interfaces of this machine; True if they have changed."""
        assert self._zeroconf is not None
        found = adapters(self._names)
        if found == self._adapters:
            return False
        self._adapters = found
        self._zeroconf.update_interfaces(zeroconf_interfaces(found))
        return True

    def query(self, names: Iterable[str]) -> None:
        """Ask for services that were not announced again in time."""
        assert self._zeroconf is not None
        loop = self._zeroconf.loop
        assert loop is not None
        for name in names:
            loop.call_soon_threadsafe(self._request, name)

    def forget(self, names: Iterable[str]) -> None:
        """Report services as new ones when they are announced again."""
        assert self._zeroconf is not None
        loop = self._zeroconf.loop
        assert loop is not None
        for name in names:
            loop.call_soon_threadsafe(self._services.pop, name, None)

    def async_update_records(self, zc: Zeroconf, now: float, records: list[Any]) -> None:
        """Take note of a packet's records, by service; zeroconf's thread."""
        self.records += len(records)
        for update in records:
            record, kind = update.new, update.new.type
            if kind in (_A, _AAAA):
                # Without its zone: the same address comes with one and without.
                self._hosts.setdefault(record.key, set()).add(record.address)
                continue
            if kind == _PTR and record.name == TYPE:
                name = record.alias
            elif kind in (_SRV, _TXT):
                name = record.name
            else:
                continue
            if not name.endswith(f".{TYPE}"):
                continue
            told = self._announced.setdefault(name, _Announcement())
            told.changed |= record.is_expired(now) or (kind == _PTR and update.old is None)
            if kind == _SRV:
                told.server, told.service = record.server_key, hash(record)
            elif kind == _TXT:
                told.text = hash(record)
            if kind != _PTR:
                told.ttl = float(record.ttl)

    def async_update_records_complete(self) -> None:
        """Lay down what has come of it; zeroconf's thread."""
        every, self._announced = self._announced, {}
        hosts, self._hosts = self._hosts, {}
        for name, told in every.items():
            addresses = hosts.get(told.server)
            prints = (told.service, told.text, hash(frozenset(addresses)) if addresses else 0)
            known = self._services.get(name)
            if known is None or told.changed or _differ(known.prints, prints):
                self._look_into(name, told, prints)
                continue
            self._drop(name, told.server)
            with self._lock:  # nobody is woken for it
                self._news.setdefault(name, RENEWED)

    def _look_into(self, name: str, told: _Announcement, prints: tuple[int, int, int]) -> None:
        """Read a service from zeroconf's cache; ask for all of it where a part is missing there."""
        zc = self._zeroconf
        if zc is None:
            return
        known = self._services.get(name)
        # A farewell may be of the pointer alone.
        if known is not None and not zc.cache.current_entry_with_name_and_alias(TYPE, name):
            del self._services[name]
            self._lay(name, None)
            return
        info = ServiceInfo(TYPE, name)
        if not info.load_from_cache(zc):
            self._request(name)
            return
        ttl = told.ttl or (known.ttl if known is not None else float(info.host_ttl))
        heard = MdnsService(
            name.removesuffix(f".{TYPE}"),
            info.server or "",
            _sorted(info.parsed_scoped_addresses()),
            info.port or 0,
            tuple(_strings(info.text or b"")),
            ttl,
        )
        self._drop(name, heard.server)
        if known is None and len(self._services) >= self._most:
            return
        self._services[name] = _Known(ttl, prints)
        self._lay(name, heard)

    def _lay(self, name: str, heard: MdnsService | None) -> None:
        with self._lock:
            self._news[name] = heard
        self._wake()

    def _drop(self, name: str, server: str) -> None:
        """Have zeroconf keep no more of a service than its pointer."""
        assert self._zeroconf is not None
        cache = self._zeroconf.cache
        for of, kinds in ((name, (_SRV, _TXT)), (server, (_A, _AAAA, _NSEC))):
            kept = cache.entries_with_name(of) if of else []
            cache.async_remove_records([each for each in kept if each.type in kinds])

    def _query_zeroconf(self, name: str) -> None:
        """Ask for one service; zeroconf's thread."""
        zc = self._zeroconf
        if zc is None or zc.loop is None or zc.done or self._queries >= MOST_ASKED:
            return
        self._queries += 1
        task = zc.loop.create_task(ServiceInfo(TYPE, name).async_request(zc, ASKED_FOR))
        task.add_done_callback(self._on_answer)

    def _on_answer(self, task: Any) -> None:
        self._queries -= 1
        with contextlib.suppress(BaseException):  # one that was asked for and does not answer
            task.result()


def _ignore(**_: Any) -> None:
    """Ignore a browser's events: the listener has their records already."""


def _differ(known: tuple[int, int, int], told: tuple[int, int, int]) -> bool:
    """True if a packet has a record that differs from the known one."""
    return any(new and new != old for new, old in zip(told, known, strict=True))


def _sorted(hosts: Iterable[str]) -> tuple[str, ...]:
    """Those that need no zone first; at most :data:`MOST_ADDRESSES`."""
    found = sorted(dict.fromkeys(hosts), key=lambda each: each.startswith("fe80:"))
    return tuple(found[:MOST_ADDRESSES])


def _strings(data: bytes) -> Iterable[bytes]:
    """The strings of a TXT record, each with its length before it."""
    at = 0
    while at < len(data):
        yield data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
