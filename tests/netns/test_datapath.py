"""A peer's data path in the kernel: applied, healed, adopted by the next daemon, and swept."""

from __future__ import annotations

import errno
import random
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from liqod.errors import NetworkError
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.netlink import NetlinkRefused
from liqod.network.cleaning import end_tunnels
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.kernel import namespaces
from liqod.network.dataplane.names import ALIASES_TABLE, PeerNames
from liqod.network.dataplane.peerplan import PeerPlan, plan
from tests.testbed.machine import run
from tests.testbed.netns import Networks, inside, state

pytestmark = [pytest.mark.netns, pytest.mark.network]

OWN = ClusterCidrs(("10.244.0.0/16", "fd00:10:244::/64"), ("10.70.0.0/16", "fd00:10:70::/112"))
SOON = 20.0
"""Seconds in which a disturbance is observed, on a machine that has other work."""

REST = 0.15
"""Seconds in which nothing is observed where nothing happens."""


def seen(number: int = 0) -> ClusterCidrs:
    """Aliases of one of many peers."""
    return ClusterCidrs(
        (f"10.{100 + number}.0.0/16", f"fd00:10:{100 + number}::/64"),
        (f"172.16.{number}.0/24", f"fd00:172:{number}::/112"),
    )


def planned(names: PeerNames, number: int = 0) -> PeerPlan:
    """The plan of a peer with the same addresses as ours."""
    theirs = msgspec.structs.replace(OWN, external=("10.70.3.0/24", "fd00:10:70::/112"))
    ranges = PeerRanges(own=OWN, peer=theirs, seen=seen(number), lent={})
    return plan(names, ranges, "server", 1340)


class Gateway:
    """A node's namespace, and peers of a cluster of its own."""

    def __init__(self, networks: Networks) -> None:
        self.node = networks.make("node")
        self.own_id = f"rome-{secrets.token_hex(3)}"
        self.datapath = KernelDatapath(self.own_id, self.node)
        self._networks = networks

    async def begin(self, peer: str = "milan") -> PeerNames:
        """A peer with a tunnel that carries nothing."""
        names = PeerNames(self.own_id, peer)
        self._networks.adopt(names.namespace)
        await self.datapath.prepare(names)
        inside(names.namespace, f"ip tuntap add {names.tunnel} mode tun")
        return names


@pytest.fixture
def gateway(networks: Networks) -> Iterator[Gateway]:
    made = Gateway(networks)
    yield made
    made.datapath.close()


async def test_is_applied_once_and_adopted_by_the_next_daemon(gateway: Gateway) -> None:
    names = await gateway.begin()
    want = planned(names)
    assert await gateway.datapath.apply(want)
    assert await gateway.datapath.apply(want) == []
    again = KernelDatapath(gateway.own_id, gateway.node)
    assert await again.apply(want) == []
    again.close()


async def test_is_taken_away_without_a_trace(gateway: Gateway) -> None:
    before = state(gateway.node)
    one, other = await gateway.begin("milan"), await gateway.begin("turin")
    await gateway.datapath.apply(planned(one, 1))
    with_one = state(gateway.node)
    await gateway.datapath.apply(planned(other, 2))
    assert await gateway.datapath.remove(other)
    assert state(gateway.node) == with_one
    assert await gateway.datapath.apply(planned(one, 1)) == []
    assert await gateway.datapath.remove(one)
    assert await gateway.datapath.remove(one) == []
    assert state(gateway.node) == before
    assert not namespaces.exists(one.namespace)


async def test_a_node_whose_tunnels_are_ended_leads_nowhere_by_them(gateway: Gateway) -> None:
    """Another cluster's part of the same machine stays."""
    stranger = Gateway(gateway._networks)
    stranger.node, stranger.datapath = gateway.node, KernelDatapath(stranger.own_id, gateway.node)
    await stranger.datapath.apply(planned(await stranger.begin("rome"), 3))
    before = state(gateway.node)
    for number, peer in enumerate(("milan", "turin"), 1):
        names = await gateway.begin(peer)
        await gateway.datapath.apply(planned(names, number))
        # As the end of a container does.
        gateway.datapath.close()
        await namespaces.delete(names.namespace)
    assert state(gateway.node) != before
    assert await end_tunnels(gateway.own_id, (), gateway.node)
    assert await end_tunnels(gateway.own_id, (), gateway.node) == []
    assert state(gateway.node) == before
    stranger.datapath.close()


