"""The text of a peer's tables of nftables: filters and translation of addresses. Pure.

Each table is written for families and prefixes that are used, one rule a line, so that what a
machine has can be read beside this page. A chain at priority ``mangle`` in ``prerouting`` comes
after connections are tracked and before anything is translated.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from liqod.model.network.ranges import Entrance, PeerRanges
from liqod.network.dataplane import names, transitrules
from liqod.network.dataplane.families import Family, families, family_of, first, of_family
from liqod.network.dataplane.names import INSIDE, PeerNames, Side
from liqod.network.dataplane.nfttext import ADDRESS, TYPE, braces, chain, maps
from liqod.tunnel.confinement import USER

TUNNEL: Final[dict[Family, str]] = {4: names.TUNNEL_NETWORK, 6: names.TUNNEL_NETWORK6}
HEADERS: Final[dict[Family, int]] = {4: 40, 6: 60}
"""Bytes of headers of a TCP segment without options, by family."""
NEIGHBOURS: Final = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255"
PROBES: Final = "limit rate 100/second burst 200 packets"
"""Rate limit of a peer's probes and echoes to the gateway itself."""
ECHOES: Final = "limit rate 20/second burst 40 packets"
"""Rate limit of a peer's echoes to a node's own address among pods."""
CUTS: Final = "limit rate 2000/second burst 4000 packets"
"""Rate limit of the answers that end connections to a dead peer, of TCP and of all others."""
OWN: Final = "{ local, broadcast, anycast, multicast }"
"""Types of addresses whose packets a node delivers to itself."""
COUNTERS: Final = ("spoofed", "strangers", "flooded")
"""Packets dropped: a source that is not the peer's; a destination that was not lent; too many."""
OVERLAY_COUNTERS: Final = ("forged", "spoofed", "strangers")
"""Packets dropped on a node: of the overlay, from none of its nodes; with a source that the sending
node does not have; for the node itself."""
INNER_MAC: Final = "@th,176,48"
"""In a packet of the overlay: the link-layer address of the sender, behind the headers of UDP (8
bytes) and VXLAN (8) and the receiver's (6)."""
RELAYED: Final = "relayed"
"""Counter of packets through an entrance with a rate."""


def inside(called: PeerNames, ranges: PeerRanges, side: Side, mtu: int) -> str:
    """The table of a peer's own namespace."""
    tunnel = f'"{called.tunnel}"'
    return "\n".join(
        (
            *(f"counter {name} {{ }}" for name in _counters(ranges)),
            *maps("lent", ranges.lent),
            *transitrules.sets(ranges.transit),
            *chain("check", "type filter hook prerouting priority mangle", [
                f"iifname {tunnel} jump arriving",
            ]),
            *chain("arriving", "", _arriving(ranges, side)),
            *chain("outward", "type nat hook prerouting priority dstnat", [
                *(f'iifname "{INSIDE}" {rule}' for rule in _aliases_to_own(ranges)),
                *(f"iifname {tunnel} {_leads(each)}" for each in sorted(ranges.entrances)),
                *(
                    f"iifname {tunnel} dnat {word} to {word} daddr map @lent{each}"
                    for each in families(*ranges.lent)
                    for word in (ADDRESS[each],)
                ),
                *(f"iifname {tunnel} {rule}" for rule in transitrules.leading(ranges.transit)),
            ]),
            *chain("inward", "type nat hook postrouting priority srcnat", [
                *(f'oifname "{INSIDE}" {rule}' for rule in _own_to_aliases(ranges)),
                *(f"oifname {tunnel} {rule}" for rule in _unknown_sources(ranges)),
            ]),
            *transitrules.chains(ranges),
            *chain("pass", "type filter hook forward priority filter; policy drop", [
                # Packets without a tracked connection are not translated either.
                "ct state invalid drop",
                *_limits(ranges),
                *transitrules.judged(ranges),
                f'iifname "{INSIDE}" oifname {tunnel} accept',
                f'iifname {tunnel} oifname "{INSIDE}" accept',
            ]),
            *chain("segments", "type filter hook forward priority mangle", [
                f"meta nfproto ipv{each} tcp flags syn tcp option maxseg size set"
                f" {mtu - HEADERS[each]}"
                for each in _families(ranges)
            ]),
            *chain("gateway", "type filter hook input priority filter; policy drop", [
                'iifname "lo" accept',
                f"iifname {tunnel} udp dport {names.PROBE_PORT} {PROBES} accept",
                f"iifname {tunnel} udp dport {names.PROBE_PORT} counter name flooded drop",
                NEIGHBOURS + " accept",
                "ct state established,related accept",
                f"meta l4proto {{ icmp, icmpv6 }} {PROBES} accept",
                "meta l4proto { icmp, icmpv6 } counter name flooded drop",
                "counter name strangers drop",
            ]),
        )
    )  # fmt: skip


