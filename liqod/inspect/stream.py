"""The state for viewers: collected while there are viewers, and sent as numbered changes.

It is made of informers' objects and of the facts in memory: no watch is opened, no request sent.
The tables of ``liqod status`` come from the same pure functions (:mod:`liqod.model.view.overview`),
so that both are equal. A viewer gets a snapshot, then updates, each encoded once for all.

A viewer has a bounded queue. One that does not empty it in time is cut off, which costs the daemon
nothing, and reconnects for a new snapshot. Without viewers, nothing is collected or encoded.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import trio

from liqod.cluster.context import ClusterContext
from liqod.inspect import protocol
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.objectcaches import WatchedObjects
from liqod.inspect.protocol import StateSnapshot, Update
from liqod.model.view import objectfacts, podwaits, roomrows, viewrows
from liqod.model.view.facts import ClusterFacts, PeerFacts
from liqod.model.view.overview import Overview, overview
from liqod.model.view.problems import Problem
from liqod.model.view.rows import EventRow, Ladder, Line
from liqod.model.view.snapshot import Snapshot
from liqod.model.view.state import TABLES, WHOLE, LiveState, diff, empty
from liqod.plugins import examination
from liqod.telemetry.hub import Hub, Published

KEPT_LINES = 500


class Viewer:
    """A client that watches the state; read :attr:`updates` until it ends."""

    def __init__(self) -> None:
        self._send, self.updates = trio.open_memory_channel[str](protocol.BEHIND)

    def offer(self, update: str) -> bool:
        """Queue an update; False if the viewer is too far behind."""
        try:
            self._send.send_nowait(update)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return False
        return True

    def cut(self) -> None:
        """End the updates."""
        self._send.close()


class Stream:
    """The last sent state, its viewers, and the events since then.

    Args:
        hub: source of the events.

    Attributes:
        state: as of the last update.
        sequence: number of the last update.
        lines: the newest lines of the log.
        wanted: set while there are viewers, or one is about to attach.
    """

    def __init__(self, hub: Hub) -> None:
        self.state = LiveState()
        self.sequence = 0
        self.lines: deque[Line] = deque(maxlen=KEPT_LINES)
        self.wanted = trio.Event()
        self._hub = hub
        self._viewers: set[Viewer] = set()
        self._events: list[EventRow] = []
        self._lines: list[Line] = []
        self._fresh = trio.Event()
        self._coming = 0
        hub.listen(self._on_event)

    def __len__(self) -> int:
        return len(self._viewers)

    def log(self, line: Line) -> None:
        """Add a log line; called from any thread."""
        self.lines.append(line)
        if self._viewers and len(self._lines) < KEPT_LINES:
            self._lines.append(line)

    def publish(self, state: LiveState) -> None:
        """Send the differences to the last state, and the events since then."""
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
        """Attach a viewer; the state is up to date when this returns."""
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
        """Detach a viewer."""
        viewer.cut()
        self._viewers.discard(viewer)

    def idle(self) -> bool:
        """True without viewers; then the state counts as old from now on."""
        if self._viewers or self._coming:
            return False
        self.wanted, self._fresh = trio.Event(), trio.Event()
        return True

    def snapshot(self, events: int, lines: int) -> Iterator[StateSnapshot]:
        """The complete state, in parts of a bounded size."""
        history = self._hub.history[-events:] if events > 0 else ()
        past = tuple(row(event) for event in history)
        said = tuple(self.lines)[-lines:] if lines > 0 else ()
        sequence, parts = self.sequence, list(portions(self.state))
        for number, part in enumerate(parts):
            yield StateSnapshot(
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


def row(event: Published) -> EventRow:
    """The row of an event for viewers."""
    return EventRow(
        event.sequence, event.at, event.payload.topic, event.peer, event.payload.facts()
    )


def portions(state: LiveState, size: int = protocol.PART) -> Iterator[LiveState]:
    """Split a state into states that add up to it, with at most ``size`` rows in a table."""
    tables = {name: getattr(state, name) for name in TABLES}
    longest = max((len(rows) for rows in tables.values()), default=0)
    whole = LiveState(**{name: getattr(state, name) for name in WHOLE})
    for start in range(0, max(longest, 1), size):
        cut = {
            name: dict(list(rows.items())[start : start + size]) if len(rows) > size else rows
            for name, rows in tables.items()
            if start < max(len(rows), 1)
        }
        yield msgspec.structs.replace(whole, **cut)


class Collector:
    """Collects the state while there are viewers; see :meth:`collect`.

    Args:
        facts: the facts in memory.
        ladders: the doctor's last findings.
    """

    def __init__(
        self,
        context: ClusterContext,
        facts: FactsInMemory,
        ladders: Callable[[], dict[str, Ladder]],
    ) -> None:
        self._objects = WatchedObjects(context)
        self._facts = facts
        self._ladders = ladders
        self._state = LiveState()
        self._problems: tuple[Problem, ...] = ()

    async def collect(self, *, whole: bool) -> LiveState:
        """Collect the current state.

        Args:
            whole: read all objects; else only the changes that informers reported since then.
        """
        changed = await self._objects.refresh()
        if whole or changed:
            self._state = self._tables(self._state)
        if whole:
            self._state = self._figured(self._state)
        return self._state

    def release(self) -> None:
        """Release all objects, as there are no viewers."""
        self._objects.release()
        self._state = LiveState()

    def _tables(self, before: LiveState) -> LiveState:
        """The state with the tables made of objects."""
        snapshot = self._objects.snapshot(self._facts.webhook, self._facts.missing_policies)
        own = objectfacts.cluster(snapshot)
        noted = objectfacts.everyone(snapshot, own)
        self._problems = examination.problems(own, noted)
        named = {each.spec.cluster_id for each in snapshot.foreign_clusters}
        peers = [self._facts.working(each) for each in noted if each.peer in named]
        view = overview(snapshot, own, peers)
        whose = {row.name: row.peer for row in view.nodes}
        return msgspec.structs.replace(
            before,
            peers=self._peers(view, peers, snapshot),
            nodes={row.name: row for row in view.nodes},
            namespaces={row.name: row for row in view.namespaces},
            pods=viewrows.pods(self._objects.pods, whose),
            guests={f"{each.namespace}/{each.name}": each for each in snapshot.guests},
            slices=viewrows.slices(snapshot.slices),
            incoming={each.name: each for each in snapshot.incoming},
            outgoing={each.name: each for each in snapshot.outgoing},
            problems=self._all_problems(before),
            **self._room(snapshot, own, view),
        )

    def _room(self, snapshot: Snapshot, own: ClusterFacts, view: Overview) -> dict[str, Any]:
        """The tables on room, and their sums."""
        notes = {each.name: each.metadata.annotations for each in snapshot.virtual_nodes}
        rooms = {
            roomrows.HOME: roomrows.home_room(snapshot.capacity, self._objects.own_free),
            **roomrows.rooms(view.nodes, notes, self._facts.words),
        }
        peers = {row.name: row.peer for row in view.nodes}
        waits, sums = podwaits.wait_groups(self._objects.waits(snapshot.offloadings), peers)
        avoided, marks = podwaits.mark_rows((each.namespace, each.mark) for each in own.returned)
        room = msgspec.structs.replace(sums, nodes=len(snapshot.virtual_nodes), marks=marks)
        return {"rooms": rooms, "waits": waits, "avoided": avoided, "room": room}

    def _peers(
        self, view: Overview, peers: Iterable[PeerFacts], snapshot: Snapshot
    ) -> dict[str, Any]:
        ladders = self._ladders()
        quotas = viewrows.quotas(snapshot.slices, snapshot.virtual_nodes, self._objects.pods)
        return {
            row.id: viewrows.peer(
                row, facts, quota=quotas.get(row.id, {}), ladder=ladders.get(row.id)
            )
            for row, facts in zip(view.peers, peers, strict=True)
        }

    def _figured(self, before: LiveState) -> LiveState:
        """The state with the tables made of the facts in memory."""
        report = self._facts.report()
        self._facts.nudge()
        assert report.cluster.process is not None, "it is this one"
        after = msgspec.structs.replace(
            before,
            daemon=report.cluster.process,
            pulses={name: viewrows.pulse(report.peers.get(name)) for name in before.peers},
            ladders=dict(self._ladders()),  # the doctor continues to change its own
            networks=viewrows.networks(report),
            reflections=viewrows.reflections(report),
            reasons=viewrows.reasons(report),
            plugins=report.cluster.plugins,
            sightings=viewrows.sightings(report, before.peers.keys()),
        )
        return msgspec.structs.replace(after, problems=self._all_problems(after))

    def _all_problems(self, state: LiveState) -> tuple[Problem, ...]:
        """Problems in the custom resources, and those only in this daemon's memory."""
        more = examination.problems(*objectfacts.of_state(state))
        return tuple(sorted({*self._problems, *more}))[: viewrows.PROBLEMS]
