"""Performs a meeting while it lasts: the outputs of its machine, whichever side dialled or borrows.

A borrower is given one by a :data:`DialPeer` or, where the lender dials, after its offer was taken
up, and asks by it. A lender has a :class:`~.interfaces.BorrowRequestHandler`, which decides, and
doors: where the streams of the other side may lead to. A side with neither is asked nothing and
leads nowhere.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

import trio

from liqod.errors import LiqodError, ProtocolError, Unconnected, Unreachable
from liqod.handshake.protocol.messages import (
    Accepted,
    Ask,
    Attached,
    Cancel,
    Denied,
    Noted,
    Pending,
    Refused,
    Report,
)
from liqod.handshake.protocol.outputs import (
    AnswerReceived,
    AskReceived,
    AttachReceived,
    ExpectedPeer,
    Output,
    Outputs,
    ReportReceived,
    Send,
    SessionEnd,
    VerifiedPeer,
)
from liqod.handshake.protocol.statemachine import DiallerMachine, ListenerMachine
from liqod.handshake.transport.channel import Channel, StreamBackend, StreamLimits
from liqod.handshake.transport.interfaces import BorrowRequestHandler, OnPending, SessionOver
from liqod.handshake.transport.sessioncounters import SessionCounters
from liqod.kube.http.wire import KeepAlive, Wire
from liqod.runtime.tokenbucket import TokenBucket
from liqod.websocket import FAREWELL, Websocket

ANSWER_WITHIN: Final = 15.0
"""Seconds for what needs no person: to be let in as a tenant, to have a report noted."""
AGAIN: Final = 10
"""Seconds after which a peer that met an error of ours may come again."""
API: Final = "api"
"""The name of a lender's API server as a target of streams."""
TEXTS, TEXT_RATE = 32, 1.0
"""Messages of one meeting: at once, and each second from then on."""

NO_PLACE: Final = "as many channels as may be are open here"

log = logging.getLogger(__name__)


def _unheard(lifetime: int) -> None:
    """Nobody waits."""


