"""Identification of a peer: the proofs of each machine, and tampering on the way."""

import msgspec
import pytest

from liqod.handshake.protocol.messages import Invited, Prove, Proved, Welcome, decode, encode
from liqod.handshake.protocol.outputs import AskReceived, ExpectedPeer
from tests.unit.handshake.meeting import (
    ASK,
    NONCE,
    PRINT,
    SECRET,
    dialler,
    ended,
    exchange,
    known,
    listener,
    met,
    private,
    prove,
    public,
    said,
)

# Who is met.


def test_another_key_than_the_expected_one_is_told_nothing():
    one = dialler(expected=ExpectedPeer(key=PRINT(public("turin"))))
    assert ended(one.start()).code == "wrong-key"
    assert said(one.start()) == []


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"expected": ExpectedPeer(cluster_id="turin")}, "wrong-id"),
        ({"name": "milan", "private": private("rome")}, "same-id"),
        ({"private": private("milan")}, "itself"),
        ({"versions": (7,)}, "version"),
    ],
)
def test_who_does_not_fit_is_refused(changed, code):
    one, other = dialler(**changed), listener()
    there, here = exchange(one.start(), one, other)
    assert [ended(there).code, ended(here).code] == [code, code]
    assert one.peer is None


def test_a_listener_that_is_not_of_the_certificate_gets_no_proof():
    one = dialler(shown="turin")
    there, _ = exchange(one.start(), one, listener("milan"))
    assert ended(there).code == "proof"
    assert one.peer is None


def test_the_highest_common_version_is_taken():
    one, other = dialler(versions=(1, 3, 9)), listener(versions=(3, 1, 2))
    exchange(one.start(), one, other)
    assert known(one).version == known(other).version == 3


def test_capabilities_are_those_of_both():
    one = dialler(capabilities=("streams", "later"))
    other = listener(capabilities=("streams", "older"))
    exchange(one.start(), one, other)
    assert known(one).capabilities == known(other).capabilities == {"streams"}


def test_what_a_newer_peer_says_besides_is_ignored():
    one, other = dialler(), listener()
    hello = msgspec.json.decode(*said(one.start()))
    welcome = other.receive(msgspec.json.encode({**hello, "colour": {"a": [1]}}).decode())
    assert isinstance(decode(*said(welcome)), Welcome)


# What is tampered with.


def changed(text: str, **fields) -> str:
    """A message with some fields changed."""
    return msgspec.json.encode({**msgspec.json.decode(text), **fields}).decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"versions": [1]},
        {"capabilities": []},
        {"cluster_id": "turin"},
        {"public_key": public("turin").decode()},
        {"commitment": NONCE},
    ],
)
def test_a_changed_hello_proves_nothing(fields):
    one, other = dialler(versions=(1, 2), capabilities=("streams",)), listener(versions=(1, 2))
    (hello,) = said(one.start())
    (welcome,) = said(other.receive(changed(hello, **fields)))
    answer = one.receive(welcome)
    if isinstance(decode(*said(answer)), Prove):
        answer = other.receive(*said(answer))
    assert ended(answer).code == "proof"
    assert other.peer is None


@pytest.mark.parametrize(
    "fields",
    [
        {"capabilities": []},
        {"cluster_id": "turin"},
        {"nonce": NONCE},
        {"version": 1},
        {"version": 1, "versions": [1]},
    ],
)
def test_a_changed_welcome_proves_nothing(fields):
    one = dialler(versions=(1, 2), capabilities=("streams",))
    other = listener(versions=(1, 2), capabilities=("streams",))
    (welcome,) = said(other.receive(*said(one.start())))
    answer = one.receive(changed(welcome, **fields))
    if isinstance(decode(*said(answer)), Prove):
        answer = other.receive(*said(answer))
    assert ended(answer).code == "proof"
    assert one.peer is other.peer is None


def test_proofs_of_another_meeting_are_none_of_this_one():
    old, other = dialler(), listener()
    (hello,) = said(old.start())
    (welcome,) = said(other.receive(hello))
    (prove,) = said(old.receive(welcome))
    again = listener()
    assert said(again.receive(hello)) != [welcome]
    assert ended(again.receive(prove)).code == "proof"
    assert again.peer is None

    (proved, *_) = said(other.receive(prove))
    one = dialler()
    (hello,) = said(one.start())
    one.receive(*said(listener().receive(hello)))
    assert ended(one.receive(proved)).code == "proof"
    assert one.peer is None


def test_a_dialler_cannot_choose_its_nonce_late():
    one, other = dialler(), listener()
    (hello,) = said(one.start())
    (welcome,) = said(other.receive(hello))
    answer = other.receive(prove("rome", "milan", hello, welcome, b"x" * 32))
    assert ended(answer).reason == "this is not the nonce that was committed to"


def test_no_side_proves_with_what_the_other_side_signed():
    one, other = dialler(), listener()
    (prove,) = said(one.receive(*said(other.receive(*said(one.start())))))
    signed = decode(prove)
    assert isinstance(signed, Prove)
    assert ended(one.receive(encode(Proved(signature=signed.signature)))).code == "proof"


def test_an_invitation_is_shown_to_nobody_but_the_key_that_it_names():
    invited = Invited(id="inv-1", secret=SECRET)
    ask = msgspec.structs.replace(ASK, invitation=invited)
    one, _ = met()
    with pytest.raises(ValueError, match="secret"):
        one.ask(ask)
    one, other = met(expected=ExpectedPeer(key=PRINT(public("milan"))))
    assert exchange(one.ask(ask), one, other) == ([], [AskReceived(ask)])
    assert SECRET not in repr(ask)