def cut(called: PeerNames) -> str:
    """The table that ends connections to a silent peer.

    Its answers take the way of the peer's own, so that each client believes them. Packets out of
    the tunnel are not concerned, nor are the tunnel's own probes, which are not forwarded.
    """
    way = f'iifname "{INSIDE}" oifname "{called.tunnel}"'
    return "\n".join(
        chain("cut", "type filter hook forward priority filter - 1", [
            f"{way} meta l4proto tcp {CUTS} reject with tcp reset",
            f"{way} {CUTS} reject with icmpx port-unreachable",
            f"{way} drop",
        ])
    )  # fmt: skip


def node(called: PeerNames, ranges: PeerRanges) -> str:
    """The peer's table in the gateway's own namespace."""
    veth = f'"{called.veth}"'
    used = _families(ranges)
    seen = [
        # A CNI that hides who sends to another node's pods would hide a peer from that node's own
        # rules, and from NetworkPolicies.
        f"iifname {veth} {word} daddr {braces(pods)} {rule}"
        for each in used
        if (pods := of_family(each, ranges.own.pod))
        for word in (ADDRESS[each],)
        for rule in _unchanged(of_family(each, (*ranges.seen.pod, *ranges.seen.external)))
    ]
    answered = [
        # Other hosts have no route to an alias, unless their IP declares it.
        f"iifname {veth} {word} daddr != {braces(pods)}{unmasked} masquerade"
        for each in used
        if (pods := of_family(each, ranges.own.pod))
        for word in (ADDRESS[each],)
        for unmasked in (_but(word, of_family(each, ranges.unmasked)),)
    ]
    return "\n".join(
        (
            "counter strangers { }",
            *chain("sources", "type nat hook postrouting priority srcnat - 10", [
                *(f"oifname {veth} {rule}" for rule in _unchanged(ranges.own.pod)),
                *seen,
                *answered,
            ]),
            *_to_this_node([f"iifname {veth}"], [
                f"{_to(each.host, each.protocol, each.to)} accept"
                for each in sorted(ranges.entrances)
            ]),
        )
    )  # fmt: skip


