"""Somebody in the middle, who changes, swaps and repeats what he likes: he is never taken for
another one, and the words that the two sides compare are not the same."""

import os
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liqod.handshake.protocol import exchange, proof
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.handshake.protocol.messages import Hello, Prove, Welcome, decode, encode
from liqod.handshake.protocol.outputs import ExpectedPeer, Outputs
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.identity import keys
from tests.unit.handshake.meeting import (
    certificate,
    dialler,
    listener,
    own,
    private,
    prove,
    public,
    said,
)

MIDDLE = "turin"
"""The cluster between rome, which dials, and milan, which listens."""
KEY = {name: keys.print_of(public(name)) for name in ("rome", "milan", MIDDLE)}


class Middle:
    """A man in the middle: the messages that pass through it, and its changes to them.

    Args:
        draw: chooses.
        shown: whose certificate rome sees: its own, or milan's where TLS has not held.
    """

    def __init__(self, draw, shown: str) -> None:
        self.draw = draw
        self.shown = shown
        self.one = dialler(shown=shown, versions=(1, 2))
        self.other = listener(versions=(1, 2))
        self.old = old_meeting()
        self.to_one = ListenerMachine(
            own(MIDDLE, versions=(1, 2)), certificate(shown), os.urandom(32)
        )
        self.nonce = os.urandom(32)
        self.to_other = DiallerMachine(
            own(MIDDLE, versions=(1, 2)), ExpectedPeer(), certificate("milan"), self.nonce
        )
        self.heard: dict[str, str] = {}
        self.told: dict[str, str] = {}

    def run(self) -> None:
        """One meeting, as far as it goes."""
        text = said(self.one.start())
        for kind in ("hello", "welcome", "prove", "proved"):
            if not text:
                return
            self.heard[kind] = text[0]
            self.told[kind] = self.changed(kind, text[0])
            side = self.one if kind in ("welcome", "proved") else self.other
            outputs: Outputs = side.receive(self.told[kind])
            text = said(outputs)

    def changed(self, kind: str, text: str) -> str:
        """The message that it passes on: the original, one of an older meeting or of its own, with
        some fields of its own choice."""
        match self.draw(st.integers(0, 6)):
            case 0:
                return self.old[kind]
            case 1 | 2 | 3:
                text = self.own(kind, text)
        if self.draw(st.booleans()):
            return text
        fields = msgspec.json.decode(text)
        for name, values in self.choices(kind).items():
            choice = self.draw(st.integers(0, len(values)))
            if choice and name in fields:
                fields[name] = values[choice - 1]
        return msgspec.json.encode(fields).decode()

    def own(self, kind: str, text: str) -> str:
        """The message that it would send by itself to the receiver of this one."""
        if kind == "hello":
            return said(self.to_other.start())[0]
        side = self.to_other if kind == "prove" else self.to_one
        heard = {"welcome": "hello", "prove": "welcome", "proved": "prove"}[kind]
        found = said(side.receive(self.heard[heard]))
        return found[0] if found else text

    def choices(self, kind: str) -> dict[str, list[Any]]:
        """The values that it can put into a message, by field."""
        return {
            "versions": [[1]],
            "version": [1],
            "cluster_id": [MIDDLE],
            "public_key": [public(MIDDLE).decode(), public("rome").decode()],
            "commitment": [pack(proof.commitment(self.nonce))],
            "nonce": [pack(self.nonce), pack(os.urandom(32))],
            "signature": self.signatures(kind) if kind in ("prove", "proved") else [],
        }

    def signatures(self, kind: str) -> list[str]:
        """With its own key over whatever either side may be thinking of, and those it received."""
        role: proof.Role = "dialler" if kind == "prove" else "listener"
        heard, told = self.heard, self.told
        nonces = [self.nonce]
        if "prove" in heard:
            message = decode(heard["prove"])
            nonces += [unpack(message.nonce)] if isinstance(message, Prove) else []
        digests = [
            proof.transcript(certificate(whose), hello, welcome, nonce)
            for whose in (MIDDLE, "milan")
            for hello, welcome in (
                (heard["hello"], told["welcome"]),
                (told["hello"], heard["welcome"]),
            )
            for nonce in nonces
        ]
        made = [pack(proof.prove(private(MIDDLE), role, each)) for each in digests]
        kept = [msgspec.json.decode(self.old[each])["signature"] for each in ("prove", "proved")]
        return made + kept


