"""Keys of tunnels: made, taken in, and refused."""

import pytest

from liqod.errors import ProtocolError
from liqod.identity import tunnelkeys
from liqod.network.gateway.publickeys import taken
from tests.unit.network.gateways import PEER, PLACE, meta, public_key

KEYS = [tunnelkeys.generate() for _ in range(3)]
OWN, KEY, OTHER = (keys.public for keys in KEYS)
TURIN = meta("turin", 0, "turin", "liqo-tenant-turin")


def reason(*every) -> str:
    found = taken(every, PEER, PLACE, OWN)
    assert bool(found.key) == (found.refusal is None)
    return found.refusal.reason if found.refusal is not None else ""


def test_a_pair_fits_and_does_not_show_itself():
    keys = KEYS[0]
    assert tunnelkeys.of_private(keys.private) == keys
    assert keys.private.hex() not in repr(keys)
    assert str(keys.private) not in repr(keys)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_private_key_of_another_length_is_none(length: int):
    with pytest.raises(ProtocolError, match="32 bytes"):
        tunnelkeys.of_private(b"x" * length)


def test_the_peers_key_is_taken():
    assert taken([public_key(KEY)], PEER, PLACE, OWN).key == KEY
    assert reason(public_key(KEY)) == ""


def test_there_may_be_none_yet():
    assert reason() == "NoPublicKey"
    assert reason(public_key(KEY, TURIN)) == "NoPublicKey"
    assert reason(public_key(KEY, meta(peer="turin"))) == "NoPublicKey"
    assert reason(public_key(KEY, meta(place="default"))) == "NoPublicKey"


def test_one_in_another_namespace_is_named_while_there_is_none():
    found = taken([], PEER, PLACE, OWN, [public_key(KEY, meta(place="default"))])
    assert found.refusal is not None
    assert "that in default counts for nobody" in found.refusal.message
    assert f"liqoctl create publickey … -n {PLACE}" in found.refusal.message
    others = taken([], PEER, PLACE, OWN, [public_key(KEY, meta(peer="turin", place="default"))])
    assert others.refusal is not None
    assert "default" not in others.refusal.message


@pytest.mark.parametrize("key", [b"", b"k" * 31, b"k" * 33, bytes(32), b"\1" + bytes(31)])
def test_what_is_no_key_is_refused(key: bytes):
    assert reason(public_key(key)) == "BadPublicKey"


def test_this_clusters_own_is_refused():
    assert reason(public_key(OWN)) == "OwnPublicKey"


def test_of_two_peers_with_one_key_the_first_keeps_it():
    assert reason(public_key(KEY, meta(age=1)), public_key(KEY, TURIN)) == "AnothersPublicKey"
    later = meta("turin", 2, "turin", "liqo-tenant-turin")
    assert reason(public_key(KEY, meta(age=1)), public_key(KEY, later)) == ""


def test_the_oldest_of_a_peers_counts():
    assert (
        taken(
            [public_key(OTHER, meta("b", 2)), public_key(KEY, meta("a", 1))], PEER, PLACE, OWN
        ).key
        == KEY
    )
