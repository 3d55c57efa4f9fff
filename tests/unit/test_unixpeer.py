"""The process at the other end of a Unix socket is named by the kernel."""

import os
import socket
import struct

import pytest

from liqod.runtime.unixpeer import UnixPeer, unix_peer


class Named:
    """A connection of which the kernel names this."""

    def __init__(self, process: int, user: int) -> None:
        self._said = struct.pack("=iII", process, user, 0)

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return self._said[:size]


def test_of_a_real_socket_it_is_who_connected():
    one, other = socket.socketpair()
    with one, other:
        assert unix_peer(one) == UnixPeer(os.getpid(), os.geteuid())


@pytest.mark.parametrize(
    ("user", "trusted"), [(0, True), (os.geteuid(), True), (65534, False), (2**32 - 2, False)]
)
def test_root_and_this_user_are_trusted_and_nobody_else(user: int, trusted: bool):
    peer = unix_peer(Named(4711, user))
    assert (peer.user, peer.trusted) == (user, trusted)