def old_meeting() -> dict[str, str]:
    """All that was said when rome and milan met before."""
    one, other = dialler(), listener()
    (hello,) = said(one.start())
    (welcome,) = said(other.receive(hello))
    (prove,) = said(one.receive(welcome))
    (proved,) = said(other.receive(prove))
    return {"hello": hello, "welcome": welcome, "prove": prove, "proved": proved}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whoever_shows_a_certificate_of_its_own_is_nobody_else(data):
    middle = Middle(data.draw, MIDDLE)
    middle.run()
    there, here = middle.one.peer, middle.other.peer
    assert there is None or there.key == KEY[MIDDLE]
    assert here is None or here.key == KEY[MIDDLE]
    if there is not None and here is not None:
        assert there.words != here.words


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whoever_changes_what_is_said_inside_is_noticed(data):
    middle = Middle(data.draw, "milan")
    middle.run()
    there, here = middle.one.peer, middle.other.peer
    assert there is None or there.key == KEY["milan"]
    assert here is None or here.key in (KEY["rome"], KEY[MIDDLE])
    if here is not None and here.key == KEY["rome"]:
        assert all(same(middle, kind) for kind in ("hello", "welcome"))
        assert here.version == 2
    if there is not None:
        assert all(same(middle, kind) for kind in ("hello", "welcome", "prove", "proved"))
        assert here is not None
        assert there.words == here.words
        assert there.version == here.version == 2


def same(middle: Middle, kind: str) -> bool:
    """True if a message came as it was sent, but for blanks."""
    return decode(middle.heard[kind]) == decode(middle.told[kind])


def two_meetings() -> tuple[DiallerMachine, ListenerMachine, DiallerMachine, ListenerMachine]:
    """rome with who stands between, and that one with milan."""
    to_middle = ListenerMachine(own(MIDDLE), certificate(MIDDLE), os.urandom(32))
    from_middle = dialler(MIDDLE)
    return dialler(shown=MIDDLE), to_middle, from_middle, listener()


def few(digest: bytes) -> str:
    """One of 64 words."""
    return str(digest[0] % 64)


def grind(target: str, listener_nonce: bytes) -> bytes:
    """A nonce with which milan sees those words: cheap, where there are few of them."""
    while True:
        nonce = os.urandom(32)
        seen = proof.seen(public(MIDDLE), public("milan"), nonce, listener_nonce)
        if few(seen) == target:
            return nonce


@pytest.mark.parametrize("held", [True, False])
def test_the_words_cannot_be_chosen_unless_the_commitment_is_not_held(held, monkeypatch):
    monkeypatch.setattr(exchange, "sas_words", few)
    if not held:
        monkeypatch.setattr(proof, "keeps", lambda *_: True)
    one, to_middle, from_middle, other = two_meetings()
    (hello,) = said(one.start())
    assert not hasattr(decode(hello), "nonce")
    one.receive(*said(to_middle.receive(*said(one.receive(*said(to_middle.receive(hello)))))))
    assert one.peer is not None
    (hello,) = said(from_middle.start())
    (welcome,) = said(other.receive(hello))
    greeting = decode(welcome)
    assert isinstance(greeting, Welcome)
    chosen = grind(one.peer.words, unpack(greeting.nonce))
    other.receive(prove(MIDDLE, "milan", hello, welcome, chosen))
    if held:
        assert other.peer is None
    else:
        assert other.peer is not None
        assert other.peer.words == one.peer.words


def test_the_words_of_two_meetings_are_equal_by_chance_alone(monkeypatch):
    monkeypatch.setattr(exchange, "sas_words", lambda digest: str(digest[0] % 16))
    equal = 0
    for _ in range(160):
        one, to_middle, from_middle, other = two_meetings()
        one.receive(
            *said(
                to_middle.receive(*said(one.receive(*said(to_middle.receive(*said(one.start()))))))
            )
        )
        other.receive(*said(from_middle.receive(*said(other.receive(*said(from_middle.start()))))))
        assert one.peer is not None
        assert other.peer is not None
        equal += one.peer.words == other.peer.words
    assert equal < 40, "10 are to be expected"


def test_an_older_hello_alone_opens_nothing():
    old = old_meeting()
    other = listener()
    assert isinstance(decode(*said(other.receive(old["hello"]))), Welcome)
    assert decode(*said(other.receive(old["prove"]))).__struct_config__.tag == "refused"
    assert other.peer is None
    hello = decode(old["hello"])
    assert isinstance(hello, Hello)
    assert encode(hello) == old["hello"]


def test_a_key_that_is_expected_is_the_only_one():
    one = dialler(shown=MIDDLE, expected=ExpectedPeer(key=KEY["milan"]))
    assert said(one.start()) == []
