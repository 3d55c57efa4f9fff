"""Words: plain, distinct, and every bit of what they are made of."""

import os
import re

from liqod.handshake.protocol import proof
from liqod.handshake.protocol.sas import BITS, COUNT, WORDS, sas_words
from tests.unit.handshake.meeting import public


def test_there_are_as_many_as_the_bits_say_and_no_two_differ_in_one_letter():
    assert len(set(WORDS)) == len(WORDS) == 1 << BITS
    assert all(re.fullmatch("[a-z]{3,9}", word) for word in WORDS)
    changed = [f"{word[:at]}?{word[at + 1 :]}" for word in WORDS for at in range(len(word))]
    assert len(set(changed)) == len(changed)
    shorter = {word[:at] + word[at + 1 :] for word in WORDS for at in range(len(word))}
    assert not shorter & set(WORDS)


def test_each_bit_that_counts_changes_a_word():
    digest = bytes(32)
    assert sas_words(digest) == "-".join([WORDS[0]] * COUNT)
    assert sas_words(b"\xff" * 32) == "-".join([WORDS[-1]] * COUNT)
    seen = {sas_words((1 << 255 - bit).to_bytes(32, "big")) for bit in range(COUNT * BITS)}
    assert len(seen) == COUNT * BITS
    assert sas_words(digest) not in seen


def test_words_are_of_both_keys_and_both_nonces():
    one, other = os.urandom(32), os.urandom(32)
    rome, milan, turin = (public(name) for name in ("rome", "milan", "turin"))
    seen = {
        proof.seen(rome, milan, one, other),
        proof.seen(milan, rome, one, other),
        proof.seen(rome, turin, one, other),
        proof.seen(turin, milan, one, other),
        proof.seen(rome, milan, other, one),
        proof.seen(rome, milan, one, one),
        proof.seen(rome, milan, other, other),
    }
    assert len(seen) == 7
    assert proof.seen(rome + b"\n", milan, one, other) in seen
