"""Connections whose last close waits, and their hand-over to another program."""

import socket
import struct
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LINGERS = 20
"""Seconds for which the close of what it hands over waits."""


@contextmanager
def lingering() -> Iterator[socket.socket]:
    """A TCP connection whose last close waits, since the other end reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = socket.create_connection(server.getsockname())
        with server.accept()[0]:
            made.setblocking(False)
            for _ in range(2):
                with suppress(BlockingIOError):
                    while True:
                        made.send(bytes(1 << 16))
                time.sleep(0.3)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGERS))
            yield made
        # Now it can be closed: the other end has gone.


def hand(connection: socket.socket, file: int) -> None:
    """Sends a descriptor beside a byte."""
    connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [file]))])
