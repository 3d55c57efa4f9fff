"""Two clusters that ask each other, as a world for hypothesis: what each keeps, what crosses, and
who is killed when.

The drivers here do what the daemon's components do, without a cluster: they write first and say
afterwards.
"""

import os
from collections import deque
from collections.abc import Callable

import msgspec

from liqod.handshake.protocol.messages import (
    Ask,
    Cancel,
    Denied,
    Done,
    Failed,
    Noted,
    Offer,
    Report,
)
from liqod.handshake.protocol.outputs import (
    CAPABILITIES,
    AnswerReceived,
    AskReceived,
    AttachReceived,
    ExpectedPeer,
    OfferReceived,
    Outputs,
    PeerVerified,
    ReportReceived,
    Send,
    SessionEnd,
    VerifiedPeer,
)
from liqod.handshake.protocol.requestphase import (
    FINAL_PHASES,
    RequestEvent,
    RequestPhase,
    next_phase,
)
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.identity import keys
from tests.unit.handshake.meeting import YES, certificate, own, public

UNTOLD = frozenset(("Expired", "Cancelled", "Done", "Failed"))
"""Ends that a consumer reports at each meeting until noted; an expired request as cancelled."""
VERDICTS = {"Cancelled": "lapsed", "Expired": "lapsed"}
"""Ends that are one and the same for both sides."""


class Record(msgspec.Struct):
    """The state of a request that one side keeps across restarts of its daemon.

    Attributes:
        standing: how far it is.
        words: that a person sees.
        noted: (consumer) the provider knows what became of it.
    """

    standing: RequestPhase = ""
    words: str = ""
    noted: bool = False

    def happens(self, side, event: RequestEvent) -> None:
        """Writes what something makes of it."""
        before = self.standing
        self.standing = next_phase(side, before, event)
        assert self.standing != "Accepted" or before in ("Waiting", "Accepted")


