"""Prefixes and addresses by their family, 4 or 6. Pure."""

import ipaddress
from collections.abc import Iterable

from liqod.model.crossing.addresses import parse
from liqod.network.dataplane.values import Family as Family


def family_of(text: str) -> Family:
    """The family of an address or a prefix.

    Raises:
        ValueError: it is neither.
    """
    return 4 if ipaddress.ip_interface(text).version == 4 else 6


def families(*texts: str) -> tuple[Family, ...]:
    """The families that occur, IPv4 first."""
    return tuple(sorted({family_of(text) for text in texts}))


def of_family(family: Family, texts: Iterable[str]) -> tuple[str, ...]:
    """Those of one family, in their order."""
    return tuple(text for text in texts if family_of(text) == family)


def addresses_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Those that are addresses: nodes have names among theirs."""
    return tuple(str(each) for each in map(parse, sorted(texts)) if each is not None)


def first(prefix: str) -> str:
    """The first address of a range: its network's own."""
    return str(ipaddress.ip_network(prefix).network_address)
