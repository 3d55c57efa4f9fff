"""Two clusters on one machine have their tunnels at port 443, by a `liqod node` of each."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from liqod.identity import tunnelkeys
from liqod.network.dataplane.names import Side
from liqod.network.framestream import FrameStream
from liqod.network.hostcapabilities import FOLDER
from liqod.network.orders.tunnels import ReadMachine, Surroundings, TunnelOrder, TunnelReport
from liqod.plugins.network import uapi
from tests.netns.grounds import ground
from tests.netns.lab import set_up, wire
from tests.netns.nodeprogram import NodeProgram
from tests.simulated.borrower import eventually
from tests.testbed.netns import Networks
from tests.unit.network.ordering import admitted, hello, reply
from tests.unit.network.tunnels import GATEWAY, ORDER, RANGES

pytestmark = [pytest.mark.netns, pytest.mark.network]

SERVER = "198.51.100.1"
PAIRS = (("rome", "milan"), ("oslo", "bergen"))


class Ordered:
    """One cluster's `liqod node`, and a daemon that orders it one tunnel.

    Args:
        cluster: id of the cluster.
        program: its `liqod node`.
        order: for the tunnel.
    """

    def __init__(self, cluster: str, program: NodeProgram, order: TunnelOrder) -> None:
        self.cluster, self.program, self._order = cluster, program, order
        self.states: list[str] = []

    async def run(self) -> None:
        """Order it, as often as the program begins anew."""
        while True:
            try:
                async with await self.program.dial() as stream:
                    await self._orders(await admitted(stream, hello(5, of=self.cluster)))
            except* Exception:
                await trio.sleep(0.2)

    async def _orders(self, connection: FrameStream) -> None:
        await connection.deliver(ReadMachine(1, Surroundings(address=SERVER)))
        await connection.deliver(self._order)
        while True:
            state = (await reply(connection, TunnelReport)).state
            self.states.append(f"{state.state} {state.why}".strip())

    async def connects(self) -> None:
        """Waits for a report from now on that packets pass."""
        known = len(self.states)
        try:
            await eventually(lambda: "Connected" in self.states[known:], seconds=60)
        except trio.TooSlowError:
            raise AssertionError(f"{self.cluster}: {self.states}\n{self.program.said()}") from None


def orders(number: int, server: str, client: str) -> dict[str, TunnelOrder]:
    """Those of both ends of one tunnel in a websocket, by clusters."""
    keys = {each: tunnelkeys.generate() for each in (server, client)}
    made: dict[str, TunnelOrder] = {}
    sides: dict[Side, tuple[str, str]] = {"server": (server, client), "client": (client, server)}
    for place, (side, (own, peer)) in enumerate(sides.items()):
        where = (f"{SERVER}:443",) if side == "client" else ()
        gateway = replace(GATEWAY, side=side, backend="websocket", port=443, endpoints=where)
        first = 80 + 4 * number + 2 * place
        seen = replace(
            RANGES.seen, pod=(f"10.{first}.0.0/16",), external=(f"10.{first + 1}.0.0/16",)
        )
        made[own] = replace(
            ORDER,
            peer=peer,
            ranges=replace(RANGES, seen=seen),
            gateway=replace(gateway, websocket=0, transport="TCP"),
            private_key=keys[own].private,
            public_key=keys[own].public,
            peer_key=keys[peer].public,
        )
    return made


@asynccontextmanager
async def clusters(networks: Networks, folder: Path) -> AsyncIterator[dict[str, Ordered]]:
    """Both servers on one machine, and their clients on another, by clusters."""
    one, other = networks.make("servers"), networks.make("clients")
    wire(one, "wan", other, "wan")
    for number, node in enumerate((one, other), 1):
        set_up(node, "wan", f"198.51.100.{number}/24")
    found: dict[str, Ordered] = {}
    async with ground(folder, "", *(each for pair in PAIRS for each in pair)) as made:
        try:
            for number, pair in enumerate(PAIRS):
                server, client = (f"{made.word}{each}" for each in pair)
                wanted = orders(number, server, client)
                for node, name, own in zip((one, other), pair, (server, client), strict=True):
                    program = NodeProgram(node, SERVER, "", made.short / name)
                    found[name] = Ordered(own, program, wanted[own])
            async with trio.open_nursery() as nursery:
                for each in found.values():
                    each.program.start()  # all at once, as at the start of a machine
                    nursery.start_soon(each.run)
                yield found
                nursery.cancel_scope.cancel()
        finally:
            for each in found.values():
                await each.program.close()


async def test_the_tunnels_of_both_are_served_at_one_port_and_one_s_program_is_no_other_s(
    networks: Networks, tmp_path: Path
):
    async with clusters(networks, tmp_path) as found:
        for each in found.values():
            await each.connects()
        control = Path(FOLDER) / f"tunnels-{found['rome'].program.node}.socket"
        process = await uapi.process(control)
        assert process is not None
        # One `liqod node` is killed: nothing ends, and it finds its own again.
        known = len(found["oslo"].states)
        found["rome"].program.kill()
        found["rome"].program.start()
        await found["rome"].connects()
        assert await uapi.process(control) == process
        assert {"Connected"} >= set(found["oslo"].states[known:])
        # The process of both is killed, and each has its tunnel again.
        os.kill(process, signal.SIGKILL)
        for each in found.values():
            await each.connects()
        assert await uapi.process(control) not in (None, process)
