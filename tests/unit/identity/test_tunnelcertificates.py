"""Two ends that know each other's key show certificates that each expects; nobody else can."""

from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from liqod.errors import ProtocolError
from liqod.identity import tunnelkeys
from liqod.identity.tunnelcertificates import Pinned, pinned

SERVER = tunnelkeys.of_private(bytes(range(32)))
CLIENT = tunnelkeys.of_private(bytes(range(32, 64)))


def ends(server: tunnelkeys.TunnelKeys, client: tunnelkeys.TunnelKeys) -> tuple[Pinned, Pinned]:
    return (
        pinned("server", server.private, server.public, client.public),
        pinned("client", client.private, client.public, server.public),
    )


def shown(end: Pinned) -> bytes:
    return x509.load_pem_x509_certificate(end.identity.encode()).public_bytes(Encoding.DER)


def test_each_end_expects_what_the_other_one_shows():
    server, client = ends(SERVER, CLIENT)
    assert shown(server) == client.peer
    assert shown(client) == server.peer
    assert server.name == client.name


def test_the_sides_show_different_ones():
    """A certificate that one end sends cannot be sent back to it."""
    server, client = ends(SERVER, CLIENT)
    assert shown(server) != shown(client)


def test_they_are_the_same_bytes_wherever_they_are_made():
    """Both ends compute them, each with a library of its own: another release of it must not make
    others. The digest was taken with cryptography 50."""
    server, client = ends(SERVER, CLIENT)
    made = sha256(server.peer + client.peer + server.name.encode()).hexdigest()
    assert made == "7ad4b6fd1d339e861cc6c3244eef767e81520c3a78bf09993b343dbd3bfe1504"


@pytest.mark.parametrize("side", ["server", "client"])
def test_another_key_on_either_side_changes_all(side: str):
    other = tunnelkeys.generate()
    before = ends(SERVER, CLIENT)
    after = ends(other, CLIENT) if side == "server" else ends(SERVER, other)
    for one, two in zip(before, after, strict=True):
        assert one.name != two.name
        assert one.peer != two.peer
        assert shown(one) != shown(two)


def test_the_roles_swapped_change_all():
    """A server of one direction is not one of the other, though the secret is the same."""
    server, _ = ends(SERVER, CLIENT)
    _, client = ends(CLIENT, SERVER)
    assert server.name != client.name
    assert shown(server) != shown(client)


@pytest.mark.parametrize("key", [bytes(32), b"", b"\1" + bytes(31), b"k" * 31, b"k" * 33])
def test_with_what_is_no_key_there_is_nothing(key: bytes):
    with pytest.raises(ProtocolError, match="nothing secret"):
        pinned("server", SERVER.private, SERVER.public, key)


def test_it_shows_no_key():
    server, _ = ends(SERVER, CLIENT)
    assert "PRIVATE" in server.identity
    assert repr(server) == f"Pinned({server.name})"
