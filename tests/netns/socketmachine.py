"""A machine's side in a process of its own, in a namespace that is a node, and its daemons."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from liqod.network import machinesocketdial
from liqod.network.dataplane.overlayplan import Overlay, OverlayNode
from liqod.network.framestream import FrameStream
from liqod.network.machine.machinesocket import DaemonAccount
from liqod.network.orders import messages
from liqod.network.orders.greeting import Generation, Greeting
from liqod.network.orders.overlay import LeadOverlay, OverlayState
from tests.netns.machineprogram import CLUSTER
from tests.testbed.netns import Networks, inside
from tests.testbed.processes import usage
from tests.unit.network.ordering import admitted

DAEMON = DaemonAccount(64711, 64712)
ONE = OverlayNode(name="one", address="192.168.7.10", index=1, pods=("10.244.0.0/24",))
TWO = OverlayNode(name="two", address="192.168.7.11", index=2, pods=("10.244.1.0/24",))
LEAD = LeadOverlay(ONE, (ONE, TWO), Overlay(pods=("10.244.0.0/16",), aliases={}))


class Machine:
    """The program, in a namespace that is a node."""

    def __init__(self, networks: Networks, folder: Path) -> None:
        self.node = networks.make("machine")
        inside(self.node, "ip link add lan type bridge")
        # It makes itself an address of IPv6 a moment later otherwise.
        inside(self.node, "ip link set lan addrgenmode none")
        inside(self.node, f"ip address add {ONE.address}/24 dev lan")
        inside(self.node, "ip link set lan up")
        self.folder = folder
        self.start()

    def start(self) -> None:
        entering = ("nsenter", f"--net=/run/netns/{self.node}", sys.executable, "-m")
        words = ("tests.netns.machineprogram", str(self.folder), *map(str, DAEMON))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*entering, *words], **pipes)  # type: ignore[call-overload]
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for each in (self.process.stdin, self.process.stdout):
            each.close()

    def memory(self) -> int:
        """Bytes that it has; it lives, and does its work."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ready\n"
        return usage(self.process.pid).rss

    @asynccontextmanager
    async def daemon(self, generation: Generation) -> AsyncIterator[FrameStream]:
        """The connection of a daemon that may order."""
        async with await machinesocketdial.dial(self.folder) as stream:
            yield await admitted(stream, Greeting(1, 1, CLUSTER, generation))

    async def answers(self) -> None:
        """It takes a daemon that was started later."""
        async with self.daemon(Generation(started=6)):
            pass

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[FrameStream]:
        """A daemon's connection, by which the machine leads its overlay."""
        async with self.daemon(Generation(started=5)) as connection:
            await lead(connection)
            yield connection


async def lead(connection: FrameStream) -> None:
    await connection.deliver(LEAD)
    with trio.fail_after(30):
        while messages.REPLIES.decode(await connection.receive()) != OverlayState():
            pass
