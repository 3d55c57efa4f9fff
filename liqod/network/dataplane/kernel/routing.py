"""Routes and routing rules, in netlink's form.

Every function here works in the namespace of the :class:`~liqod.netlink.Netlink` that it is given.
Our routes and rules carry a protocol number of our own, by which an administrator recognizes them.
"""

import errno
import ipaddress
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from liqod.netlink import (
    CREATE,
    EXCLUSIVE,
    REPLACE,
    Attribute,
    Netlink,
    NetlinkRefused,
    attributes,
    inside,
    number,
    read_number,
    read_text,
)
from liqod.network.dataplane.kernel.kernellinks import INET, INET6
from liqod.network.dataplane.values import Family, Route, Rule

PROTOCOL = 87
"""Ours, as ``ip route`` and ``ip rule`` show it: not among those of ``rtnetlink.h``."""

NEW_ROUTE, DELETE_ROUTE, GET_ROUTE = 24, 25, 26
NEW_RULE, DELETE_RULE, GET_RULE = 32, 33, 34

_ROUTE = struct.Struct("=BBBBBBBBI")
_TO, _SOURCE, _OUT, _GATEWAY, _METRIC, _METRICS, _TABLE = 1, 2, 4, 5, 6, 8, 15
_USUAL_6 = 1024
_MTU = 2
_UNICAST, _UNREACHABLE = 1, 7
_ON_LINK = 4
_HERE = 253

_INCOMING, _PRIORITY = 3, 6
_LOOK = 1
_INVERTED = 2
_KNOWN = {1, 2, 3, 6, 13, 14, 15, 18, 21}
"""Attributes that a :class:`Rule` may have; a mark or a port would make it another rule."""
_ANY_SCOPE = 255

_FAMILIES: tuple[tuple[int, Family], ...] = ((INET, 4), (INET6, 6))


class Entry(msgspec.Struct, frozen=True):
    """A route as the kernel has it.

    Attributes:
        route: its value. The name of an unknown link is its number.
        index: number of its link; 0 for none.
    """

    route: Route
    index: int


def routes(
    netlink: Netlink,
    tables: Iterable[int],
    names: Mapping[int, str],
    metrics: Collection[int] | None = None,
) -> list[Entry]:
    """The routes of the tables; links are named by their numbers.

    Args:
        metrics: of those that are looked for; None for all.
    """
    # Most of a shared table is others', and is not worth reading.
    signs = [number(_METRIC, each) for each in metrics or ()]
    found = [
        _a_route(answer, names)
        for table in tables
        for _, family in _FAMILIES
        for answer in _dump(netlink, table, family)
        if metrics is None or any(sign in answer for sign in signs)
    ]
    return [each for each in found if metrics is None or each.route.metric in metrics]


def is_empty(netlink: Netlink, table: int, family: Family) -> bool:
    """True if a table has no route of a family."""
    return not _dump(netlink, table, family)


def _dump(netlink: Netlink, table: int, family: Family) -> list[bytes]:
    asked = _ROUTE.pack(INET if family == 4 else INET6, 0, 0, 0, 0, 0, 0, 0, 0)
    try:
        return netlink.dump(GET_ROUTE, asked + number(_TABLE, table))
    except NetlinkRefused as error:
        if error.errno == errno.ENOENT:
            # Nobody has written to that table yet.
            return []
        raise


class Place(NamedTuple):
    """The place of a route or a rule.

    Attributes:
        table: the number of the table that it is in, or leads to.
        metric: a route's; 0 for a rule.
        incoming: a rule's incoming link.
    """

    table: int
    metric: int = 0
    incoming: str = ""


def place(body: bytes, *, rule: bool) -> Place:
    """The place that a message about a route or a rule names."""
    said = attributes(body, _ROUTE.size)
    table = read_number(said.get(_TABLE), _ROUTE.unpack_from(body)[4])
    if rule:
        return Place(table, incoming=read_text(said.get(_INCOMING)))
    return Place(table, read_number(said.get(_METRIC)))


def set_route(netlink: Netlink, route: Route, number_of: int) -> None:
    """Writes a route in place of the one to the same destination with its metric."""
    to = ipaddress.ip_network(route.to)
    head: dict[str, int] = {"proto": PROTOCOL, "type": _UNICAST if route.link else _UNREACHABLE}
    if route.via:
        head["flags"] = _ON_LINK
    elif route.link and to.version == 4:
        head["scope"] = _HERE
    more: list[Attribute] = []
    if route.mtu:
        more.append(("RTA_METRICS", inside(("RTAX_MTU", route.mtu))))
    path = _path(route, to, number_of if route.link else 0)
    if route.metric:
        more.append(("RTA_PRIORITY", route.metric))
    netlink.change(NEW_ROUTE, CREATE | REPLACE, *path, *more, **_head(to), **head)


