"""The listener for other daemons: TLS with the cluster's key, a websocket, the handshake.

Everything here is for strangers until they have proved a key, and anybody can make a key: so who
connects has 5 s for that, there are so many of each sort at once (:mod:`liqod.runtime.account`),
and what one does, does not do or does not read costs that connection and nobody else
anything. The host decides about admission; an admitted peer has a channel to this cluster's API
server and to nothing else. A peer that offers to lend has none: by its connection this
cluster reaches that one.
"""

import logging
import math
import os
import ssl
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, Protocol

import trio

from liqod.errors import LiqodError
from liqod.handshake.protocol import statemachine
from liqod.handshake.protocol.messages import Offer, Refused
from liqod.handshake.protocol.outputs import (
    AskReceived,
    LocalIdentity,
    OfferReceived,
    Output,
    PeerVerified,
    SessionEnd,
    VerifiedPeer,
)
from liqod.handshake.protocol.proof import NONCE
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport import websockets
from liqod.handshake.transport.channel import StreamBackend, StreamLimits
from liqod.handshake.transport.interfaces import BorrowRequestHandler
from liqod.handshake.transport.peersession import AGAIN, NO_PLACE, PeerSession
from liqod.handshake.transport.peertls import ListenerWire, expected_key, listener_context
from liqod.handshake.transport.sessioncounters import SessionCounters
from liqod.identity import keys
from liqod.identity.clustercertificates import ClusterCertificate, certificate_of
from liqod.kube.http.wire import Wire, wire_of
from liqod.runtime import account
from liqod.runtime.account import Account
from liqod.runtime.connectionlimit import ConnectionSlot, serve_listeners, source_of
from liqod.sharedport import be_handed
from liqod.websocket import Websocket

PROVE_WITHIN: Final = 5.0
"""Seconds for TLS, the websocket and the proof together."""
ACCEPTED_FOR: Final = 3600.0
"""Seconds that a channel lasts for a cluster that was accepted and is not a tenant yet."""

_CHANGES: Final = Refused(
    code="busy", reason="this cluster's key is being changed: ask its new one", again=AGAIN
)

log = logging.getLogger(__name__)


def _machine(side: "ListenerKey") -> statemachine.ListenerMachine:
    return statemachine.ListenerMachine(side.own, side.certificate.der, os.urandom(NONCE))


class ListenerKey(NamedTuple):
    """One of this cluster's keys, as it is shown.

    Attributes:
        own: this cluster with that key.
        certificate: of it.
        context: TLS with it.
        key: SHA-256 of it, hexadecimal.
    """

    own: LocalIdentity
    certificate: ClusterCertificate
    context: ssl.SSLContext
    key: str

    @classmethod
    def of(cls, own: LocalIdentity) -> "ListenerKey":
        """That of a key. Raises ProtocolError, ConfigError where it cannot be used."""
        certificate = certificate_of(own.private)
        key = keys.print_of(keys.public_pem(own.private))
        return cls(own, certificate, listener_context(certificate), key)


def chosen(sides: Sequence[ListenerKey], name: str | None) -> ListenerKey:
    """The side that is shown to a caller of a name.

    Args:
        sides: the present key first, then the former one where there is one.
        name: what is called.
    """
    digits = expected_key(name)
    if digits is None:
        return sides[-1]
    return next((each for each in sides if digits and each.key.startswith(digits)), sides[0])


class LendOfferHandler(Protocol):
    """Decides about those who dial here to lend, all of whom have proved their keys.

    The daemon's is in the layer above, which this one must not name.
    """

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        """Why nothing is borrowed of it; None where something is, or is to be."""

    async def hold(self, meeting: PeerSession) -> Refused:
        """Keep a meeting for all that use that lender; returns why it is to end, once it is."""


class _RefuseOffers:
    """Borrows nothing."""

    async def on_offer(self, peer: VerifiedPeer, offer: Offer) -> Refused | None:
        """It is refused."""
        return Refused(code="unknown", reason="this cluster borrows from nobody that dials it")

    async def hold(self, meeting: PeerSession) -> Refused:
        """Nothing is."""
        raise AssertionError("an offer was refused, and taken up")


REFUSE_OFFERS: Final[LendOfferHandler] = _RefuseOffers()
"""Borrows nothing."""


