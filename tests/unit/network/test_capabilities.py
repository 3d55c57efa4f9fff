"""A machine that has no file free for a moment lacks nothing, and is not known to."""

import errno
import shutil
import socket

import pytest

from liqod.errors import NetworkError
from liqod.network.dataplane.kernel import capabilities, sysctls


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has all that is looked for before sockets."""
    monkeypatch.setattr(capabilities, "may", lambda right: True)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/sbin/{program}")
    monkeypatch.setattr(sysctls, "is_locked", lambda: False)


def sockets_fail(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: object) -> socket.socket:
        raise OSError(number, "as the test wants it")

    monkeypatch.setattr(socket, "socket", refused)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("number", capabilities.EXHAUSTED, ids=errno.errorcode.get)
def test_a_socket_that_cannot_be_had_now_is_no_lack(monkeypatch: pytest.MonkeyPatch, number: int):
    sockets_fail(monkeypatch, number)
    with pytest.raises(NetworkError, match=r"cannot be looked at now: .*as the test wants it"):
        capabilities.look(tunnels=False)


@pytest.mark.usefixtures("able")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT])
def test_a_socket_that_the_kernel_does_not_know_is_one(
    monkeypatch: pytest.MonkeyPatch, number: int
):
    sockets_fail(monkeypatch, number)
    found = capabilities.look(tunnels=False)
    assert found is not None
    assert "as the test wants it" in found
