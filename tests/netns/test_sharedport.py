"""A connection that is handed on has the mark of whose it is: a gateway's fence goes by marks."""

import socket
import tempfile
from pathlib import Path

import pytest
import trio

from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.sharedport import DAEMON, SharedPort
from tests.unit.test_sharedport import TUNNEL, answers, free_port

pytestmark = pytest.mark.netns

MARK = 0x6C71


async def mark(came: trio.socket.SocketType) -> None:
    """Say which mark it has."""
    with came:
        await came.recv(1 << 16)
        await came.send(str(came.getsockopt(socket.SOL_SOCKET, socket.SO_MARK)).encode())


@pytest.mark.parametrize("first", [DAEMON, TUNNEL])
async def test_what_is_handed_on_has_the_mark_of_whose_it_is(first: str):
    port, marks = free_port(), {DAEMON: 0, TUNNEL: MARK}
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        async with trio.open_nursery() as nursery:
            for name in sorted(marks, key=lambda each: each != first):
                shared = SharedPort(
                    name, port, Path(made), name[:6], marks[name], mark, ConnectionLimiter(8)
                )
                await nursery.start(shared.run)
            for name, wanted in marks.items():
                await answers(port, f"{name}.milan.example", str(wanted))
            nursery.cancel_scope.cancel()