def overlay(
    pods: Iterable[str],
    nodes: Mapping[str, str],
    port: int,
    sources: Mapping[str, Iterable[str]] | None = None,
    aliases: Iterable[str] = (),
) -> str:
    """The overlay's table on a node.

    A device that learns nothing still accepts any packet to its port. So a packet of the
    overlay is accepted only from a node, with the link-layer address of that very node inside; and
    no pod may send one to a node, which the CNI may have come from this node's own address, nor may
    the process that reads what strangers send, by a socket of its own.

    Args:
        pods: the ranges of all pods of this cluster.
        nodes: the nodes that send to this one: link-layer addresses by the nodes' own.
        port: UDP port of the overlay.
        sources: accepted from another node, by its link-layer address: its pods' ranges and
            its own addresses. Where none are named, as on all nodes but the gateway, all may.
        aliases: of peers, whose packets are for pods alone, by whichever interface the CNI brings
            them; none on the gateway, where each peer's own table has the rule.
    """
    device = f'"{names.OVERLAY}"'
    prefixes = tuple(pods)
    used = families(*prefixes)
    lines = [f"counter {name} {{ }}" for name in OVERLAY_COUNTERS]
    for each in families(*nodes):
        pairs = [f"{at} . 0x{mac.replace(':', '')}" for at, mac in nodes.items()]
        word = ADDRESS[each]
        outer = f"udp dport {port} {word}"
        lines += chain("underlay", "type filter hook input priority filter - 1", [
            f"{outer} saddr . {INNER_MAC} != {braces(pairs)} counter name forged drop",
            # Of the other family there is no node.
            f"udp dport {port} meta nfproto != ipv{each} counter name forged drop",
        ])  # fmt: skip
        lines += chain("forgers", "type filter hook forward priority filter - 1", [
            f"{outer} daddr {braces(nodes)} counter name forged drop",
        ])  # fmt: skip
        lines += chain("taken", "type filter hook output priority filter - 1", [
            f"meta skuid {USER} {outer} daddr {braces(nodes)} counter name forged drop",
        ])  # fmt: skip
    if sources:
        for each in used:
            listed = ", ".join(
                f"{mac} . {prefix}"
                for mac, every in sources.items()
                for prefix in of_family(each, every)
            )
            lines += [
                f"set nodes{each} {{",
                f"type ether_addr . {TYPE[each]}",
                "flags interval",
                f"elements = {{ {listed} }}",
                "}",
            ]
        lines += chain("check", "type filter hook prerouting priority mangle", [
            f"iifname {device} {NEIGHBOURS} accept",
            *(
                f"iifname {device} ether saddr . {ADDRESS[each]} saddr != @nodes{each}"
                " counter name spoofed drop"
                for each in used
            ),
        ])  # fmt: skip
    lines += chain("sources", "type nat hook postrouting priority srcnat - 10", [
        f"oifname {device} {rule}" for rule in _unchanged(prefixes)
    ])  # fmt: skip
    lines += chain("host", "type filter hook input priority filter", [
        f"iifname {device} ct state new meta l4proto != {{ icmp, icmpv6 }}"
        " counter name strangers drop",
    ])  # fmt: skip
    prefixes = tuple(aliases)
    lines += _to_this_node(
        f"{ADDRESS[each]} saddr {braces(of_family(each, prefixes))}" for each in families(*prefixes)
    )
    return "\n".join(lines)


def _to_this_node(peers: Iterable[str], opened: Iterable[str] = ()) -> list[str]:
    """Chains that keep peers from a node's own addresses.

    They come before destinations are changed: a node port, which kube-proxy answers at such an
    address, is led elsewhere afterwards, and is not for peers either.

    Args:
        peers: matches, one for each sign by which peers' packets are recognized.
        opened: rules that let in.
    """
    ways = [f"{each} jump begun" for each in peers]
    if not ways:
        return []
    return [
        *chain("begun", "", [
            "ct state established,related accept",
            f"fib daddr type != {OWN} accept",
            # An address of the node's among its pods', by which the other side sees that packets
            # come through: the peer's own namespace lets no other one in.
            f"icmp type echo-request {ECHOES} accept",
            f"icmpv6 type echo-request {ECHOES} accept",
            *opened,
            "counter name strangers drop",
        ]),
        *chain("before", "type filter hook prerouting priority dstnat - 1", ways),
    ]  # fmt: skip


def _unchanged(pods: Iterable[str]) -> list[str]:
    """Rules that keep a pod's own source: the first translation of a connection counts."""
    return [
        f"{word} saddr {prefix} snat {word} prefix to {prefix}"
        for prefix in pods
        for word in (ADDRESS[family_of(prefix)],)
    ]


