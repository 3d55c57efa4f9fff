"""`liqod node` on nodes of a cluster in namespaces, with real packets to a peer and back."""

from __future__ import annotations

import signal
import socket
import struct
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane import names
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import OVERLAY_TABLE
from liqod.resources import INTERNAL_FABRICS, INTERNAL_NODES
from liqod.resources.networking import GATEWAY_SERVERS
from liqod.tunnel.confinement import USER
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, checksum, echo, ping, run
from tests.netns.nodes import MILAN, Nodes, Pinging, Running, address, running
from tests.testbed.netns import doorway

pytestmark = [pytest.mark.netns, pytest.mark.network]

PORT = 8000
SOON = 15.0
"""Seconds in which something is put back, on a machine that has other work."""
THERE, THERE6 = "10.71.0.7", "fd00:10:71::7"
"""A pod of milan's as rome sees it."""


@pytest.fixture(scope="module")
def nodes(lab: Lab) -> Nodes:
    return Nodes(lab)


@pytest.fixture(scope="module")
def theirs(nodes: Nodes) -> Pod:
    """A pod of milan's."""
    return nodes.lab.milan.pod("pod", 7)


@pytest.fixture(scope="module")
def ours(nodes: Nodes) -> Pod:
    """A pod on the second node."""
    return nodes.lab.rome.pod("far", 5, node=nodes.places[1], network=1)


@pytest.fixture(scope="module")
def near(nodes: Nodes) -> Pod:
    """A pod on the first node."""
    return nodes.lab.rome.pod("near", 6)


def reaches(pod: Pod, to: str = THERE) -> bool:
    """True if a pod gets an echo from another."""
    return ping(pod.namespace, to, timeout=0.3).startswith("reply")


async def led(made: Running, *numbers: int, gateway: int = 0) -> None:
    """The leader on one node, and `liqod node` on others, until all is applied."""
    for number in numbers:
        made.start(number)
    await made.lead(gateway)
    for number in numbers:
        if number != gateway:
            await made.says(number, "Applied")


async def test_pods_of_other_nodes_talk_both_ways(
    nodes: Nodes, ours: Pod, near: Pod, theirs: Pod
) -> None:
    async with running(nodes) as made:
        assert not reaches(ours)
        await led(made, 1, 2)
        await made.says(1, "GatewayReachable")
        for to, back in ((THERE, "10.71.1.5"), (THERE6, "fd00:10:71:0:1::5")):
            for kind in ("tcp", "udp"):
                with echo(theirs.namespace, PORT, kind):
                    assert ask(ours.namespace, to, PORT, kind) == back
                with echo(ours.namespace, PORT, kind):
                    assert ask(theirs.namespace, back, PORT, kind) == to
        assert reaches(near)
        status = await made.status(1)
        assert status["latency"].endswith("ms")
        assert "dropped" not in status


async def test_killed_it_loses_no_packet_and_the_next_one_changes_nothing(
    nodes: Nodes, ours: Pod, theirs: Pod
) -> None:
    async with running(nodes) as made:
        await led(made, 1)
        await made.says(1, "GatewayReachable")
        pinging = Pinging(ours.namespace, THERE)
        index, log = link(nodes), made.agents[1].log
        for way in (signal.SIGKILL, signal.SIGTERM):
            made.agents[1].signal(way)
            made.agents[1].wait(60)
            await trio.sleep(0.2)
            size = len(since(log))
            made.start(1)
            await made.heals(partial(says, log, size, "of the gateway first"))
            assert "made" not in since(log, size)
        assert await trio.to_thread.run_sync(pinging.end) == 0
        assert pinging.sent > 20
        assert link(nodes) == index


def says(log: Path, size: int, words: str) -> bool:
    """True if a process has logged these words after `size` bytes of its log."""
    return words in since(log, size)


def since(log: Path, size: int = 0) -> str:
    """Returns a process's log after its first `size` bytes."""
    return log.read_text()[size:]


def link(nodes: Nodes) -> str:
    """The overlay's device on the second node."""
    return run("ip", "-n", nodes.places[1], "-o", "link", "show", "lqx")


DAMAGES = {
    "device": "ip link delete lqx",
    "device down": "ip link set lqx down",
    "route": f"ip route flush table {names.ALIASES_TABLE}",
    "rule": f"ip rule delete priority {names.ALIASES_PRIORITY}",
    "neighbour": "ip neigh flush dev lqx nud permanent",
    "frames": "bridge fdb flush dev lqx",
    "tables": "nft flush ruleset",
    "address": "ip address flush dev lqx",
}

NOT_THE_OVERLAYS_ALONE = ("route", "rule", "tables")
"""Damage to parts that the gateway lacks, or that are the peer's too and not repaired here."""


