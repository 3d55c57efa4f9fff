"""The sockets by which a tunnel dials: its parent makes and marks them, and they are used again.

So a tunnel dials for as long as it lives, also while no parent is there: the process itself may
make no such socket. The kernel lets a TCP socket connect anew once it has been disconnected, with
its options as they were.
"""

import ctypes
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import trio

from liqod.runtime.gather import first_of
from liqod.sharedport import as_socket

SPARE: Final = 16
"""Sockets of one tunnel: for tries beside each other, and a session beside the older one that it
replaces. A try that finds none waits."""
HEAD_START: Final = 0.5
"""Seconds that an address is ahead of the next one."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_UNSPECIFIED: Final = bytes(16)
"""A ``sockaddr`` of the family ``AF_UNSPEC``."""


class DialSockets:
    """The sockets of one tunnel."""

    def __init__(self) -> None:
        self._all: list[socket.socket] = []
        self._free: list[socket.socket] = []
        self._returned = trio.Event()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, files: Sequence[int]) -> None:
        """Take descriptors, which are this one's from now on."""
        made = [as_socket(file) for file in files]
        self._all += made
        self._free += made

    def files(self) -> list[int]:
        """The descriptors of all of them."""
        return [each.fileno() for each in self._all]

    def close(self) -> None:
        """Close all of them."""
        for each in self._all:
            each.close()
        self._all, self._free = [], []

    async def connect(self, host: str, port: int) -> "tuple[trio.SocketStream, Return]":
        """A connection to the address of a host that answers first.

        Returns:
            The connection, and a function to call after its end, by which its socket is free again.

        Raises:
            OSError: there is none.
        """
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        wrong: list[OSError] = []

        async def attempt(to: tuple[Any, ...]) -> "tuple[trio.SocketStream, Return] | None":
            try:
                return await self._connect(to)
            except OSError as error:
                wrong.append(error)
            return None

        attempts = [partial(attempt, to) for to in self._reached(found)]
        won = await first_of(attempts, HEAD_START, _discard)
        if won is None:
            raise wrong[0] if wrong else OSError("none of its addresses can be dialled here")
        return won

    def _reached(self, found: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The addresses that these sockets reach, of the two families in turn at first."""
        ours = self._all[0].family if self._all else socket.AF_INET
        first = [each for each in found if each[0] == found[0][0]]
        others = [each for each in found if each[0] != found[0][0]]
        ordered = [*first[:1], *others[:1], *first[1:], *others[1:]]
        made: list[tuple[Any, ...]] = []
        for family, _, _, _, to in ordered:
            if family == ours:
                made.append(to)
            elif ours == socket.AF_INET6:
                made.append((f"::ffff:{to[0]}", to[1], 0, 0))
        return list(dict.fromkeys(made))

    async def _connect(self, to: tuple[Any, ...]) -> "tuple[trio.SocketStream, Return]":
        while not self._free:
            await self._returned.wait()
        used = self._free.pop()
        # A copy, which is closed like any other connection.
        made = trio.socket.from_stdlib_socket(used.dup())
        try:
            await made.connect(to)
        except BaseException:
            made.close()
            self._give_back(used)
            raise
        return trio.SocketStream(made), partial(self._give_back, used)

    def _give_back(self, used: socket.socket) -> None:
        """Have one free again, whose connection ends with this."""
        if used.fileno() < 0 or used in self._free:
            return
        disconnect(used.fileno())
        with suppress(OSError):
            # The error of the ended connection is not the next one's.
            used.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._free.append(used)
        self._returned.set()
        self._returned = trio.Event()


Return = Callable[[], None]


def _discard(won: tuple[trio.SocketStream, Return]) -> None:
    won[0].socket.close()
    won[1]()


def made(mark: int) -> list[int]:
    """Make a tunnel's sockets in this namespace; the descriptors, which are the caller's to close.

    Args:
        mark: firewall mark of what they send; 0 for none.

    Raises:
        OSError: the right to mark is missing.
    """
    both = socket.has_dualstack_ipv6()
    found: list[socket.socket] = []
    try:
        for _ in range(SPARE):
            each = socket.socket(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_STREAM)
            found.append(each)
            if both:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if mark:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, mark)
    except BaseException:
        for each in found:
            each.close()
        raise
    return [each.detach() for each in found]


def disconnect(file: int) -> None:
    """End a TCP connection at once, by a reset; its descriptor stays.

    Nothing follows that packet, while ``SO_LINGER``, the other way, is refused to this process
    (:mod:`.confinement`).
    """
    _LIBC.connect(file, _UNSPECIFIED, len(_UNSPECIFIED))


def close_all(files: Sequence[int]) -> None:
    """Close descriptors."""
    for file in files:
        with suppress(OSError):
            os.close(file)
