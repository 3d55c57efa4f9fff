"""Datagrams between a WireGuard on loopback and a websocket: whose each is."""

import select
import socket
from collections.abc import Iterator

import pytest

from liqod.plugins.network.websocketd.datagrams import ASKING, LARGEST, SHORTEST, Datagrams

QUESTION, ANSWER, DATA = (bytes((kind, 0, 0, 0)) for kind in (1, 2, 4))


def local() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    made.settimeout(5)
    return made


@pytest.fixture
def ends() -> Iterator[tuple[Datagrams, socket.socket, socket.socket]]:
    """The stand-in for the other side, a WireGuard, and somebody else on the machine."""
    found = Datagrams()
    with local() as wireguard, local() as other:
        found.give_to(wireguard.getsockname()[1])
        yield found, wireguard, other
        found.close()


def read(datagrams: Datagrams) -> bytes:
    assert select.select([datagrams], [], [], 5)[0]
    return datagrams.read()


def test_datagrams_go_to_the_wireguard_and_to_who_has_asked(
    ends: tuple[Datagrams, socket.socket, socket.socket],
):
    datagrams, wireguard, other = ends
    to = ("127.0.0.1", datagrams.port)
    question = QUESTION + b"asks" + bytes(140)
    wireguard.sendto(DATA + bytes(28), to)
    assert read(datagrams) == DATA + bytes(28)
    # Of another program nothing is carried but a question.
    other.sendto(DATA + bytes(28), to)
    assert read(datagrams) == b""
    other.sendto(question, to)
    assert read(datagrams) == question
    answer = ANSWER + b"from" + b"asks" + bytes(80)
    for piece in (answer, DATA + bytes(60), answer):
        assert datagrams.write(piece)
    assert other.recv(LARGEST) == answer
    # It is answered once, and all else is the WireGuard's.
    assert [wireguard.recv(LARGEST) for _ in range(2)] == [DATA + bytes(60), answer]
    other.setblocking(False)
    with pytest.raises(BlockingIOError):
        other.recv(LARGEST)


@pytest.mark.parametrize("size", [0, SHORTEST - 1, LARGEST + 1])
def test_what_is_no_datagram_is_refused(
    ends: tuple[Datagrams, socket.socket, socket.socket], size: int
):
    assert not ends[0].write(bytes(size))


def test_no_more_is_remembered_than_is_needed(
    ends: tuple[Datagrams, socket.socket, socket.socket],
):
    datagrams, wireguard, other = ends
    for number in range(ASKING + 1):
        other.sendto(
            QUESTION + number.to_bytes(4, "big") + bytes(140), ("127.0.0.1", datagrams.port)
        )
        read(datagrams)
    assert datagrams.write(ANSWER + b"from" + bytes(4) + bytes(80))
    assert wireguard.recv(LARGEST)[:4] == ANSWER
