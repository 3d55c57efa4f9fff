"""Meets another daemon: the first of its addresses that answers with the key that is expected.

Each address has a head start of a quarter of a second. One whose certificate is of another key is
none of the peer's and is passed over; who is met has then to prove that key again, over this
meeting. The way goes by an HTTP proxy where the configuration or the environment names one.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NoReturn

import trio

from liqod.errors import LiqodError, ProtocolError, Unconnected, Unreachable
from liqod.handshake.protocol import invitationtokens, statemachine
from liqod.handshake.protocol.messages import Offer
from liqod.handshake.protocol.outputs import ExpectedPeer, LocalIdentity, SessionEnd
from liqod.handshake.protocol.proof import NONCE
from liqod.handshake.timings import ORDINARY, HandshakeTimings
from liqod.handshake.transport import websockets
from liqod.handshake.transport.channel import StreamBackend, StreamLimits
from liqod.handshake.transport.interfaces import BorrowRequestHandler, SessionOver
from liqod.handshake.transport.localidentity import SelectIdentity
from liqod.handshake.transport.peersession import PeerSession
from liqod.handshake.transport.peertls import called, dialler_context
from liqod.handshake.transport.sessioncounters import SessionCounters
from liqod.identity import keys
from liqod.identity.clustercertificates import key_of
from liqod.kube.http import proxies
from liqod.kube.http.proxies import Dial
from liqod.kube.http.wire import TlsWire, Wire, connect
from liqod.model.network import environment
from liqod.runtime.gather import first_of
from liqod.websocket import Websocket

HEAD_START: Final = 0.25
"""Seconds that an address is ahead of the next one."""
CONNECT_WITHIN: Final = 10.0
"""Seconds for a connection and TLS."""
MEET_WITHIN: Final = 10.0
"""Seconds for the websocket and both proofs."""


class PeerDialler:
    """Meets other daemons: its :meth:`meet` is a :data:`.peersession.DialPeer`.

    Args:
        own: this cluster, with its key; or what says as whom somebody is dialled.
        proxy: ``[handshake] proxy``.
        environ: the environment.
        dial: makes TCP connections; tests pass their own.
        counters: count what meetings come to; None: nobody measures.
        bounds: of the streams of those who are lent to.
    """

    def __init__(
        self,
        own: LocalIdentity | SelectIdentity,
        *,
        proxy: str = "",
        environ: Mapping[str, str] = os.environ,
        dial: Dial = connect,
        counters: SessionCounters | None = None,
        bounds: StreamLimits | None = None,
        timings: HandshakeTimings = ORDINARY,
    ) -> None:
        self._counters = counters or SessionCounters()
        self._bounds, self._timings = bounds, timings
        self._own, self._proxy, self._environ, self._dial = own, proxy, environ, dial
        self._context = dialler_context()

    @asynccontextmanager
    async def meet(
        self, addresses: Sequence[str], expected: ExpectedPeer
    ) -> AsyncIterator["DialledSession"]:
        """A meeting with the first that answers.

        Args:
            addresses: ``HOST:PORT`` each, the best first.
            expected: who it has to be.

        Raises:
            Unreachable: none answers.
            SessionOver: it is another, or refuses.
        """
        failed: BaseException | None = None
        own = self._own if isinstance(self._own, LocalIdentity) else await self._own(expected)
        wire, where = await self._first(addresses, expected)
        try:
            meeting = DialledSession(
                own, expected, where, wire, self._counters, self._bounds, self._timings
            )
            async with trio.open_nursery() as nursery:
                try:
                    await meeting.start(nursery)
                    yield meeting
                except Exception as error:
                    # As it is, and not in a group.
                    failed = error
                finally:
                    with trio.CancelScope(shield=True):
                        await meeting.end()
                    nursery.cancel_scope.cancel()
        finally:
            wire.close()
        if failed is not None:
            raise failed

    async def _first(self, addresses: Sequence[str], expected: ExpectedPeer) -> tuple[TlsWire, str]:
        """TLS with the first address that shows the right key, and which one that is."""
        if not addresses:
            raise Unconnected("no address of its daemon is known")
        errors: dict[str, str] = {}
        wrong: list[SessionEnd] = []

        async def attempt(address: str) -> tuple[TlsWire, str] | None:
            try:
                wire = await self._secured(address, expected)
            except LiqodError as error:
                errors[address] = str(error)
                return None
            problem = _other(wire, expected)
            if problem is None:
                return wire, address
            wire.close()
            errors[address] = problem.reason
            wrong.append(problem)
            return None

        attempts = [partial(attempt, address) for address in dict.fromkeys(addresses)]
        won = await first_of(attempts, HEAD_START, lambda late: late[0].close())
        if won is not None:
            return won
        if wrong:
            self._counters.refuse(wrong[0].code)
            raise SessionOver(wrong[0])
        raise Unconnected("; ".join(f"{where}: {why}" for where, why in errors.items()))

    async def _secured(self, address: str, expected: ExpectedPeer) -> TlsWire:
        """TLS with the listener at an address. Raises Unreachable, ConfigError."""
        host, port = invitationtokens.address(address)
        proxy = self._proxy or environment.of_environment(host, self._environ)
        way = proxies.through(self._dial, proxy if proxy != environment.NONE else None)
        wire: Wire | None = None
        try:
            with trio.move_on_after(CONNECT_WITHIN):
                wire = await way(host, port)
                secured = TlsWire(wire, self._context, called(host, expected.key))
                await secured.handshake()
                return secured
            raise Unconnected(f"no answer within {CONNECT_WITHIN:g} s")
        except BaseException as error:
            if wire is not None:
                wire.close()
            if isinstance(error, ssl.SSLError | ValueError):
                raise Unconnected(f"TLS failed: {error}") from error
            raise


def _other(wire: TlsWire, expected: ExpectedPeer) -> SessionEnd | None:
    """Why a listener is not the expected one; None where it may be."""
    try:
        found = keys.print_of(key_of(wire.shown_certificate))
    except ProtocolError as error:
        return SessionEnd(code="protocol", reason=str(error), by="us")
    if not expected.key or found == expected.key:
        return None
    why = f"the listener shows the key {found}, and {expected.key} was expected"
    return SessionEnd(code="wrong-key", reason=why, by="us")


class DialledSession(PeerSession):
    """A meeting, as the dialler has it.

    Args:
        own: this cluster.
        expected: who it has to be.
        address: where it answered.
        wire: TLS with it.
        counters: count what it comes to.
        bounds: of the streams of who is lent to.
    """

    def __init__(
        self,
        own: LocalIdentity,
        expected: ExpectedPeer,
        address: str,
        wire: TlsWire,
        counters: SessionCounters,
        bounds: StreamLimits | None,
        timings: HandshakeTimings,
    ) -> None:
        self._wire, self._timings = wire, timings
        certificate = wire.shown_certificate
        self._machine = statemachine.DiallerMachine(own, expected, certificate, os.urandom(NONCE))
        super().__init__(self._machine, address, wire.keep_alive, counters)
        self._bounds = bounds

    async def start(self, nursery: trio.Nursery) -> None:
        """Have both prove themselves. Raises SessionOver, Unreachable.

        Args:
            nursery: for what goes on in the meeting.
        """
        self._nursery = nursery
        host = self.address.rpartition(":")[0]
        with trio.move_on_after(MEET_WITHIN):
            self._socket = await websockets.connect(self._nursery, self._wire, host)
            self._nursery.start_soon(self._listen, self._socket)
            self._nursery.start_soon(self._watch, self._socket)
            await self._perform(self._machine.start())
            await self._until(lambda: self._machine.peer is not None)
            return
        raise Unreachable(f"{self.address}: no proof within {MEET_WITHIN:g} s")

    async def lend(
        self, offer: Offer, host: BorrowRequestHandler, doors: Mapping[str, StreamBackend]
    ) -> NoReturn:
        """Offer to lend, and do so until the meeting is over.

        Args:
            offer: what is said.
            host: decides about what the listener asks.
            doors: where the listener may open streams to.

        Raises:
            SessionOver: why it is over.
        """
        self._host, self._doors = host, doors
        await self._perform(self._machine.offer(offer))
        raise SessionOver(await self.wait_over())

    async def end(self) -> None:
        """Say goodbye, for a second at most."""
        self._over(SessionEnd(code="gone", reason="ended on this side", by="us"))
        if self._socket is not None:
            await self._socket.close()

    async def _watch(self, socket: Websocket) -> None:
        await websockets.watch(socket, self._timings, ping=True)
        if self._closed is None:
            why = f"nothing came for {self._timings.silence:g} s"
            await self._perform(self._machine.lost(why))
