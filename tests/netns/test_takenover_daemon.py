"""A daemon that is taken over, and the real `liqod node` of its machine, which it orders."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from liqod.errors import NetworkError
from liqod.model.network.ranges import ClusterCidrs, Entrance
from liqod.network.dataplane.names import PeerNames
from liqod.network.framestream import FrameStream
from liqod.network.machine import tunnelservice
from liqod.network.orders import messages
from liqod.network.orders.framing import frame
from liqod.network.orders.greeting import TELL_EVERY, Generation
from liqod.network.orders.tunnels import (
    EndTunnel,
    FindUnknown,
    MachineRead,
    ReadMachine,
    Surroundings,
    SweepUnknown,
    TunnelEnded,
    TunnelMessage,
    TunnelOrder,
    TunnelReport,
    UnknownFound,
    UnknownSwept,
)
from tests.netns.nodeprogram import NodeProgram
from tests.simulated.borrower import eventually
from tests.testbed.netns import Networks, inside, state
from tests.testbed.processes import usage
from tests.unit.network.ordering import admitted, hello
from tests.unit.network.tunnels import GATEWAY, ORDER, RANGES

pytestmark = [pytest.mark.netns, pytest.mark.network]

CLUSTER = "rome"
ADDRESS, API_SERVER, OTHERS = "192.168.7.10", "192.168.9.1", "192.168.8.0/24"
AROUND = Surroundings(address=ADDRESS)
BEYOND = 200
"""Peers that are ordered beyond those that may be."""
GROWN = 64 << 20
"""Bytes by which its memory may grow."""
SOUND = replace(ORDER, gateway=replace(GATEWAY, endpoints=("192.168.7.11:51840",), websocket=0))


def at(*seen: str) -> TunnelOrder:
    """A plan with these aliases of pods."""
    seen_as = ClusterCidrs(seen, RANGES.seen.external)
    return replace(SOUND, ranges=replace(RANGES, seen=seen_as))


def entered(entrance: Entrance) -> TunnelOrder:
    """A plan with this entrance."""
    return replace(SOUND, ranges=replace(RANGES, entrances=(entrance,)))


PLANS = (
    # the API server
    at(f"{API_SERVER}/32"),
    # a network with it
    at("192.168.9.0/24"),
    # other nodes
    at("192.168.8.128/25"),
    # all
    at("0.0.0.0/0"),
    # the metadata service
    replace(SOUND, ranges=replace(RANGES, lent={"10.70.0.5": "169.254.169.254"})),
    # text for nft
    at("10.9.0.0/16; }; flush ruleset; table ip x {"),
    # another program
    replace(SOUND, gateway=replace(GATEWAY, backend="../../bin/sh")),
    # no key
    replace(SOUND, private_key=b""),
    # the metadata service, at a port of its own, and a service of this machine's
    entered(Entrance("10.70.0.1", "tcp", 80, "169.254.169.254", 80)),
    entered(Entrance("10.70.0.1", "tcp", 80, "169.254.19.1", 10250)),
    # this machine as the other end
    replace(SOUND, gateway=replace(GATEWAY, endpoints=("127.0.0.1:443",))),
    # as many addresses as a message holds
    replace(SOUND, ranges=replace(RANGES, lent=dict.fromkeys(map(str, range(200_000)), "x"))),
)
MANY = ("x",) * 900_000
REQUESTS = 3
"""Of each kind, with as many peers as a message holds."""


class Orderer:
    """A connection of a daemon that may order."""

    def __init__(self, stream: trio.SocketStream, connection: FrameStream) -> None:
        self.stream, self.connection, self._turn = stream, connection, trio.Lock()
        self.ended = dict[int, TunnelEnded]()
        self.read = dict[int, MachineRead]()
        self.reports = dict[str, TunnelReport]()
        self.refused = self.unsound = self.denied = 0

    async def listen(self) -> None:
        """Takes all that it is told."""
        while True:
            match reply := messages.REPLIES.decode(await self.connection.receive()):
                case TunnelEnded():
                    self.ended[reply.number] = reply
                case MachineRead():
                    self.read[reply.number] = reply
                case UnknownFound() | UnknownSwept():
                    self.denied += "16384 peers" in reply.problem
                case TunnelReport():
                    self.reports[reply.peer] = reply
                    self.refused += reply.state.why == tunnelservice.MANY_PEERS
                    self.unsound += "it is not ordered soundly: " in reply.state.why

    async def live(self, generation: Generation) -> None:
        """Says that it is alive, as each daemon does."""
        while True:
            await trio.sleep(TELL_EVERY)
            await self.order(generation)

    async def order(self, *orders: TunnelMessage | Generation) -> None:
        """Sends orders, however long that takes."""
        async with self._turn:
            await self.stream.send_all(b"".join(frame(messages.encode(each)) for each in orders))

    async def knows_machine(self, number: int) -> MachineRead:
        """What the machine has, as far as it is told."""
        await self.order(ReadMachine(number, AROUND))
        await eventually(lambda: number in self.read, seconds=60)
        return self.read[number]


@asynccontextmanager
async def daemon(program: NodeProgram, started: int) -> AsyncIterator[Orderer]:
    """One that was started then. Raises NetworkError: it is denied."""
    async with await program.dial() as stream:
        greets = hello(started, of=CLUSTER)
        connection = await admitted(stream, greets)
        async with trio.open_nursery() as nursery:
            made = Orderer(stream, connection)
            nursery.start_soon(made.listen)
            nursery.start_soon(made.live, greets.generation)
            yield made
            nursery.cancel_scope.cancel()


@pytest.fixture
async def program(networks: Networks, wireguard: str) -> AsyncIterator[NodeProgram]:
    """`liqod node` of a machine whose API server is silent."""
    node = networks.make("taken")
    networks.adopt(PeerNames(CLUSTER, SOUND.peer).namespace)
    for command in (
        "link add lan type bridge",
        f"address add {ADDRESS}/24 dev lan",
        # Before it is up: else it gets an address of its own a moment later.
        "link set lan addrgenmode none",
        "link set lan up",
        f"route add {API_SERVER} dev lan",
    ):
        inside(node, f"ip {command}")
    folder = Path(f"/run/liqod-{os.urandom(3).hex()}")
    server = f"https://{API_SERVER}:6443"
    made = NodeProgram(node, ADDRESS, wireguard, folder, server=server, reserved=(OTHERS,))
    made.start()
    try:
        yield made
    finally:
        await made.close()
        shutil.rmtree(folder)


def memory(program: NodeProgram) -> int:
    """Bytes that it has; it lives."""
    assert program.child is not None
    return usage(program.child.pid).rss


async def listens(program: NodeProgram) -> bool:
    """True once a daemon is taken."""
    try:
        async with await program.dial():
            return True
    except NetworkError:
        return False


async def settled(program: NodeProgram) -> dict[str, Any]:
    """What the kernel has, once it has the same twice."""
    found = dict[str, Any]()
    while (now := state(program.node)) != found:
        found = now
        await trio.sleep(2.0)
    return found


async def test_a_daemon_that_is_taken_over_gets_wrong_tunnels_and_nothing_else(
    program: NodeProgram,
) -> None:
    await eventually(partial(listens, program))
    bare = state(program.node)
    async with daemon(program, 4) as honest:
        assert (await honest.knows_machine(1)).facts.problem == ""
        await honest.order(SOUND)
        await eventually(lambda: "milan" in honest.reports and state(program.node) != bare)
        before = await settled(program)
    grown = memory(program)

    async with daemon(program, 5) as taken:
        await taken.order(*PLANS)
        await eventually(lambda: taken.unsound == len(PLANS))
        for number in range(REQUESTS):
            await taken.order(FindUnknown(number, MANY), SweepUnknown(number, MANY, ()))
        await eventually(lambda: taken.denied == 2 * REQUESTS)
        with pytest.raises(NetworkError, match="started later"):
            async with daemon(program, 4):
                pass
        nobody = replace(SOUND, gateway=replace(GATEWAY, backend="nobody"))
        for number in range(BEYOND + tunnelservice.MOST_PEERS):
            plan = replace(nobody, peer=f"peer-{number}")
            await taken.order(plan, FindUnknown(number, ()), EndTunnel(number, f"other-{number}"))
        await eventually(lambda: taken.refused >= BEYOND)
        await taken.knows_machine(2)
        assert memory(program) - grown < GROWN
        assert state(program.node) == before

    async with daemon(program, 6) as honest:
        await honest.order(EndTunnel(1, "milan"))
        await eventually(lambda: 1 in honest.ended, seconds=120)
        assert honest.ended[1].problem == ""
        assert state(program.node) == bare