def _arriving(ranges: PeerRanges, side: Side) -> list[str]:
    """Rules for packets that come out of the tunnel, before anything is translated."""
    used = _families(ranges)
    rules = [
        "ct state invalid drop",
        # Errors come from any hop; they are about a tracked connection, and go with it.
        "meta l4proto { icmp, icmpv6 } ct state related accept",
    ]
    ends: dict[Family, str] = {4: names.TUNNEL_ADDRESSES[side], 6: names.TUNNEL_ADDRESSES6[side]}
    if 6 in used:
        rules.append(NEIGHBOURS + " accept")
    # Kernels look for routers and report their multicast groups: nothing is forged by that.
    rules.append("ip6 daddr ff00::/8 drop")
    for each in sorted({4, *used}):
        word = ADDRESS[each]
        rules.append(f"{word} saddr {TUNNEL[each]} {word} daddr {ends[each]} accept")
    for family, word in ADDRESS.items():
        sources = of_family(family, (*ranges.peer.pod, *ranges.peer.external))
        version = f"meta nfproto ipv{family}"
        strange = f" {word} saddr != {braces(sources)}" if sources else ""
        rules.append(f"{version}{strange} counter name spoofed drop")
    # Answers alone: who has begun a connection here is let in with each of its packets, so that
    # what is lent no more ends at once.
    rules.append("ct direction reply ct state established accept")
    for each in used:
        pods = of_family(each, ranges.own.pod)
        if pods:
            rules.append(f"{ADDRESS[each]} daddr {braces(pods)} accept")
    # A map can be queried only by using it, so that the addresses are listed again.
    for each in families(*ranges.lent):
        lent = of_family(each, sorted(ranges.lent))
        rules.append(f"{ADDRESS[each]} daddr {braces(lent)} accept")
    rules += transitrules.arriving(ranges.transit)
    rules += [
        f"{_to(each.shown, each.protocol, each.port)} accept" for each in sorted(ranges.entrances)
    ]
    rules.append("counter name strangers drop")
    return rules


def _to(host: str, protocol: str, port: int) -> str:
    """The match of packets for a port of a host, or for any of its ports (0)."""
    word = ADDRESS[family_of(host)]
    return f"{word} daddr {host} " + (
        f"{protocol} dport {port}" if port else f"meta l4proto {protocol}"
    )


def _leads(entrance: Entrance) -> str:
    word = ADDRESS[family_of(entrance.host)]
    host = f"[{entrance.host}]" if word == "ip6" and entrance.to else entrance.host
    goal = f"{host}:{entrance.to}" if entrance.to else host
    what = _to(entrance.shown, entrance.protocol, entrance.port)
    return f"{what} dnat {word} to {goal}"


def _limits(ranges: PeerRanges) -> list[str]:
    """A connection is identified by its first destination, in both directions."""
    rules: list[str] = []
    for each in sorted(ranges.entrances):
        if each.rate:
            word = ADDRESS[family_of(each.shown)]
            what = f"ct original {word} daddr {each.shown}"
            kilobytes = max(1, each.rate // 1000)
            rate = f"limit rate over {kilobytes} kbytes/second burst {kilobytes} kbytes"
            rules += (f"{what} {rate} counter name flooded drop", f"{what} counter name {RELAYED}")
    return rules


def _counters(ranges: PeerRanges) -> tuple[str, ...]:
    limited = (RELAYED,) if any(each.rate for each in ranges.entrances) else ()
    return (*COUNTERS, *limited, *map(transitrules.name, transitrules.owners(ranges)))


def _aliases_to_own(ranges: PeerRanges) -> list[str]:
    return [
        f"{word} daddr {alias} dnat {word} prefix to {own}"
        for word, own, alias in _remapped(ranges)
    ]


def _own_to_aliases(ranges: PeerRanges) -> list[str]:
    return [
        f"{word} saddr {own} snat {word} prefix to {alias}"
        for word, own, alias in _remapped(ranges)
    ]


def _unknown_sources(ranges: PeerRanges) -> list[str]:
    """The peer reaches our pods: all others, such as nodes, have the first external address."""
    rules: list[str] = []
    for each in _families(ranges):
        shown = of_family(each, ranges.own.external)
        if shown:
            known = braces((*of_family(each, ranges.own.pod), TUNNEL[each]))
            word = ADDRESS[each]
            rules.append(f"{word} saddr != {known} snat {word} to {first(shown[0])}")
    return rules


def _remapped(ranges: PeerRanges) -> list[tuple[str, str, str]]:
    """The family's word, the peer's own range and our alias of it, where the two differ."""
    pairs = (
        *zip(ranges.peer.pod, ranges.seen.pod, strict=True),
        *zip(ranges.peer.external, ranges.seen.external, strict=True),
    )
    return [(ADDRESS[family_of(own)], own, alias) for own, alias in pairs if own != alias]


def _families(ranges: PeerRanges) -> tuple[Family, ...]:
    return families(*ranges.seen.pod, *ranges.seen.external)


def _but(word: str, addresses: tuple[str, ...]) -> str:
    """Leaves destinations out; a match of its own, since they may lie in a range of another's."""
    return f" {word} daddr != {braces(addresses)}" if addresses else ""