async def test_what_somebody_takes_away_is_put_back(nodes: Nodes, ours: Pod, theirs: Pod) -> None:
    """On a node and on the gateway, by the component that is responsible for it there."""
    async with running(nodes) as made:
        await led(made, 1)
        for number in (1, 0):
            before = state(nodes, number)
            for what, command in DAMAGES.items():
                if number == 0 and what in NOT_THE_OVERLAYS_ALONE:
                    continue
                run(*command.split(), namespace=nodes.places[number], check=False)
                took = await made.heals(partial(same, nodes, number, before))
                assert took < SOON, what
                assert reaches(ours), what


def same(nodes: Nodes, number: int, before: list[str]) -> bool:
    """True if a node's overlay is as it was."""
    return state(nodes, number) == before


def state(nodes: Nodes, number: int) -> list[str]:
    """Returns the state of the overlay on a node, without counters."""
    place = nodes.places[number]
    found = [
        run("ip", "-n", place, *each.split(), check=False)
        for each in (
            "-br address show dev lqx",
            "neigh show dev lqx nud permanent",
            f"route show table {names.ALIASES_TABLE}",
            f"-6 route show table {names.ALIASES_TABLE}",
            f"route show table {names.PODS_TABLE}",
            "rule",
            "-6 rule",
        )
    ]
    fdb = "bridge fdb show dev lqx"
    found.append("".join(sorted(run(*fdb.split(), namespace=place, check=False))))
    table = run("nft", "-s", "list", "table", *OVERLAY_TABLE.split(), namespace=place, check=False)
    found.append("".join(line for line in table.splitlines() if "liqod-seal" not in line))
    return ["".join(sorted(each)) for each in found]


async def test_a_node_that_was_made_anew_is_set_up_again(nodes: Nodes, theirs: Pod) -> None:
    async with running(nodes) as made:
        await led(made, 2)
        made.agents[2].kill()
        await trio.to_thread.run_sync(nodes.reboot, 2)
        assert nodes.traces(2) == []
        await trio.to_thread.run_sync(partial(made.start, 2))
        pod = nodes.lab.rome.pod(f"third-{made.agents[2].pid}", 8, node=nodes.places[2], network=2)
        took = await made.heals(lambda: reaches(pod))
        assert took < 30


async def test_another_node_becomes_the_gateway(
    nodes: Nodes, ours: Pod, near: Pod, theirs: Pod
) -> None:
    """Its own `liqod node` stands back, and that of the former gateway takes over there."""
    async with running(nodes) as made:
        await led(made, 0, 1)
        assert reaches(near)
        assert reaches(ours)
        try:
            await trio.to_thread.run_sync(nodes.move, 1)
            await made.lead(1)
            took = await made.heals(lambda: reaches(ours) and reaches(near))
            found = await made.client.get(INTERNAL_FABRICS, "gateway", "liqo")
            assert found["spec"]["gateway"]["node"] == "second"
            assert found["spec"]["gateway"]["epoch"] == 2
            await made.says(0, "GatewayReachable")
            with echo(near.namespace, PORT):
                assert ask(theirs.namespace, "10.71.0.6", PORT) == THERE
            assert took < SOON
        finally:
            await trio.to_thread.run_sync(nodes.move, 0)


async def test_with_the_last_peer_nothing_is_left_on_any_node(nodes: Nodes) -> None:
    async with running(nodes) as made:
        await led(made, 1, 2)
        await made.client.delete(GATEWAY_SERVERS, "milan", MILAN)
        await made.heals(lambda: not any(nodes.traces(number) for number in range(3)))
        assert await made.client.list(INTERNAL_NODES) == []


async def test_clean_takes_everything_of_it_away(nodes: Nodes) -> None:
    async with running(nodes) as made:
        await led(made, 1)
        made.agents[1].stop()
        assert nodes.traces(1)
        cleaning = made.start(1, "--clean")
        assert cleaning.wait(60) == 0
        assert nodes.traces(1) == []


def forgery(mac: str, source: str) -> bytes:
    """A packet of the overlay, with an echo request to milan's pod inside."""
    inner = ipv4(source, THERE, 1, struct.pack("!BBHHH", 8, 0, 0xF7FD, 1, 1))
    gateway = bytes.fromhex("0a2000000001")
    frame = gateway + bytes.fromhex(mac.replace(":", "")) + b"\x08\x00" + inner
    return struct.pack("!BBHI", 8, 0, 0, names.VNI << 8) + frame


