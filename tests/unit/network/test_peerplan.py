"""A peer's data path as values: what it says, and that it holds for any ranges."""

import ipaddress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.model.network.ranges import ClusterCidrs, Entrance, PeerRanges, TransitEntrance
from liqod.network.dataplane import names, ownership
from liqod.network.dataplane.families import families
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan, plan
from liqod.network.dataplane.values import Rule, Veth

SAID = Path(__file__).parents[2] / "fixtures" / "network" / "peerplan.txt"
"""A whole plan, to be read. Where it is meant to change, the test's message has the new one."""

BOTH = PeerRanges(
    own=ClusterCidrs(("10.244.0.0/16", "fd00:244::/56"), ("10.70.0.0/16", "fd00:70::/112")),
    peer=ClusterCidrs(("10.244.0.0/16", "fd00:244::/56"), ("10.90.0.0/16", "fd00:70::/112")),
    seen=ClusterCidrs(("10.71.0.0/16", "fd00:71::/56"), ("10.90.0.0/16", "fd00:72::/112")),
    lent={"10.70.0.1": "192.168.7.9", "fd00:70::1": "fd00:7::9"},
    unmasked=("fd00:7::9",),
    entrances=(
        Entrance("10.70.0.2", "tcp", 6443, "172.31.0.1", 6443),
        Entrance("10.70.0.3", "udp", 0, "10.99.0.0", rate=12_500_000),
        Entrance("fd00:70::2", "tcp", 6443, "fd00:7::1", 6443),
    ),
    transit=(
        TransitEntrance("oslo", "10.73.0.9", "10.70.0.4"),
        TransitEntrance("turin", "10.72.0.5", "10.70.0.5"),
        TransitEntrance("turin", "fd00:74::5", "fd00:70::4"),
    ),
    transit_rate=125_000_000,
)


def said(found: PeerPlan) -> str:
    """A plan in lines."""
    lines = [str(found.names)]
    for title, part in (("in the node's namespace", found.node), ("in its own", found.inside)):
        lines.append(f"\n# {title}")
        for group in (
            *(part.links, part.addresses, part.neighbours, part.rules, part.routes),
            part.forwarding,
        ):
            lines += [" ".join((type(each).__name__, *_filled(each))) for each in group]
        lines += [f"{path} = {value}" for path, value in part.sysctls.items()]
        for name, text in part.tables.items():
            lines += [f"table {name} {{", text, "}"]
    return "\n".join(lines) + "\n"


def _filled(each: msgspec.Struct) -> list[str]:
    return [f"{key}={value}" for key, value in msgspec.structs.asdict(each).items() if value]


def test_a_plan_of_both_families() -> None:
    found = said(plan(PeerNames("rome", "milan"), BOTH, "server", 1340))
    assert found == SAID.read_text(), found


def test_packets_follow_what_the_way_carries_and_interfaces_do_not():
    found = plan(PeerNames("rome", "milan"), BOTH, "server", 1340, carries=1300)
    assert {link.mtu for link in (*found.node.links, *found.inside.links)} == {1340}
    ways = [each for each in (*found.node.routes, *found.inside.routes) if each.mtu]
    outward = [each for each in found.inside.routes if each.table == names.OUTWARD_TABLE]
    assert {each.mtu for each in ways} == {1300}
    assert set(outward) <= set(ways)
    assert "maxseg size set 1260" in found.inside.tables[names.INSIDE_TABLE]
    # Nothing below what IPv6 needs, whatever was measured.
    with pytest.raises(ValueError, match="1280"):
        plan(PeerNames("rome", "milan"), BOTH, "server", 1340, carries=1279)


@st.composite
def ranges(draw: st.DrawFn) -> PeerRanges:
    """Ranges of one or both families; in each the aliases have the sizes of the peer's own."""
    own: list[list[str]] = [[], []]
    peer: list[list[str]] = [[], []]
    seen: list[list[str]] = [[], []]
    for family in draw(st.sampled_from([(4,), (6,), (4, 6)])):
        for which in (0, 1):
            own[which].append(draw(networks(family)))
            peer[which].append(other := draw(networks(family)))
            seen[which].append(draw(networks(family, ipaddress.ip_network(other).prefixlen)))
    lent = {str(ipaddress.ip_network(each)[1]): "192.0.2.9" for each in own[1] if "." in each}
    return PeerRanges(
        own=ClusterCidrs(tuple(own[0]), tuple(own[1])),
        peer=ClusterCidrs(tuple(peer[0]), tuple(peer[1])),
        seen=ClusterCidrs(tuple(seen[0]), tuple(seen[1])),
        lent=lent if draw(st.booleans()) else {},
    )


def networks(family: int, length: int | None = None) -> st.SearchStrategy[str]:
    """Prefixes of a family."""
    bits = 32 if family == 4 else 128
    lengths = st.integers(8, bits - 2) if length is None else st.just(length)
    base = st.integers(0, 2**bits - 1)
    make = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    return st.tuples(base, lengths).map(
        lambda pair: str(make((pair[0] >> (bits - pair[1]) << (bits - pair[1]), pair[1])))
    )


@settings(max_examples=60)
@given(
    found=ranges(),
    side=st.sampled_from(["server", "client"]),
    mtu=st.integers(1280, 9000),
    cut=st.booleans(),
)
def test_every_plan_is_whole(found: PeerRanges, side: names.Side, mtu: int, cut: bool) -> None:
    made = plan(PeerNames("rome", "milan"), found, side, mtu, cut=cut)
    aliases = (*found.seen.pod, *found.seen.external)
    # Whatever is for an alias goes to the peer, and nowhere else; nothing else is led anywhere.
    shared = {rule for rule in made.node.rules if not rule.incoming}
    assert shared == {
        Rule(names.ALIASES_PRIORITY, each, names.ALIASES_TABLE) for each in families(*aliases)
    }
    for metric, link in zip(made.names.metrics, (made.names.veth, ""), strict=True):
        led = [each for each in made.node.routes if each.metric == metric]
        assert {(each.to, each.link) for each in led} == {(alias, link) for alias in aliases}
    for part, owned in ((made.node, made.node_owned), (made.inside, made.inside_owned)):
        assert {link.name for link in part.links} <= set(owned.links)
        ownership.check(part, owned)
        there = {*part.tables} | ({names.CUT_TABLE} if part is made.inside and not cut else set())
        assert there == set(owned.nftables)
        links = {link.name for link in part.links}
        assert {each.link for each in part.addresses} <= links
        assert {each.link for each in part.neighbours} <= links
        assert all(route.mtu in (0, mtu) for route in part.routes)
    # The two ends of the pair know each other.
    (outer,), (inner, tunnel) = made.node.links, made.inside.links
    assert isinstance(outer, Veth)
    assert isinstance(inner, Veth)
    assert (outer.name, outer.peer) == (inner.peer, inner.name)
    assert {each.mac for each in made.node.neighbours} == {inner.mac}
    assert {each.mac for each in made.inside.neighbours} == {outer.mac}
    assert outer.mtu == inner.mtu == tunnel.mtu == mtu


def test_what_is_too_small_for_a_packet_is_refused() -> None:
    with pytest.raises(ValueError, match="1279"):
        plan(PeerNames("rome", "milan"), BOTH, "server", 1279)
