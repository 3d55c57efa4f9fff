"""The outputs of the handshake's machines to their driver. Pure."""

from typing import Final, Literal

import msgspec

from liqod.handshake.protocol.messages import (
    Accepted,
    Ask,
    Attached,
    Denied,
    Noted,
    Offer,
    Pending,
    Report,
)

Side = Literal["us", "peer"]
LENDER_DIALS: Final = "lender-dials"
"""The capability to lend to the side that is dialled, and to borrow from the one that dials."""
CAPABILITIES: Final = (LENDER_DIALS,)
"""All that this version has."""


class LocalIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """This side.

    Attributes:
        cluster_id: this cluster.
        private: its key, PEM.
        capabilities: what it can do beyond the protocol.
        versions: of the protocol.
    """

    cluster_id: str
    private: bytes
    capabilities: tuple[str, ...] = ()
    versions: tuple[int, ...] = (1,)

    def __repr__(self) -> str:
        return f"LocalIdentity({self.cluster_id!r})"


class ExpectedPeer(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that a dialler means to meet.

    Attributes:
        cluster_id: empty where it is not known.
        key: SHA-256 of its public key, 64 hexadecimal digits; empty where it is not known, which is
            when people have to compare the words.
    """

    cluster_id: str = ""
    key: str = ""


class VerifiedPeer(msgspec.Struct, frozen=True, kw_only=True):
    """The other side, after it has proved that it holds its key.

    Attributes:
        cluster_id: as it says; that this id belongs to this key, nobody vouches for.
        public_key: PEM, always written in the same way.
        key: SHA-256 of it, 64 hexadecimal digits.
        words: the same on both sides, unless somebody stands between. They are of this meeting: a
            consumer writes them before it asks, a provider when it is asked, each time anew.
        version: that both go by.
        capabilities: those that both have.
    """

    cluster_id: str
    public_key: str
    key: str
    words: str
    version: int
    capabilities: frozenset[str]


class Send(msgspec.Struct, frozen=True):
    """To be sent to the other side, as a text message."""

    text: str

    def __repr__(self) -> str:
        return f"Send({len(self.text)} characters)"


class PeerVerified(msgspec.Struct, frozen=True):
    """The other side has proved its identity. Nothing is sent to or received from it before."""

    peer: VerifiedPeer


class OfferReceived(msgspec.Struct, frozen=True):
    """To the listener: is anything to be borrowed there? Answer by ``take_up`` or ``refuse``."""

    offer: Offer


class AskReceived(msgspec.Struct, frozen=True):
    """To who lends: decide, by ``pend``, ``accept``, ``deny`` or ``refuse``."""

    ask: Ask


class AttachReceived(msgspec.Struct, frozen=True):
    """To who lends: is this a tenant? Answer by ``admit`` or ``refuse``."""


class ReportReceived(msgspec.Struct, frozen=True):
    """For the lender: record the consumer's report on a request, then ``note`` it."""

    report: Report


class AnswerReceived(msgspec.Struct, frozen=True):
    """For the borrower: the other side's message."""

    answer: Pending | Accepted | Denied | Attached | Noted


class SessionEnd(msgspec.Struct, frozen=True):
    """The meeting is over, the last of all outputs: close the channel after what was sent.

    Attributes:
        code: why, one of ``statemachine``'s, or another one of a newer peer.
        reason: the same for people, fit for a terminal.
        by: who ended it.
        again: seconds after which another try may do better; None: not by itself.
    """

    code: str
    reason: str
    by: Side
    again: int | None = None


Output = (
    Send
    | PeerVerified
    | OfferReceived
    | AskReceived
    | AttachReceived
    | ReportReceived
    | AnswerReceived
    | SessionEnd
)
Outputs = tuple[Output, ...]