HARM_AT_NODE = [
    "ip link delete {veth}",
    "ip link set {veth} down",
    "ip route flush table {table}",
    "ip rule delete table {table}",
    "ip -6 rule delete table {table}",
    "ip neigh flush dev {veth} nud permanent",
    "nft flush ruleset",
    "sysctl -qw net.ipv4.ip_forward=0",
]
HARM_INSIDE = [
    "ip link delete gw0",
    "ip link set {tunnel} down",
    "ip address flush dev {tunnel}",
    "ip route flush table 100",
    "ip rule delete table 101",
    "nft delete table inet liqod",
]


@asynccontextmanager
async def listening(datapath: KernelDatapath) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(datapath.run)
        yield
        nursery.cancel_scope.cancel()


async def at_rest(datapath: KernelDatapath, want: PeerPlan) -> None:
    """Applies until nothing has to be, which is after the second time."""
    for _ in range(5):
        changes = await datapath.apply(want)
        with trio.move_on_after(REST) as patience:
            await datapath.wait_disturbed(want.names)
        if patience.cancelled_caught:
            assert changes == []
            return
    pytest.fail("it never comes to rest")


async def test_what_somebody_harms_is_heard_and_mended(gateway: Gateway) -> None:
    names = await gateway.begin()
    want = planned(names)
    known = {"veth": names.veth, "table": ALIASES_TABLE, "tunnel": names.tunnel}
    async with listening(gateway.datapath):
        await at_rest(gateway.datapath, want)
        healthy = state(gateway.node), state(names.namespace)
        for place, commands in (gateway.node, HARM_AT_NODE), (names.namespace, HARM_INSIDE):
            for command in commands:
                inside(place, command.format(**known))
                with trio.fail_after(SOON):
                    await gateway.datapath.wait_disturbed(names)
                assert await gateway.datapath.apply(want), command
                assert (state(gateway.node), state(names.namespace)) == healthy, command
                await at_rest(gateway.datapath, want)


async def test_who_waits_while_it_is_taken_away_is_told(gateway: Gateway) -> None:
    names = await gateway.begin()
    async with listening(gateway.datapath):
        await at_rest(gateway.datapath, planned(names))
        with trio.fail_after(SOON):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.datapath.wait_disturbed, names)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(gateway.datapath.remove, names)
    assert not namespaces.exists(names.namespace)


async def test_what_others_do_disturbs_nobody(gateway: Gateway) -> None:
    one, other = await gateway.begin("milan"), await gateway.begin("turin")
    async with listening(gateway.datapath):
        await at_rest(gateway.datapath, planned(one, 1))
        for command in (
            "ip link add br0 type bridge",
            "ip link set br0 up",
            "ip address add 192.0.2.1/24 dev br0",
            "ip route add 10.50.0.0/16 via 192.0.2.9",
            "ip rule add priority 500 table 200",
            "nft add table inet other",
        ):
            inside(gateway.node, command)
        await gateway.datapath.apply(planned(other, 2))
        with trio.move_on_after(REST) as patience:
            await gateway.datapath.wait_disturbed(one)
        assert patience.cancelled_caught


async def _applied_anew(gateway: Gateway, want: PeerPlan) -> None:
    """Apply until the kernel, which takes links of a namespace away later, is through with it."""
    while True:
        try:
            await gateway.datapath.apply(want)
        except NetlinkRefused as error:
            if error.errno != errno.ENODEV:
                raise
            await trio.sleep(0.1)
        else:
            return


