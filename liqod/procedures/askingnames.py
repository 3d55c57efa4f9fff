"""Asks the cluster's DNS server for a name of the set, for ``liqod doctor`` and ``install``.

The question goes to the address of the DNS server's Service, which means something on the cluster's
nodes and in its pods. Elsewhere nothing answers, or the server of another cluster that has the same
addresses: that is found out by a name of this cluster, which is asked for first.
"""

import ipaddress
from typing import Any, Final, Literal, NamedTuple

import msgspec
import trio

from liqod.apimachinery.kinds import SERVICES
from liqod.errors import LiqodError, TransientError
from liqod.kube.client import Client
from liqod.model import endpoints
from liqod.model.clusterset.corefile import ZONE
from liqod.model.clusterset.importing import derived_name
from liqod.model.view.servicefacts import Asked, SharedServices
from liqod.plugins.checks.services import SETTLES
from liqod.plugins.discovery.dns_srv import DnsResolver, ServerFailed
from liqod.procedures.clusterdns import DNS

WITHIN: Final = 3.0
"""Seconds for all questions together."""
VERSION: Final = f"dns-version.{ZONE}"
"""A name that each server of the zone has, with a TXT record."""
NOBODY: Final = f"no-such-service.default.svc.{ZONE}"
PORT: Final = 53


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


async def with_answer(client: Client, known: SharedServices | None) -> SharedServices | None:
    """The same with the DNS server's answer, where it may serve the names of the set.

    Args:
        client: of the cluster.
        known: its Services of the set; None for none.
    """
    if known is None or known.missing or (known.dns.place and not known.dns.names.directive):
        return known
    try:
        found = await client.list(SERVICES, DNS)
    except LiqodError:
        return known
    server = next(filter(None, map(_server, found)), None)
    if server is None:
        return known
    asked = await ask(server, known)
    return msgspec.structs.replace(known, dns=msgspec.structs.replace(known.dns, asked=asked))


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
    # The oldest: CoreDNS may remember for half a minute that there was no such name.
    settled = [each for each in known.imports if each.ours and each.ips and each.age >= SETTLES]
    chosen = max(settled, default=None, key=lambda each: each.age)
    own, name = ServiceName(f"{service}.{home}", address), None
    if chosen is not None:
        namespace, ip = chosen.key[0], chosen.ips[0]
        own = ServiceName(f"{derived_name(chosen.key)}.{namespace}.svc.{home}", ip)
        name = ServiceName(f"{chosen.key[1]}.{namespace}.svc.{ZONE}", ip)
    verdict: Literal["answered", "absent", "failed", "silent", "foreign"] = "silent"
    with trio.move_on_after(WITHIN):
        verdict = await _verdict(resolver, own, name)
    return Asked(address, name.name if name is not None else VERSION, verdict)


async def _verdict(
    resolver: DnsResolver, own: ServiceName, name: ServiceName | None
) -> Literal["answered", "absent", "failed", "silent", "foreign"]:
    try:
        if not await own.resolves(resolver):
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
