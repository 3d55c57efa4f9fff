"""The interfaces between sockets and rooms: the rooms decide, the sockets carry.

A consumer's messages are handed to a :class:`BorrowRequestHandler`; a borrower is given a
:class:`LenderSession`, by a :data:`DialPeer` or, where the lender dials, after a
:class:`LendOfferHandler` has taken its offer up. Rooms know neither TLS nor websockets, and sockets
know no custom resource.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from liqod.errors import TransientError
from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Offer, Refused, Report
from liqod.handshake.protocol.outputs import ExpectedPeer, SessionEnd, VerifiedPeer
from liqod.kube.http.wire import Wire

OnPending = Callable[[int], None]
"""Called while nobody has decided, with the seconds after which the request ends by itself."""


class BorrowRequestHandler(Protocol):
    """Decides about those who want to borrow here, all of whom have proved their keys."""

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        """The answer to a request, as soon as there is one; cancelled when the borrower goes.

        Args:
            peer: who asks.
            source: the address that it came from, or was dialled at.
            ask: for what.
            pending: called each time that who asks is to be told to wait.
        """

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        """Why this is no tenant for whom a channel is kept; None where it is one."""

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        """Wait until a tenant is none any more, and say why: its channel is to be closed then."""

    async def on_report(self, peer: VerifiedPeer, report: Report) -> None:
        """Keep a consumer's report on its request; the consumer is notified once this returns."""


class SessionOver(TransientError):
    """A meeting is over.

    Attributes:
        closed: why.
    """

    def __init__(self, closed: SessionEnd) -> None:
        super().__init__(closed.reason or closed.code)
        self.closed = closed


class LenderSession(Protocol):
    """A channel to a lender, both sides of which have proved their keys."""

    @property
    def peer(self) -> VerifiedPeer:
        """The lender."""

    @property
    def address(self) -> str:
        """Where it answered, ``HOST:PORT``; or where it came from, ``HOST``."""

    async def ask(self, ask: Ask, pending: OnPending) -> Accepted | Denied:
        """The answer, however long it takes. Raises SessionOver where it is refused, or the channel
        ends.

        Args:
            ask: for what.
            pending: called each time that the lender says that nobody has decided yet.
        """

    async def report(self, report: Report) -> None:
        """Report the result of a request, until it is noted. Raises SessionOver where the channel
        ends."""

    async def dial(self, host: str, port: int) -> Wire:
        """A connection to the lender's API server, whatever host and port are called.

        Raises Unreachable.
        """

    async def attach(self) -> object:
        """Have the channel, as a tenant. Raises SessionOver, Unreachable."""

    async def wait_over(self) -> SessionEnd:
        """Why it is over, once it is."""

    async def refuse(self, refused: Refused) -> None:
        """End it, and say why."""


class LendOfferHandler(Protocol):
    """Decides about those who dial here to lend, all of whom have proved their keys."""

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        """Why nothing is borrowed of it; None where something is, or is to be."""

    async def hold(self, meeting: LenderSession) -> Refused:
        """Keep a meeting for all that use that lender; returns why it is to end, once it is."""


class _RefuseOffers:
    """Borrows nothing."""

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        """It is refused."""
        return Refused(code="unknown", reason="this cluster borrows from nobody that dials it")

    async def hold(self, meeting: LenderSession) -> Refused:
        """Nothing is."""
        raise AssertionError("an offer was refused, and taken up")


REFUSE_OFFERS: Final[LendOfferHandler] = _RefuseOffers()
"""Borrows nothing."""

DialPeer = Callable[[Sequence[str], ExpectedPeer], AbstractAsyncContextManager[LenderSession]]
"""Meets the first of the addresses (``HOST:PORT``) that answers with what is expected.

Raises Unreachable where none answers, SessionOver where it is another or refuses."""
