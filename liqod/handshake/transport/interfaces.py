"""The interface between a meeting and those who decide in it: components decide, sockets carry.

A consumer's messages are handed to a :class:`BorrowRequestHandler`. Rooms know neither TLS nor
websockets, and sockets know no custom resource.
"""

from collections.abc import Callable
from typing import Protocol

from liqod.errors import TransientError
from liqod.handshake.protocol.messages import Accepted, Ask, Denied, Refused, Report
from liqod.handshake.protocol.outputs import SessionEnd, VerifiedPeer

OnPending = Callable[[int], None]
"""Called while nobody has decided, with the seconds after which the request ends by itself."""


class BorrowRequestHandler(Protocol):
    """Decides about those who want to borrow here, all of whom have proved their keys.

    There are two, in the layer above, which this one must not name: who is asked, and who has
    offered to lend.
    """

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
