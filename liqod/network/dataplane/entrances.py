"""Entrances for single peers beside pods and lent hosts: as values, from the agreements. Pure.

The API server (``in_band`` under ``[network]``): at one external address, port 6443 leads to it in
the kernel, and port 8118 to Liqo's proxy (:mod:`liqod.network.connectproxy`). Where this
cluster's pods at a peer may speak with it (``api_server`` of that peer), so does port 443, at which
they look for it.

A relay (``relay``): tunnels of two peers to each other, where neither reaches the other directly,
go by this cluster's gateway. Each peer has an external address there, at which the others'
datagrams are led to its gateway, through the tunnels that both have to this cluster anyway. They
are encrypted by WireGuard, so that this cluster cannot read what it carries. The gateway
at the other end (``relayed_by``) lets them in at the first external address, to the ports alone at
which its own gateways listen.
"""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from liqod.model.network.ranges import Entrance
from liqod.model.objects.homeapi import HTTPS
from liqod.network.dataplane.families import family_of, first, of_family
from liqod.network.dataplane.names import OUTER_ADDRESS, PROXY_PORT, SERVER_PORT

MEGABIT: Final = 125_000
"""Bytes."""


class ServerEntrance(msgspec.Struct, frozen=True):
    """The API server, and where peers that may find it.

    Attributes:
        shown: the external address for it.
        host: its own address.
        port: its own port.
    """

    shown: str
    host: str
    port: int


def is_named(peer: str, patterns: Sequence[str]) -> bool:
    """True if a peer matches one of the patterns of a setting."""
    return any(fnmatchcase(peer, pattern) for pattern in patterns)


def of_server(server: ServerEntrance) -> Iterator[Entrance]:
    """The paths to the API server."""
    yield Entrance(server.shown, "tcp", SERVER_PORT, server.host, server.port)
    if family_of(server.shown) == 4:
        # The proxy listens where the namespace's pair ends, which has that family alone.
        yield Entrance(server.shown, "tcp", PROXY_PORT, OUTER_ADDRESS, PROXY_PORT)


def of_pods(server: ServerEntrance) -> Entrance:
    """The path of this cluster's pods at a peer to the API server."""
    return Entrance(server.shown, "tcp", HTTPS, server.host, server.port)


def has_proxy(entrances: Iterable[Entrance]) -> bool:
    """True if one of the entrances leads to Liqo's proxy."""
    return any((each.host, each.to) == (OUTER_ADDRESS, PROXY_PORT) for each in entrances)


def of_relay(shown: str, gateway: str, rate: int) -> Entrance:
    """The path to another peer's gateway.

    Args:
        shown: the external address for it.
        gateway: the alias at which it is reached.
        rate: megabits per second.
    """
    return Entrance(shown, "udp", 0, gateway, rate=rate * MEGABIT)


def of_gateways(external: Sequence[str], ports: Iterable[int]) -> Iterator[Entrance]:
    """The paths from a relay to this cluster's own gateways.

    Args:
        external: this cluster's external ranges.
        ports: at which they listen for their peers' datagrams.
    """
    # The namespace's pair, where they listen, has that family alone.
    for prefix in of_family(4, external)[:1]:
        for port in sorted(ports):
            yield Entrance(first(prefix), "udp", port, OUTER_ADDRESS, port)
