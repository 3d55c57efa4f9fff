"""Multiplexes streams in one connection, with flow control. Pure.

A message is a byte for its :class:`FrameKind`, four for the stream's number, and what the kind
wants:

    OPEN    the target's name        either side opens streams: of ever greater numbers, which are
    OPENED                           odd of the one that dialled, even of the one that listens
    DATA    1 to 16,384 bytes        no more in all than the receiver has said it takes
    WINDOW  number of bytes, four    so many more are taken
    SHUT                             nothing more comes in this direction
    RESET   why, UTF-8               nothing more comes, and nothing more is read

Each side ends its direction of a stream once, with SHUT or RESET; who gets a RESET answers with its
own, unless it had ended already. A stream is over when both directions are, and both sides then
agree on how many there are: whoever sends more than it may breaks the protocol, and is cut off.

A window begins small, and grows with what is read, so that idle streams cost little and a stream
that is used has all it needs. Everything beyond the first windows of a connection comes from one
store (:data:`GROWTH`): no peer can have more kept than that and STREAMS * FIRST_WINDOW.
"""

import struct
from collections import deque
from enum import IntEnum
from typing import Final

from liqod.errors import ProtocolError, Unconnected
from liqod.model.text import printable

FRAME: Final = 16384
"""Bytes of one DATA message: one TLS record, and one turn among the streams."""
STREAMS: Final = 512
"""Streams that each side may have open: a watch for each kind in each offloaded namespace."""
FIRST_WINDOW: Final = 8192
WINDOW: Final = 262144
"""Bytes on their way, or unread, in one direction of one stream: at first and at most."""
GROWTH: Final = 4 << 20
"""Bytes by which the windows of one connection grow together at most."""
MOST_CREDIT: Final = 1 << 26
"""Bytes that the other side may have said it takes: far more than it should, and a bound."""
TARGET: Final = 64
WHY: Final = 256
"""Bytes of a target's name, and of a reason."""
UNANSWERED: Final = 8 * STREAMS
"""Messages about streams that wait for a peer who asks and does not read the answers."""
LARGEST: Final = FRAME + 5
"""Bytes of a message."""
_HEAD: Final = struct.Struct("!BI")
_SIZE: Final = struct.Struct("!I")


class FrameKind(IntEnum):
    """The kind of a message, its first byte."""

    OPEN = 1
    OPENED = 2
    DATA = 3
    WINDOW = 4
    SHUT = 5
    RESET = 6


class StreamState:
    """One stream.

    Attributes:
        number: its number.
        target: where it leads.
        mine: whether this side opened it.
        opened: whether both sides agreed to it.
        sent_end: whether this side has ended its direction.
        got_end: whether the other side has.
        reset: why the stream broke off; None where it did not.
        unsent: what this side is to send.
        closing: whether SHUT follows that.
    """

    __slots__ = (
        "buffered",
        "closing",
        "credit",
        "got_end",
        "granted",
        "mine",
        "number",
        "opened",
        "read",
        "ready",
        "receive_credit",
        "reset",
        "sent_end",
        "target",
        "unread",
        "unsent",
        "window",
    )

    def __init__(self, number: int, target: str, mine: bool) -> None:
        self.number, self.target, self.mine = number, target, mine
        self.opened = self.sent_end = self.got_end = self.closing = self.ready = False
        self.reset: str | None = None
        self.unsent = memoryview(b"")
        self.credit = FIRST_WINDOW  # bytes that the other side takes
        self.receive_credit = self.window = FIRST_WINDOW  # bytes that it may send now, and in all
        self.unread: deque[bytes] = deque()
        self.buffered = self.read = self.granted = 0  # bytes: unread; read, granted but not said

    @property
    def over(self) -> bool:
        """True if both directions have ended."""
        return self.sent_end and self.got_end

    @property
    def sendable(self) -> bool:
        """True if it has something to send that may be sent."""
        if self.sent_end or not self.opened:
            return False
        return self.credit > 0 if self.unsent else self.closing