class PeerSession:
    """One side of a meeting.

    Args:
        machine: of this side.
        address: of the other side: where it answered, or where it came from.
        keep_alive: has the connection probed.
        counters: count what it comes to.
    """

    def __init__(
        self,
        machine: DiallerMachine | ListenerMachine,
        address: str,
        keep_alive: Callable[[KeepAlive], None],
        counters: SessionCounters,
    ) -> None:
        self.address, self._counters = address, counters
        self._both = machine
        self._keep_alive = keep_alive
        self._dialled = isinstance(machine, DiallerMachine)
        self._nursery: trio.Nursery
        self._socket: Websocket | None = None
        self._closed: SessionEnd | None = None
        self._channel: Channel | None = None
        self._lot = trio.lowlevel.ParkingLot()
        # As who borrows.
        self._pending: OnPending = _unheard
        self._answer: Accepted | Denied | Attached | None = None
        self._noted: set[str] = set()
        # As who lends.
        self._host: BorrowRequestHandler | None = None
        self._doors: Mapping[str, StreamBackend] = {}
        self._bounds: StreamLimits | None = None
        self._deciding = trio.CancelScope()
        self._decided = trio.Event()
        self._decided.set()
        self._trusting = False
        self._texts = TokenBucket(TEXT_RATE, TEXTS)

    @property
    def peer(self) -> VerifiedPeer:
        """The other side. Only where it has proved itself."""
        assert self._both.peer is not None
        return self._both.peer

    @property
    def channel(self) -> Channel | None:
        """The channel of the streams, once it was agreed to."""
        return self._channel

    # --- who borrows ---------------------------------------------------------------------------

    async def ask(self, ask: Ask, pending: OnPending) -> Accepted | Denied:
        """The answer, however long it takes.

        Args:
            ask: for what.
            pending: called each time that the other side says that nobody has decided yet.

        Raises:
            SessionOver: it is refused, or the channel breaks.
        """
        self._answer, self._pending = None, pending
        await self._perform(self._both.ask(ask))
        await self._until(lambda: self._answer is not None)
        assert isinstance(self._answer, Accepted | Denied)
        return self._answer

    async def attach(self) -> Channel:
        """The channel of a tenant. Raises SessionOver, Unreachable."""
        self._answer = None
        with trio.move_on_after(ANSWER_WITHIN):
            await self._perform(self._both.attach())
            await self._until(lambda: self._answer is not None)
            assert self._channel is not None
            return self._channel
        raise Unreachable(f"{self.address}: no answer within {ANSWER_WITHIN:g} s")

    async def report(self, report: Report) -> None:
        """Report the result of a request, until that is noted. Raises SessionOver, Unreachable."""
        self._noted.discard(report.request)
        with trio.move_on_after(ANSWER_WITHIN):
            await self._perform(self._both.report(report))
            await self._until(lambda: report.request in self._noted)
            return
        raise Unreachable(f"{self.address}: no answer within {ANSWER_WITHIN:g} s")

    async def dial(self, host: str, port: int) -> Wire:
        """A connection to the lender's API server, whatever host and port are called.

        Raises:
            Unreachable: there is none, or nobody has let this side in.
        """
        if self._channel is None:
            raise Unconnected(f"{self.address}: nothing was agreed with it yet")
        return await self._channel.open(API)

    async def wait_over(self) -> SessionEnd:
        """Why it is over, once it is."""
        while self._closed is None:
            await self._lot.park()
        return self._closed

    async def refuse(self, refused: Refused) -> None:
        """End it, and say why."""
        await self._perform(self._both.refuse(refused.code, refused.reason, refused.again))

    # --- who lends -----------------------------------------------------------------------------

    async def _decide(self, ask: Ask, scope: trio.CancelScope, decided: trio.Event) -> None:
        """Answer a request, unless it is taken back; what was begun has ended when it is decided.

        Args:
            ask: the request.
            scope: cancelled where it is taken back, maybe before this begins.
            decided: set at the end.
        """

        def pending(lifetime: int) -> None:
            self._waits()
            self._nursery.start_soon(self._perform, self._both.pend(lifetime))

        assert self._host is not None
        with scope:
            try:
                answer = await self._host.on_ask(self.peer, self.address, ask, pending)
            except LiqodError as error:
                log.warning("%s asked, and it came to nothing: %s", self.peer.cluster_id, error)
                answer = Refused(code="busy", reason="it cannot be looked at now", again=AGAIN)
            finally:
                decided.set()
            match answer:
                case Accepted():
                    outputs = self._both.accept(answer)
                    if outputs:
                        self._counters.answers["accepted"] += 1
                        self._let_in()
                        self._open(outputs)
                case Denied():
                    self._counters.answers["denied"] += 1
                    await self._perform(self._both.deny(answer.reason))
                case Refused():
                    await self.refuse(answer)

    def _let_in(self) -> None:
        """Somebody who is no tenant yet is let in, for as long as it is trusted."""
        if not self._trusting:
            self._trusting = True
            self._nursery.start_soon(self._trust)

    async def _admit(self) -> None:
        assert self._host is not None
        try:
            refused = await self._host.on_attach(self.peer)
        except LiqodError as error:
            log.debug("it cannot be told whether it is a tenant: %s", error)
            refused = Refused(code="busy", reason="it cannot be looked up now", again=AGAIN)
        if refused is not None:
            await self.refuse(refused)
            return
        if not self._admitted():
            await self.refuse(Refused(code="busy", reason=NO_PLACE, again=AGAIN))
            return
        self._let_in()
        self._open(self._both.admit())

    def _waits(self) -> None:
        """Its request is kept, and a person has to decide."""

    def _admitted(self) -> bool:
        """A tenant is let in; False where there is no place for one more."""
        return True

    async def _trust(self) -> None:
        """End it when the other side is no tenant any more."""
        assert self._host is not None
        why = await self._host.until_untrusted(self.peer)
        await self.refuse(Refused(code="unknown", reason=why))

    async def _note(self, report: Report) -> None:
        assert self._host is not None
        if isinstance(report, Cancel):
            await self._decided.wait()  # nothing is written of the request after that
        try:
            await self._host.on_report(self.peer, report)
        except LiqodError as error:
            log.debug("a report is not kept, and will come again: %s", error)
            return
        await self._perform(self._both.note(report.request))

    # --- both ----------------------------------------------------------------------------------

    async def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._closed is not None:
                raise SessionOver(self._closed)
            await self._lot.park()

    async def _listen(self, socket: Websocket) -> None:
        """Receive messages, until it is over."""
        while self._closed is None:
            try:
                message = await socket.receive()
            except Unreachable as error:
                await self._perform(self._both.lost(str(error)))
                return
            await self._receive(message)

    async def _receive(self, message: str | bytes) -> None:
        if isinstance(message, str):
            if self._texts.take(trio.current_time()) > 0:
                await self._perform(self._both.refuse("busy", "too many messages", AGAIN))
            else:
                await self._perform(self._both.receive(message))
            return
        try:
            if self._channel is None:
                raise ProtocolError("a stream before anything was agreed")
            self._channel.receive(message)
        except ProtocolError as error:
            await self._perform(self._both.refuse("protocol", f"cut off: {error}"))

    async def _perform(self, outputs: Outputs) -> None:
        """Performs the machine's outputs. A peer that does not read cannot delay the end."""
        is_last = any(isinstance(each, SessionEnd) for each in outputs)
        for output in outputs:
            match output:
                case Send(text):
                    assert self._socket is not None
                    within = trio.move_on_after(FAREWELL if is_last else math.inf)
                    with suppress(Unreachable), within:  # whoever receives is told
                        await self._socket.send(text)
                case SessionEnd():
                    await self._end(output)
                case _:
                    self._take(output)
        self._lot.unpark_all()

    def _take(self, output: Output) -> None:
        match output:
            case AnswerReceived(Pending(lifetime=lifetime)):
                self._pending(lifetime)
            case AnswerReceived(Noted(request=request)):
                self._noted.add(request)
            case AnswerReceived(Accepted() | Denied() | Attached() as answer):
                self._answer = answer
                if not isinstance(answer, Denied) and self._channel is None:
                    self._open(())
            case AskReceived(ask):
                self._deciding, self._decided = trio.CancelScope(), trio.Event()
                self._nursery.start_soon(self._decide, ask, self._deciding, self._decided)
            case AttachReceived():
                self._nursery.start_soon(self._admit)
            case ReportReceived(report):
                if isinstance(report, Cancel):
                    self._deciding.cancel()
                self._nursery.start_soon(self._note, report)

    async def _end(self, closed: SessionEnd) -> None:
        self._over(closed)

    def _over(self, closed: SessionEnd) -> None:
        if self._closed is None:
            self._closed = closed
            if closed.by == "us":
                self._counters.refuse(closed.code)
            if self._channel is not None:
                self._channel.end(closed.reason or closed.code)
        self._lot.unpark_all()

    def _open(self, outputs: Outputs) -> None:
        """The channel is up from now on: the agreement is confirmed before anything is sent on it.

        Only who lends has doors: the other side's streams lead nowhere.
        """
        self._channel = Channel(
            f"the cluster {self.peer.cluster_id}",
            dialler=self._dialled,
            doors={} if self._both.borrows else self._doors,
            keep_alive=self._keep_alive,
            bounds=self._bounds,
            source=self.peer.key,
        )
        self._nursery.start_soon(self._carry, self._channel, outputs)

    async def _carry(self, channel: Channel, outputs: Outputs) -> None:
        assert self._socket is not None
        with self._counters.tracking(channel, self.peer.cluster_id):
            await self._perform(outputs)
            try:
                await channel.run(self._socket.send)
            except Unreachable as error:
                await self._perform(self._both.lost(str(error)))


DialPeer = Callable[[Sequence[str], ExpectedPeer], AbstractAsyncContextManager[PeerSession]]
"""Meets the first of the addresses (``HOST:PORT``) that answers with what is expected.

Raises Unreachable where none answers, SessionOver where it is another or refuses."""
