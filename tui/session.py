"""The state of one daemon as seen by the viewer, and a pure reducer of its messages.

A :class:`Session` outlives the daemon it is about: when the connection is lost it keeps what was
last seen, says so, and takes the next snapshot as the new truth.
"""

from typing import Literal

import msgspec

from liqod.inspect.protocol import (
    InspectorHello,
    Series,
    ServerMessage,
    StateSnapshot,
    Tasks,
    Update,
)
from liqod.model.view.rows import EventRow, Line, Pulse
from liqod.model.view.state import LiveState, apply, join

KEPT_EVENTS = 1000
KEPT_LINES = 1000
TREND = 60
"""Values of each trend: one for each second of the last minute."""

Connection = Literal["connecting", "live", "lost", "replay"]


class Lost(msgspec.Struct, frozen=True):
    """The connection is gone, or was never made.

    Attributes:
        reason: why, in one clause.
        at: Unix seconds.
        retry_at: when it is tried again; 0 for never.
    """

    reason: str
    at: float
    retry_at: float = 0.0


class Trend(msgspec.Struct, frozen=True):
    """The last minute of one peer, oldest first."""

    rtt: tuple[float | None, ...] = ()
    traffic: tuple[float | None, ...] = ()

    def then(self, pulse: Pulse) -> "Trend":
        """With one value more."""
        return Trend(
            (*self.rtt[1 - TREND :], pulse.rtt),
            (*self.traffic[1 - TREND :], pulse.sent + pulse.received),
        )


class Session(msgspec.Struct, frozen=True):
    """One daemon as this program knows it.

    Attributes:
        name: what it is called here until it has said its cluster's id.
        connection: whether what is shown is what is.
        lost: why not, and when that is tried again.
        hello: what it said of itself.
        sequence: number of the last update that is in ``state``; -1 before the first snapshot.
        at: the daemon's clock at the last message.
        state: everything it shows.
        events: the last of them, oldest first.
        lines: the last lines of its log, oldest first.
        trends: by peer.
        restarts: how often another life of the daemon answered than before.
        parts: the parts of a snapshot that is not whole yet.
        tasks: what it was at when it was last asked.
    """

    name: str
    connection: Connection = "connecting"
    lost: Lost | None = None
    hello: InspectorHello | None = None
    sequence: int = -1
    at: float = 0.0
    state: LiveState = LiveState()
    events: tuple[EventRow, ...] = ()
    lines: tuple[Line, ...] = ()
    trends: dict[str, Trend] = {}
    restarts: int = 0
    parts: tuple[StateSnapshot, ...] = ()
    tasks: Tasks | None = None

    @property
    def title(self) -> str:
        """The cluster's id, or the source's name until that is known."""
        return self.hello.cluster_id if self.hello is not None else self.name

    @property
    def acting(self) -> bool:
        """True if the daemon lets this client act."""
        return self.hello is not None and self.hello.acting


def reduce(session: Session, message: ServerMessage | Lost) -> Session:
    """The session after a message; most answers to requests change nothing here."""
    match message:
        case InspectorHello():
            return _greeted(session, message)
        case StateSnapshot():
            return _snapshot(session, message)
        case Update() if follows(session, message):
            return _updated(session, message)
        case Series(metric="rtt", step=1.0):
            return _filled(session, message)
        case Tasks():
            return msgspec.structs.replace(session, tasks=message)
        case Lost():
            return msgspec.structs.replace(session, connection="lost", lost=message, parts=())
    return session


def follows(session: Session, update: Update) -> bool:
    """True if no update is missing before this one."""
    return session.sequence >= 0 and update.sequence == session.sequence + 1


def _greeted(session: Session, hello: InspectorHello) -> Session:
    other = session.hello is not None and hello.started != session.hello.started
    return msgspec.structs.replace(
        session,
        hello=hello,
        at=hello.at,
        sequence=-1,
        restarts=session.restarts + other,
    )


def _snapshot(session: Session, message: StateSnapshot) -> Session:
    parts = (*session.parts, message)
    if message.more:
        return msgspec.structs.replace(session, parts=parts)
    state, events, lines = parts[0].state, parts[0].events, parts[0].lines
    for part in parts[1:]:
        state = join(state, part.state)
        events, lines = events + part.events, lines + part.lines
    return msgspec.structs.replace(
        session,
        connection="live",
        lost=None,
        sequence=message.sequence,
        at=message.at,
        state=state,
        events=events[-KEPT_EVENTS:],
        lines=lines[-KEPT_LINES:],
        trends={
            peer: session.trends.get(peer, Trend()).then(pulse)
            for peer, pulse in state.pulses.items()
        },
        parts=(),
    )


def _updated(session: Session, message: Update) -> Session:
    delta = message.delta
    state = apply(session.state, delta)
    trends = session.trends
    if delta.pulses:
        trends = dict(trends)
        for peer, pulse in delta.pulses.items():
            if pulse is None:
                trends.pop(peer, None)
            else:
                trends[peer] = trends.get(peer, Trend()).then(pulse)
    return msgspec.structs.replace(
        session,
        sequence=message.sequence,
        at=message.at,
        state=state,
        trends=trends,
        events=(*session.events, *delta.events)[-KEPT_EVENTS:],
        lines=(*session.lines, *delta.lines)[-KEPT_LINES:],
    )


def _filled(session: Session, message: Series) -> Session:
    """Put the daemon's history of the last minute before the values that were seen here."""
    seen = session.trends.get(message.peer, Trend())
    missing = TREND - len(seen.rtt)
    past = message.values[-missing:] if missing > 0 else ()
    trend = msgspec.structs.replace(seen, rtt=(*past, *seen.rtt))
    return msgspec.structs.replace(session, trends={**session.trends, message.peer: trend})