class Mux:
    """All streams of one connection, as one side sees them.

    Args:
        dialler: whether this side dialled.
        targets: where the other side may open streams to.

    Attributes:
        streams: those that are not over, by their numbers.
    """

    def __init__(self, *, dialler: bool, targets: frozenset[str] = frozenset()) -> None:
        self.streams: dict[int, StreamState] = {}
        self._targets = targets
        self._next = 1 if dialler else 2
        self._last_theirs = 0
        self._parity = self._next % 2
        self._counts = {True: 0, False: 0}
        self._growth = GROWTH
        self._first: deque[tuple[FrameKind, StreamState, bytes]] = deque()
        self._turns: deque[StreamState] = deque()

    @property
    def mine(self) -> int:
        """How many streams this side has open."""
        return self._counts[True]

    @property
    def theirs(self) -> int:
        """How many streams the other side has open."""
        return self._counts[False]

    def open(self, target: str) -> StreamState:
        """A new stream. Raises Unconnected where there are as many as there may be."""
        if self.mine >= STREAMS:
            raise Unconnected(f"{STREAMS} streams are open already")
        state = StreamState(self._next, target, mine=True)
        self._next += 2
        self._add(state)
        self._first.append((FrameKind.OPEN, state, target.encode("ascii")))
        return state

    def accept(self, state: StreamState) -> None:
        """Agree to a stream that the other side opened."""
        if not state.sent_end:
            state.opened = True
            self._first.append((FrameKind.OPENED, state, b""))

    def give(self, state: StreamState, data: bytes) -> None:
        """Have something sent; all that was given before has been sent."""
        assert not state.unsent
        assert not state.closing
        state.unsent = memoryview(data)
        self._line_up(state)

    def finish(self, state: StreamState) -> None:
        """End this side's direction when all has been sent."""
        state.closing = True
        self._line_up(state)

    def abort(self, state: StreamState, why: str = "") -> None:
        """End a stream at once; what is unsent and unread is lost.

        One that has ended in both directions, but for what is still to be sent, ends by itself.
        """
        if state.over or state.reset is not None or (state.closing and state.got_end):
            return
        self._drop(state)
        state.reset = why or "closed on this side"
        state.sent_end = True
        self._first.append((FrameKind.RESET, state, why.encode()[:WHY]))
        self._settle(state)

    def take(self, state: StreamState) -> bytes:
        """All that has come and was not read yet; the other side may send as much again."""
        data = state.unread[0] if len(state.unread) == 1 else b"".join(state.unread)
        state.unread.clear()
        state.buffered = 0
        state.read += len(data)
        if state.read * 2 >= state.window and not state.got_end:
            more = min(state.window, WINDOW - state.window, self._growth)
            self._growth -= more
            state.window += more
            if not state.granted:
                self._first.append((FrameKind.WINDOW, state, b""))
            state.granted += state.read + more
            state.receive_credit += state.read + more
            state.read = 0
        return data

    def message(self) -> tuple[bytes, StreamState] | None:
        """The next message to send, and its stream; each has its turn. None: there is none."""
        while self._first:
            kind, state, body = self._first.popleft()
            if kind is FrameKind.WINDOW:
                body, state.granted = _SIZE.pack(state.granted), 0
            elif kind is FrameKind.OPENED and state.sent_end:
                continue
            return _HEAD.pack(kind, state.number) + body, state
        while self._turns:
            state = self._turns.popleft()
            state.ready = False
            if not state.sendable:
                continue
            if not state.unsent:
                state.sent_end = True
                self._settle(state)
                return _HEAD.pack(FrameKind.SHUT, state.number), state
            size = min(FRAME, state.credit)
            piece, state.unsent = state.unsent[:size], state.unsent[size:]
            state.credit -= len(piece)
            self._line_up(state)
            return _HEAD.pack(FrameKind.DATA, state.number) + piece, state
        return None

    def receive(self, message: bytes) -> tuple[FrameKind, StreamState] | None:
        """Take in a message: its kind and its stream; None where the stream is over already.

        Raises:
            ProtocolError: the other side does what it may not; nothing more is to be read of it.
        """
        if not _HEAD.size <= len(message) <= LARGEST:
            raise ProtocolError(f"a message of {len(message)} bytes")
        number, body = int.from_bytes(message[1:5], "big"), message[5:]
        try:
            kind = FrameKind(message[0])
        except ValueError:
            raise ProtocolError(f"a message of kind {message[0]}") from None
        if len(self._first) > UNANSWERED:
            raise ProtocolError("it asks without reading the answers")
        if kind is FrameKind.OPEN:
            return kind, self._opened(number, body)
        state = self.streams.get(number)
        if state is None:
            mine = number % 2 == self._parity
            known = number < self._next if mine else number <= self._last_theirs
            if number and known and kind in (FrameKind.WINDOW, FrameKind.RESET):
                return None  # it was sent before the other side knew of the end
            raise ProtocolError(f"{kind.name} for a stream that is not open")
        if state.got_end and kind not in (FrameKind.WINDOW, FrameKind.RESET):
            raise ProtocolError(f"{kind.name} behind the end of a stream")
        _TAKERS[kind](self, state, body)
        return kind, state

    def _opened(self, number: int, body: bytes) -> StreamState:
        if number % 2 == self._parity or number <= self._last_theirs:
            raise ProtocolError("OPEN with a number that is not its to use")
        if self.theirs >= STREAMS:
            raise ProtocolError(f"it opens more than {STREAMS} streams")
        if not 0 < len(body) <= TARGET:
            raise ProtocolError("OPEN without a target's name")
        self._last_theirs = number
        state = StreamState(number, printable(body.decode("ascii", "replace")), mine=False)
        self._add(state)
        if state.target not in self._targets:
            self.abort(state, "nothing of that name can be reached here")
        return state

    def _agreed(self, state: StreamState, body: bytes) -> None:
        if body or not state.mine or state.opened:
            raise ProtocolError("OPENED where nothing was asked")
        if state.sent_end:
            return
        state.opened = True
        self._line_up(state)

    def _data(self, state: StreamState, body: bytes) -> None:
        if not state.opened and not state.sent_end:
            raise ProtocolError("DATA before OPENED")
        if not body:
            raise ProtocolError("DATA without any")
        if len(body) > state.receive_credit:
            raise ProtocolError("it sends more than is taken")
        state.receive_credit -= len(body)
        if state.reset is None:
            state.unread.append(body)
            state.buffered += len(body)

    def _widened(self, state: StreamState, body: bytes) -> None:
        more = int.from_bytes(body, "big")
        if len(body) != _SIZE.size or not more or state.credit + more > MOST_CREDIT:
            raise ProtocolError("WINDOW without a size that can be")
        state.credit += more
        self._line_up(state)

    def _shut(self, state: StreamState, body: bytes) -> None:
        if body:
            raise ProtocolError("SHUT with something behind it")
        state.got_end = True
        self._settle(state)

    def _broken(self, state: StreamState, body: bytes) -> None:
        if len(body) > WHY:
            raise ProtocolError("RESET with too long a reason")
        self._drop(state)
        if state.reset is None:
            said = printable(body.decode("utf-8", "replace"))
            state.reset = said or "the other side has closed it"
        state.got_end = True
        if not state.sent_end:
            state.sent_end = True
            self._first.append((FrameKind.RESET, state, b""))
        self._settle(state)

    def _add(self, state: StreamState) -> None:
        self.streams[state.number] = state
        self._counts[state.mine] += 1

    def _drop(self, state: StreamState) -> None:
        state.unsent = memoryview(b"")
        state.unread.clear()
        state.buffered = 0

    def _settle(self, state: StreamState) -> None:
        """Forget a stream that is over; what has come of it can still be read."""
        if state.over and self.streams.pop(state.number, None) is not None:
            self._counts[state.mine] -= 1
            self._growth += state.window - FIRST_WINDOW

    def _line_up(self, state: StreamState) -> None:
        if state.sendable and not state.ready:
            state.ready = True
            self._turns.append(state)


_TAKERS: Final = {
    FrameKind.OPENED: Mux._agreed,
    FrameKind.DATA: Mux._data,
    FrameKind.WINDOW: Mux._widened,
    FrameKind.SHUT: Mux._shut,
    FrameKind.RESET: Mux._broken,
}
