"""TLS between two ends in one memory: what goes in at one comes out at the other."""

import ssl

import pytest

from liqod.identity import certificates
from liqod.kube.http import tls
from liqod.runtime.tlspump import PIECE, TlsPump

LARGE = bytes(range(256)) * 4096


def ends() -> tuple[TlsPump, TlsPump]:
    """A client and its server, which have not greeted each other yet."""
    authority = certificates.make_ca("x")
    pair = certificates.make_server(authority, ["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_chain(server, pair.certificate, pair.key)
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    return TlsPump(client, "127.0.0.1"), TlsPump(server, None)


def greeted() -> tuple[TlsPump, TlsPump]:
    one, other = ends()
    done = [False, False]
    while not all(done):
        for number, (near, far) in enumerate(((one, other), (other, one))):
            done[number] = done[number] or near.greet()
            if near.pending:
                far.feed(near.outgoing())
    assert not any(one.pieces())
    return one, other


def test_what_is_written_at_one_end_is_read_at_the_other():
    one, other = greeted()
    for data in (b"", b"x", bytes(PIECE), LARGE):
        one.write(data)
        if data:
            other.feed(one.outgoing())
        assert b"".join(other.pieces()) == data
        other.write(data)
        if data:
            one.feed(other.outgoing())
        assert b"".join(one.pieces()) == data


def test_what_comes_in_crumbs_comes_whole():
    one, other = greeted()
    one.write(LARGE[:5000])
    found: list[bytes] = []
    for byte in one.outgoing():
        other.feed(bytes((byte,)))
        found += other.pieces()
    assert b"".join(found) == LARGE[:5000]


@pytest.mark.parametrize("goodbye", [True, False])
def test_an_empty_piece_is_the_end_after_all_that_came_before(goodbye: bool):
    one, other = greeted()
    one.write(LARGE)
    if goodbye:
        with pytest.raises(ssl.SSLWantReadError):
            one.tls.unwrap()
    other.feed(one.outgoing())
    found = list(other.pieces())
    if not goodbye:
        assert all(found)
        other.feed(b"")
        found += other.pieces()
    assert b"".join(found) == LARGE
    assert found[-1] == b""
    assert list(other.pieces()) == [b""]


def test_nonsense_raises_once_what_was_right_is_read_and_then_it_is_the_end():
    one, other = greeted()
    one.write(b"right")
    other.feed(one.outgoing() + bytes(100))
    pieces = other.pieces()
    found = [next(pieces)]
    with pytest.raises(ssl.SSLError):
        next(pieces)
    assert found == [b"right"]
    assert list(other.pieces()) == [b""]


def test_a_client_that_does_not_trust_the_server_says_so_to_it():
    authority = certificates.make_ca("y")
    client = TlsPump(ssl.create_default_context(cadata=authority.certificate.decode()), "127.0.0.1")
    _, server = ends()
    assert not client.greet()
    server.feed(client.outgoing())
    assert not server.greet()
    client.feed(server.outgoing())
    with pytest.raises(ssl.SSLCertVerificationError):
        client.greet()
    assert client.pending, "the alert"