class PeerListener:
    """Meets other daemons.

    Args:
        own: this cluster, with its key.
        host: decides.
        doors: what those who were let in may open streams to.
        borrower: decides about those who offer to lend.
        counters: count what meetings come to; None: nobody measures.
        account: what those who come may take; None: as much as may be.
        idle: seconds after which a stream ends by which nothing comes.

    Raises:
        ProtocolError, ConfigError: the key cannot be used.
    """

    def __init__(
        self,
        own: LocalIdentity,
        host: BorrowRequestHandler,
        doors: Mapping[str, StreamBackend],
        borrower: LendOfferHandler = REFUSE_OFFERS,
        counters: SessionCounters | None = None,
        account: Account | None = None,
        idle: float = math.inf,
        timings: HandshakeTimings = ORDINARY,
    ) -> None:
        self.counters = counters or SessionCounters()
        self.account = account or Account()
        self.idle, self.timings = idle, timings
        self.host, self.doors, self.borrower = host, doors, borrower
        self.sides: tuple[ListenerKey, ...] = (ListenerKey.of(own),)

    def take(self, own: LocalIdentity, former: LocalIdentity | None) -> None:
        """Prove these keys from now on, each to the peers that expect it.

        Raises:
            ProtocolError, ConfigError: one cannot be used.
        """
        if [each.own for each in self.sides] == [each for each in (own, former) if each]:
            return
        self.sides = made = (
            ListenerKey.of(own),
            *([ListenerKey.of(former)] if former is not None else []),
        )

        def choose(tls: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
            tls.context = chosen(made, name).context

        if former is not None:
            made[0].context.sni_callback = choose

    async def run(self, listeners: list[trio.SocketListener]) -> NoReturn:
        """Meet all daemons that connect, until cancelled."""
        await serve_listeners(self._serve, listeners)
        raise AssertionError("listeners are served until cancelled")

    async def share(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        """Meet the daemons that call this one at a port that tunnels have, too.

        Args:
            stream: hands over their connections; it ends with this.
            nursery: has the tasks of those that are met, which go on.
        """
        await be_handed(stream, self._taken, self.account[account.SHARED], nursery)

    async def _taken(self, came: trio.socket.SocketType) -> None:
        await self._serve(trio.SocketStream(came))

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            source = str(stream.socket.getpeername()[0]).removeprefix("::ffff:")
        except OSError:
            source = ""
        await self.serve(wire_of(stream), source)

    async def serve(self, wire: Wire, source: str) -> None:
        """Meet one that has connected. The wall: its trouble is its own.

        Args:
            wire: the connection, which ends with this.
            source: the address that it came from.
        """
        visit = AcceptedSession(self, wire, source)
        try:
            await visit.run()
        except* Exception as group:
            log.debug("one who met this daemon was lost", extra={"reason": repr(group)})
        finally:
            wire.close()


class AcceptedSession(PeerSession):
    """One that has connected, to borrow or to lend.

    Args:
        listener: that it meets.
        wire: the connection.
        source: the address that it came from.
    """

    def __init__(self, listener: PeerListener, wire: Wire, source: str) -> None:
        self._listener, self._wire, self._source = listener, wire, source
        self._sides, self._side = listener.sides, listener.sides[0]
        self._machine = _machine(self._side)
        super().__init__(self._machine, source, wire.keep_alive, listener.counters)
        self._host, self._doors = listener.host, listener.doors
        self._bounds = StreamLimits(listener.account[account.STREAMS], listener.idle)
        self._place: ConnectionSlot | None = None
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """All of it."""
        if not self._go_to(account.UNPROVED):
            return
        self._scope.deadline = trio.current_time() + PROVE_WITHIN
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    secured = ListenerWire(self._wire, self._side.context)
                    await secured.handshake()
                    self._shown(secured.chosen)
                    self._socket = await websockets.accept(self._nursery, secured)
                    self._nursery.start_soon(self._watch, self._socket)
                    try:
                        await self._listen(self._socket)
                        await trio.sleep_forever()  # whoever says goodbye ends it
                    finally:
                        self._nursery.cancel_scope.cancel()
        finally:
            if self._place is not None:
                self._place.release()
            self._over(SessionEnd(code="gone", reason="the channel has ended", by="us"))

    def _shown(self, context: ssl.SSLContext) -> None:
        """Prove the key that was shown."""
        for each in self._sides[1:]:
            if each.context is context:
                self._side = each
                self._machine = self._both = _machine(each)

    async def _watch(self, socket: Websocket) -> None:
        timings = self._listener.timings
        await websockets.watch(socket, timings, ping=False)
        self._over(
            SessionEnd(code="gone", reason=f"nothing came for {timings.silence:g} s", by="us")
        )
        self._scope.cancel()

    def _take(self, output: Output) -> None:
        match output:
            case PeerVerified():
                self._proved()
            case AskReceived() if self._side is not self._sides[0]:
                # What is agreed by the former key would end with it.
                self._nursery.start_soon(self.refuse, _CHANGES)
            case OfferReceived(offer):
                self._nursery.start_soon(self._offered, offer)
            case _:
                super()._take(output)

    async def _end(self, closed: SessionEnd) -> None:
        self._over(closed)
        assert self._socket is not None
        await self._socket.close()
        self._scope.cancel()

    def _proved(self) -> None:
        self._scope.deadline = math.inf
        if not self._go_to(account.STRANGERS):
            self._scope.cancel()

    def _go_to(self, face: str, source: str = "") -> bool:
        """Have a place elsewhere from now on; where there is none it stays where it is."""
        places = self._listener.account[face]
        if self._place is None or self._place.places is not places:
            place = places.enter(source or source_of(self._source), self._scope)
            if place is None:
                return False
            if self._place is not None:
                self._place.release()
            self._place = place
        return True

    def _waits(self) -> None:
        self._go_to(account.WAITING)

    def _let_in(self) -> None:
        super()._let_in()
        self._scope.deadline = trio.current_time() + ACCEPTED_FOR

    def _admitted(self) -> bool:
        return self._go_to(account.TENANTS, self.peer.key)

    async def _offered(self, offer: Offer) -> None:
        """Take an offer up where something is to be borrowed, for as long as that is so."""
        borrower = self._listener.borrower
        try:
            refused = await borrower.on_offer(self.peer, offer)
        except LiqodError as error:
            log.debug("it cannot be told whether anything is borrowed: %s", error)
            refused = Refused(code="busy", reason="it cannot be looked up now", again=AGAIN)
        if refused is None and not self._admitted():
            refused = Refused(code="busy", reason=NO_PLACE, again=AGAIN)
        if refused is None:
            await self._perform(self._machine.take_up())
            refused = await borrower.hold(self)
        await self.refuse(refused)
