"""Checks the order for a peer's tunnel before a kernel or a backend is given any of it. Pure.

A daemon may be wrong, or taken over by a stranger that it speaks with: text goes into rules of
nftables and to the programs of backends, and an alias that is too wide draws packets of others to
itself.
"""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

import msgspec

from liqod.model import ids
from liqod.model.crossing.addresses import parse
from liqod.model.network import rangechecks
from liqod.model.network.pathfigures import LEAST_MTU
from liqod.model.network.ranges import MOST_TRANSIT, Entrance, PeerRanges, transit_problem
from liqod.network.dataplane.names import OUTER_ADDRESS, PROXY_PORT
from liqod.network.orders.tunnels import (
    FindUnknown,
    Gateway,
    Surroundings,
    SweepUnknown,
    TunnelOrder,
)

KEY: Final = 32
"""Bytes of a key."""
MOST_MTU: Final = 9000
"""Bytes of a packet in a tunnel."""
MOST_PORT: Final = 65535
MOST_RANGES: Final = 256
"""Ranges of this cluster's own."""
ENDPOINTS: Final = 8
MOST_LENT: Final = 4096
"""Addresses outside of this cluster that one peer may reach."""
MOST_ENTRANCES: Final = 1024
"""Ports that are opened to one peer."""
MOST_KNOWN: Final = 16384
"""Peers that a request names."""
MOST_REASON: Final = 500
"""Characters of a reason, which quotes what it is about."""
MOST_TEXT: Final = 253
"""Characters of a name that the machine does not know."""
_BACKEND: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_URL: Final = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]{1,300}(/[A-Za-z0-9._~/%-]{0,300})?")
_ENDPOINT: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\[\]_-]{0,299}")


class ReservedAddresses(msgspec.Struct, frozen=True):
    """Addresses that this machine never takes for a peer's, by its own account.

    Attributes:
        api_servers: at which it reaches its API server.
        own: from which it does.
        ranges: by its own configuration.
    """

    api_servers: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()


def problem(order: TunnelOrder, reserved: ReservedAddresses | None = None) -> str:
    """The reason why an order cannot be carried out; empty if it can."""
    return next(_problems(order, reserved or ReservedAddresses()), "")[:MOST_REASON]


def peer_problem(peer: str) -> str:
    """The reason why an id is no cluster's; empty if it is one."""
    return ids.cluster_id_problem(peer) or ""


def around_problem(around: Surroundings) -> str:
    """The reason why a machine's surroundings cannot be so; empty if they can."""
    return next(_problems_around(around), "")[:MOST_REASON]


def addresses_of(order: TunnelOrder) -> int:
    """Number of the single addresses in an order, which take room in the kernel and here."""
    ranges = order.ranges
    return sum(map(len, (ranges.lent, ranges.unmasked, ranges.entrances, ranges.transit)))


def request_problem(request: FindUnknown | SweepUnknown) -> str:
    """The reason why networks of no known peer are not looked for; empty if they are."""
    named = request.known
    if isinstance(request, SweepUnknown):
        named = (*named[: MOST_KNOWN + 1], *request.found[: MOST_KNOWN + 1])
    if len(named) > MOST_KNOWN:
        return f"more than {MOST_KNOWN} peers are named"
    if any(len(each) > MOST_TEXT for each in named):
        return f"the id of a peer has more than {MOST_TEXT} characters"
    return ""


def _problems_around(around: Surroundings) -> Iterator[str]:
    yield from _addresses(filter(None, (around.address,)))
    for url in filter(None, (around.server, around.reached)):
        if not _is_server(url):
            yield f"{url[:300]!r} is no URL of an API server"


def _is_server(url: str) -> bool:
    if not _URL.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _problems(order: TunnelOrder, reserved: ReservedAddresses) -> Iterator[str]:
    if (found := ids.cluster_id_problem(order.peer)) is not None:
        yield found
    for name in ("private_key", "public_key", "peer_key"):
        if len(getattr(order, name)) != KEY:
            yield f"its {name} has not {KEY} bytes"
    yield from _of_numbers(order)
    yield from _of_gateway(order.gateway)
    yield from _of_ranges(order.ranges)
    for each in (*order.ranges.seen.pod, *order.ranges.seen.external):
        if found := rangechecks.refuse_range(each, reserved.own, *reserved.api_servers):
            yield found
        if found := rangechecks.refuse_overlap(each, reserved.ranges):
            yield found


