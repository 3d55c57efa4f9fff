"""A call of the daemon has no mark, and a tunnel's has its own: a gateway's fence goes by marks."""

import socket
import tempfile
from pathlib import Path

import pytest
import trio

from liqod.sharedport import DAEMON
from tests.testbed.processes import free_ports
from tests.unit.sharedports import Served, answer, daemon, node, tunnels

pytestmark = [pytest.mark.netns, pytest.mark.network]

MARK = 0x6C71


async def mark(came: trio.socket.SocketType) -> None:
    """Say which mark it has."""
    with came:
        await came.recv(1 << 16)
        await came.send(str(came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)).encode())


@pytest.mark.parametrize("first", ["daemon", "tunnels"])
async def test_what_is_handed_on_has_the_mark_of_whose_it_is(first: str):
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        folder = Path(made)
        served = Served(folder, port, mark=MARK)
        async with tunnels(folder), node(folder, port):
            if first == "tunnels":
                await served.be()
            async with daemon(folder, take=mark):
                assert await answer(port, f"{DAEMON}.milan.example") == "0"
                await served.be()
                # The tunnel's own takes none that has another mark.
                await served.reached()
                assert await answer(port, f"{DAEMON}.milan.example") == "0"
                await served.be(mark=MARK + 1)
                await served.reached()
                assert await answer(port, f"{DAEMON}.milan.example") == "0"


async def test_a_server_that_stood_by_marks_the_port_that_was_opened_for_the_daemon():
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        folder = Path(made)
        served = Served(folder, port, mark=MARK)
        async with tunnels(folder), node(folder, port):
            await served.be(quiet=True)
            async with daemon(folder, take=mark):
                await served.be()
                await served.reached()
                assert await answer(port, f"{DAEMON}.milan.example") == "0"
