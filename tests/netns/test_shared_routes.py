"""The table of routes to all peers' aliases: owners have their own, and share its rule."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from liqod.network.dataplane import names, overlayplan
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import Namespace
from tests.netns import lab as labs
from tests.netns.lab import Lab, run
from tests.netns.nodes import Pinging
from tests.netns.test_datapath import Gateway, gateway, planned  # noqa: F401 - a fixture
from tests.netns.test_nodeplan import GATEWAY, OVERLAY, SECOND
from tests.testbed import former
from tests.testbed.netns import Networks, inside, state

pytestmark = [pytest.mark.netns, pytest.mark.network]

NOTHING = Namespace()
MANY = 12
TABLE = str(names.ALIASES_TABLE)

FORMER = """
import sys
from functools import partial
from liqod.model.network.ranges import PeerRanges, Ranges
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import Names
from liqod.network.dataplane.peerplan import plan
from liqod.network.dataplane.values import Namespace

node, own, peer, mtu, what, *said = sys.argv[1:]
pod, external, seen_pod, seen_external = (tuple(each.split()) for each in said)
both = Ranges(pod, external)
ranges = PeerRanges(own=both, peer=both, seen=Ranges(seen_pod, seen_external))
made = plan(Names(own, peer), ranges, "server", int(mtu))
want = made.node if what == "applied" else Namespace()
enter(node, partial(change, want, made.node_owned))
"""


def rules(node: str) -> list[str]:
    """Priorities of a node's rules that are liqod's, of both families."""
    both = [run("ip", "-n", node, each, "rule").splitlines() for each in ("-4", "-6")]
    return [each.split(":")[0] for family in both for each in family if each.startswith("187")]


def way(node: str, alias: str) -> str:
    """The way of a packet to an alias, or the kernel's refusal."""
    return run("ip", "-n", node, "route", "get", alias, check=False)


async def test_each_peer_has_its_own_routes_and_all_have_one_rule(
    gateway: Gateway,  # noqa: F811
) -> None:
    before = state(gateway.node)
    peers = [await gateway.begin(f"peer-{number}") for number in range(MANY)]
    plans = [planned(each, number) for number, each in enumerate(peers)]

    async def together(*some: PeerPlan, there: bool) -> None:
        async with trio.open_nursery() as nursery:
            for each in some:
                if there:
                    nursery.start_soon(gateway.datapath.apply, each)
                else:
                    nursery.start_soon(gateway.datapath.remove, each.names)

    await together(*plans, there=True)
    for each in plans:
        assert await gateway.datapath.apply(each) == []
    # One for both families, and one for each peer's namespace.
    assert rules(gateway.node).count(str(names.ALIASES_PRIORITY)) == 2
    assert len(rules(gateway.node)) == 2 + 2 * MANY
    await together(*plans[1:], there=False)
    assert await gateway.datapath.apply(plans[0]) == []
    assert len(rules(gateway.node)) == 4
    await together(plans[0], there=False)
    assert state(gateway.node) == before


async def test_nothing_leaves_by_another_way_where_a_peers_is_gone(
    gateway: Gateway,  # noqa: F811
) -> None:
    for command in (
        "ip link add lan0 type veth peer name lan1",
        "ip address add 192.0.2.1/24 dev lan0",
        "ip link set lan0 up",
        "ip link set lan1 up",
        "ip route add default via 192.0.2.9",
    ):
        inside(gateway.node, command)
    peer = await gateway.begin()
    want = planned(peer, 1)
    await gateway.datapath.apply(want)
    assert peer.veth in way(gateway.node, "10.101.0.1")
    assert "lan0" in way(gateway.node, "10.102.0.1"), "of nobody's aliases"
    inside(gateway.node, f"ip link set {peer.veth} down")
    assert way(gateway.node, "10.101.0.1") == ""
    inside(gateway.node, f"ip link delete {peer.veth}")
    assert way(gateway.node, "10.101.0.1") == ""
    assert await gateway.datapath.apply(want)
    assert peer.veth in way(gateway.node, "10.101.0.1")
    # On a standby its routes would be in the way of those to the gateway.
    standby = msgspec.structs.replace(want.node, routes=(), rules=())
    await gateway.datapath.apply(msgspec.structs.replace(want, node=standby))
    assert "lan0" in way(gateway.node, "10.101.0.1")
    assert rules(gateway.node) == []