def _of_numbers(order: TunnelOrder) -> Iterator[str]:
    """Before anything is looked at one by one: an order may have whatever a message holds."""
    ranges = order.ranges
    for what, has, most in (
        ("lent addresses", ranges.lent, MOST_LENT),
        ("addresses with a route back", ranges.unmasked, MOST_LENT),
        ("entrances", ranges.entrances, MOST_ENTRANCES),
        ("endpoints at other peers", ranges.transit, MOST_TRANSIT),
    ):
        if len(has) > most:
            yield f"{len(has)} {what} are more than {most}"
    if max(len(order.gateway.name), len(order.gateway.uid)) > MOST_TEXT:
        yield f"the name of its gateway has more than {MOST_TEXT} characters"


def _of_gateway(gateway: Gateway) -> Iterator[str]:
    if not _BACKEND.fullmatch(gateway.backend):
        yield f"{gateway.backend!r} is no name of a backend"
    if not LEAST_MTU <= gateway.mtu <= MOST_MTU:
        yield f"the MTU {gateway.mtu} is not from {LEAST_MTU} to {MOST_MTU}"
    yield from _ports((gateway.port, gateway.websocket))
    if len(gateway.endpoints) > ENDPOINTS:
        yield f"{len(gateway.endpoints)} endpoints are more than {ENDPOINTS}"
    for each in gateway.endpoints:
        if not _ENDPOINT.fullmatch(each):
            yield f"{each!r} is no endpoint"
        elif _is_of_no_peer(each.rpartition(":")[0].strip("[]")):
            yield f"nobody else is at {each}"


def _is_of_no_peer(host: str) -> bool:
    """True for an address at which there is this machine, or one of its link, and no peer."""
    found = parse(host)
    return found is not None and (
        found.is_loopback or found.is_unspecified or found.is_multicast or found.is_link_local
    )


def _of_ranges(ranges: PeerRanges) -> Iterator[str]:
    own = (*ranges.own.pod, *ranges.own.external)
    if len(own) > MOST_RANGES:
        yield f"{len(own)} ranges are more than {MOST_RANGES}"
    for text in own:
        if found := rangechecks.malformed(text):
            yield found
        elif ip_network(text).prefixlen == 0:
            yield f"{text} is every address there is"
    for theirs in (ranges.peer, ranges.seen):
        if found := rangechecks.refuse_ranges(theirs):
            yield found
    for claimed, aliases in (
        (ranges.peer.pod, ranges.seen.pod),
        (ranges.peer.external, ranges.seen.external),
    ):
        if len(claimed) != len(aliases):
            yield f"{len(claimed)} ranges of the peer have {len(aliases)} aliases"
    yield from _addresses((*ranges.lent, *ranges.lent.values(), *ranges.unmasked))
    yield from filter(None, map(rangechecks.refuse_lent, ranges.lent.values()))
    yield from _of_entrances(ranges.entrances)
    yield from _of_transit(ranges)


def _of_entrances(entrances: Iterable[Entrance]) -> Iterator[str]:
    for each in entrances:
        yield from _addresses((each.shown, each.host))
        yield from _ports((each.port, each.to))
        if each.rate < 0:
            yield f"the rate {each.rate} is below 0"
        if not _is_of_gateway(each) and (found := rangechecks.refuse_lent(each.host)):
            yield found


def _is_of_gateway(entrance: Entrance) -> bool:
    """True if it leads to Liqo's proxy, or to a tunnel that a relay has datagrams for."""
    proxy = entrance.protocol == "tcp" and entrance.to == PROXY_PORT
    relayed = entrance.protocol == "udp" and entrance.to > 0
    return entrance.host == OUTER_ADDRESS and (proxy or relayed)


def _of_transit(ranges: PeerRanges) -> Iterator[str]:
    if ranges.transit_rate < 0:
        yield f"the rate {ranges.transit_rate} is below 0"
    shown = {*(each.shown for each in ranges.transit), *ranges.lent}
    if len(shown) < len(ranges.transit) + len(ranges.lent):
        yield "an external address leads to two hosts"
    for each in ranges.transit:
        if (found := ids.cluster_id_problem(each.owner)) is not None:
            yield found
        if found := transit_problem(ranges, each):
            yield found


def _addresses(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if parse(text) is None or "%" in text:  # a zone is any text
            yield f"{text!r} is no address"


def _ports(ports: Iterable[int]) -> Iterator[str]:
    for port in ports:
        if not 0 <= port <= MOST_PORT:
            yield f"the port {port} is not from 0 to {MOST_PORT}"
