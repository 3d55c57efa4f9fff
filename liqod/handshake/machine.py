"""The hand-shake as two machines: text in, outputs out. No socket, no clock, no event loop.

A :class:`Dialler` begins, a :class:`Listener` waits. Both prove their cluster's key to each other
over the same meeting (``proof``); then the dialler asks for a peering or attaches as a tenant, or
says what became of an earlier request. Decisions are method calls: a machine never accepts, asks or
cancels by itself. A decision that comes too late (the other side has cancelled, or the meeting is
over) gives no outputs and changes nothing, for it may always cross with what arrives.

Whatever comes at the wrong time, or is no message, ends the meeting: ``Refused`` is sent, then
:class:`Closed`. Nothing that the other side sends raises an error.

What outlives a meeting is not here: ``standing`` says how a request goes on over several.

Codes of ``Refused`` and ``Closed``:

==================  ================================================================================
``protocol``        a message that is none, or at the wrong time
``version``         no common version
``proof``           a signature, a nonce or a certificate that does not fit: somebody between?
``wrong-key``       not the key that was expected
``wrong-id``        not the cluster that was expected
``same-id``         both clusters have one id
``itself``          a cluster that meets itself
``key-changed``     a known peer shows another key
``denied``          after ``Denied``: a person or a policy has said no
``cancelled``       after ``Cancel``
``expired``         nobody decided in time
``invitation-...``  ``-unknown``, ``-used``, ``-expired``, ``-other`` (it is for another cluster)
``unknown``         ``Attach`` by who is no tenant
``busy``            too many ask; ``again`` says when to come back
``gone``            the channel broke, or a daemon stops
==================  ================================================================================
"""

from typing import Final, Literal

from liqod.errors import ProtocolError
from liqod.handshake import proof
from liqod.handshake.encoding import pack, unpack
from liqod.handshake.messages import (
    Accepted,
    Any_,
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
    Prove,
    Proved,
    Refused,
    Report,
    Welcome,
    decode,
    encode,
)
from liqod.handshake.outputs import (
    Answered,
    Asked,
    Attaching,
    Closed,
    Expected,
    Identified,
    Outputs,
    Own,
    Peer,
    Reported,
    Send,
)
from liqod.handshake.words import words
from liqod.identity import keys
from liqod.identity.clustercertificates import key_of
from liqod.model.text import printable

