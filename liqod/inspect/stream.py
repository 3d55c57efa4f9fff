"""Sends viewers a snapshot, then numbered updates, each encoded once for all of them.

A viewer has a bounded queue. One that does not empty it in time is cut off, which costs the daemon
nothing, and comes back for a new snapshot. While nobody watches, nothing is collected or encoded.
"""

import time
from collections import deque
from collections.abc import Iterator

import msgspec
import trio

from liqod.inspect import protocol
from liqod.inspect.protocol import Snapshot, Update
from liqod.model.view.rows import Event, Line
from liqod.model.view.state import TABLES, State, diff, empty
from liqod.telemetry.hub import Hub, Published

KEPT_LINES = 500


class Viewer:
    """One who watches; read :attr:`updates` until it ends."""

    def __init__(self) -> None:
        self._send, self.updates = trio.open_memory_channel[str](protocol.BEHIND)

    def offer(self, update: str) -> bool:
        """Queue an update; False where the viewer is too far behind."""
        try:
            self._send.send_nowait(update)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True

    def cut(self) -> None:
        """Nothing more comes."""
        self._send.close()


class Stream:
    """The state as it was last sent, its viewers, and what happened since.

    Args:
        hub: whose events are sent along.

    Attributes:
        state: as of the last update.
        sequence: number of the last update.
        lines: the newest lines of the log.
        wanted: set while anybody watches or is about to.
    """

    def __init__(self, hub: Hub) -> None:
        self.state = State()
        self.sequence = 0
        self.lines: deque[Line] = deque(maxlen=KEPT_LINES)
        self.wanted = trio.Event()
        self._hub = hub
        self._viewers: set[Viewer] = set()
        self._events: list[Event] = []
        self._lines: list[Line] = []
        self._fresh = trio.Event()
        self._coming = 0
        hub.listen(self._on_event)

    def __len__(self) -> int:
        return len(self._viewers)

    def log(self, line: Line) -> None:
        """Take a line of the log; called from any thread."""
        self.lines.append(line)
        if self._viewers and len(self._lines) < KEPT_LINES:
            self._lines.append(line)

    def publish(self, state: State) -> None:
        """Send what is different, and what happened since the last time."""
        delta = diff(self.state, state)
        self.state = state
        events, self._events = self._events, []
        lines, self._lines = self._lines, []
        if events or lines:
            delta = msgspec.structs.replace(delta, events=tuple(events), lines=tuple(lines))
        self._fresh.set()
        if empty(delta) or not self._viewers:
            return
        self.sequence += 1
        update = Update(sequence=self.sequence, at=time.time(), delta=delta)
        data = protocol.encode(update).decode()
        for viewer in [each for each in self._viewers if not each.offer(data)]:
            self.part(viewer)

    async def attach(self) -> Viewer:
        """Begin to watch; the state is up to date when this returns."""
        self._coming += 1
        try:
            self.wanted.set()
            await self._fresh.wait()
        finally:
            self._coming -= 1
        viewer = Viewer()
        self._viewers.add(viewer)
        return viewer

    def part(self, viewer: Viewer) -> None:
        """Stop watching."""
        viewer.cut()
        self._viewers.discard(viewer)

    def idle(self) -> bool:
        """True if nobody watches; then the state counts as old from now on."""
        if self._viewers or self._coming:
            return False
        self.wanted, self._fresh = trio.Event(), trio.Event()
        return True

    def snapshot(self, events: int, lines: int) -> Iterator[Snapshot]:
        """Everything, in parts of a bounded size; all of one state."""
        history = self._hub.history[-events:] if events > 0 else ()
        past = tuple(row(event) for event in history)
        said = tuple(self.lines)[-lines:] if lines > 0 else ()
        sequence, parts = self.sequence, list(portions(self.state))
        for number, part in enumerate(parts):
            yield Snapshot(
                sequence=sequence,
                at=time.time(),
                state=part,
                events=past if number == 0 else (),
                lines=said if number == 0 else (),
                more=number + 1 < len(parts),
            )

    def _on_event(self, event: Published) -> None:
        if self._viewers and len(self._events) < 1000:
            self._events.append(row(event))


def row(event: Published) -> Event:
    """The row of an event, as viewers get it."""
    return Event(event.sequence, event.at, event.told.topic, event.peer, event.told.facts())


def portions(state: State, size: int = protocol.PART) -> Iterator[State]:
    """States that add up to this one, none with more than ``size`` rows in a table."""
    tables = {name: getattr(state, name) for name in TABLES}
    longest = max((len(rows) for rows in tables.values()), default=0)
    for start in range(0, max(longest, 1), size):
        cut = {
            name: dict(list(rows.items())[start : start + size]) if len(rows) > size else rows
            for name, rows in tables.items()
            if start < max(len(rows), 1)
        }
        yield State(daemon=state.daemon, problems=state.problems, **cut)
