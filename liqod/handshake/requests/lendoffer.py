"""Pursues one offer of this cluster's to lend: dials the borrower, again and again while it may.

The grant is decided where every request to borrow is (:class:`.incomingserver.IncomingServer`): by
the inbox, a policy, or an earlier decision for ever. The OutgoingPeering says whom to dial, and
shows how far it has come; the IncomingPeering holds what is asked and granted.
"""

from contextlib import suppress
from typing import Final

import trio

from liqod.cluster.context import ClusterContext
from liqod.errors import ConfigError, LiqodError, Unreachable
from liqod.handshake.protocol.messages import (
    Accepted,
    Ask,
    Cancel,
    Denied,
    Done,
    Offer,
    Refused,
    Report,
)
from liqod.handshake.protocol.outputs import ExpectedPeer, VerifiedPeer
from liqod.handshake.protocol.requestphase import RequestEvent
from liqod.handshake.requests import outgoingrecord
from liqod.handshake.requests.outgoingrequest import YES, OutgoingRequest, is_over
from liqod.handshake.transport.channel import StreamBackend
from liqod.handshake.transport.interfaces import BorrowRequestHandler, OnPending, SessionOver
from liqod.handshake.transport.peerdialler import PeerDialler
from liqod.handshake.transport.peersession import API
from liqod.procedures import answering
from liqod.procedures.answering import known_key
from liqod.resources.peering import ACCEPTED, ASKED, EXCHANGED, IDENTIFIED, PEERED, REACHED
from liqod.runtime.backoff import Backoff
from liqod.runtime.supervise import leaves

PAUSES: Final = Backoff(first=0.5, last=10.0)
"""Seconds between tries to dial: while there is no connection, nothing reaches what is lent."""
STABLE: Final = 10.0
"""Seconds that a connection must have stood for the next try to come at once."""


class LendOffer(OutgoingRequest):
    """Pursues one offer: each :meth:`run` is one connection, and this is its host.

    Args:
        name: of the OutgoingPeering.
        dialler: meets others.
        host: decides about who asks to borrow.
        door: to this cluster's API server.
    """

    def __init__(
        self,
        context: ClusterContext,
        name: str,
        dialler: PeerDialler,
        host: BorrowRequestHandler,
        door: StreamBackend,
    ) -> None:
        super().__init__(context, name)
        self.pauses = PAUSES
        self._dialler, self._host, self._door = dialler, host, door
        self._peer: VerifiedPeer | None = None
        self._asker: tuple[VerifiedPeer, Ask] | None = None

    async def run(self) -> bool:
        """One try: whether all is over.

        Raises:
            LiqodError: it is to be tried again after a pause, and why.
        """
        request = await self._read()
        if request is None or is_over(request):
            return True
        spec, phase = request.spec, request.status.phase
        if phase != "Done" and not outgoingrecord.left(request):
            await self._write("expired", {"message": "nobody borrowed in time"})
            await self._forget_invitation(request)
            return True
        if not (spec.key and spec.addresses):
            raise ConfigError("an offer to lend needs addresses and the key of who may borrow")
        invited = await self._invited(request)
        who, key = spec.cluster_id or request.status.cluster_id, spec.key
        if phase == "Done":  # and a tenant, whose key another one may have followed
            key = await known_key(self._client, self._context.namespace, who) or key
        expected = ExpectedPeer(cluster_id=who, key=key)
        began = trio.current_time()
        try:
            async with self._dialler.meet(spec.addresses, expected) as meeting:
                self._peer = peer = meeting.peer
                met = {
                    "clusterID": peer.cluster_id,
                    "key": peer.key,
                    "address": meeting.address,
                    "nextTry": None,
                    **({"words": peer.words} if phase != "Done" else {}),
                }
                await self._write(None, met, {REACHED: YES, IDENTIFIED: YES})
                offer = Offer(request=request.metadata.uid, invitation=invited)
                await meeting.lend(offer, self, {API: self._door})
        except Exception as error:
            for leaf in leaves(error):
                if isinstance(leaf, Unreachable):
                    await self._write(None, {}, {REACHED: ("False", str(leaf))})
                if isinstance(leaf, SessionOver) and await self._ended(leaf):
                    return True
            if trio.current_time() - began < STABLE:
                raise
        finally:
            self._peer = None
        return False

    async def withdraw(self, uid: str) -> None:
        """Keep the connection while the borrower is a tenant: all that it has here uses it."""
        if self._peer is not None:
            with suppress(LiqodError):
                await self._host.until_untrusted(self._peer)

    async def _ended(self, over: SessionOver) -> bool:
        """True if the borrower is never to be dialled again, which this writes."""
        request = await self._read()
        if request is None or is_over(request):
            return True
        if request.status.phase == "Done":
            return False  # it is dialled for as long as it is a tenant here
        if over.closed.code == "unknown" and request.status.phase:
            if self._asker is not None:  # what it asked may wait in the inbox still
                peer, ask = self._asker
                await self._host.on_report(peer, Cancel(request=ask.request))
            await self._give_up("refused", f"{request.status.cluster_id} asks no more")
            return True
        return await self._refused(over)

    # --- the host ------------------------------------------------------------------------------

    async def on_ask(
        self, peer: VerifiedPeer, source: str, ask: Ask, pending: OnPending
    ) -> Accepted | Denied | Refused:
        """The answer of the inbox; records the request before."""
        self._asker = (peer, ask)
        entry = answering.name_of(peer.cluster_id, peer.key)
        why = f"{peer.cluster_id} asks to borrow: `liqod inbox accept {entry}` lends it"
        request = await self._write("asked", {"message": why}, {ASKED: YES})
        # From now on it is known there, and an invitation that is shown again begins nothing anew.
        await self._forget_invitation(request)
        answer = await self._host.on_ask(peer, source, ask, pending)
        match answer:
            case Accepted():
                granted = {"granted": dict(answer.granted), "message": None}
                await self._write("accepted", granted, {ACCEPTED: YES})
            case Denied():
                why = "denied here, by an operator or a policy"
                await self._write("denied", {"message": why}, {ACCEPTED: ("False", why)})
            case Refused():
                await self._set_message(answer.reason)
        return answer

    async def on_attach(self, peer: VerifiedPeer) -> Refused | None:
        """Why it is no tenant; None where it is one, which has made the peering then."""
        refused = await self._host.on_attach(peer)
        if refused is None:
            await self._happened("done")
        return refused

    async def until_untrusted(self, peer: VerifiedPeer) -> str:
        """Wait until a tenant is none any more, and say why."""
        return await self._host.until_untrusted(peer)

    async def on_report(self, peer: VerifiedPeer, report: Report) -> None:
        """Keep the consumer's report on its request."""
        await self._host.on_report(peer, report)
        match report:
            case Done():
                await self._happened("done")
            case Cancel():
                await self._write("cancelled", {"message": "its operator took the request back"})
            case _:
                await self._write("failed", {"message": report.reason})

    async def _happened(self, last: RequestEvent) -> None:
        """Write that it has come to a peering, whatever was not written of it before."""
        events: tuple[RequestEvent, ...] = ("asked", "accepted", last)
        for event in events:
            await self._write(event, {"message": None})
        await self._write(None, {}, {EXCHANGED: YES, PEERED: YES})
