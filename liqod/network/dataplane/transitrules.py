"""Rules for endpoints at other peers, in the namespace of the peer that reaches them. Pure.

A packet out of the tunnel to such an external address is led to the alias of the endpoint, and from
the node's namespace by the other peer's. An answer, and each further packet, passes only while the
address is open and leads to the same endpoint, within the rate for the two peers. Each chain has
the other peer's id in its name, and counts what passed.
"""

from collections.abc import Iterable
from typing import Final

from liqod.model.network.ranges import PeerRanges, TransitEntrance
from liqod.network.dataplane.families import Family, families, family_of, of_family
from liqod.network.dataplane.nfttext import ADDRESS, TYPE, braces, chain, maps

PREFIX: Final = "transit"
"""How names of all begin that is of endpoints at another peer."""
EXTERNAL: Final = "external"
"""The chain for connections to external addresses."""
SERVED: Final = "meta l4proto { tcp, udp, sctp }"
"""The protocols that Services have."""


def owners(ranges: PeerRanges) -> tuple[str, ...]:
    """Ids of the other peers of whose endpoints some were opened to this one."""
    return tuple(sorted({each.owner for each in ranges.transit}))


def name(owner: str) -> str:
    """Name of the counter and the chain of packets to and from one other peer's endpoints."""
    return f"{PREFIX}-{owner}"


def sets(transit: Iterable[TransitEntrance]) -> list[str]:
    """The addresses that were opened, each with the endpoint that it leads to."""
    lines = maps(PREFIX, {each.shown: each.host for each in transit})
    pairs: dict[tuple[str, Family], list[str]] = {}
    for each in sorted(transit):
        key = (each.owner, family_of(each.shown))
        pairs.setdefault(key, []).append(f"{each.shown} . {each.host}")
    for (owner, family), elements in pairs.items():
        lines += (
            f"set {_set(owner, family)} {{",
            f"type {TYPE[family]} . {TYPE[family]}",
            f"elements = {braces(elements)}",
            "}",
        )
    return lines


def arriving(transit: Iterable[TransitEntrance]) -> list[str]:
    """Rules that let in packets to an open address."""
    shown = tuple(sorted(each.shown for each in transit))
    return [
        f"{ADDRESS[each]} daddr {braces(of_family(each, shown))} {SERVED} accept"
        for each in families(*shown)
    ]


def leading(transit: Iterable[TransitEntrance]) -> list[str]:
    """Rules that lead them to the endpoints."""
    used = families(*(each.shown for each in transit))
    return [
        f"dnat {word} to {word} daddr map @{PREFIX}{each}"
        for each in used
        for word in (ADDRESS[each],)
    ]


def judged(ranges: PeerRanges) -> list[str]:
    """Rules by which the chain for external addresses judges all packets of its connections."""
    return [
        f"ct original {ADDRESS[each]} daddr {braces(of_family(each, ranges.own.external))}"
        f" jump {EXTERNAL}"
        for each in families(*ranges.own.external)
    ]


def chains(ranges: PeerRanges) -> list[str]:
    """The chain for external addresses, and one for each other peer."""
    lines: list[str] = []
    kilobytes = max(1, ranges.transit_rate // 1000)
    rate = f"limit rate over {kilobytes} kbytes/second burst {kilobytes} kbytes"
    for owner in owners(ranges):
        lines += chain(name(owner), "", [
            f"{rate} counter name flooded drop",
            f"counter name {name(owner)} accept",
        ])  # fmt: skip
    return lines + chain(EXTERNAL, "", _external(ranges))


def _external(ranges: PeerRanges) -> list[str]:
    """Rules for connections that the peer has begun to an external address, both ways.

    One that is open no more, or leads to another host by now, ends at once, answers included.
    """
    ways = {(each.owner, family_of(each.shown)) for each in ranges.transit}
    rules = [
        f"ct original {word} daddr . {word} {end} @{_set(owner, family)} goto {name(owner)}"
        for owner, family in sorted(ways)
        for word in (ADDRESS[family],)
        for end in ("daddr", "saddr")
    ]
    # Errors come from any hop; they are about a tracked connection, and go with it.
    rules.append("meta l4proto { icmp, icmpv6 } ct state related return")
    opened = sorted({*ranges.lent, *(each.shown for each in ranges.entrances)})
    rules += [
        f"ct original {ADDRESS[each]} daddr {braces(of_family(each, opened))} return"
        for each in families(*opened)
    ]
    return [*rules, "counter name strangers drop"]


def _set(owner: str, family: Family) -> str:
    return f"{name(owner)}-{family}"
