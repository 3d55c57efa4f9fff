"""Connections to a peer that nothing gets through to are ended at once, and no others."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import CUT_TABLE
from liqod.network.dataplane.peerplan import plan
from liqod.network.machine.tunnelcontrol import CUT
from tests.netns import lab as labs
from tests.netns.lab import LAN_HOST, MTU, Lab, ask, checksum, echo, run
from tests.netns.test_joined_clusters import two
from tests.simulated.network.test_networking import join

pytestmark = [pytest.mark.netns, pytest.mark.network]

PORT = 8100
FLOOD = 40_000
SOON = 3.0
"""Seconds within which a client is told: it sends again after 0.2, 0.4 and 0.8 s."""
ALIASES = pytest.mark.parametrize("alias", ["10.71.0.5", "fd00:10:71::5"])


@contextlib.contextmanager
def dead(lab: Lab, *, cut: bool) -> Iterator[None]:
    """milan is silent meanwhile, and rome's gateway cuts, or does not."""
    rome, milan = lab.rome, lab.milan.names
    stands = rome.plan
    hook = f'type filter hook ingress device "{milan.tunnel}" priority 0; policy drop'
    silence = f"table netdev gone {{\nchain silence {{\n{hook}\n}}\n}}"
    run("nft", "-f", "-", stdin=silence, namespace=milan.namespace)
    try:
        if cut:
            rome.plan = plan(rome.names, rome.ranges, "server", MTU, cut=True)
            assert rome.changes()
            assert rome.changes() == []
        yield
    finally:
        run("nft", "delete", "table", "netdev", "gone", namespace=milan.namespace)
        rome.plan = stands
        rome.changes()


@pytest.fixture(scope="module")
def ours(lab: Lab) -> str:
    """The namespace of a pod of rome's."""
    return lab.rome.pod("pod", 7).namespace


@pytest.fixture(scope="module")
def theirs(lab: Lab) -> str:
    """The namespace of the pod of milan's."""
    return lab.milan.pod("pod", 5).namespace


def connected(namespace: str, alias: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A socket in a namespace that talks to an echo, and has been answered."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in alias else socket.AF_INET, kind)
        made.settimeout(SOON)
        made.connect((alias, PORT))
        return made

    return enter(namespace, opened)


@ALIASES
def test_what_is_under_way_to_a_dead_peer_is_reset_at_its_next_packet(
    lab: Lab, ours: str, theirs: str, alias: str
) -> None:
    with echo(theirs, PORT, "tcp"), connected(ours, alias) as client, dead(lab, cut=True):
        client.send(b"are you there?")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
        with pytest.raises(ConnectionRefusedError):
            ask(ours, alias, PORT, "tcp")
    with echo(theirs, PORT, "tcp"):  # nothing of it is left
        assert ask(ours, alias, PORT, "tcp") == alias[:-1] + "7"


@ALIASES
def test_without_the_cut_it_would_wait(lab: Lab, ours: str, theirs: str, alias: str) -> None:
    with echo(theirs, PORT, "tcp"), connected(ours, alias) as client, dead(lab, cut=False):
        client.send(b"are you there?")
        with pytest.raises(TimeoutError):
            client.recv(100)


@ALIASES
def test_a_question_by_udp_is_refused_too(lab: Lab, ours: str, theirs: str, alias: str) -> None:
    with dead(lab, cut=True), connected(ours, alias, socket.SOCK_DGRAM) as client:
        client.send(b"are you there?")
        with pytest.raises(ConnectionRefusedError):
            client.recv(100)


def test_a_client_on_the_node_is_told_as_well(lab: Lab, ours: str, theirs: str) -> None:
    with (
        echo(theirs, PORT, "tcp"),
        connected(lab.rome.node, "10.71.0.5") as client,
        dead(lab, cut=True),
    ):
        client.send(b"are you there?")
        with pytest.raises(ConnectionResetError):
            client.recv(100)


def test_the_ends_of_the_tunnel_and_other_ways_are_not_concerned(
    lab: Lab, ours: str, theirs: str
) -> None:
    rome = lab.rome
    with dead(lab, cut=True):
        found = run("ip", "-n", rome.names.namespace, "route", "get", "169.254.18.2")
        assert f"dev {rome.names.tunnel}" in found
        assert labs.ping(ours, LAN_HOST) == f"reply from {LAN_HOST}"
    assert CUT_TABLE not in run("nft", "list", "tables", namespace=rome.names.namespace)


def answers(lab: Lab) -> int:
    """Packets that have come out of the peer's namespace."""
    (link,) = json.loads(
        run("ip", "-j", "-s", "-n", lab.rome.node, "link", "show", lab.rome.names.veth)
    )
    return int(link["stats64"]["rx"]["packets"])


def _syn(port: int, number: int) -> bytes:
    """The first segment of a connection to port 80."""
    head = struct.pack("!HHIIBBHHH", port, 80, number, 0, 80, 2, 64, 0, 0)
    ends = socket.inet_aton("10.244.0.7") + socket.inet_aton("10.71.0.9")
    summed = checksum(ends + b"\0\x06\0\x14" + head)
    return head[:16] + struct.pack("!H", summed) + head[18:]


def test_a_flood_is_answered_within_bounds(lab: Lab, ours: str) -> None:
    # Made before, or a busy machine would send them more slowly than they may be answered.
    packets = [_syn(1024 + number % 60_000, number) for number in range(FLOOD)]

    def flood() -> float:
        began = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as made:
            for packet in packets:
                made.sendto(packet, ("10.71.0.9", 0))
        return time.monotonic() - began

    with dead(lab, cut=True):
        before = answers(lab)
        took = enter(ours, flood)
        given = answers(lab) - before
    # Those of TCP, and some beyond them that the kernel bounds by itself.
    assert 1000 < given < min(8000 + 3500 * took, FLOOD - 1)


@pytest.mark.usefixtures("networks")
async def test_gateways_cut_a_peer_that_stays_away_and_not_one_that_is_soon_back(
    wireguard: str, tmp_path: Path
) -> None:
    async with two(wireguard, tmp_path) as (rome, milan):
        assert (await join(rome.member, milan.member)).without == ""
        alias = await rome.alias(6)
        assert await rome.reaches(6) == 3
        with echo(milan.pod.namespace, PORT, "tcp"), connected(rome.pod.namespace, alias) as client:
            run("ip", "-n", milan.node, "link", "set", "wan", "down")
            client.send(b"are you there?")
            await trio.sleep(CUT / 2)
            run(*f"ip -n {milan.node} link set wan up".split())
            run(*f"ip -n {milan.node} route add default via 198.51.100.1".split())
            client.settimeout(20.0)
            assert await trio.to_thread.run_sync(client.recv, 100)
        with echo(milan.pod.namespace, PORT, "tcp"), connected(rome.pod.namespace, alias) as client:
            run("ip", "-n", milan.node, "link", "set", "wan", "down")
            began = time.monotonic()
            client.settimeout(3 * CUT)
            client.send(b"are you there?")
            with pytest.raises(ConnectionResetError):
                await trio.to_thread.run_sync(client.recv, 100)
            assert CUT - 1 < time.monotonic() - began < 2 * CUT + 5
