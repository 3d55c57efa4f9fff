"""One meeting: what two machines tell when all goes well, and what is refused."""

import pytest

from liqod.handshake.protocol.encoding import pack
from liqod.handshake.protocol.exchange import REPORTS
from liqod.handshake.protocol.messages import (
    Attach,
    Attached,
    Cancel,
    Denied,
    Done,
    Failed,
    Hello,
    Invited,
    Noted,
    Offer,
    Pending,
    Prove,
    Proved,
    Refused,
    decode,
    encode,
)
from liqod.handshake.protocol.outputs import (
    CAPABILITIES,
    AnswerReceived,
    AskReceived,
    AttachReceived,
    OfferReceived,
    PeerVerified,
    ReportReceived,
    SessionEnd,
)
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.identity import keys
from tests.unit.handshake.meeting import (
    ASK,
    NONCE,
    OTHER,
    PRINT,
    REQUEST,
    YES,
    certificate,
    dialler,
    ended,
    exchange,
    known,
    listener,
    met,
    own,
    private,
    public,
    said,
)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_both_know_each_other_by_key_and_words(kind):
    one = dialler(private=private("rome", kind))
    other = listener()
    there, here = exchange(one.start(), one, other)
    assert isinstance(there[0], PeerVerified)
    assert isinstance(here[0], PeerVerified)
    assert known(one).cluster_id == "milan"
    assert known(one).key == PRINT(public("milan"))
    assert known(other).cluster_id == "rome"
    assert known(other).key == PRINT(keys.public_pem(private("rome", kind)))
    assert known(one).words == known(other).words
    assert len(known(one).words.split("-")) == 4
    assert not one.streams
    assert not other.streams


def test_words_differ_from_meeting_to_meeting():
    assert len({known(met()[0]).words for _ in range(5)}) == 5


def test_a_request_is_accepted():
    one, other = met()
    assert exchange(one.ask(ASK), one, other) == ([], [AskReceived(ASK)])
    assert exchange(other.pend(60), other, one) == ([], [AnswerReceived(Pending(lifetime=60))])
    assert not other.streams
    assert exchange(other.accept(YES), other, one) == ([], [AnswerReceived(YES)])
    assert one.streams
    assert other.streams
    done = Done(request=REQUEST)
    assert exchange(one.report(done), one, other) == ([], [ReportReceived(done)])
    noted = AnswerReceived(Noted(request=REQUEST))
    assert exchange(other.note(REQUEST), other, one) == ([], [noted])
    assert one.streams


def test_a_request_is_denied():
    one, other = met()
    exchange(one.ask(ASK), one, other)
    here, there = exchange(other.deny("not today"), other, one)
    assert here == [SessionEnd("denied", "not today", "us")]
    assert there == [
        AnswerReceived(Denied(reason="not today")),
        SessionEnd("denied", "not today", "peer"),
    ]
    assert other.accept(YES) == ()


def test_a_tenant_attaches():
    one, other = met()
    assert exchange(one.attach(), one, other) == ([], [AttachReceived()])
    assert not other.streams
    assert exchange(other.admit(), other, one) == ([], [AnswerReceived(Attached())])
    assert one.streams
    assert other.streams


def offered() -> tuple[DiallerMachine, ListenerMachine]:
    """A dialler that lends, and a listener that borrows of it."""
    one, other = met(capabilities=CAPABILITIES, listening={"capabilities": CAPABILITIES})
    offer = Offer(request=OTHER)
    assert exchange(one.offer(offer), one, other) == ([], [OfferReceived(offer)])
    assert (other.take_up(), one.borrows, other.borrows) == ((), False, True)
    return one, other


def test_a_dialler_lends_and_each_is_what_the_other_one_was():
    one, other = offered()
    assert exchange(other.ask(ASK), other, one) == ([], [AskReceived(ASK)])
    assert not one.streams
    assert exchange(one.accept(YES), one, other) == ([], [AnswerReceived(YES)])
    assert one.streams
    assert other.streams
    report = Done(request=REQUEST)
    assert exchange(other.report(report), other, one) == ([], [ReportReceived(report)])
    noted = AnswerReceived(Noted(request=REQUEST))
    assert exchange(one.note(REQUEST), one, other) == ([], [noted])


