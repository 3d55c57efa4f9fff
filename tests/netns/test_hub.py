"""A hub and two leaves behind NATs, all with the same pod CIDR: side by side, and by lossy ways."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from liqod.model import ids
from liqod.network.dataplane.names import INNER_ADDRESS, INSIDE_TABLE
from liqod.peers.peernetwork import PeerNetwork
from liqod.resources import CONFIGURATIONS
from tests.netns.flows import flowing
from tests.netns.lab import packets, ping, run
from tests.netns.natted import Natted, natted
from tests.netns.test_joined_clusters import Site
from tests.simulated.borrower import eventually
from tests.testbed.netns import nft

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

LOSSY = 20.0
"""Seconds in which none of the four ends of two tunnels may raise an alarm."""
NOTICED = 1.5
LATE = 0.3
"""Seconds that this machine may be late."""
TABLE, FIRST = "999", "100"
LOSES = """
table bridge way
delete table bridge way
table bridge way {{
    chain through {{ type filter hook forward priority 0; {rule}
    }}
}}
"""


class Hub:
    """A hub with two leaves, and the network of each end."""

    def __init__(self, three: Natted) -> None:
        self.three = three
        rome, milan, hub = three.rome.member.id, three.milan.member.id, three.hub.member.id
        self.to_rome, self.to_milan = (_of(three.hub, each) for each in (rome, milan))
        self.rome, self.milan = _of(three.rome, hub), _of(three.milan, hub)
        self.ends = (self.to_rome, self.to_milan, self.rome, self.milan)

    def network(self, site: Site) -> PeerNetwork:
        """Returns a daemon's network to a peer."""
        return site.member.components.peers[site.names.peer_id].network

    def stands(self, site: Site) -> bool:
        """True if a cluster reports that its tunnel to a peer is established."""
        return self.network(site).connected is True

    def all_stand(self) -> bool:
        """True if all four ends report it."""
        return all(map(self.stands, self.ends))

    def loses(self, rule: str) -> None:
        """Drops packets on the internet between the hub and both leaves."""
        word = self.three.hub.member.id[:-1]
        nft(f"{word}-inet", LOSES.format(rule=rule))


def _of(site: Site, peer: str) -> Site:
    return Site(site.member, site.node, site.pod, peer)


async def test_leaves_of_a_hub_do_not_disturb_each_other(wireguard: str, tmp_path: Path) -> None:
    async with natted(wireguard, tmp_path, "") as three:
        for leaf in (three.rome, three.milan):
            assert (await three.join(leaf, three.hub)).without == ""
        hub = Hub(three)
        await all_are_reached_at_once(hub)
        await no_leaf_reaches_another(hub)
        await no_leaf_has_anothers_range(hub)
        await a_dead_leaf_disturbs_nobody(hub)
        await loss_is_no_alarm_and_death_is(hub)


async def all_are_reached_at_once(hub: Hub) -> None:
    """Pods with the same ranges, by aliases that differ."""
    assert await hub.to_rome.alias(5) != await hub.to_milan.alias(5)
    counts: dict[str, int] = {}

    async def reach(name: str, site: Site, last: int) -> None:
        counts[name] = await site.reaches(last, times=20)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reach, "hub to rome", hub.to_rome, 5)
        nursery.start_soon(reach, "hub to milan", hub.to_milan, 6)
        nursery.start_soon(reach, "rome to hub", hub.rome, 7)
        nursery.start_soon(reach, "milan to hub", hub.milan, 7)
    assert set(counts.values()) == {20}, counts


