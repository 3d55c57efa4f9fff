"""Messages of a daemon and the keeper of its tunnels: one request, one answer, open files along.

A message is JSON in one packet of a Unix socket. Both come from the same image.
"""

import json
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

VARIABLE: Final = "LIQOD_KEEPER"
"""The environment variable with the path of the socket; a host's daemon has no keeper."""
LOCK: Final = ".lock"
"""Suffix of the file beside the socket that every daemon on this node has locked while it runs."""
LARGEST: Final = 1 << 16
"""Bytes of a message."""
FILES: Final = 16
"""Open files that go along with one, at most."""
PATIENCE: Final = 10.0
"""Seconds for an answer: a program that is to end has four of them."""

Message = dict[str, Any]


def send(connection: socket.socket, message: Message, files: Sequence[int] = ()) -> None:
    """Send one. Raises OSError."""
    socket.send_fds(connection, [json.dumps(message).encode()], list(files))


def receive(connection: socket.socket) -> tuple[Message, list[int]]:
    """The next one, and what came along, which is the caller's to close.

    Raises:
        OSError: nothing comes.
        ValueError: what comes is no message.
    """
    data, files, flags, _ = socket.recv_fds(connection, LARGEST, FILES)
    for file in files:
        # Python passes no flags on by which they would be from the beginning.
        os.set_inheritable(file, False)
    message = json.loads(data) if data and not flags & socket.MSG_TRUNC else None
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message, files