def test_a_dialler_that_lends_admits_a_tenant_and_denies_a_request():
    one, other = offered()
    assert exchange(other.attach(), other, one) == ([], [AttachReceived()])
    assert exchange(one.admit(), one, other) == ([], [AnswerReceived(Attached())])
    one, other = offered()
    exchange(other.ask(ASK), other, one)
    told = exchange(one.deny("not today"), one, other)
    assert told[1][0] == AnswerReceived(Denied(reason="not today"))


def test_who_lends_asks_nothing_and_who_borrows_decides_nothing():
    one, other = offered()
    exchange(other.ask(ASK), other, one)
    assert other.accept(YES) == other.deny() == other.pend(1) == ()
    assert one.ask(ASK) == one.attach() == one.report(Done(request=REQUEST)) == ()
    assert one.offer(Offer(request=OTHER)) == other.take_up() == ()
    assert (one.stage, other.stage) == ("asked", "asked")


@pytest.mark.parametrize("name", ["ask", "attach", "cancel", "done", "failed", "offer"])
def test_a_dialler_that_lends_may_not_borrow_in_the_same_meeting(name):
    """Not before its offer is taken up, not afterwards, and not where it is open."""
    for before in (lambda other: None, ListenerMachine.take_up, lambda other: take_and_open(other)):
        _, other = met(capabilities=CAPABILITIES, listening={"capabilities": CAPABILITIES})
        other.receive(encode(Offer(request=OTHER)))
        before(other)
        assert ended(other.receive(EVERY[name])).code == "protocol"
        assert not other.streams


def take_and_open(other: ListenerMachine) -> None:
    """A listener that was let in by who dialled."""
    other.take_up()
    other.ask(ASK)
    other.receive(encode(YES))
    assert other.streams


def test_an_offer_is_for_who_knows_of_it_and_says_so_otherwise():
    one, other = met(capabilities=CAPABILITIES)
    here, there = exchange(one.offer(Offer(request=OTHER)), one, other)
    assert ended(here).code == ended(there).code == "version"
    assert "a newer liqod is needed there" in ended(here).reason
    # Anyone who makes one all the same means nothing to it.
    _, other = met(capabilities=CAPABILITIES)
    assert ended(other.receive(encode(Offer(request=OTHER)))).code == "protocol"


def test_an_offer_shows_its_invitation_to_the_key_that_the_invitation_names_alone():
    one, _ = met(capabilities=CAPABILITIES, listening={"capabilities": CAPABILITIES})
    invited = Invited(id="invitation-1", secret=pack(b"s" * 16))
    with pytest.raises(ValueError, match="for the key that the invitation names"):
        one.offer(Offer(request=OTHER, invitation=invited))


def test_nothing_is_accepted_after_a_cancel():
    one, other = met()
    exchange(one.ask(ASK), one, other)
    cancel = Cancel(request=REQUEST)
    crossing = other.accept(YES)
    sent = one.report(cancel)
    assert one.receive(*said(crossing)) == ()
    assert not one.streams
    assert exchange(sent, one, other) == ([], [ReportReceived(cancel)])

    one, other = met()
    exchange(one.ask(ASK), one, other)
    exchange(one.report(cancel), one, other)
    assert other.accept(YES) == ()
    assert other.pend(5) == ()
    assert not other.streams
    assert one.ask(ASK) == ()


def test_nothing_is_accepted_after_it_expired():
    one, other = met()
    exchange(one.ask(ASK), one, other)
    _, there = exchange(other.refuse("expired", "nobody has decided in time"), other, one)
    assert ended(there).code == "expired"
    assert other.accept(YES) == ()


@pytest.mark.parametrize(
    "report", [Cancel(request=OTHER), Done(request=OTHER), Failed(request=OTHER, reason="no")]
)
def test_what_became_of_an_earlier_request_is_said_before_anything_is_asked(report):
    one, other = met()
    assert exchange(one.report(report), one, other) == ([], [ReportReceived(report)])
    assert other.note(REQUEST) == ()
    exchange(other.note(OTHER), other, one)
    assert other.note(OTHER) == ()
    assert exchange(one.ask(ASK), one, other) == ([], [AskReceived(ASK)])


def test_a_flood_of_reports_is_cut_off_and_the_same_one_again_is_none():
    one, other = met()
    for at in range(REPORTS):
        cancel = Cancel(request=f"{at:08x}{REQUEST[8:]}")
        assert exchange(one.report(cancel), one, other) == ([], [ReportReceived(cancel)])
        assert exchange(one.report(cancel), one, other) == ([], [ReportReceived(cancel)])
    _, there = exchange(one.report(Cancel(request=OTHER)), one, other)
    assert ended(there).code == "busy"