Stage = Literal[
    "new",  # nothing was said
    "greeted",  # Hello has crossed
    "proving",  # Welcome has crossed
    "met",  # both are known
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


class _Machine:
    """What both sides have in common.

    Attributes:
        stage: how far the meeting is.
        peer: who the other side is, once it has proved it.
    """

    def __init__(self, own: Own, certificate: bytes, nonce: bytes) -> None:
        if len(nonce) != proof.NONCE:
            raise ValueError(f"a nonce has {proof.NONCE} bytes")
        self._own = own
        self._public = keys.public_pem(own.private)
        self._certificate = certificate
        self._nonce = nonce
        self._hello = ""
        self._welcome = ""
        self.stage: Stage = "new"
        self.peer: Peer | None = None

    @property
    def streams(self) -> bool:
        """Whether the channel may carry streams: who is there is known, and was let in."""
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
        """The channel is gone: nothing can be said any more."""
        return () if self.stage == "over" else self._over("gone", reason, "us", 0)

    def refuse(self, code: str, reason: str, again: int | None = None) -> Outputs:
        """Ends the meeting, and says why.

        Args:
            code: one of those above.
            reason: for people, with what to do next.
            again: seconds after which another try may do better.
        """
        if self.stage == "over":
            return ()
        reason = printable(reason)[:REASON]
        told = Send(encode(Refused(code=code, reason=reason, again=again)))
        return (told, *self._over(code, reason, "us", again))

    def _take(self, message: Any_, text: str) -> Outputs:
        raise NotImplementedError

    def _over(
        self, code: str, reason: str, by: Literal["us", "peer"], again: int | None
    ) -> Outputs:
        self.stage = "over"
        return (Closed(code=code, reason=reason, by=by, again=again),)

    def _untimely(self, message: Any_) -> Outputs:
        name = type(message).__name__
        return self.refuse("protocol", f"{name} came at a time at which it means nothing")

    def _clash(self, other: Hello | Welcome) -> Outputs:
        """Refuses who has this cluster's key or id."""
        if keys.same_public(other.public_key.encode(), self._public):
            return self.refuse("itself", "a cluster cannot peer with itself")
        if other.cluster_id == self._own.cluster_id:
            return self.refuse(
                "same-id",
                f"both clusters have the id {other.cluster_id!r}: one of them has to be installed "
                "under another one",
            )
        return ()

    def _met(self, other: Hello | Welcome, version: int, seen: bytes) -> Identified:
        public = keys.encode_public(keys.load_public(other.public_key.encode()))
        self.stage = "met"
        self.peer = Peer(
            cluster_id=other.cluster_id,
            public_key=public.decode(),
            key=keys.print_of(public),
            words=words(seen),
            version=version,
            capabilities=frozenset(self._own.capabilities) & frozenset(other.capabilities),
        )
        return Identified(self.peer)


class Dialler(_Machine):
    """The side that opens the connection.

    Args:
        own: this side.
        expected: whom it means to meet.
        certificate: the listener's, DER, as TLS showed it.
        nonce: 32 random bytes, never used before.

    Raises:
        ProtocolError: the own key or the certificate cannot be read.
    """

    def __init__(self, own: Own, expected: Expected, certificate: bytes, nonce: bytes) -> None:
        super().__init__(own, certificate, nonce)
        self._expected = expected
        self._shown = key_of(certificate)
        self._answer: Welcome | None = None
        self._request = ""
        self._reported: set[str] = set()

    def begin(self) -> Outputs:
        """The first message; or nothing but the end, where the certificate shows another key than
        the one expected."""
        if self.stage != "new":
            return ()
        found = keys.print_of(self._shown)
        if self._expected.key and found != self._expected.key:
            return self._over(
                "wrong-key",
                f"the listener shows the key {found}, and {self._expected.key} was expected",
                "us",
                None,
            )
        hello = Hello(
            versions=self._own.versions,
            capabilities=self._own.capabilities,
            cluster_id=self._own.cluster_id,
            public_key=self._public.decode(),
            commitment=pack(proof.commitment(self._nonce)),
        )
        self._hello = encode(hello)
        self.stage = "greeted"
        return (Send(self._hello),)

    def ask(self, ask: Ask) -> Outputs:
        """Asks for a peering.

        Raises:
            ValueError: it holds an invitation, and no key was expected: its secret is for the one
                key that the invitation names.
        """
        if ask.invitation is not None and not self._expected.key:
            raise ValueError("an invitation's secret is for the key that the invitation names")
        if self.stage != "met" or ask.request in self._reported:
            return ()
        self.stage, self._request = "asked", ask.request
        return (Send(encode(ask)),)

    def attach(self) -> Outputs:
        """Opens the kept channel, as a tenant."""
        if self.stage != "met":
            return ()
        self.stage = "attaching"
        return (Send(encode(Attach())),)

    def report(self, report: Report) -> Outputs:
        """Says what became of a request, of this meeting or an earlier one.

        The listener answers ``Noted``. After ``Cancel`` nothing that is still on its way is an
        acceptance any more.
        """
        if self.stage not in ("met", "asked", "open"):
            return ()
        if report.request == self._request and self.stage == "asked":
            if not isinstance(report, Cancel):
                return ()
            self.stage = "met"
        self._reported.add(report.request)
        return (Send(encode(report)),)

    def _take(self, message: Any_, text: str) -> Outputs:
        match message:
            case Welcome() if self.stage == "greeted":
                return self._prove(message, text)
            case Proved() if self.stage == "proving":
                return self._meet(message)
            case Pending() | Accepted() | Denied() if self.stage == "asked":
                return self._answered(message)
            case Pending() | Accepted() | Denied() if self._request in self._reported:
                return ()  # it crossed with the Cancel
            case Attached() if self.stage == "attaching":
                self.stage = "open"
                return (Answered(message),)
            case Noted() if message.request in self._reported:
                return (Answered(message),)
        return self._untimely(message)

    def _prove(self, welcome: Welcome, text: str) -> Outputs:
        if refused := self._clash(welcome) or self._unexpected(welcome):
            return refused
        common = set(self._own.versions) & set(welcome.versions)
        if not common or welcome.version != max(common):
            return self.refuse("proof", "the listener chose another version than the highest")
        self._answer, self._welcome, self.stage = welcome, text, "proving"
        signature = proof.prove(self._own.private, "dialler", self._transcript())
        return (Send(encode(Prove(nonce=pack(self._nonce), signature=pack(signature)))),)

    def _unexpected(self, welcome: Welcome) -> Outputs:
        if not keys.same_public(welcome.public_key.encode(), self._shown):
            return self.refuse("proof", "the certificate shown is not of the listener's key")
        expected = self._expected.cluster_id
        if expected and welcome.cluster_id != expected:
            return self.refuse(
                "wrong-id", f"this is the cluster {welcome.cluster_id}, and not {expected}"
            )
        return ()

    def _meet(self, proved: Proved) -> Outputs:
        welcome = self._answer
        assert welcome is not None
        signature = unpack(proved.signature)
        if not proof.proved(self._shown, "listener", self._transcript(), signature):
            return self.refuse("proof", "the listener did not prove its key over this meeting")
        seen = proof.seen(self._public, self._shown, self._nonce, unpack(welcome.nonce))
        return (self._met(welcome, welcome.version, seen),)

    def _answered(self, answer: Pending | Accepted | Denied) -> Outputs:
        if isinstance(answer, Denied):
            return (Answered(answer), *self._over("denied", answer.reason, "peer", None))
        if isinstance(answer, Accepted):
            self.stage = "open"
        return (Answered(answer),)

    def _transcript(self) -> bytes:
        return proof.transcript(self._certificate, self._hello, self._welcome, self._nonce)


class Listener(_Machine):
    """The side that is called.

    Args:
        own: this side.
        certificate: its own, DER, that TLS showed to this dialler.
        nonce: 32 random bytes, never used before.

    Raises:
        ProtocolError: the own key cannot be read.
    """

    def __init__(self, own: Own, certificate: bytes, nonce: bytes) -> None:
        super().__init__(own, certificate, nonce)
        self._greeting: Hello | None = None
        self._version = 0
        self._request = ""
        self._unnoted: list[str] = []

    def pend(self, lifetime: int) -> Outputs:
        """Nobody has decided yet; the request ends by itself after that many seconds."""
        if self.stage != "asked":
            return ()
        return (Send(encode(Pending(lifetime=lifetime))),)

    def accept(self, accepted: Accepted) -> Outputs:
        """Lets the consumer in. No outputs: it has cancelled meanwhile, and is not let in.

        Raises:
            ProtocolError: the message would be too large; nothing has changed.
        """
        if self.stage != "asked":
            return ()
        text = encode(accepted)
        self.stage = "open"
        return (Send(text),)

    def deny(self, reason: str = "") -> Outputs:
        """Does not let it in; the meeting ends."""
        if self.stage != "asked":
            return ()
        reason = printable(reason)[:REASON]
        return (Send(encode(Denied(reason=reason))), *self._over("denied", reason, "us", None))

    def expire(self) -> Outputs:
        """Nobody has decided in time; the meeting ends."""
        if self.stage != "asked":
            return ()
        return self.refuse("expired", "nobody has decided about the request in time")

    def attach(self) -> Outputs:
        """Opens the kept channel for a tenant."""
        if self.stage != "attaching":
            return ()
        self.stage = "open"
        return (Send(encode(Attached())),)

    def note(self, request: str) -> Outputs:
        """Says that what was :class:`Reported` of a request is kept."""
        if self.stage == "over" or request not in self._unnoted:
            return ()
        self._unnoted.remove(request)
        return (Send(encode(Noted(request=request))),)

    def _take(self, message: Any_, text: str) -> Outputs:
        match message:
            case Hello() if self.stage == "new":
                return self._welcome_to(message, text)
            case Prove() if self.stage == "proving":
                return self._meet(message)
            case Ask() if self.stage == "met":
                self.stage, self._request = "asked", message.request
                return (Asked(message),)
            case Attach() if self.stage == "met":
                self.stage = "attaching"
                return (Attaching(),)
            case Cancel() | Done() | Failed() if self.stage in ("met", "asked", "open"):
                return self._reported(message)
        return self._untimely(message)

    def _welcome_to(self, hello: Hello, text: str) -> Outputs:
        if refused := self._clash(hello):
            return refused
        common = set(self._own.versions) & set(hello.versions)
        if not common:
            return self.refuse(
                "version",
                f"the versions {_list(self._own.versions)} are spoken here: take a newer liqod",
            )
        self._greeting, self._hello, self._version = hello, text, max(common)
        welcome = Welcome(
            version=self._version,
            versions=self._own.versions,
            capabilities=self._own.capabilities,
            cluster_id=self._own.cluster_id,
            public_key=self._public.decode(),
            nonce=pack(self._nonce),
        )
        self._welcome = encode(welcome)
        self.stage = "proving"
        return (Send(self._welcome),)

    def _meet(self, prove: Prove) -> Outputs:
        hello = self._greeting
        assert hello is not None
        nonce, public = unpack(prove.nonce), hello.public_key.encode()
        if not proof.keeps(unpack(hello.commitment), nonce):
            return self.refuse("proof", "this is not the nonce that was committed to")
        digest = proof.transcript(self._certificate, self._hello, self._welcome, nonce)
        if not proof.proved(public, "dialler", digest, unpack(prove.signature)):
            return self.refuse("proof", "the dialler did not prove its key over this meeting")
        signature = proof.prove(self._own.private, "listener", digest)
        seen = proof.seen(public, self._public, nonce, self._nonce)
        return (
            Send(encode(Proved(signature=pack(signature)))),
            self._met(hello, self._version, seen),
        )

    def _reported(self, report: Report) -> Outputs:
        if self.stage == "asked" and report.request == self._request:
            if not isinstance(report, Cancel):
                return self._untimely(report)
            self.stage = "met"
        if report.request not in self._unnoted:
            if len(self._unnoted) >= REPORTS:
                return self.refuse("busy", "too much is reported at once", 1)
            self._unnoted.append(report.request)
        return (Reported(report),)


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
