"""A connection has the mark of whose it is, whoever listened: a gateway's fence goes by marks."""

import socket
import tempfile
from pathlib import Path

import pytest
import trio

from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, SharedPort
from tests.unit.test_sharedport import Served, answers, free_port, tunnels

pytestmark = pytest.mark.netns

MARK = 0x6C71


async def mark(came: trio.socket.SocketType) -> None:
    """Say which mark it has."""
    with came:
        await came.recv(1 << 16)
        await came.send(str(came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)).encode())


@pytest.mark.parametrize("first", ["daemon", "tunnels"])
async def test_what_is_handed_on_has_the_mark_of_whose_it_is(first: str):
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        served = Served(Path(made), port, mark=MARK)
        shared = SharedPort(port, Path(made), mark, ConnectionLimiter(8))
        async with tunnels(Path(made)), trio.open_nursery() as nursery:
            if first == "tunnels":
                await served.be()
            await nursery.start(shared.run)
            await served.be()
            # The tunnel's own takes none that has another mark.
            await served.reached()
            await answers(port, f"{DAEMON}.milan.example", "0")
            await served.be(mark=MARK + 1)
            await served.reached()
            nursery.cancel_scope.cancel()