def delete_route(netlink: Netlink, entry: Entry) -> None:
    """Deletes a route, of any writer and any type."""
    route = entry.route
    to = ipaddress.ip_network(route.to)
    path = _path(route, to, entry.index)
    metric = ("RTA_PRIORITY", route.metric or (_USUAL_6 if to.version == 6 else 0))
    netlink.change(DELETE_ROUTE, 0, *path, metric, **_head(to), scope=_ANY_SCOPE)


def rules(netlink: Netlink) -> list[Rule]:
    """Every rule that looks into a table and that a :class:`Rule` can describe."""
    found = []
    for family, version in _FAMILIES:
        body = _ROUTE.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
        for answer in netlink.dump(GET_RULE, body):
            _, to, source, service, table, _, _, action, flags = _ROUTE.unpack_from(answer)
            said = attributes(answer, _ROUTE.size)
            plain = action == _LOOK and not service and not flags & _INVERTED
            if plain and said.keys() <= _KNOWN:
                found.append(
                    Rule(
                        read_number(said.get(_PRIORITY)),
                        version,
                        read_number(said.get(_TABLE), table),
                        _prefix(said.get(_TO), to),
                        _prefix(said.get(_SOURCE), source),
                        read_text(said.get(_INCOMING)),
                    )
                )
    return found


def set_rule(netlink: Netlink, rule: Rule, *, there: bool = True) -> None:
    """Writes a rule, which is not there yet, or takes it away."""
    to = ipaddress.ip_network(rule.to) if rule.to else None
    source = ipaddress.ip_network(rule.source) if rule.source else None
    wanted: list[Attribute] = [("FRA_TABLE", rule.table), ("FRA_PRIORITY", rule.priority)]
    if there:
        wanted.append(("FRA_PROTOCOL", PROTOCOL))
    if to:
        wanted.append(("FRA_DST", str(to.network_address)))
    if source:
        wanted.append(("FRA_SRC", str(source.network_address)))
    if rule.incoming:
        wanted.append(("FRA_IIFNAME", rule.incoming))
    netlink.change(
        *((NEW_RULE, CREATE | EXCLUSIVE) if there else (DELETE_RULE, 0)),
        *wanted,
        family=INET if rule.family == 4 else INET6,
        dst_len=to.prefixlen if to else 0,
        src_len=source.prefixlen if source else 0,
        action=_LOOK,
    )


def _a_route(answer: bytes, names: Mapping[int, str]) -> Entry:
    family, length, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(answer)
    said = attributes(answer, _ROUTE.size)
    gateway = said.get(_GATEWAY)
    metric = read_number(said.get(_METRIC))
    index = read_number(said.get(_OUT))
    route = Route(
        read_number(said.get(_TABLE), table),
        _prefix(said.get(_TO), length) or ("0.0.0.0/0" if family == INET else "::/0"),
        # IPv6 routes that refuse are on the loopback device.
        names.get(index, f"#{index}") if kind != _UNREACHABLE else "",
        str(ipaddress.ip_address(gateway)) if gateway else "",
        read_number(attributes(said.get(_METRICS, b"")).get(_MTU)),
        0 if family == INET6 and metric == _USUAL_6 else metric,
    )
    return Entry(route, index)


def _path(
    route: Route, to: ipaddress.IPv4Network | ipaddress.IPv6Network, number_of: int
) -> list[Attribute]:
    """The attributes of a route's table, destination, link and gateway."""
    found: list[Attribute] = [("RTA_TABLE", route.table)]
    if to.prefixlen:
        found.append(("RTA_DST", str(to.network_address)))
    if number_of:
        found.append(("RTA_OIF", number_of))
    if route.via:
        found.append(("RTA_GATEWAY", route.via))
    return found


def _head(to: ipaddress.IPv4Network | ipaddress.IPv6Network) -> dict[str, int]:
    return {"family": INET if to.version == 4 else INET6, "dst_len": to.prefixlen}


def _prefix(address: bytes | None, length: int) -> str:
    return f"{ipaddress.ip_address(address)}/{length}" if address else ""