def forged(to: str, mac: str, source: str) -> None:
    """Sends one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(forgery(mac, source), (to, names.OVERLAY_PORT))


def ipv4(source: str, to: str, protocol: int, body: bytes) -> bytes:
    """A packet."""
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


MAC = {1: "0a:20:00:00:00:02", 2: "0a:20:00:00:00:03"}


@pytest.mark.parametrize(
    ("who", "mac", "at"),
    [
        ("a pod of the same node, as its own node", 1, "node"),
        ("a pod of the same node, as another node", 2, "node"),
        ("a pod of the gateway's node", 1, "gateway"),
        ("another machine of the network", 1, "gateway"),
        ("a node, as another node", 2, "gateway"),
    ],
)
async def test_nobody_forges_packets_of_the_overlay(
    nodes: Nodes, ours: Pod, near: Pod, theirs: Pod, who: str, mac: int, at: str
) -> None:
    """A device that learns nothing takes what is sent to its port; a CNI may even have packets of a
    pod come from its node's own address."""
    async with running(nodes) as made:
        await led(made, 1, 2)
        sender = {
            "a pod of the gateway's node": near.namespace,
            "another machine of the network": nodes.lan,
            "a node, as another node": nodes.places[1],
        }.get(who, ours.namespace)
        if sender == nodes.lan:
            run("ip", "-n", nodes.lan, "addr", "add", "172.30.0.9/24", "dev", "br0", check=False)
        number = 0 if at == "gateway" else 1
        before = dropped(nodes.places[number], "forged")
        heard = arrived(theirs)
        await trio.to_thread.run_sync(
            enter, sender, partial(forged, address(0), MAC[mac], f"10.244.{mac}.5")
        )
        await trio.sleep(0.2)
        assert dropped(nodes.places[number], "forged") == before + 1
        assert arrived(theirs) == heard


async def test_the_same_packet_from_its_own_node_arrives(nodes: Nodes, theirs: Pod) -> None:
    """So that the test above can tell that it is the forgery which is dropped."""
    async with running(nodes) as made:
        await led(made, 1)
        heard = arrived(theirs)
        work = partial(forged, address(0), MAC[1], "10.244.1.5")
        await trio.to_thread.run_sync(enter, nodes.places[1], work)
        await trio.sleep(0.2)
        assert arrived(theirs) == heard + 1


async def test_who_takes_over_the_process_of_the_tunnels_forges_none_either(
    nodes: Nodes, theirs: Pod
) -> None:
    """It may make sockets of UDP, for name servers, and so reach the port of another node's."""
    async with running(nodes) as made:
        await led(made, 1)
        before = dropped(nodes.places[1], "forged")
        heard = arrived(theirs)
        code = (
            "import socket; "
            "made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            f"made.sendto({forgery(MAC[1], '10.244.1.5')!r}, {(address(0), names.OVERLAY_PORT)!r})"
        )
        as_it = ("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups")
        command = (*as_it, "/usr/bin/python3", "-c", code)
        tried = partial(run, *command, namespace=nodes.places[1], check=False)
        await trio.to_thread.run_sync(tried)
        await trio.sleep(0.2)
        assert dropped(nodes.places[1], "forged") == before + 1
        assert arrived(theirs) == heard


def arrived(pod: Pod) -> int:
    """Echo requests that a pod has got."""
    text = run("cat", "/proc/net/snmp", namespace=pod.namespace)
    head, values = (line.split() for line in text.splitlines() if line.startswith("Icmp:"))
    return int(values[head.index("InEchos")])


def dropped(namespace: str, counter: str) -> int:
    """Returns a counter of the overlay's table on a node."""
    return labs.packets(namespace, OVERLAY_TABLE, counter)


RIGHTS = "+net_admin,+net_raw"
"""Those that systemd/liqod-node.service gives, and the DaemonSet."""
UNPRIVILEGED = (
    *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"),
    *("--bounding-set", f"-all,{RIGHTS}", "--inh-caps", f"-all,{RIGHTS}"),
    *("--ambient-caps", f"-all,{RIGHTS}"),
)


async def test_two_capabilities_are_enough_and_root_is_not_needed(
    nodes: Nodes, ours: Pod, theirs: Pod
) -> None:
    async with running(nodes) as made:
        made.kubeconfig.chmod(0o644)
        for each in (made.kubeconfig.parent, *made.kubeconfig.parent.parents):
            if each != each.parent and not each.stat().st_mode & 0o001:
                each.chmod(each.stat().st_mode | 0o001)
        with doorway(nodes.places[1], made.port):
            await made.lead(0)
            made.start(1, enter=(*inside(nodes.places[1]), *UNPRIVILEGED))
            await made.says(1, "Applied")
            await made.says(1, "GatewayReachable")
            assert reaches(ours)


async def test_without_the_right_it_says_which_is_missing(nodes: Nodes) -> None:
    async with running(nodes) as made:
        bare = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--reuid", "65534")
        child = made.start(1, enter=(*bare, "--clear-groups"))
        assert child.wait(20) == 2
        assert "CAP_NET_ADMIN" in since(child.log)


def inside(namespace: str) -> tuple[str, ...]:
    """Starts a program in a namespace, as one that is in the node's own network is."""
    return ("nsenter", f"--net=/run/netns/{namespace}")
