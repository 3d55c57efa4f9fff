"""The records of a zone in which :mod:`.dns_srv` sees a cluster. Pure.

    _liqod._tcp.example.org.   300 IN SRV 0 0 6446 milan.example.org.
    _liqod.milan.example.org.  300 IN TXT "id=milan" "a=v1.…" "a=…"

An SRV record names a host. Where the daemon is reached at an address, the host is called like the
cluster, below the domain, and has a record of that address.
"""

import ipaddress
from collections.abc import Iterable

import msgspec

from liqod.errors import ConfigError
from liqod.model import endpoints
from liqod.plugins.discovery import texts

SERVICE, TEXT = "_liqod._tcp.", "_liqod."
TTL = 300
"""Seconds for which an answer may be kept: so long a change takes to be seen everywhere."""
LONGEST_LABEL = 63
"""Characters between two dots of a name (RFC 1035)."""


class Record(msgspec.Struct, frozen=True):
    """One record.

    Attributes:
        name: whose it is, with the dot at its end.
        ttl: seconds for which it may be kept.
        type: ``SRV``, ``TXT``, ``A`` or ``AAAA``.
        value: as a zone file has it.
    """

    name: str
    ttl: int
    type: str
    value: str


def records(
    domain: str, cluster_id: str, advert: str, addresses: Iterable[str]
) -> tuple[Record, ...]:
    """The records of one cluster.

    Args:
        domain: by which others look for clusters.
        cluster_id: its id.
        advert: what it says of itself, signed.
        addresses: ``HOST:PORT`` at which its daemon takes the handshake.

    Raises:
        ConfigError: a name cannot be, or an address is good on its own machine or link alone.
    """
    domain = domain.rstrip(".").lower()
    if not endpoints.is_host(domain) or ":" in domain:
        raise ConfigError(f"{domain!r} is no domain, such as clusters.example.org")
    strings = " ".join(f'"{each.decode("ascii")}"' for each in texts.pack(cluster_id, advert))
    found: list[Record] = []
    for each in addresses:
        place = endpoints.split(each)
        if place is None:
            raise ConfigError(f"{each!r} is no host:port")
        host, port = place
        target = f"{host.rstrip('.').lower()}."
        address = _address(host)
        if address is not None:
            target = f"{cluster_id}.{domain}."
            found.append(_record(target, "A" if address.version == 4 else "AAAA", str(address)))
        found.append(_record(f"{SERVICE}{domain}.", "SRV", f"0 0 {port} {target}"))
        found.append(_record(f"{TEXT}{target}", "TXT", strings))
    order = ("SRV", "TXT", "A", "AAAA")
    return tuple(sorted(dict.fromkeys(found), key=lambda each: order.index(each.type)))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is; None for a name.

    Raises:
        ConfigError: nobody else reaches it.
    """
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    here = found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast
    if here or "%" in host:
        raise ConfigError(
            f"{host} is not reached from other machines: say by --address HOST:PORT where this "
            "cluster's daemon is"
        )
    return found


def _record(name: str, kind: str, value: str) -> Record:
    """One record. Raises ConfigError where there can be no such name."""
    whole = name.rstrip(".")
    longest = max(map(len, whole.split(".")))
    if len(whole) > endpoints.LONGEST_NAME or longest > LONGEST_LABEL:
        raise ConfigError(f"there can be no DNS name {whole}: it is too long")
    return Record(name, TTL, kind, value)
