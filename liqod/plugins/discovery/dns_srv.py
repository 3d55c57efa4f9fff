"""Sees the clusters that an organisation lists in DNS: SRV records of ``_liqod._tcp.DOMAIN``.

    _liqod._tcp.example.org.   300 SRV 0 0 6446 milan.example.org.
    _liqod.milan.example.org.  300 TXT "id=milan" "a=v1.…" "a=…"

The target of each SRV record is where a cluster's daemon takes the handshake. A TXT record
``_liqod.<target>`` has its id and its advert; without one its id is the first label of the target,
and nobody vouches for it. Answers are asked for again when their TTL is over, those that say that
there is nothing when the zone's SOA record says so.

The resolver is dnspython's, which is imported where this plugin is switched on.
"""

import logging
import random
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec
import trio

from liqod.errors import ConfigError, TransientError
from liqod.model import endpoints
from liqod.plugins.discovery import texts
from liqod.plugins.discovery.zone import SERVICE, TEXT
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import DiscoveryProvider, Services, Sighting
from liqod.runtime.log import Seldom

NAME = "dns-srv"
SOONEST, LATEST = 5.0, 3600.0
"""Seconds between two questions for one name, whatever its TTL says."""
EARLY = 0.1
"""Part of that time by which a question may come earlier, so that not all daemons ask at once."""
PATIENCE = 30.0
"""Seconds beyond the TTL for which a sighting holds while no name server answers."""
LIFETIME = 8.0
"""Seconds for which one question is tried."""
MOST_TARGETS = 256
"""SRV records of one domain that are looked at."""
AT_ONCE = 8
"""Questions of one domain that are under way."""
FAILURES = 3
"""Rounds without an answer of any domain after which the plugin says that it fails."""

Sighted = Callable[[Sighting], None]
log = logging.getLogger(__name__)


class DnsSrvSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to look.

    Attributes:
        domains: that list clusters.
        nameservers: addresses that are asked, each with a port if it is not 53; those of the
            machine, if empty.
    """

    domains: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.domains:
            raise ValueError("domains is empty: name one that has SRV records _liqod._tcp.DOMAIN")
        for domain in self.domains:
            if not endpoints.is_host(domain) or ":" in domain:
                raise ValueError(f"domains: {domain!r} is no domain")
        for server in self.nameservers:
            place(server)


def place(server: str) -> tuple[str, int]:
    """Address and port of a name server. Raises ValueError."""
    found = endpoints.split(server) or endpoints.split(endpoints.join(server, 53))
    if found is None or (not found[0].replace(".", "").isdigit() and ":" not in found[0]):
        raise ValueError(
            f"nameservers: {server!r} is no address, such as 10.0.0.10 or [fd00::a]:53"
        )
    return found


class ServerFailed(TransientError):
    """A name server has answered that it cannot (SERVFAIL)."""


class DnsAnswer(msgspec.Struct, frozen=True):
    """The answer of a name server.

    Attributes:
        records: those of the kind that was asked for; none where there are none.
        ttl: seconds for which that is so.
        secure: whether the name server says that it has verified it (DNSSEC, the bit AD).
    """

    records: tuple[Any, ...]
    ttl: float
    secure: bool


class DnsResolver:
    """Asks name servers, by dnspython.

    Raises:
        ConfigError: dnspython is not installed, or no name server is known.
    """

    def __init__(self, nameservers: tuple[str, ...]) -> None:
        try:
            import dns.asyncresolver
            import dns.exception
            import dns.flags
            import dns.nameserver
            import dns.resolver
        except ImportError as error:
            raise ConfigError("it needs dnspython: pip install dnspython") from error
        try:
            self._resolver = dns.asyncresolver.Resolver(configure=not nameservers)
        except dns.exception.DNSException as error:
            raise ConfigError(
                f"no name server is known: {error}; name one in nameservers"
            ) from error
        if nameservers:
            self._resolver.nameservers = [
                dns.nameserver.Do53Nameserver(*place(each)) for each in nameservers
            ]
        self._resolver.lifetime = LIFETIME
        self._resolver.use_edns(0, dns.flags.DO, 1232)
        self._resolver.flags = dns.flags.RD | dns.flags.AD

    async def query(self, name: str, kind: str) -> DnsAnswer:
        """Ask for the records of one kind of a name.

        Raises:
            ServerFailed: the answer is SERVFAIL.
            TransientError: there is no answer.
        """
        import dns.exception
        import dns.flags
        import dns.resolver

        try:
            found = await self._resolver.resolve(
                f"{name}.", kind, raise_on_no_answer=False, search=False
            )
        except dns.resolver.NXDOMAIN as error:
            response = next(iter(error.kwargs.get("responses", {}).values()), None)
            return DnsAnswer((), _negative(response), _secure(response))
        except (dns.exception.DNSException, OSError) as error:
            made = ServerFailed if _failed(error) else TransientError
            raise made(f"{name}: {_why(error)}") from error
        if found.rrset is None:
            return DnsAnswer((), _negative(found.response), _secure(found.response))
        return DnsAnswer(tuple(found.rrset), float(found.rrset.ttl), _secure(found.response))


def _failed(error: Exception) -> bool:
    """True if a name server was reached and answered SERVFAIL."""
    import dns.rcode

    tried = getattr(error, "kwargs", {}).get("errors", ())
    answers = [each[4] for each in tried if each[4] is not None]
    return any(each.rcode() == dns.rcode.SERVFAIL for each in answers)


def _why(error: Exception) -> str:
    """The first line of what dnspython says, or what kind of failure it was."""
    return str(error).partition("\n")[0][:200] or type(error).__name__


def _negative(response: Any) -> float:
    """Seconds for which there is nothing: of the SOA record, by RFC 2308; else the shortest."""
    import dns.rdatatype

    for rrset in getattr(response, "authority", ()):
        if rrset.rdtype == dns.rdatatype.SOA:
            return float(min(rrset.ttl, rrset[0].minimum))
    return SOONEST


def _secure(response: Any) -> bool:
    import dns.flags

    return response is not None and bool(response.flags & dns.flags.AD)


class DnsSrv:
    """Asks for each domain as often as its answers grow old.

    Args:
        settings: what to ask, and whom.
        resolver: asks; dnspython's, if not given.
    """

    def __init__(self, settings: DnsSrvSettings, resolver: DnsResolver | None = None) -> None:
        self._settings = settings
        self._resolver = resolver or DnsResolver(settings.nameservers)
        self._seen: dict[tuple[str, str], Sighting] = {}
        self._failures = dict.fromkeys(settings.domains, 0)
        self._seldom = Seldom()

    async def run(
        self,
        sighted: Sighted,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled.

        Raises:
            TransientError: of no domain anything can be asked.
        """
        task_status.started()
        async with trio.open_nursery() as nursery:
            for domain in self._settings.domains:
                nursery.start_soon(self._follow, domain, sighted)
        raise AssertionError("domains are followed until cancelled")

    async def _follow(self, domain: str, sighted: Sighted) -> NoReturn:
        while True:
            pause = min(max(await self.look(domain, sighted), SOONEST), LATEST)
            await trio.sleep(max(pause * (1 - EARLY * random.random()), SOONEST))

    async def look(self, domain: str, sighted: Sighted) -> float:
        """Ask once for the clusters of a domain, and report those that are new, or gone.

        Args:
            domain: one of the settings' domains.
            sighted: called with each sighting.

        Returns: seconds after which to ask again.

        Raises:
            TransientError: of no domain anything can be asked.
        """
        try:
            lasts = await self._round(domain, sighted)
        except TransientError as error:
            self._failed(domain, error)
            return SOONEST * float(2 ** min(self._failures[domain], 4))
        self._failures[domain] = 0
        return lasts

    def _failed(self, domain: str, error: TransientError) -> None:
        """Take note of a domain that cannot be asked; raises it where none can."""
        self._failures[domain] += 1
        if min(self._failures.values()) >= FAILURES:
            raise error
        if self._seldom.allows(domain):
            log.warning("clusters of a domain cannot be looked up: %s", error)

    async def _round(self, domain: str, sighted: Sighted) -> float:
        """Ask once; after how many seconds to ask again. Raises TransientError."""
        services = await self._resolver.query(f"{SERVICE}{domain.rstrip('.')}", "SRV")
        targets = [each for each in map(_target, services.records) if each][:MOST_TARGETS]
        found: dict[str, Sighting] = {}
        limiter = trio.CapacityLimiter(AT_ONCE)
        lasts = [services.ttl]

        async def look(target: str, port: int) -> None:
            async with limiter:
                texts_of = await self._texts(target)
            lasts.append(texts_of.ttl)
            seen = self._sighting(domain, target, port, services, texts_of)
            found[seen.where] = seen

        async with trio.open_nursery() as nursery:
            for target, port in dict.fromkeys(targets):
                nursery.start_soon(look, target, port)
        for (of, where), seen in list(self._seen.items()):
            new = found.get(where)
            if of == domain and (new is None or new.cluster_id != seen.cluster_id):
                del self._seen[of, where]
                sighted(msgspec.structs.replace(seen, gone=True))
        for where, seen in found.items():
            self._seen[domain, where] = seen
            sighted(seen)
        return min(lasts)

    async def _texts(self, target: str) -> DnsAnswer:
        """The TXT record of a target; without an answer it is as if there were none."""
        try:
            return await self._resolver.query(f"{TEXT}{target}", "TXT")
        except TransientError as error:
            if self._seldom.allows("TXT"):
                log.warning("what a cluster says of itself cannot be looked up: %s", error)
            return DnsAnswer((), SOONEST, secure=False)

    def _sighting(
        self, domain: str, target: str, port: int, services: DnsAnswer, told: DnsAnswer
    ) -> Sighting:
        """The sighting in one SRV record and its TXT record."""
        cluster_id, advert = "", ""
        if told.records:
            cluster_id, advert = texts.unpack(told.records[0].strings)
        ttl = min(services.ttl, told.ttl) if told.records else services.ttl
        secure = services.secure and (told.secure or not told.records)
        return Sighting(
            cluster_id=cluster_id or target.partition(".")[0],
            plugin=NAME,
            where=f"{domain}/{target}:{port}",
            ttl=min(max(ttl, SOONEST), LATEST) + PATIENCE,
            addresses=(endpoints.join(target, port),),
            advert=advert,
            proof="DNSSEC" if secure else "",
        )


def _target(record: Any) -> tuple[str, int] | None:
    """Name and port of an SRV record; None where it names nothing that could be asked."""
    name = record.target.to_text(omit_final_dot=True).lower()
    good = name and endpoints.is_host(name) and ":" not in name and 0 < record.port < 65536
    return (name, int(record.port)) if good else None


def build(settings: DnsSrvSettings, services: Services) -> DnsSrv:
    """Made once the daemon leads. Raises ConfigError where dnspython is missing."""
    return DnsSrv(settings)


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """One way of seeing clusters: a list in DNS."""
    return [DiscoveryProvider(name=NAME, build=build, config_type=DnsSrvSettings, on_request=True)]
