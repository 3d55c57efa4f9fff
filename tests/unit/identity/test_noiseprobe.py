"""Questions to a WireGuard, and what is taken for their answers."""

import pytest

from liqod.errors import ProtocolError
from liqod.identity import tunnelkeys
from liqod.identity.noiseprobe import ANSWER_LENGTH, make_probe, probe_keys

ROME, MILAN, TURIN = (tunnelkeys.of_private(bytes([each]) * 32) for each in (1, 2, 3))


def test_both_ends_have_the_same_keys_and_nobody_else():
    here = probe_keys(ROME.private, ROME.public, MILAN.public, dialled=False)
    there = probe_keys(MILAN.private, MILAN.public, ROME.public, dialled=True)
    assert here.private == there.private
    assert here.public == there.public
    assert here.public not in (ROME.public, MILAN.public)
    other = probe_keys(TURIN.private, TURIN.public, MILAN.public, dialled=False)
    assert other.public != here.public
    # Who dials is part of it: each way round has keys of its own.
    assert here.public != probe_keys(ROME.private, ROME.public, MILAN.public, dialled=True).public


def test_a_question_tells_nobody_who_asks_and_none_is_like_another():
    keys = probe_keys(ROME.private, ROME.public, MILAN.public, dialled=False)
    one, other = (make_probe(keys, MILAN.public, 10**18) for _ in range(2))
    assert len(one.datagram) == 148
    assert one.datagram[:4] == bytes((1, 0, 0, 0))
    for secret in (keys.public, keys.private, ROME.public, one.ephemeral):
        assert secret not in one.datagram
    assert one.datagram[8:] != other.datagram[8:]
    assert repr(one) == f"NoiseProbe({one.index.hex()})"


@pytest.mark.parametrize("length", [0, 4, ANSWER_LENGTH - 1, ANSWER_LENGTH, ANSWER_LENGTH + 1])
def test_what_nobody_who_was_asked_can_have_said_is_no_answer(length: int):
    """Also where the index was read on the way: the rest needs the key of who was asked."""
    keys = probe_keys(ROME.private, ROME.public, MILAN.public, dialled=False)
    asked = make_probe(keys, MILAN.public, 10**18)
    head = bytes((2, 0, 0, 0)) + b"from" + asked.index
    for filling in (bytes(ANSWER_LENGTH), bytes(range(1, ANSWER_LENGTH + 1)), TURIN.public * 3):
        assert not asked.is_answer((head + filling)[:length])


def test_a_key_with_which_nothing_secret_can_be_agreed_on_is_an_error():
    with pytest.raises(ProtocolError):
        probe_keys(ROME.private, ROME.public, bytes(32), dialled=False)
    with pytest.raises(ProtocolError):
        make_probe(MILAN, bytes(32), 0)