def test_the_reason_of_a_refusal_crosses_without_what_moves_a_cursor():
    one, other = met()
    here, there = exchange(other.refuse("busy", "come \x1b[2J later", 30), other, one)
    assert ended(here) == SessionEnd("busy", "come \\x1b[2J later", "us", 30)
    assert ended(there) == SessionEnd("busy", "come \\x1b[2J later", "peer", 30)
    assert one.receive(encode(Refused(code="busy"))) == ()
    assert one.lost() == ()


def test_whoever_loses_the_channel_may_try_again():
    one, _ = met()
    assert one.lost() == (SessionEnd("gone", "the channel broke", "us", 0),)


# What comes at the wrong time.

EVERY = {
    "hello": said(dialler("turin").start())[0],
    "welcome": said(listener("turin").receive(*said(dialler().start())))[0],
    "prove": encode(Prove(nonce=NONCE, signature=pack(b"s" * 64))),
    "proved": encode(Proved(signature=pack(b"s" * 64))),
    "ask": encode(ASK),
    "attach": encode(Attach()),
    "attached": encode(Attached()),
    "pending": encode(Pending(lifetime=1)),
    "accepted": encode(YES),
    "denied": encode(Denied()),
    "cancel": encode(Cancel(request=REQUEST)),
    "done": encode(Done(request=REQUEST)),
    "failed": encode(Failed(request=REQUEST)),
    "noted": encode(Noted(request=REQUEST)),
    "offer": encode(Offer(request=OTHER)),
}


def at(stage: str):
    """A dialler and a listener that have come so far."""
    if stage == "new":
        return dialler(), listener()
    if stage in ("greeted", "proving"):
        one, other = dialler(), listener()
        answer = other.receive(*said(one.start()))
        if stage == "proving":
            one.receive(*said(answer))
        return one, other
    one, other = met()
    if stage in ("asked", "open"):
        exchange(one.ask(ASK), one, other)
    if stage == "attaching":
        exchange(one.attach(), one, other)
    if stage == "open":
        exchange(other.accept(YES), other, one)
    return one, other


TO_DIALLER = {
    "new": set(),
    "greeted": {"welcome"},
    "proving": {"proved"},
    "met": set(),
    "asked": {"pending", "accepted", "denied"},
    "attaching": {"attached"},
    "open": set(),
}
TO_LISTENER = {
    "new": {"hello"},
    "greeted": {"prove"},
    "proving": {"prove"},
    "met": {"ask", "attach", "cancel", "done", "failed"},
    "asked": {"cancel"},
    "attaching": set(),
    "open": {"cancel", "done", "failed"},
}


@pytest.mark.parametrize("stage", TO_DIALLER)
def test_each_message_has_its_time(stage):
    for name, text in EVERY.items():
        one, other = at(stage)
        for side, timely in ((one, TO_DIALLER), (other, TO_LISTENER)):
            outputs = side.receive(text)
            untimely = "at a time at which it means nothing" in str(outputs[-1:])
            assert untimely == (name not in timely[stage]), (stage, name, type(side), outputs)
            if untimely:
                assert ended(outputs).code == "protocol"
                assert isinstance(decode(*said(outputs)), Refused)
                assert side.receive(text) == ()


@pytest.mark.parametrize("stage", TO_DIALLER)
def test_a_decision_at_the_wrong_time_does_nothing(stage):
    one, other = at(stage)
    if stage != "asked":
        assert other.accept(YES) == other.pend(1) == other.deny() == ()
    if stage != "attaching":
        assert other.admit() == ()
    if stage != "met":
        assert one.ask(ASK) == one.attach() == ()
    if stage != "new":
        assert one.start() == ()
    assert other.stage == ("proving" if stage == "greeted" else stage)
    assert one.stage == stage


def test_a_hello_of_a_short_nonce_is_never_made():
    with pytest.raises(ValueError, match="nonce"):
        ListenerMachine(own("milan"), certificate("milan"), b"")


def test_no_secret_is_in_what_is_printed():
    assert "PRIVATE" not in repr(own("milan"))
    assert "kubeconfig" not in repr(YES)
    assert isinstance(decode(EVERY["hello"]), Hello)
