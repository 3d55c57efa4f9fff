"""Where other daemons meet this one: TLS with the cluster's key, a websocket, the hand-shake.

Everything here is for strangers until they have proved a key, and anybody can make a key: so who
connects has 5 s for that, there are so many of each sort at once (:mod:`.crowds`), and what one
does, does not do or does not read costs that connection and nobody else anything. Who is let in is
the host's to say; who was, has a channel to this cluster's API server and to nothing else. Who
offers to lend has none: by it this cluster goes to that one.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError
from liqod.handshake import machine, websockets
from liqod.handshake.channel import Door
from liqod.handshake.crowds import Crowd, source_of
from liqod.handshake.figures import Figures
from liqod.handshake.meeting import NOBODY, Borrower, Host
from liqod.handshake.messages import Offer, Refused
from liqod.handshake.outputs import Closed, Identified, Offered, Output, Own
from liqod.handshake.proof import NONCE
from liqod.handshake.talking import AGAIN, Talk
from liqod.handshake.tls import listener_context
from liqod.handshake.websockets import Websocket
from liqod.identity.clustercertificates import certificate_of
from liqod.kube.http.wire import TlsWire, Wire, wire_of
from liqod.sharedport import DAEMON, SharedPort

PROVE_WITHIN: Final = 5.0
"""Seconds for TLS, the websocket and the proof together."""
UNPROVED, UNPROVED_OF_ONE = 128, 32
"""Connections that have proved nothing yet: in all, and of one address."""
STRANGERS, STRANGERS_OF_ONE = 256, 16
"""Those that have proved a key which is no tenant's."""
TENANTS, TENANTS_OF_ONE = 1024, 4
"""Those of tenants, by their keys: a channel that is kept, and one that takes its place."""
ACCEPTED_FOR: Final = 3600.0
"""Seconds that a channel lasts for who was accepted and is not a tenant yet."""

log = logging.getLogger(__name__)


class Listener:
    """Meets other daemons.

    Args:
        own: this cluster, with its key.
        host: decides.
        doors: what those who were let in may open streams to.
        borrower: decides about those who offer to lend.
        figures: count what meetings come to; None: nobody measures.

    Raises:
        ProtocolError, ConfigError: the key cannot be used.
    """

    def __init__(
        self,
        own: Own,
        host: Host,
        doors: Mapping[str, Door],
        borrower: Borrower = NOBODY,
        figures: Figures | None = None,
    ) -> None:
        self.figures = figures or Figures()
        self.own, self.host, self.doors, self.borrower = own, host, doors, borrower
        self.certificate = certificate_of(own.private)
        self.context = listener_context(self.certificate)
        self.unproved = Crowd(UNPROVED, UNPROVED_OF_ONE)
        self.strangers = Crowd(STRANGERS, STRANGERS_OF_ONE)
        self.tenants = Crowd(TENANTS, TENANTS_OF_ONE)

    async def run(self, listeners: list[trio.SocketListener]) -> NoReturn:
        """Meet whoever comes, until cancelled."""
        await trio.serve_listeners(self._serve, listeners)

    async def share(
        self,
        port: int,
        folder: Path,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Meet whoever calls a daemon at a port that the servers of tunnels use, too.

        Args:
            port: the port.
            folder: of root's alone, where the programs that share it find each other.
            task_status: started when it listens, or waits for whoever has the port.

        Raises:
            OSError: another program has it.
        """
        await SharedPort(DAEMON, port, folder, "daemon", 0, self._taken).run(task_status)

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
        visit = Visit(self, wire, source)
        try:
            await visit.run()
        except* Exception as group:
            log.debug("one who met this daemon was lost", extra={"reason": repr(group)})
        finally:
            wire.close()


class Visit(Talk):
    """One that has connected; a :class:`.meeting.Meeting` where it lends.

    Args:
        listener: that it meets.
        wire: the connection.
        source: the address that it came from.
    """

    def __init__(self, listener: Listener, wire: Wire, source: str) -> None:
        self._listener, self._wire, self._source = listener, wire, source
        own, certificate = listener.own, listener.certificate
        self._machine = machine.Listener(own, certificate.der, os.urandom(NONCE))
        super().__init__(self._machine, source, wire.keep_alive, listener.figures)
        self._host, self._doors = listener.host, listener.doors
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """All of it."""
        crowds = self._listener.unproved, self._listener.strangers, self._listener.tenants
        crowds[0].enter(source_of(self._source), self._scope)
        self._scope.deadline = trio.current_time() + PROVE_WITHIN
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    secured = TlsWire(self._wire, self._listener.context, None)
                    await secured.handshake()
                    self._socket = await websockets.accept(self._nursery, secured)
                    self._nursery.start_soon(self._watch, self._socket)
                    try:
                        await self._listen(self._socket)
                        await trio.sleep_forever()  # whoever says goodbye ends it
                    finally:
                        self._nursery.cancel_scope.cancel()
        finally:
            for crowd in crowds:
                crowd.leave(self._scope)
            self._over(Closed(code="gone", reason="the channel has ended", by="us"))

    async def _watch(self, socket: Websocket) -> None:
        await socket.watch(ping=False)
        self._over(
            Closed(code="gone", reason=f"nothing came for {websockets.SILENCE:g} s", by="us")
        )
        self._scope.cancel()

    def _take(self, output: Output) -> None:
        match output:
            case Identified():
                self._proved()
            case Offered(offer):
                self._nursery.start_soon(self._offered, offer)
            case _:
                super()._take(output)

    async def _end(self, closed: Closed) -> None:
        self._over(closed)
        assert self._socket is not None
        await self._socket.close()
        self._scope.cancel()

    def _proved(self) -> None:
        self._listener.unproved.leave(self._scope)
        self._scope.deadline = float("inf")
        self._listener.strangers.enter(source_of(self._source), self._scope)

    def _let_in(self) -> None:
        super()._let_in()
        self._scope.deadline = trio.current_time() + ACCEPTED_FOR

    def _admitted(self) -> None:
        self._listener.strangers.leave(self._scope)
        self._listener.tenants.enter(self.peer.key, self._scope)

    async def _offered(self, offer: Offer) -> None:
        """Take an offer up where something is to be borrowed, for as long as that is so."""
        borrower = self._listener.borrower
        try:
            refused = await borrower.offered(self.peer, offer)
        except LiqodError as error:
            log.debug("it cannot be told whether anything is borrowed: %s", error)
            refused = Refused(code="busy", reason="it cannot be looked up now", again=AGAIN)
        if refused is None:
            self._admitted()
            await self._perform(self._machine.take_up())
            refused = await borrower.taken_up(self)
        await self.refuse(refused)
