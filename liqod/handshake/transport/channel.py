"""A channel to a peer's daemon: many connections in one, each as good as one of TCP.

The protocol is in :mod:`liqod.handshake.protocol.mux`; here are the tasks. One sends, so
that streams have their turns; the receiver hands in what comes, and never waits for a stream, a
door or the one that sends. So a stream that nobody reads holds up no other, and two sides that send
much at the same time cannot wait for each other. Where the channel ends, every stream ends with it.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import trio

from liqod.errors import LiqodError, ProtocolError, Unconnected, Unreachable
from liqod.handshake.protocol.mux import STREAMS, FrameKind, Mux, StreamState
from liqod.kube.http.splice import splice
from liqod.kube.http.wire import CONNECT_DEADLINE, KeepAlive, Wire
from liqod.runtime.connectionlimit import ConnectionLimiter
from liqod.runtime.tokenbucket import TokenBucket

OPENS: Final = STREAMS
"""Streams that are opened at once, and ..."""
OPEN_RATE: Final = 50.0
"""... each second from then on. The other side may somewhat more: its clock is its own."""
TOLERANCE: Final = 1.5
LINGER: Final = 30.0
"""Seconds after which a stream ends by which nothing passes, once one side has ended."""
FULL: Final = "as many streams as may be are open"

StreamBackend = Callable[[], Awaitable[Wire]]
"""Makes the connection that a stream leads to. Raises Unreachable."""
SendMessage = Callable[[bytes], Awaitable[None]]
"""Sends one message. Raises Unreachable."""

log = logging.getLogger(__name__)


class StreamLimits(NamedTuple):
    """Limits on the streams of peers, each of which has a connection here.

    Attributes:
        places: of all peers' streams, by their keys.
        idle: seconds after which a stream ends by which nothing passes.
    """

    places: ConnectionLimiter
    idle: float = math.inf


class Channel:
    """Streams to and from one peer's daemon.

    Args:
        peer: names it in errors.
        dialler: whether this side dialled.
        doors: where the peer may open streams to.
        keep_alive: has the connection under it probed; None where there is nothing to probe.
        opens: streams that each side may open at once.
        bounds: of the peer's streams.
        source: whose they are; its key.

    Attributes:
        peer: names it in errors.
        why: why the channel has ended; None while it stands.
        bytes_in, bytes_out: of all messages.
    """

    def __init__(
        self,
        peer: str,
        *,
        dialler: bool,
        doors: Mapping[str, StreamBackend] | None = None,
        keep_alive: Callable[[KeepAlive], None] | None = None,
        opens: int = OPENS,
        bounds: "StreamLimits | None" = None,
        source: str = "",
    ) -> None:
        self.peer = peer
        self.why: str | None = None
        self.bytes_in = self.bytes_out = 0
        self._doors = doors or {}
        self._bounds, self._source = bounds or StreamLimits(ConnectionLimiter(STREAMS)), source
        self._mux = Mux(dialler=dialler, targets=frozenset(self._doors))
        self._keep_alive = keep_alive
        self._sender = trio.lowlevel.ParkingLot()
        self._lots: dict[int, trio.lowlevel.ParkingLot] = {}
        self._nursery: trio.Nursery | None = None
        self._incoming: list[StreamState] = []
        self._own_pace = TokenBucket(OPEN_RATE, opens)
        self._their_pace = TokenBucket(OPEN_RATE * TOLERANCE, opens * TOLERANCE)

    @property
    def open_streams(self) -> int:
        """How many streams are open, of both sides."""
        return self._mux.mine + self._mux.theirs

    async def run(self, send: SendMessage) -> None:
        """Send what is to be sent, and serve the peer's streams, until cancelled or it breaks.

        Raises:
            Unreachable: as ``send`` does.
        """
        broken: Unreachable | None = None
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._serve()
                try:
                    await self._send(send)
                except Unreachable as error:
                    broken = error
                finally:
                    nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            self.end(str(broken or "the channel has ended"))
        if broken is not None:
            raise broken

    async def _send(self, send: SendMessage) -> None:
        while True:
            found = self._mux.message()
            if found is None:
                await self._sender.park()
                continue
            message, state = found
            self.bytes_out += len(message)
            if not state.unsent or state.over:
                self._wake(state)
            await send(message)

    def receive(self, message: bytes) -> None:
        """Take in one message of the peer's. Raises ProtocolError: the channel is to be ended."""
        self.bytes_in += len(message)
        heard = self._mux.receive(message)
        if heard is not None:
            kind, state = heard
            if kind is FrameKind.OPEN:
                if self._their_pace.take(trio.current_time()) > 0:
                    raise ProtocolError("it opens streams without end")
                if not state.sent_end:
                    self._incoming.append(state)
                    self._serve()
            else:
                self._wake(state)
        self.wake_sender()

    def end(self, why: str) -> None:
        """The channel is no more: every stream ends. The first reason stands."""
        if self.why is not None:
            return
        self.why = why
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        for lot in self._lots.values():
            lot.unpark_all()

    async def open(self, target: str) -> "ChannelStream":
        """A connection to what the peer has by that name.

        Raises:
            Unconnected: the channel has ended, the peer refuses or reaches nothing there, or as
                many streams are open as there may be.
        """
        pause = self._own_pace.take(trio.current_time())
        if pause:
            await trio.sleep(pause)
        if self.why is not None:
            raise Unconnected(f"{self.peer}: {self.why}")
        state = self._mux.open(target)
        stream = ChannelStream(self, state)
        self.wake_sender()
        try:
            while not state.opened:
                self.check(state, Unconnected)
                await self.park(state)
        except BaseException:
            stream.close()
            raise
        return stream

    def check(self, state: StreamState, sort: type[Unreachable] = Unreachable) -> None:
        """Raise where nothing more can be done with a stream."""
        if self.why is not None:
            raise sort(f"{self.peer}: {self.why}")
        if state.reset is not None:
            raise sort(f"connection broken: {self.peer}: {state.reset}")

    @property
    def mux(self) -> Mux:
        """The streams' states, for the streams themselves."""
        return self._mux

    def wake_sender(self) -> None:
        """There may be something to send."""
        self._sender.unpark()

    async def park(self, state: StreamState) -> None:
        """Wait until something happens to a stream."""
        lot = self._lots.get(state.number)
        if lot is None:
            lot = self._lots[state.number] = trio.lowlevel.ParkingLot()
        try:
            await lot.park()
        finally:
            if not lot and self._lots.get(state.number) is lot:
                del self._lots[state.number]

    def probe(self, setting: KeepAlive) -> None:
        """Have the connection under the channel probed."""
        if self._keep_alive is not None:
            self._keep_alive(setting)

    def _wake(self, state: StreamState) -> None:
        lot = self._lots.get(state.number)
        if lot is not None:
            lot.unpark_all()

    def wake(self, state: StreamState) -> None:
        """Something was done to a stream on this side."""
        self._wake(state)
        self.wake_sender()

    def _serve(self) -> None:
        if self._nursery is None:
            return  # what came first is served when it runs
        came, self._incoming = self._incoming, []
        for state in came:
            self._nursery.start_soon(self._serve_stream, state)

    async def _serve_stream(self, state: StreamState) -> None:
        """Lead a stream of the peer's to its door. The wall: what fails ends that stream alone."""
        stream = ChannelStream(self, state)
        wire: Wire | None = None
        place = self._bounds.places.enter(self._source)
        why = "there is no answer" if place is not None else FULL
        try:
            if place is None:
                return
            with trio.move_on_after(CONNECT_DEADLINE):
                wire = await self._doors[state.target]()
            if wire is not None:
                self._mux.accept(state)
                self.wake_sender()
                await splice(stream, wire, idle=self._bounds.idle, lingering=LINGER)
                why = ""
        except LiqodError as error:
            # What is behind the door is none of the peer's: it is not told more.
            log.debug("a stream of %s to %s ended: %s", self.peer, state.target, error)
        finally:
            if wire is not None:
                wire.close()
            if place is not None:
                place.release()
            self._mux.abort(state, why)
            self.wake(state)


