"""Every interleaving of ask, accept, deny, cancel, expire, loss and restart, of two clusters that
ask each other, one of which dials both times, with strangers who would be somebody else.

And the safeguards are such: with one of them taken out, the same search finds what it prevents.
"""

import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from liqod.handshake.protocol import proof
from liqod.handshake.protocol.encoding import pack
from liqod.handshake.protocol.messages import Ask, Hello, decode, encode
from liqod.handshake.protocol.outputs import ExpectedPeer, Outputs
from liqod.handshake.protocol.requestphase import FINAL_PHASES
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from tests.unit.handshake.meeting import (
    OTHER,
    REQUEST,
    YES,
    certificate,
    own,
    prove,
    public,
    said,
)
from tests.unit.handshake.world import Wanted

WAYS = st.sampled_from([0, 1])
BEGINNINGS = st.sampled_from([2, 3, 4, 1, 0])
Test = Callable[[Wanted], bool]


def waits(wanted: Wanted) -> bool:
    """True if the provider has still to decide."""
    return wanted.there.standing == "Waiting"


def goes_on(wanted: Wanted) -> bool:
    """True if the consumer still wants it."""
    return wanted.here.standing in ("Waiting", "Accepted")


def crossing(wanted: Wanted) -> bool:
    """True if messages of both sides may cross."""
    return goes_on(wanted) and connected(wanted)


def agreed(wanted: Wanted) -> bool:
    """True if the consumer may do its part."""
    return wanted.here.standing == wanted.there.standing == "Accepted"


def connected(wanted: Wanted) -> bool:
    """True if there is a channel."""
    return wanted.one is not None


def under_way(wanted: Wanted) -> bool:
    """True if a message is under way."""
    return bool(wanted.to_borrower or wanted.to_lender)


def over(wanted: Wanted) -> bool:
    """True if the request is over for the consumer."""
    return wanted.here.standing in FINAL_PHASES


def agree(wanted: Wanted) -> None:
    """Once they are connected for long enough, both sides say the same of a request."""
    for _ in range(2):
        wanted.connect()
        wanted.settle()
    wanted.check()
    here, there = wanted.verdicts()
    assert here == there, "the sides disagree"
    assert wanted.one is not None
    assert wanted.one.streams == (wanted.tenant or here == "Accepted"), here


def when(test: Test) -> Any:
    """A rule that has something to do."""
    return precondition(lambda self: any(map(test, self.wanted)))