async def no_leaf_reaches_another(hub: Hub) -> None:
    """Not even one whose gateway sends on purpose what the hub alone may: it is dropped there."""
    rome, alias = hub.rome, await hub.to_milan.alias(6)
    at_hub = hub.to_rome.names.namespace
    way = f"{alias} via {INNER_ADDRESS} dev {rome.names.veth} onlink table {TABLE}"
    run(*f"ip -n {rome.node} route add {way}".split())
    run(*f"ip -n {rome.node} rule add to {alias} lookup {TABLE} pref {FIRST}".split())
    before = packets(at_hub, INSIDE_TABLE, "strangers")
    try:
        said = await trio.to_thread.run_sync(lambda: ping(rome.pod.namespace, alias, timeout=1))
    finally:
        run(*f"ip -n {rome.node} rule delete pref {FIRST}".split())
        run(*f"ip -n {rome.node} route flush table {TABLE}".split())
    assert said == "nothing"
    assert packets(at_hub, INSIDE_TABLE, "strangers") > before


async def no_leaf_has_anothers_range(hub: Hub) -> None:
    """One that claims the range under which the hub sees another gets an alias of its own."""
    rome = hub.to_rome.names.peer_id
    before = await hub.to_milan.alias(0)
    place, admin = ids.tenant_namespace(rome), hub.to_rome.member.admin
    true = (await admin.get(CONFIGURATIONS, rome, place))["spec"]["remote"]["cidr"]["pod"]

    async def claim(pods: list[str]) -> None:
        patch = {"spec": {"remote": {"cidr": {"pod": pods}}}}
        asked = (await admin.patch(CONFIGURATIONS, rome, patch, place)).metadata.generation

        async def answered() -> bool:
            status = (await admin.get(CONFIGURATIONS, rome, place))["status"]
            return any(
                each["observedGeneration"] == asked and each["status"] == "True"
                for each in status["conditions"]
            )

        await eventually(answered)

    await claim([f"{before}/16"])
    assert await hub.to_rome.alias(0) != before
    assert await hub.to_milan.alias(0) == before
    assert await hub.to_milan.reaches(6) == 3
    await claim(true)

    async def back() -> bool:
        return await hub.to_rome.reaches(5, times=1) == 1 and hub.all_stand()

    await eventually(back)


async def a_dead_leaf_disturbs_nobody(hub: Hub) -> None:
    """Of what goes to the other nothing is lost, when it goes and when it comes."""
    nat = hub.three.nats["r"]
    async with flowing(hub.to_milan.pod, await hub.to_milan.alias(6)) as flow:
        began = time.monotonic()
        run("ip", "-n", nat, "link", "set", "wan", "down")
        await eventually(lambda: not hub.stands(hub.to_rome))
        await trio.sleep(1.0)
        run("ip", "-n", nat, "link", "set", "wan", "up")
        await eventually(hub.all_stand)
        await flow.loses_none(began)
        assert time.monotonic() - began > NOTICED
    assert hub.stands(hub.to_milan)
    assert await hub.to_rome.reaches(5) == 3


async def loss_is_no_alarm_and_death_is(hub: Hub) -> None:
    """A tenth of the packets lost each way; then all."""
    hub.loses("numgen random mod 1000 < 100 counter drop")
    alarms: list[str] = []

    async def listen(site: Site) -> None:
        network = hub.network(site)
        while True:
            await network.wait_changed()
            if network.connected is not True:
                alarms.append(f"{site.member.id}: {network.why}")

    with trio.move_on_after(LOSSY):
        async with trio.open_nursery() as nursery:
            for site in hub.ends:
                nursery.start_soon(listen, site)
    assert not alarms
    assert hub.all_stand()
    began = trio.current_time()
    hub.loses("drop")
    noticed: dict[int, float] = {}
    while len(noticed) < len(hub.ends):
        await trio.sleep(0.01)
        took = trio.current_time() - began
        assert took < 30.0, noticed
        for number, site in enumerate(hub.ends):
            if number not in noticed and not hub.stands(site):
                noticed[number] = took
    times = ", ".join(f"{took:.2f}" for took in sorted(noticed.values()))
    print(f"{len(hub.ends) * LOSSY:.0f} s at 10 % loss without an alarm; dead after {times} s")
    assert max(noticed.values()) < 3 * NOTICED
    hub.loses("")
    await eventually(hub.all_stand)
