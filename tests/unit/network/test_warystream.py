"""A daemon that is taken over hands over what this program would have to wait for to close."""

import os
import socket
import tempfile
import time
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from liqod.network.machine.machineserver import MachineServer
from liqod.network.machine.machinesocket import DaemonAccount, MachineSocket
from liqod.network.orders.greeting import SOCKET
from tests.unit.lingering import LINGERS, hand, lingering
from tests.unit.network.ordering import admitted, hello


@pytest.mark.parametrize("unread", [False, True])
async def test_descriptors_that_come_along_keep_nobody_waiting(unread: bool):
    own = DaemonAccount(os.geteuid(), os.getegid())
    server = MachineServer("rome", list[object]().append)
    with tempfile.TemporaryDirectory(prefix="liqod-") as made:
        folder = Path(made) / "sockets"
        async with trio.open_nursery() as nursery:
            await nursery.start(MachineSocket(folder, own, {SOCKET: server.serve}).run)
            with socket.socket(socket.AF_UNIX) as hostile, lingering() as connection:
                hostile.connect(os.fspath(folder / SOCKET))
                if unread:
                    # It ends with this one, and what is behind it is never received.
                    hand(hostile, hostile.fileno())
                hand(hostile, connection.fileno())
                connection.close()
                began = time.monotonic()
                await wait_all_tasks_blocked()
                async with await trio.open_unix_socket(folder / SOCKET) as stream:
                    await admitted(stream, hello(1))
                assert time.monotonic() - began < LINGERS / 2
            nursery.cancel_scope.cancel()