async def test_of_two_owners_of_an_alias_the_one_that_stays_has_it(
    gateway: Gateway,  # noqa: F811
    networks: Networks,
) -> None:
    """Two clusters' daemons on a machine, which have chosen the same range."""
    other = Gateway(networks)
    other.node, other.datapath = gateway.node, type(gateway.datapath)(other.own_id, gateway.node)
    ours, theirs = await gateway.begin(), await other.begin()
    before = state(gateway.node)
    await gateway.datapath.apply(planned(ours))
    await other.datapath.apply(planned(theirs))
    assert await gateway.datapath.apply(planned(ours)) == []
    await gateway.datapath.remove(ours)
    assert theirs.veth in way(gateway.node, "10.100.0.1")
    assert await other.datapath.apply(planned(theirs)) == []
    await other.datapath.remove(theirs)
    other.datapath.close()
    assert state(gateway.node) == before


async def test_a_node_that_becomes_the_gateway_leads_to_its_own_tunnels(
    gateway: Gateway,  # noqa: F811
) -> None:
    """The overlay's routes and a peer's are in one table for a while: the peer's count."""
    for command in (
        "ip link add net0 type veth peer name net1",
        "ip link set net0 addrgenmode none",
        "ip link set net1 addrgenmode none",
        f"ip address add {SECOND.address}/24 dev net0",
        "ip link set net0 up",
        "ip link set net1 up",
    ):
        inside(gateway.node, command)
    before = state(gateway.node)
    owned = overlayplan.owned(gateway.own_id)
    overlay = msgspec.structs.replace(OVERLAY, aliases={"10.101.0.0/16": 1340})

    def lead(gateway_node: overlayplan.OverlayNode) -> None:
        want = overlayplan.plan(SECOND, gateway_node, (GATEWAY, SECOND), overlay)
        enter(gateway.node, partial(change, want, owned))

    lead(GATEWAY)
    assert "lqx" in way(gateway.node, "10.101.0.1")
    peer = await gateway.begin()
    await gateway.datapath.apply(planned(peer, 1))
    assert peer.veth in way(gateway.node, "10.101.0.1")
    lead(SECOND)
    assert peer.veth in way(gateway.node, "10.101.0.1")
    lead(GATEWAY)
    await gateway.datapath.remove(peer)
    assert "lqx" in way(gateway.node, "10.101.0.1")
    enter(gateway.node, partial(change, NOTHING, owned))
    assert state(gateway.node) == before


@pytest.mark.long
def test_a_gateway_is_upgraded_and_goes_back_without_a_lost_packet(
    lab: Lab, version_before: Path
) -> None:
    site = lab.rome
    pod, _ = site.pod("upgraded", 8).namespace, lab.milan.pod("upgraded", 9)
    aliases = "10.71.0.9", "fd00:10:71::9"
    for each in aliases:
        # A pod's own network takes a moment until it works.
        assert any(labs.ping(pod, each, timeout=0.5).startswith("reply") for _ in range(40))
    known = (site.node, site.names.own_id, site.names.peer_id, str(labs.MTU))
    said = (labs.PODS, labs.EXTERNAL, labs.SEEN.pod, labs.SEEN.external)

    def before(what: str) -> None:
        words = (*known, what, *(" ".join(each) for each in said))
        command = [sys.executable, "-P", "-c", FORMER, *words]
        environment = former.environment(version_before)
        subprocess.run(command, env=environment, check=True, capture_output=True)

    fresh = state(site.node)
    both = [Pinging(pod, each) for each in aliases]
    before("applied")
    assert "18710" in rules(site.node)
    assert site.changes()
    # Nothing of the version before is left, and all is as if it had never been there.
    assert "18710" not in rules(site.node)
    assert state(site.node)["routes"] == fresh["routes"]
    assert state(site.node)["rules"] == fresh["rules"]
    assert site.changes() == []
    before("applied")
    assert rules(site.node).index("18710") < rules(site.node).index("18725")
    assert "table" in way(site.node, "10.71.0.9")
    assert [each.end() for each in both] == [0, 0]
    assert all(each.sent > 5 for each in both)
    # That version knows nothing of the routes that stay behind: they lead nowhere.
    before("gone")
    assert set(rules(site.node)) == {"18725"}
    assert way(site.node, "10.71.0.9") == ""
    assert site.changes()
    assert state(site.node)["rules"] == fresh["rules"]
    enter(site.node, partial(change, NOTHING, site.plan.node_owned))
    assert rules(site.node) == []
    assert run("ip", "-n", site.node, "route", "show", "table", TABLE, check=False) == ""
    site.changes()
