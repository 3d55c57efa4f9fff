"""The common part of the two machines: above all, the messages once both sides are known.

One side borrows: it asks, attaches, says what became of a request. The other one lends, and
answers. The dialler borrows, unless it makes an offer (:meth:`.statemachine.DiallerMachine.offer`)
and the
listener takes that up: from then on each is what the other one was. So both ways have one set of
rules, and who opened the connection gives nobody a right.
"""

from typing import Final, Literal

from liqod.errors import ProtocolError
from liqod.handshake.protocol import proof
from liqod.handshake.protocol.messages import (
    Accepted,
    AnyMessage,
    Ask,
    Attach,
    Attached,
    Cancel,
    Denied,
    Done,
    Failed,
    Hello,
    Noted,
    Pending,
    Refused,
    Report,
    Welcome,
    decode,
    encode,
)
from liqod.handshake.protocol.outputs import (
    AnswerReceived,
    AskReceived,
    AttachReceived,
    LocalIdentity,
    Outputs,
    PeerVerified,
    ReportReceived,
    Send,
    SessionEnd,
    VerifiedPeer,
)
from liqod.handshake.protocol.sas import sas_words
from liqod.identity import keys
from liqod.model.text import printable

ExchangeStage = Literal[
    "new",  # nothing was said
    "greeted",  # Hello has crossed
    "proving",  # Welcome has crossed
    "met",  # both are known
    "offered",  # Offer has come, and is not taken up yet
    "asked",  # Ask has crossed
    "attaching",  # Attach has crossed
    "open",  # accepted or attached: the channel is kept
    "over",
]
"""How far a meeting is."""

REASON: Final = 500
"""Characters of a reason of ours."""
REPORTS: Final = 16
"""Requests of which something was reported in one meeting, and that is not kept yet."""


