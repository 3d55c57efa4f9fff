"""Statements that one key follows another: signed by both, whole, and about no other cluster."""

from base64 import urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.errors import ProtocolError
from liqod.identity import keys
from liqod.identity.successions import CONTEXT, FORMER, LIMIT, NEXT, state, verify, verify_for

KINDS = {"ed25519": keys.generate, "ecdsa": keys.generate_tls, "rsa": keys.generate_rsa}
WAS, COMES, THIEF = keys.generate(), keys.generate(), keys.generate()
TEXT = state("rome", WAS, COMES)


def print_of(private: bytes) -> str:
    return keys.print_of(keys.public_pem(private))


def packed(*parts: bytes) -> str:
    """A statement of these parts, in base64url without padding."""
    return ".".join(("v1", *(urlsafe_b64encode(each).decode().rstrip("=") for each in parts)))


def signed(payload: bytes, was: bytes, comes: bytes, *, contexts=(FORMER, NEXT)) -> str:
    """A statement of whatever is to be stated."""
    first, second = (
        keys.sign(key, CONTEXT + context + payload)
        for key, context in zip((was, comes), contexts, strict=True)
    )
    return packed(payload, first, second)


def payload(cluster_id="rome", was=WAS, comes=COMES) -> bytes:
    ders = [keys.public_der(keys.public_pem(each)) for each in (was, comes)]
    return msgspec.msgpack.encode([cluster_id, *ders])


@pytest.mark.parametrize("one", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_key_follows_another_of_any_kind(one, other):
    was, comes = KINDS[one](), KINDS[other]()
    text = state("rome", was, comes)
    found = verify_for(text, "rome", print_of(was))
    assert (found.cluster_id, found.former, found.next) == ("rome", print_of(was), print_of(comes))
    assert found.public == keys.public_pem(comes)
    assert len(text) < LIMIT


def test_the_largest_statement_fits():
    was, comes = keys.generate_rsa(4096), keys.generate_rsa(4096)
    assert verify(state("x" * 50, was, comes)).former == print_of(was)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (signed(payload(), THIEF, COMES), "not signed by the former"),
        (signed(payload(), WAS, THIEF), "not signed by the next"),
        (signed(payload(comes=THIEF), THIEF, THIEF), "not signed by the former"),
        (signed(payload(), WAS, COMES, contexts=(NEXT, FORMER)), "not signed by the former"),
        (signed(payload(comes=WAS), WAS, WAS), "does not follow itself"),
        (signed(payload() + b"\0", WAS, COMES), "no statement about two keys"),
        (signed(msgspec.msgpack.encode(["rome"]), WAS, COMES), "no statement about two keys"),
        (signed(payload("x" * 64), WAS, COMES), "no statement about two keys"),
        (signed(payload(""), WAS, COMES), "no statement about two keys"),
        (TEXT.replace("v1.", "v2."), "of a version"),
        (f"{TEXT}.{TEXT[3:]}", "of a version"),
        (TEXT + "=", "base64url"),
        (TEXT + "\n", "base64url"),
        ("v1." + "A" * LIMIT, "more than 4096"),
        ("", "of a version"),
    ],
    ids=range(15),
)
def test_anything_else_is_refused(text, why):
    with pytest.raises(ProtocolError, match=why):
        verify(text)


@pytest.mark.parametrize("message", [b"rome", b"MTIzNDU2Nzg5MDEyMzQ1Ng==", b" " * 64])
def test_no_other_signature_of_a_key_is_one_of_a_statement(message):
    """A nonce, TLS and a text that somebody chose."""
    text = packed(payload(), *(keys.sign(key, message) for key in (WAS, COMES)))
    with pytest.raises(ProtocolError, match="not signed"):
        verify(text)


def test_it_is_about_one_cluster_and_the_key_that_is_known():
    with pytest.raises(ProtocolError, match="about rome, and not turin"):
        verify_for(TEXT, "turin", print_of(WAS))
    for known in (COMES, THIEF):
        with pytest.raises(ProtocolError, match="about the key"):
            verify_for(TEXT, "rome", print_of(known))
    with pytest.raises(ProtocolError, match="does not follow itself"):
        state("rome", WAS, WAS)


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="utf-8"))
def test_no_letter_can_be_changed(place, letter):
    text = TEXT[:place] + letter + TEXT[place + 1 :]
    if text == TEXT:
        return
    with pytest.raises(ProtocolError):
        verify(text)


@given(st.text(max_size=300))
def test_nothing_but_the_one_error_is_raised(text):
    for each in (text, f"v1.{text}.{text}.{text}"):
        with pytest.raises(ProtocolError):
            verify(each)