class ChannelStream:
    """One stream of a channel, as a wire (:class:`liqod.kube.http.wire.Wire`)."""

    def __init__(self, channel: Channel, state: StreamState) -> None:
        self._channel, self._state = channel, state

    async def send(self, data: bytes) -> None:
        """Send all of it. Raises Unreachable when the stream, or the channel, is broken."""
        await trio.lowlevel.checkpoint_if_cancelled()
        channel, state = self._channel, self._state
        channel.check(state)
        if state.sent_end or state.closing:
            raise Unreachable("connection broken: finished on this side")
        if not data:
            return
        channel.mux.give(state, data)
        channel.wake_sender()
        try:
            while state.unsent:
                await channel.park(state)
                channel.check(state)
            await trio.lowlevel.cancel_shielded_checkpoint()
            channel.check(state)
        except BaseException:
            self.close()  # a part may have gone: nothing can follow it
            raise

    async def receive(self) -> bytes:
        """Received data, at least one byte; ``b""`` at the end. Raises Unreachable."""
        await trio.lowlevel.checkpoint()
        channel, state = self._channel, self._state
        while not state.unread:
            channel.check(state)
            if state.got_end:
                return b""
            await channel.park(state)
        data = channel.mux.take(state)
        channel.wake_sender()
        return data

    def stale(self) -> bool:
        """True if it has ended, or something unrequested has come."""
        state = self._state
        return self._channel.why is not None or state.got_end or bool(state.unread)

    def keep_alive(self, setting: KeepAlive) -> None:
        """Have the connection under the channel probed."""
        self._channel.probe(setting)

    async def finish(self) -> None:
        """Notify the other side that nothing more comes. Raises Unreachable."""
        await trio.lowlevel.checkpoint()
        self._channel.check(self._state)
        if not self._state.closing:
            self._channel.mux.finish(self._state)
            self._channel.wake_sender()

    def close(self) -> None:
        """Close at once."""
        self._channel.mux.abort(self._state)
        self._channel.wake(self._state)