async def test_a_namespace_that_somebody_deletes_is_made_anew(gateway: Gateway) -> None:
    names = await gateway.begin()
    want = planned(names)
    await gateway.datapath.apply(want)
    run("ip", "netns", "delete", names.namespace)
    # The tunnel went with it. All that does not need it is there, and says what is not.
    with pytest.raises(NetworkError, match=f"no interface {names.tunnel}"):
        await _applied_anew(gateway, want)
    inside(names.namespace, f"ip tuntap add {names.tunnel} mode tun")
    await gateway.datapath.apply(want)
    assert await gateway.datapath.apply(want) == []


async def test_what_is_left_of_forgotten_peers_is_swept(
    gateway: Gateway, networks: Networks
) -> None:
    before = state(gateway.node)
    known, forgotten = await gateway.begin("milan"), await gateway.begin("turin")
    await gateway.datapath.apply(planned(known, 1))
    with_known = state(gateway.node)
    await gateway.datapath.apply(planned(forgotten, 2))
    # Another cluster's daemon, in the same namespace.
    other = Gateway(networks)
    stranger = KernelDatapath(other.own_id, gateway.node)
    names = await other.begin("milan")
    await stranger.apply(planned(names, 3))
    with_stranger = state(gateway.node)
    # A new daemon, which knows nothing but who its peers are.
    again = KernelDatapath(gateway.own_id, gateway.node)
    gateway.datapath.close()
    [left] = await again.leftovers([known])
    assert (left.hash, left.namespace) == (forgotten.hash, forgotten.namespace)
    assert await again.remove(left)
    assert await again.leftovers([known]) == []
    assert state(gateway.node) != with_stranger
    assert await stranger.apply(planned(names, 3)) == []
    stranger.close()
    await stranger.remove(names)
    assert state(gateway.node) == with_known
    assert await end_tunnels(gateway.own_id, (), gateway.node)
    assert state(gateway.node) == before


KILLED = """
import sys, trio
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.dataplane.names import PeerNames
from tests.netns.test_datapath import planned

async def main():
    own, node = sys.argv[1:]
    names = PeerNames(own, "milan")
    datapath = KernelDatapath(own, node)
    print("begins", flush=True)
    while True:
        try:
            await datapath.apply(planned(names))
        except Exception as error:
            assert names.tunnel in str(error), error
        await datapath.remove(names)

trio.run(main)
"""


def killed(own_id: str, node: str) -> None:
    """A daemon that applies and removes until it is killed at any moment."""
    command = [sys.executable, "-c", KILLED, own_id, node]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == "begins\n"
        time.sleep(random.uniform(0, 0.3))
        daemon.kill()


async def test_whatever_a_killed_daemon_leaves_is_swept(
    gateway: Gateway, networks: Networks
) -> None:
    before = state(gateway.node)
    names = PeerNames(gateway.own_id, "milan")
    networks.adopt(names.namespace)
    for _ in range(5):
        await trio.to_thread.run_sync(killed, gateway.own_id, gateway.node)
        await end_tunnels(gateway.own_id, (), gateway.node)
        assert await gateway.datapath.leftovers([]) == []
        assert not namespaces.exists(names.namespace)
        # The kernel takes a namespace's links away after its name.
        await until(lambda: state(gateway.node) == before)


async def until(so: Callable[[], bool]) -> None:
    with trio.fail_after(SOON):
        while not so():  # noqa: ASYNC110 - what is waited for tells nobody
            await trio.sleep(0.05)


async def test_a_namespace_of_another_owner_is_not_adopted(
    gateway: Gateway, networks: Networks
) -> None:
    names = PeerNames(gateway.own_id, "milan")
    networks.adopt(names.namespace)
    await namespaces.make(names.namespace, "liqod somebody-else/milan")
    before = state(gateway.node)
    with pytest.raises(NetworkError, match="is of liqod somebody-else/milan"):
        await gateway.datapath.apply(planned(names))
    assert state(gateway.node) == before
    # Nor is it swept: it carries another's mark.
    assert await end_tunnels(gateway.own_id, (), gateway.node) == []
    assert namespaces.exists(names.namespace)