class Exchange:
    """The part that both machines share: either side may borrow, and the other one lends then.

    Args:
        own: this side.
        certificate: the listener's, DER, as TLS showed it.
        nonce: 32 random bytes, never used before.
        borrows: whether this side asks, and the other one answers.

    Attributes:
        stage: how far the meeting is.
        peer: who the other side is, once it has proved it.
        borrows: whether this side asks; it changes once at most, by an ``Offer``.
    """

    def __init__(
        self, own: LocalIdentity, certificate: bytes, nonce: bytes, *, borrows: bool
    ) -> None:
        if len(nonce) != proof.NONCE:
            raise ValueError(f"a nonce has {proof.NONCE} bytes")
        self._own = own
        self._public = keys.public_pem(own.private)
        self._certificate = certificate
        self._nonce = nonce
        self._hello = ""
        self._welcome = ""
        self.stage: ExchangeStage = "new"
        self.peer: VerifiedPeer | None = None
        self.borrows = borrows
        self._expected_key = ""
        self._request = ""
        self._reported_requests: set[str] = set()
        self._unnoted: list[str] = []

    @property
    def streams(self) -> bool:
        """True if the channel may carry streams: the other side is known, and was let in."""
        return self.stage == "open"

    def receive(self, text: str) -> Outputs:
        """Takes a text message of the other side."""
        if self.stage == "over":
            return ()
        try:
            message = decode(text)
            if isinstance(message, Refused):
                return self._over(message.code, message.reason, "peer", message.again)
            return self._take(message, text)
        except ProtocolError as error:
            return self.refuse("protocol", str(error))

    def lost(self, reason: str = "the channel broke") -> Outputs:
        """Ends the meeting since the channel is gone: nothing can be sent any more."""
        return () if self.stage == "over" else self._over("gone", reason, "us", 0)

    def refuse(self, code: str, reason: str, again: int | None = None) -> Outputs:
        """Ends the handshake, with a reason.

        Args:
            code: one of those in ``statemachine``.
            reason: for people, with what to do next.
            again: seconds after which another try may do better.
        """
        if self.stage == "over":
            return ()
        reason = printable(reason)[:REASON]
        told = Send(encode(Refused(code=code, reason=reason, again=again)))
        return (told, *self._over(code, reason, "us", again))

    def _take(self, message: AnyMessage, text: str) -> Outputs:
        """Handles a message that comes once both are known; a subclass handles its own first."""
        return self._as_borrower(message) if self.borrows else self._as_lender(message)

    def _as_borrower(self, message: AnyMessage) -> Outputs:
        """Handles a message as the borrower."""
        match message:
            case Pending() | Accepted() | Denied() if self.stage == "asked":
                return self._on_answer(message)
            case Pending() | Accepted() | Denied() if self._request in self._reported_requests:
                return ()  # it crossed with the Cancel
            case Attached() if self.stage == "attaching":
                self.stage = "open"
                return (AnswerReceived(message),)
            case Noted() if message.request in self._reported_requests:
                return (AnswerReceived(message),)
        return self._untimely(message)

    def _as_lender(self, message: AnyMessage) -> Outputs:
        """Handles a message as the lender."""
        match message:
            case Ask() if self.stage == "met":
                self.stage, self._request = "asked", message.request
                return (AskReceived(message),)
            case Attach() if self.stage == "met":
                self.stage = "attaching"
                return (AttachReceived(),)
            case Cancel() | Done() | Failed() if self.stage in ("met", "asked", "open"):
                return self._reported(message)
        return self._untimely(message)

    def _over(
        self, code: str, reason: str, by: Literal["us", "peer"], again: int | None
    ) -> Outputs:
        self.stage = "over"
        return (SessionEnd(code=code, reason=reason, by=by, again=again),)

    def _untimely(self, message: AnyMessage) -> Outputs:
        name = type(message).__name__
        return self.refuse("protocol", f"{name} came at a time at which it means nothing")

    def _clash(self, other: Hello | Welcome) -> Outputs:
        """Refuses a peer that has this cluster's key or id."""
        if keys.same_public(other.public_key.encode(), self._public):
            return self.refuse("itself", "a cluster cannot peer with itself")
        if other.cluster_id == self._own.cluster_id:
            return self.refuse(
                "same-id",
                f"both clusters have the id {other.cluster_id!r}: one of them has to be installed "
                "under another one",
            )
        return ()

    def _verified(self, other: Hello | Welcome, version: int, seen: bytes) -> PeerVerified:
        public = keys.encode_public(keys.load_public(other.public_key.encode()))
        self.stage = "met"
        self.peer = VerifiedPeer(
            cluster_id=other.cluster_id,
            public_key=public.decode(),
            key=keys.print_of(public),
            words=sas_words(seen),
            version=version,
            capabilities=frozenset(self._own.capabilities) & frozenset(other.capabilities),
        )
        return PeerVerified(self.peer)

    @property
    def _may_ask(self) -> bool:
        return self.borrows and self.stage == "met"

    @property
    def _may_decide(self) -> bool:
        return not self.borrows and self.stage == "asked"

    def ask(self, ask: Ask) -> Outputs:
        """Asks for a peering, as the borrower.

        Raises:
            ValueError: it holds an invitation, and no key was expected: its secret is for the one
                key that the invitation names.
        """
        if ask.invitation is not None and not self._expected_key:
            raise ValueError("an invitation's secret is for the key that the invitation names")
        if not self._may_ask or ask.request in self._reported_requests:
            return ()
        self.stage, self._request = "asked", ask.request
        return (Send(encode(ask)),)

    def attach(self) -> Outputs:
        """Opens the kept channel, as a tenant."""
        if not self._may_ask:
            return ()
        self.stage = "attaching"
        return (Send(encode(Attach())),)

    def report(self, report: Report) -> Outputs:
        """Reports the result of a request, of this meeting or an earlier one.

        The other side answers ``Noted``. After ``Cancel`` nothing that is still on its way is an
        acceptance any more.
        """
        if not self.borrows or self.stage not in ("met", "asked", "open"):
            return ()
        if report.request == self._request and self.stage == "asked":
            if not isinstance(report, Cancel):
                return ()
            self.stage = "met"
        self._reported_requests.add(report.request)
        return (Send(encode(report)),)

    def _on_answer(self, answer: Pending | Accepted | Denied) -> Outputs:
        if isinstance(answer, Denied):
            return (AnswerReceived(answer), *self._over("denied", answer.reason, "peer", None))
        if isinstance(answer, Accepted):
            self.stage = "open"
        return (AnswerReceived(answer),)

    def pend(self, lifetime: int) -> Outputs:
        """Nobody has decided yet; the request ends by itself after that many seconds."""
        if not self._may_decide:
            return ()
        return (Send(encode(Pending(lifetime=lifetime))),)

    def accept(self, accepted: Accepted) -> Outputs:
        """Lets the consumer in. No outputs: it has cancelled meanwhile, and is not let in.

        Raises:
            ProtocolError: the message would be too large; nothing has changed.
        """
        if not self._may_decide:
            return ()
        text = encode(accepted)
        self.stage = "open"
        return (Send(text),)

    def deny(self, reason: str = "") -> Outputs:
        """Does not let it in; the meeting ends."""
        if not self._may_decide:
            return ()
        reason = printable(reason)[:REASON]
        return (Send(encode(Denied(reason=reason))), *self._over("denied", reason, "us", None))

    def admit(self) -> Outputs:
        """Opens the kept channel for a tenant."""
        if self.borrows or self.stage != "attaching":
            return ()
        self.stage = "open"
        return (Send(encode(Attached())),)

    def note(self, request: str) -> Outputs:
        """Confirms that the report (:class:`ReportReceived`) on a request is kept."""
        if self.stage == "over" or request not in self._unnoted:
            return ()
        self._unnoted.remove(request)
        return (Send(encode(Noted(request=request))),)

    def _reported(self, report: Report) -> Outputs:
        if self.stage == "asked" and report.request == self._request:
            if not isinstance(report, Cancel):
                return self._untimely(report)
            self.stage = "met"
        if report.request not in self._unnoted:
            if len(self._unnoted) >= REPORTS:
                return self.refuse("busy", "too much is reported at once", 1)
            self._unnoted.append(report.request)
        return (ReportReceived(report),)
