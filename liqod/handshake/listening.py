"""Where other daemons meet this one: TLS with the cluster's key, a websocket, the hand-shake.

Everything here is for strangers until they have proved a key, and anybody can make a key: so who
connects has 5 s for that, there are so many of each sort at once (:mod:`.crowds`), and what one
does, does not do or does not read costs that connection and nobody else anything. Who is let in is
the host's to say; who was, has a channel to this cluster's API server and to nothing else.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError, ProtocolError, Unreachable
from liqod.handshake import machine, websockets
from liqod.handshake.channel import Bucket, Channel, Door
from liqod.handshake.crowds import Crowd, source_of
from liqod.handshake.meeting import Host
from liqod.handshake.messages import Accepted, Ask, Cancel, Denied, Refused, Report
from liqod.handshake.outputs import (
    Asked,
    Attaching,
    Closed,
    Identified,
    Outputs,
    Own,
    Peer,
    Reported,
    Send,
)
from liqod.handshake.proof import NONCE
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
TEXTS, TEXT_RATE = 32, 1.0
"""Messages of one meeting: at once, and each second from then on."""
AGAIN: Final = 10
"""Seconds after which who met an error of ours may come again."""

log = logging.getLogger(__name__)


class Listener:
    """Meets other daemons.

    Args:
        own: this cluster, with its key.
        host: decides.
        doors: what those who were let in may open streams to.

    Raises:
        ProtocolError, ConfigError: the key cannot be used.
    """

    def __init__(self, own: Own, host: Host, doors: Mapping[str, Door]) -> None:
        self.own, self.host, self.doors = own, host, doors
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


class Visit:
    """One that has connected.

    Args:
        listener: that it meets.
        wire: the connection.
        source: the address that it came from.
    """

    def __init__(self, listener: Listener, wire: Wire, source: str) -> None:
        self._listener, self._wire, self._source = listener, wire, source
        own, certificate = listener.own, listener.certificate
        self._machine = machine.Listener(own, certificate.der, os.urandom(NONCE))
        self._scope = trio.CancelScope()
        self._deciding = trio.CancelScope()
        self._closed: Closed | None = None
        self._channel: Channel | None = None
        self._texts = Bucket(TEXTS, TEXT_RATE, trio.current_time())
        self._nursery: trio.Nursery
        self._socket: Websocket

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
                    self._nursery.start_soon(self._watch)
                    try:
                        await self._talk()
                    finally:
                        self._nursery.cancel_scope.cancel()
        finally:
            for crowd in crowds:
                crowd.leave(self._scope)
            if self._channel is not None:
                self._channel.end("the channel has ended")

    async def _talk(self) -> None:
        while self._closed is None:
            try:
                message = await self._socket.receive()
            except Unreachable as error:
                await self._perform(self._machine.lost(str(error)))
                break
            if isinstance(message, str):
                if self._texts.take(trio.current_time()) > 0:
                    await self._perform(self._machine.refuse("busy", "too many messages", AGAIN))
                    break
                await self._perform(self._machine.receive(message))
                continue
            try:
                if self._channel is None:
                    raise ProtocolError("a stream before anything was agreed")
                self._channel.receive(message)
            except ProtocolError as error:
                await self._perform(self._machine.refuse("protocol", f"cut off: {error}"))
        await trio.sleep_forever()  # whoever says goodbye ends it

    async def _watch(self) -> None:
        await self._socket.watch(ping=False)
        if self._channel is not None:
            self._channel.end(f"nothing came for {websockets.SILENCE:g} s")
        self._scope.cancel()

    async def _perform(self, outputs: Outputs) -> None:
        for output in outputs:
            match output:
                case Send(text):
                    with suppress(Unreachable):  # whoever receives is told
                        await self._socket.send(text)
                case Identified(peer):
                    self._proved(peer)
                case Asked(ask):
                    self._nursery.start_soon(self._decide, ask)
                case Attaching():
                    self._nursery.start_soon(self._attach)
                case Reported(report):
                    if isinstance(report, Cancel):
                        self._deciding.cancel()
                    self._nursery.start_soon(self._note, report)
                case Closed():
                    self._closed = output
                    if self._channel is not None:
                        self._channel.end(output.reason or output.code)
                    await self._socket.close()
                    self._scope.cancel()

    def _proved(self, peer: Peer) -> None:
        self._listener.unproved.leave(self._scope)
        self._scope.deadline = float("inf")
        self._listener.strangers.enter(source_of(self._source), self._scope)

    @property
    def _peer(self) -> Peer:
        assert self._machine.peer is not None
        return self._machine.peer

    async def _decide(self, ask: Ask) -> None:
        def pending(lifetime: int) -> None:
            self._nursery.start_soon(self._perform, self._machine.pend(lifetime))

        with trio.CancelScope() as self._deciding:
            try:
                answer = await self._listener.host.asked(self._peer, self._source, ask, pending)
            except LiqodError as error:
                log.warning("%s asked, and it came to nothing: %s", self._peer.cluster_id, error)
                answer = Refused(code="busy", reason="it cannot be looked at now", again=AGAIN)
            match answer:
                case Accepted():
                    outputs = self._machine.accept(answer)
                    if outputs:
                        self._scope.deadline = trio.current_time() + ACCEPTED_FOR
                        self._open(outputs)
                case Denied():
                    await self._perform(self._machine.deny(answer.reason))
                case Refused():
                    await self._refuse(answer)

    async def _attach(self) -> None:
        try:
            refused = await self._listener.host.attached(self._peer)
        except LiqodError as error:
            log.debug("it cannot be told whether it is a tenant: %s", error)
            refused = Refused(code="busy", reason="it cannot be looked up now", again=AGAIN)
        if refused is not None:
            await self._refuse(refused)
            return
        self._listener.strangers.leave(self._scope)
        self._listener.tenants.enter(self._peer.key, self._scope)
        self._open(self._machine.attach())
        why = await self._listener.host.distrusted(self._peer)
        await self._refuse(Refused(code="unknown", reason=why))

    async def _refuse(self, refused: Refused) -> None:
        await self._perform(self._machine.refuse(refused.code, refused.reason, refused.again))

    async def _note(self, report: Report) -> None:
        try:
            await self._listener.host.reported(self._peer, report)
        except LiqodError as error:
            log.debug("a report is not kept, and will come again: %s", error)
            return
        await self._perform(self._machine.note(report.request))

    def _open(self, outputs: Outputs) -> None:
        """The channel stands from now on: what was agreed is said before anything is sent by it."""
        self._channel = Channel(
            f"the cluster {self._peer.cluster_id}",
            dialler=False,
            doors=self._listener.doors,
            keep_alive=self._wire.keep_alive,
        )
        self._nursery.start_soon(self._carry, self._channel, outputs)

    async def _carry(self, channel: Channel, outputs: Outputs) -> None:
        await self._perform(outputs)
        try:
            await channel.run(self._socket.send)
        except Unreachable as error:
            await self._perform(self._machine.lost(str(error)))
