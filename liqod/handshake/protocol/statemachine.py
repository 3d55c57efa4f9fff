"""The handshake as two machines: text in, outputs out. No socket, no clock, no event loop.

A :class:`DiallerMachine` begins, a :class:`ListenerMachine` waits. Both prove their cluster's key
to each other over the same meeting (``proof``); then the dialler asks for a peering or attaches as
a tenant, or says what became of an earlier request; or it makes an offer, and the listener does all
that (:mod:`.exchange`). Decisions are method calls: a machine never accepts, asks or cancels by
itself. A decision that comes too late (the other side has cancelled, or the meeting is over) gives
no outputs and changes nothing, for it may always cross with what arrives.

A message at the wrong time, or text that is no message, ends the meeting: ``Refused`` is sent, then
:class:`Closed`. Nothing that the other side sends raises an error.

State that outlives a meeting is not here: ``requestphase`` says how a request goes on over several.

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

from liqod.handshake.protocol import proof
from liqod.handshake.protocol.encoding import pack, unpack
from liqod.handshake.protocol.exchange import Exchange
from liqod.handshake.protocol.messages import (
    AnyMessage,
    Hello,
    Offer,
    Prove,
    Proved,
    Welcome,
    encode,
)
from liqod.handshake.protocol.outputs import (
    LENDER_DIALS,
    ExpectedPeer,
    LocalIdentity,
    OfferReceived,
    Outputs,
    Send,
)
from liqod.identity import keys
from liqod.identity.clustercertificates import key_of


class DiallerMachine(Exchange):
    """The side that opens the connection.

    Args:
        own: this side.
        expected: whom it means to meet.
        certificate: the listener's, DER, as TLS showed it.
        nonce: 32 random bytes, never used before.

    Raises:
        ProtocolError: the own key or the certificate cannot be read.
    """

    def __init__(
        self, own: LocalIdentity, expected: ExpectedPeer, certificate: bytes, nonce: bytes
    ) -> None:
        super().__init__(own, certificate, nonce, borrows=True)
        self._expected, self._expected_key = expected, expected.key
        self._shown = key_of(certificate)
        self._answer: Welcome | None = None

    def start(self) -> Outputs:
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

    def offer(self, offer: Offer) -> Outputs:
        """Offers to lend: from now on the listener may ask, and this side answers.

        Raises:
            ValueError: it holds an invitation, and no key was expected.
        """
        if offer.invitation is not None and not self._expected_key:
            raise ValueError("an invitation's secret is for the key that the invitation names")
        if not self._may_ask or self._reported_requests or self.peer is None:
            return ()
        if LENDER_DIALS not in self.peer.capabilities:
            return self.refuse(
                "version",
                f"the daemon of {self.peer.cluster_id} cannot borrow from a cluster that dials it: "
                "a newer liqod is needed there",
            )
        self.borrows = False
        return (Send(encode(offer)),)

    def _take(self, message: AnyMessage, text: str) -> Outputs:
        match message:
            case Welcome() if self.stage == "greeted":
                return self._prove(message, text)
            case Proved() if self.stage == "proving":
                return self._verify_peer(message)
        return super()._take(message, text)

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

    def _verify_peer(self, proved: Proved) -> Outputs:
        welcome = self._answer
        assert welcome is not None
        signature = unpack(proved.signature)
        if not proof.proved(self._shown, "listener", self._transcript(), signature):
            return self.refuse("proof", "the listener did not prove its key over this meeting")
        seen = proof.seen(self._public, self._shown, self._nonce, unpack(welcome.nonce))
        return (self._verified(welcome, welcome.version, seen),)

    def _transcript(self) -> bytes:
        return proof.transcript(self._certificate, self._hello, self._welcome, self._nonce)


class ListenerMachine(Exchange):
    """The side that is called.

    Args:
        own: this side.
        certificate: its own, DER, that TLS showed to this dialler.
        nonce: 32 random bytes, never used before.

    Raises:
        ProtocolError: the own key cannot be read.
    """

    def __init__(self, own: LocalIdentity, certificate: bytes, nonce: bytes) -> None:
        super().__init__(own, certificate, nonce, borrows=False)
        self._greeting: Hello | None = None
        self._version = 0

    def take_up(self) -> Outputs:
        """Takes up an offer: from now on this side may ask, and the dialler answers."""
        if self.stage == "offered":
            self.stage, self.borrows = "met", True
        return ()

    def _take(self, message: AnyMessage, text: str) -> Outputs:
        match message:
            case Hello() if self.stage == "new":
                return self._welcome_to(message, text)
            case Prove() if self.stage == "proving":
                return self._verify_peer(message)
            case Offer() if self.stage == "met" and not self.borrows and self._is_able:
                self.stage = "offered"
                return (OfferReceived(message),)
        return super()._take(message, text)

    @property
    def _is_able(self) -> bool:
        return self.peer is not None and LENDER_DIALS in self.peer.capabilities

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

    def _verify_peer(self, prove: Prove) -> Outputs:
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
            self._verified(hello, self._version, seen),
        )


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
