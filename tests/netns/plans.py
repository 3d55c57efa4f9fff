"""Plans to apply: one that has a bit of everything, and any that can be drawn from it."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeVar

import msgspec

from liqod.network.dataplane.values import (
    Address,
    Forwarding,
    Namespace,
    Neighbour,
    Owned,
    Route,
    Rule,
    Veth,
    Vxlan,
)

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

MARK = "liqod rome/milan"
OWNED = Owned(
    mark=MARK,
    links=("lqv0", "lqv1", "lqx"),
    tables=(18718, 1 << 30 | 7),
    priorities=(18700, 18799),
    nftables=("inet liqod", "ip liqod_nat"),
)
RULES = """
    map pods {
        type ipv4_addr : interval ipv4_addr; flags interval
        elements = { 10.71.0.0/16 : 10.244.0.0/16, 10.72.0.0/16 : 10.245.0.0/16 }
    }
    counter spoofed {}
    set seen { type ipv4_addr; flags dynamic,timeout; timeout 1m; }
    chain before {
        type nat hook prerouting priority dstnat; policy accept;
        iifname "lqx" dnat ip prefix to ip daddr map @pods
        ip saddr { 10.0.0.0/8, 192.0.2.1 } counter name spoofed drop
    }
    chain through {
        type filter hook forward priority filter; policy accept;
        iifname "lqv0" add @seen { ip saddr }
        ip saddr 192.0.2.7 counter limit rate 5/second accept
        jump last
    }
    chain last { ip6 saddr fd00::/8 counter return; }
"""


def mac(number: int) -> str:
    """A link-layer address."""
    return f"02:00:00:00:00:{number:02x}"


def everything(other: str) -> Namespace:
    """A plan with all there is; the other ends of its pairs are in the namespace `other`."""
    return Namespace(
        links=(
            Veth("lqv0", mac(1), 1500, "gw0", other),
            Veth("lqv1", mac(3), 1400, "gw1", other),
            Vxlan("lqx", mac(5), 1430, 18, 4790, "127.0.0.1"),
        ),
        addresses=(
            Address("lqv0", "169.254.19.1/32"),
            Address("lqv0", "fe80::1/64"),
            Address("lqv1", "10.9.0.1/24"),
            Address("lqv1", "10.9.0.2/24"),
            Address("lqx", "169.254.32.1/20"),
            Address("lqx", "FD18:0::1/64"),
        ),
        neighbours=(
            Neighbour("lqv0", "169.254.19.2", mac(2)),
            Neighbour("lqv0", "fe80::2", mac(2)),
            Neighbour("lqx", "169.254.32.2", mac(6)),
        ),
        forwarding=(
            Forwarding("lqx", mac(6), "192.0.2.6"),
            Forwarding("lqx", mac(7), "192.0.2.7"),
        ),
        routes=(
            Route(1 << 30 | 7, "10.71.0.0/16", "lqv0", "169.254.19.2", 1420),
            Route(1 << 30 | 7, "fd71::/64", "lqv0", "fe80::2", 1420),
            Route(1 << 30 | 7, "0.0.0.0/0", "lqv1"),
            Route(1 << 30 | 7, "10.99.0.0/16", ""),
            Route(1 << 30 | 7, "fd99::/64", ""),
            Route(18718, "10.244.7.0/24", "lqx", "169.254.32.2"),
            Route(18718, "::/0", "lqx", "fd18::2", 1400),
        ),
        rules=(
            Rule(18710, 4, 1 << 30 | 7, to="10.71.0.0/16"),
            Rule(18710, 6, 1 << 30 | 7, to="fd71:0::/64"),
            Rule(18711, 4, 18718, source="10.244.0.0/16", to="10.0.0.0/8"),
            Rule(18730, 4, 254, incoming="lqv0"),
        ),
        sysctls={"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "0"},
        tables={
            "inet liqod": RULES,
            "ip liqod_nat": """
                chain after {
                    type nat hook postrouting priority srcnat - 10; policy accept;
                    ip daddr 10.71.0.0/16 snat ip prefix to 10.244.0.0/16
                }
            """,
        },
    )


def drawn(other: str, random: Random) -> Namespace:
    """Any part of `everything` that hangs together, some of it said differently."""
    whole = everything(other)

    def some(things: Iterable[T]) -> list[T]:
        return [thing for thing in things if random.random() < 0.7]

    def maybe(thing: S, **changes: object) -> S:
        return msgspec.structs.replace(thing, **changes) if random.random() < 0.3 else thing

    links = [maybe(link, mac=mac(random.randrange(16, 20)), mtu=1300) for link in some(whole.links)]
    links = [maybe(link, vni=19) if isinstance(link, Vxlan) else link for link in links]
    names = {link.name for link in links}
    return Namespace(
        links=tuple(links),
        addresses=tuple(some(entry for entry in whole.addresses if entry.link in names)),
        neighbours=tuple(
            maybe(entry, mac=mac(9))
            for entry in some(entry for entry in whole.neighbours if entry.link in names)
        ),
        forwarding=tuple(
            maybe(entry, to="192.0.2.9")
            for entry in some(entry for entry in whole.forwarding if entry.link in names)
        ),
        routes=tuple(
            maybe(entry, mtu=1300) if entry.link else entry
            for entry in some(entry for entry in whole.routes if entry.link in {*names, ""})
        ),
        rules=tuple(maybe(rule, priority=18750) for rule in some(whole.rules)),
        tables={name: _text(text, random) for name, text in some(whole.tables.items())},
    )


def _text(text: str, random: Random) -> str:
    return text.replace("192.0.2.7", f"192.0.2.{random.randrange(7, 9)}")