class Wanted:
    """One cluster that wants to borrow from another one, over all their meetings.

    Args:
        consumer, provider: names of the clusters.
        request: uid of what it wants.
        lender_dials: whether the provider opens the connections, and not the consumer.
    """

    def __init__(
        self, consumer: str, provider: str, request: str, *, lender_dials: bool = False
    ) -> None:
        self.consumer, self.provider, self.request = consumer, provider, request
        self.lender_dials = lender_dials
        self.here, self.there = Record(), Record()
        self.decided = False
        """True once the provider's operator has said yes."""
        self.tenant = False
        """True once the consumer has made the peering, at the provider too."""
        self.one: DiallerMachine | ListenerMachine | None = None
        self.other: DiallerMachine | ListenerMachine | None = None
        self.to_lender: deque[str] = deque()
        self.to_borrower: deque[str] = deque()

    def begin(self, steps: int) -> None:
        """So far has it come: connected, asked, accepted, and that was heard."""
        for step in (self.connect, self.settle, lambda: self.decide("accepted"), self.settle)[
            :steps
        ]:
            step()

    # --- the channel ---------------------------------------------------------------------------

    def connect(self) -> None:
        """A new meeting; what was left of an old one is lost."""
        self.disconnect()
        names = (self.consumer, self.provider)
        dials, listens = reversed(names) if self.lender_dials else names
        expected = ExpectedPeer(cluster_id=listens, key=keys.print_of(public(listens)))
        able, shown = {"capabilities": CAPABILITIES}, certificate(listens)
        dialler = DiallerMachine(own(dials, **able), expected, shown, os.urandom(32))
        listener = ListenerMachine(own(listens, **able), shown, os.urandom(32))
        if self.lender_dials:
            self.one, self.other = listener, dialler
            self.serve(dialler.start())
        else:
            self.one, self.other = dialler, listener
            self.hear(dialler.start())

    def disconnect(self) -> None:
        """Close the connection: messages under way are lost, on either side."""
        self.one = self.other = None
        self.to_lender.clear()
        self.to_borrower.clear()

    def deliver(self, *, back: bool) -> None:
        """The next message arrives: of either direction, where both have one."""
        if self.one is None or self.other is None:
            return
        if self.to_borrower and (back or not self.to_lender):
            self.hear(self.one.receive(self.to_borrower.popleft()))
        elif self.to_lender:
            self.serve(self.other.receive(self.to_lender.popleft()))

    def settle(self) -> None:
        """Everything arrives."""
        while self.to_borrower or self.to_lender:
            self.deliver(back=bool(self.to_borrower))

    # --- the consumer --------------------------------------------------------------------------

    def hear(self, outputs: Outputs) -> None:
        """Handle the outputs of the consumer's machine."""
        for output in outputs:
            match output:
                case Send(text):
                    self.to_lender.append(text)
                case PeerVerified(peer):
                    self.is_really(peer, self.provider)
                    if not self.lender_dials:
                        self.go_on(peer)
                case OfferReceived():
                    assert isinstance(self.one, ListenerMachine)
                    assert self.one.peer is not None
                    self.hear(self.one.take_up())
                    self.go_on(self.one.peer)
                case AnswerReceived(Noted()):
                    self.here.noted = True
                case AnswerReceived(Denied()):
                    self.here.happens("consumer", "denied")
                case AnswerReceived(answer) if answer == YES:
                    assert self.here.standing in ("Waiting", "Accepted"), "accepted after its end"
                    assert self.decided, "accepted, and nobody has decided so"
                    self.here.happens("consumer", "accepted")
                case SessionEnd(code, _, "peer", None) if code != "denied":
                    assert code in ("expired", "cancelled"), output
                    self.here.happens("consumer", "expired")

    def go_on(self, peer: VerifiedPeer) -> None:
        """The provider is met: the next thing to say."""
        assert self.one is not None
        if self.here.standing in UNTOLD:
            if not self.here.noted:
                self.hear(self.one.report(self.report()))
            elif self.tenant:
                self.hear(self.one.attach())
        elif self.here.standing not in FINAL_PHASES:
            self.here.words = peer.words
            self.here.happens("consumer", "asked")
            self.hear(self.one.ask(Ask(request=self.request, lifetime=600)))

    def report(self) -> Report:
        """The consumer's report of how the request ended."""
        kinds: dict[str, type[Report]] = {"Done": Done, "Failed": Failed}
        return kinds.get(self.here.standing, Cancel)(request=self.request)

    def ends(self, event: RequestEvent) -> None:
        """The consumer cancels, fails, or its clock says that it is over."""
        before = self.here.standing
        self.here.happens("consumer", event)
        if self.here.standing != before and self.one is not None:
            self.hear(self.one.report(self.report()))

    def finish(self) -> None:
        """The consumer makes the peering, which the provider's API server allows or not."""
        if self.here.standing == "Accepted" and self.there.standing == "Accepted":
            self.tenant = True
            self.ends("done")

    # --- the provider --------------------------------------------------------------------------

    def serve(self, outputs: Outputs) -> None:
        """Handle the outputs of the provider's machine."""
        assert self.other is not None
        for output in outputs:
            match output:
                case Send(text):
                    self.to_borrower.append(text)
                case PeerVerified(peer):
                    self.is_really(peer, self.consumer)
                    if isinstance(self.other, DiallerMachine):
                        self.serve(self.other.offer(Offer(request=self.request)))
                case AskReceived():
                    assert self.other.peer is not None
                    self.there.words = self.other.peer.words
                    assert self.there.words == self.here.words, "the words differ"
                    self.there.happens("provider", "asked")
                    self.answer()
                case AttachReceived() if self.tenant:
                    self.serve(self.other.admit())
                case AttachReceived():
                    self.serve(self.other.refuse("unknown", "no tenant"))
                case ReportReceived(report):
                    kinds: dict[type, RequestEvent] = {Done: "done", Failed: "failed"}
                    self.there.happens("provider", kinds.get(type(report), "cancelled"))
                    self.serve(self.other.note(report.request))

    def answer(self) -> None:
        """Says what stands, to anyone who asks now."""
        if self.other is None:
            return
        say: dict[str, Callable[[], Outputs]] = {
            "Waiting": lambda: self.other.pend(60),  # type: ignore[union-attr]
            "Accepted": lambda: self.other.accept(YES),  # type: ignore[union-attr]
            "Denied": lambda: self.other.deny("no"),  # type: ignore[union-attr]
            "Expired": lambda: self.other.refuse("expired", "nobody decided"),  # type: ignore[union-attr]
            "Cancelled": lambda: self.other.refuse("cancelled", "it was"),  # type: ignore[union-attr]
        }
        if self.there.standing in say:
            self.serve(say[self.there.standing]())

    def decide(self, event: RequestEvent) -> None:
        """An operator's word, or the provider's clock."""
        if self.there.standing != "Waiting" and event != "expired":
            return
        before = self.there.standing
        self.there.happens("provider", event)
        if event == "accepted":
            self.decided = True
        if self.there.standing != before:
            self.answer()

    # --- what always holds ---------------------------------------------------------------------

    def is_really(self, peer: VerifiedPeer, name: str) -> None:
        """Check that the identified peer holds the key of that cluster, and has its ID."""
        assert peer.key == keys.print_of(public(name)), "identified as somebody else"
        assert peer.cluster_id == name

    def check(self) -> None:
        """Check the invariants that hold at each instant."""
        if "Accepted" in (self.here.standing, self.there.standing) or self.tenant:
            assert self.decided, "accepted, and nobody has decided so"
        for side in (self.one, self.other):
            if side is not None and side.streams:
                assert self.decided, "a channel, and nobody has decided so"
        if self.one is not None and self.other is not None and self.one.peer and self.other.peer:
            assert self.one.peer.words == self.other.peer.words, "the words differ"

    def verdicts(self) -> tuple[str, str]:
        """The outcome of the request, for either side."""
        here, there = self.here.standing, self.there.standing
        return VERDICTS.get(here, here), VERDICTS.get(there, there)