class World(RuleBasedStateMachine):
    """rome wants to borrow from milan, and milan from rome; all connections are rome's."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = [
            Wanted("rome", "milan", REQUEST),
            Wanted("milan", "rome", OTHER, lender_dials=True),
        ]

    @initialize(first=BEGINNINGS, second=BEGINNINGS)
    def begin(self, first, second):
        """Most courses of interest begin with a request that somebody has to decide."""
        for wanted, beginning in zip(self.wanted, (first, second), strict=True):
            wanted.begin(beginning)

    def of(self, way: int, test: Test) -> Wanted:
        """That way, or the other one where there is nothing to do."""
        return self.wanted[way] if test(self.wanted[way]) else self.wanted[1 - way]

    @rule(way=WAYS)
    def connect(self, way):
        self.of(way, lambda wanted: not connected(wanted)).connect()

    @when(under_way)
    @rule(way=WAYS, back=st.booleans())
    def deliver(self, way, back):
        self.of(way, under_way).deliver(back=back)

    @when(under_way)
    @rule(way=WAYS)
    def settle(self, way):
        self.of(way, under_way).settle()

    @when(waits)
    @rule(way=WAYS)
    def accept(self, way):
        self.of(way, waits).decide("accepted")

    @when(waits)
    @rule(way=WAYS, event=st.sampled_from(["denied", "expired"]))
    def deny(self, way, event):
        self.of(way, waits).decide(event)

    @when(goes_on)
    @rule(way=WAYS, event=st.sampled_from(["expired", "failed"]))
    def end(self, way, event):
        self.of(way, goes_on).ends(event)

    @when(crossing)
    @rule(way=WAYS)
    def cancel(self, way):
        self.of(way, crossing).ends("cancelled")

    @when(crossing)
    @rule(way=WAYS, back=st.booleans())
    def accept_and_cancel(self, way, back):
        """Both at the same time, whichever is heard first."""
        wanted = self.of(way, crossing)
        wanted.decide("accepted")
        wanted.ends("cancelled")
        wanted.deliver(back=back)
        wanted.settle()

    @when(agreed)
    @rule(way=WAYS)
    def finish(self, way):
        self.of(way, agreed).finish()

    @when(lambda wanted: wanted.there.standing == "Accepted")
    @rule(way=WAYS)
    def give_up(self, way):
        """The provider has waited for the consumer's part for too long."""
        self.wanted[way].decide("expired")

    @when(connected)
    @rule(ways=st.sampled_from([(0,), (1,), (0, 1)]))
    def lose(self, ways):
        """A channel breaks; or all do, as a daemon is both a consumer and a provider."""
        for way in ways:
            self.wanted[way].disconnect()

    @when(over)
    @rule(way=WAYS, beginning=BEGINNINGS)
    def want_again(self, way, beginning):
        """A request that is over is so for both sides; and there is a next one."""
        old = self.of(way, over)
        agree(old)
        new = Wanted(old.consumer, old.provider, str(uuid.uuid4()), lender_dials=old.lender_dials)
        new.begin(beginning)
        self.wanted = [new if each is old else each for each in self.wanted]

    @rule(way=WAYS)
    def pretend(self, way):
        """A stranger says that it is the consumer, and has received all that it ever said."""
        wanted = self.wanted[way]
        nonce = os.urandom(32)
        hello = encode(
            Hello(
                versions=own("turin").versions,
                capabilities=own("turin").capabilities,
                cluster_id=wanted.consumer,
                public_key=public(wanted.consumer).decode(),
                commitment=pack(proof.commitment(nonce)),
            )
        )
        shown = certificate(wanted.provider)
        listener = ListenerMachine(own(wanted.provider), shown, os.urandom(32))
        (welcome,) = said(listener.receive(hello))
        listener.receive(prove("turin", wanted.provider, hello, welcome, nonce))
        assert listener.peer is None, "identified as somebody else"

    @rule(way=WAYS)
    def choose_late(self, way):
        """A stranger commits to one nonce, hears the listener's, and chooses another."""
        provider = self.wanted[way].provider
        shown = certificate(provider)
        stranger = DiallerMachine(own("turin"), ExpectedPeer(), shown, os.urandom(32))
        listener = ListenerMachine(own(provider), shown, os.urandom(32))
        (hello,) = said(stranger.start())
        (welcome,) = said(listener.receive(hello))
        listener.receive(prove("turin", provider, hello, welcome, os.urandom(32)))
        assert listener.peer is None, "a nonce was chosen after the other one was known"

    @invariant()
    def holds(self):
        for wanted in self.wanted:
            wanted.check()

    def teardown(self):
        for wanted in self.wanted:
            agree(wanted)


QUICK = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
World.TestCase.settings = QUICK
TestWorld = World.TestCase


def found(what: str) -> None:
    """The search finds a course that breaks what it checks.

    Args:
        what: it says of that.
    """
    quick = settings(
        QUICK, max_examples=300, derandomize=True, database=None, phases=[Phase.generate]
    )
    with pytest.raises(AssertionError, match=what):
        run_state_machine_as_test(World, settings=quick)


def test_a_machine_that_verifies_nothing_is_found(monkeypatch):
    monkeypatch.setattr(proof, "proved", lambda *_: True)
    found("identified as somebody else")


@pytest.mark.parametrize("lender", [ListenerMachine, DiallerMachine])
def test_a_machine_that_accepts_by_itself_is_found(lender, monkeypatch):
    receive: Callable[..., Outputs] = lender.receive

    def accepting(self: DiallerMachine | ListenerMachine, text: str) -> Outputs:
        outputs = receive(self, text)
        return (*outputs, *self.accept(YES)) if isinstance(decode(text), Ask) else outputs

    monkeypatch.setattr(lender, "receive", accepting)
    found("nobody has decided so")


def test_a_machine_that_takes_any_nonce_is_found(monkeypatch):
    monkeypatch.setattr(proof, "keeps", lambda *_: True)
    found("chosen after the other one was known")


@pytest.mark.parametrize("borrower", [DiallerMachine, ListenerMachine])
def test_a_machine_that_forgets_a_cancel_is_found(borrower, monkeypatch):
    report = borrower.report

    def forgetful(self: DiallerMachine | ListenerMachine, what: Any) -> Outputs:
        stage = self.stage
        outputs: Outputs = report(self, what)
        if stage == "asked":
            self.stage = stage
        return outputs

    monkeypatch.setattr(borrower, "report", forgetful)
    found("accepted after its end")
