"""Asks the cluster's DNS server for a name of the set, for ``liqod doctor`` and ``install``.

The question goes to the address of the DNS server's Service, which means something on the cluster's
nodes and in its pods. Elsewhere nothing answers, or the server of another cluster that has the same
addresses: that is found out by a name of this cluster, which is asked for first.
"""

import ipaddress
from typing import Any, Final, NamedTuple

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SERVICES
from liqod.errors import LiqodError, TransientError
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import endpoints
from liqod.model.clusterset.corefile import ZONE
from liqod.model.clusterset.importing import derived_name
from liqod.model.view.servicefacts import Asked, ImportFacts, SharedServices, Verdict
from liqod.plugins.checks.services import SETTLES
from liqod.plugins.discovery.dns_srv import DnsResolver, ServerFailed
from liqod.procedures.clusterdns import DNS

WITHIN: Final = 3.0
"""Seconds for all questions together."""
VERSION: Final = f"dns-version.{ZONE}"
"""A name that each server of the zone has, with a TXT record."""
NOBODY: Final = f"no-such-service.default.svc.{ZONE}"
PORT: Final = 53
RESPONDER: Final = "liqod-dns"
"""The Service of liqod's own DNS server of the names of the set, and the name of its pods."""


class ServiceName(NamedTuple):
    """A name, and the address that it has."""

    name: str
    address: str

    async def resolves(self, resolver: DnsResolver) -> bool:
        """True if the answer has the address. Raises TransientError."""
        kind = "AAAA" if ":" in self.address else "A"
        wanted = ipaddress.ip_address(self.address)
        found = (await resolver.query(self.name, kind)).records
        return any(ipaddress.ip_address(each.address) == wanted for each in found)


async def with_answer(
    client: Client, known: SharedServices | None, namespace: str
) -> SharedServices | None:
    """The same with the DNS server's answer, where it may serve the names of the set.

    Args:
        client: of the cluster.
        known: its Services of the set; None for none.
        namespace: liqod's own; who may make Services elsewhere names no server of liqod's.
    """
    if known is None or known.missing:
        return known
    try:
        own = await _own(client, namespace)
        server = await _first(client, DNS)
    except LiqodError:
        return known
    dns = known.dns
    if server is not None and (own is not None or dns.names.directive or not dns.place):
        dns = msgspec.structs.replace(dns, asked=await ask(server, known))
    if own is not None:
        dns = msgspec.structs.replace(dns, responder=await _ask_own(own, known, dns.asked))
    return msgspec.structs.replace(known, dns=dns)


async def _own(client: Client, namespace: str) -> tuple[ServiceName, int] | None:
    """The Service of liqod's own DNS server, if an installation has made it."""
    found = await client.find(SERVICES, RESPONDER, namespace)
    marks = ((found or {}).get("metadata") or {}).get("labels") or {}
    return _server(found) if found is not None and labels.MANAGED_BY_LIQOD in marks else None


async def _first(client: Client, chosen: Selection) -> tuple[ServiceName, int] | None:
    found = await client.list(SERVICES, chosen)
    return next(filter(None, map(_server, found)), None)


async def _ask_own(
    server: tuple[ServiceName, int], known: SharedServices, cluster: Asked | None
) -> Asked:
    """The answer of liqod's own server, which has no name by which it is told from another's.

    Args:
        server: it.
        known: the Services of the set.
        cluster: the answer of the cluster's DNS server, by which it is known where this runs.
    """
    (_, address), port = server
    name = _name_of(known)
    asked = name.name if name is not None else VERSION
    if cluster is not None and cluster.verdict in ("silent", "foreign"):
        return Asked(address, asked, cluster.verdict)
    verdict: Verdict = "silent"
    with trio.move_on_after(WITHIN):
        verdict = await _verdict(DnsResolver((endpoints.join(address, port),)), None, name)
    if cluster is None and verdict != "answered":
        verdict = "silent" if verdict == "silent" else "foreign"
    return Asked(address, asked, verdict)


def _server(service: dict[str, Any]) -> tuple[ServiceName, int] | None:
    """The Service of the DNS server, as a name and a port; None without an address."""
    spec, metadata = service["spec"], service["metadata"]
    address = str(spec.get("clusterIP") or "None")
    if address == "None":
        return None
    ports = (each["port"] for each in spec.get("ports") or () if each.get("protocol") == "UDP")
    return ServiceName(f"{metadata['name']}.{metadata['namespace']}.svc", address), next(
        ports, PORT
    )


async def ask(server: tuple[ServiceName, int], known: SharedServices) -> Asked:
    """The answer about an import's name, or, where there is none, about the zone itself."""
    (service, address), port = server
    resolver = DnsResolver((endpoints.join(address, port),))
    home = known.dns.names.home
    chosen = _oldest(known)
    name, own = _name_of(known), ServiceName(f"{service}.{home}", address)
    if chosen is not None:
        own = ServiceName(f"{derived_name(chosen.key)}.{chosen.key[0]}.svc.{home}", chosen.ips[0])
    verdict: Verdict = "silent"
    with trio.move_on_after(WITHIN):
        verdict = await _verdict(resolver, own, name)
    return Asked(address, name.name if name is not None else VERSION, verdict)


def _oldest(known: SharedServices) -> ImportFacts | None:
    """The oldest import: CoreDNS may remember for half a minute that there was no such name."""
    settled = [each for each in known.imports if each.ours and each.ips and each.age >= SETTLES]
    return max(settled, default=None, key=lambda each: each.age)


def _name_of(known: SharedServices) -> ServiceName | None:
    chosen = _oldest(known)
    if chosen is None:
        return None
    return ServiceName(f"{chosen.key[1]}.{chosen.key[0]}.svc.{ZONE}", chosen.ips[0])


async def _verdict(
    resolver: DnsResolver, own: ServiceName | None, name: ServiceName | None
) -> Verdict:
    """The verdict on a DNS server.

    Args:
        resolver: asks it.
        own: a name of this cluster; None where it is asked for none.
        name: the name of an import; None where there is none.
    """
    try:
        if own is not None and not await own.resolves(resolver):
            return "foreign"
    except ServerFailed:
        return "foreign"
    except TransientError:
        return "silent"
    try:
        if name is not None:
            return "answered" if await name.resolves(resolver) else "absent"
        await resolver.query(NOBODY, "A")  # SERVFAIL, while CoreDNS waits for kinds or rights
        return "answered" if (await resolver.query(VERSION, "TXT")).records else "absent"
    except ServerFailed:
        return "failed"
    except TransientError:
        return "silent"
