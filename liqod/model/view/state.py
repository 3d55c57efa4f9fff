"""The state that the inspector shows of one daemon, and how changes apply to it.

A viewer is given a :class:`LiveState` once and :class:`Delta` after that; :func:`apply` makes the
next state of the two, and :func:`diff` is its inverse. An unknown field is ignored.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from liqod.model.view.daemonfacts import PluginFacts, ProcessFacts, ReasonFacts, SightingFacts
from liqod.model.view.networkfacts import NetworkFacts
from liqod.model.view.problems import Problem
from liqod.model.view.requests import RequestRow
from liqod.model.view.roomrows import MarkRow, NodeRoom, RoomSums, WaitGroup
from liqod.model.view.rows import (
    EventRow,
    Ladder,
    Line,
    NamespaceRow,
    NodeRow,
    PodRow,
    Pulse,
    Reflection,
    Slice,
    WidePeerRow,
)
from liqod.model.view.snapshot import GuestSummary

T = TypeVar("T")


class LiveState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole state that a viewer shows.

    Attributes:
        daemon: the process.
        peers: by cluster id.
        pulses: by cluster id.
        ladders: by cluster id; this cluster's own by the empty string.
        networks: those that are joined, by cluster id; ages are of the moment of the state.
        nodes: virtual nodes by name.
        namespaces: offloaded ones by name.
        pods: offloaded ones by ``namespace/name``.
        guests: pods that run in this cluster for consumers, by ``namespace/name``.
        slices: by ``namespace/name``.
        reflections: by ``peer/reflector``.
        reasons: reasons why objects are not as wanted, by ``peer/reflector/code`` and a number.
        plugins: by ``kind/name``.
        sightings: by ``plugin/cluster`` and the source, where there are several.
        incoming: requests to borrow from this cluster, by the name of the IncomingPeering.
        outgoing: requests of this cluster, by the name of the OutgoingPeering.
        rooms: room of virtual nodes by name, and of this cluster's own nodes by the empty string.
        waits: pods that wait, in groups, by ``namespace/name`` of one of them.
        avoided: peers that could not start pods lately, by namespace, controller and peer.
        problems: those of ``liqod status``, worst first.
        room: the numbers of all that is in these three tables, which are bounded; None of a daemon
            that does not tell of room.
    """

    daemon: ProcessFacts = ProcessFacts()
    peers: dict[str, WidePeerRow] = {}
    pulses: dict[str, Pulse] = {}
    ladders: dict[str, Ladder] = {}
    networks: dict[str, NetworkFacts] = {}
    nodes: dict[str, NodeRow] = {}
    namespaces: dict[str, NamespaceRow] = {}
    pods: dict[str, PodRow] = {}
    guests: dict[str, GuestSummary] = {}
    slices: dict[str, Slice] = {}
    reflections: dict[str, Reflection] = {}
    reasons: dict[str, ReasonFacts] = {}
    plugins: dict[str, PluginFacts] = {}
    sightings: dict[str, SightingFacts] = {}
    incoming: dict[str, RequestRow] = {}
    outgoing: dict[str, RequestRow] = {}
    rooms: dict[str, NodeRoom] = {}
    waits: dict[str, WaitGroup] = {}
    avoided: dict[str, MarkRow] = {}
    problems: tuple[Problem, ...] = ()
    room: RoomSums | None = None


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the state: of each table the rows that changed, None for a removed row.

    ``daemon``, ``problems`` and ``room`` are whole, or None where they did not change. Events and
    lines are new ones; they are not part of the state.
    """

    daemon: ProcessFacts | None = None
    peers: dict[str, WidePeerRow | None] = {}
    pulses: dict[str, Pulse | None] = {}
    ladders: dict[str, Ladder | None] = {}
    networks: dict[str, NetworkFacts | None] = {}
    nodes: dict[str, NodeRow | None] = {}
    namespaces: dict[str, NamespaceRow | None] = {}
    pods: dict[str, PodRow | None] = {}
    guests: dict[str, GuestSummary | None] = {}
    slices: dict[str, Slice | None] = {}
    reflections: dict[str, Reflection | None] = {}
    reasons: dict[str, ReasonFacts | None] = {}
    plugins: dict[str, PluginFacts | None] = {}
    sightings: dict[str, SightingFacts | None] = {}
    incoming: dict[str, RequestRow | None] = {}
    outgoing: dict[str, RequestRow | None] = {}
    rooms: dict[str, NodeRoom | None] = {}
    waits: dict[str, WaitGroup | None] = {}
    avoided: dict[str, MarkRow | None] = {}
    problems: tuple[Problem, ...] | None = None
    room: RoomSums | None = None
    events: tuple[EventRow, ...] = ()
    lines: tuple[Line, ...] = ()


WHOLE = ("daemon", "problems", "room")
"""The fields of a state that are replaced as a whole."""
TABLES = tuple(name for name in LiveState.__struct_fields__ if name not in WHOLE)
"""Those that hold rows by key."""


def apply(state: LiveState, delta: Delta) -> LiveState:
    """The state after a change; tables that it does not touch are shared with the old one."""
    changed: dict[str, Any] = {}
    for name in TABLES:
        rows = getattr(delta, name)
        if rows:
            table = {**getattr(state, name), **rows}
            changed[name] = {key: row for key, row in table.items() if row is not None}
    for name in WHOLE:
        value = getattr(delta, name)
        if value is not None:
            changed[name] = value
    return msgspec.structs.replace(state, **changed) if changed else state


def join(whole: LiveState, part: LiveState) -> LiveState:
    """One state of two parts of a snapshot; what is whole (:data:`WHOLE`) is the later part's."""
    tables = {name: {**getattr(whole, name), **getattr(part, name)} for name in TABLES}
    return msgspec.structs.replace(part, **tables)


def diff(old: LiveState, new: LiveState) -> Delta:
    """The change from one state to the other: ``apply(old, diff(old, new)) == new``."""
    changed: dict[str, Any] = {}
    for name in TABLES:
        before, after = getattr(old, name), getattr(new, name)
        if before is not after and (rows := difference(before, after)):
            changed[name] = rows
    for name in WHOLE:
        if getattr(old, name) != getattr(new, name):
            changed[name] = getattr(new, name)
    return Delta(**changed)


def difference(before: Mapping[str, T], after: Mapping[str, T]) -> dict[str, T | None]:
    """The rows that are new or changed, and None for removed ones."""
    rows: dict[str, T | None] = {key: row for key, row in after.items() if before.get(key) != row}
    rows.update(dict.fromkeys(before.keys() - after.keys()))
    return rows


def empty(delta: Delta) -> bool:
    """True if nothing changed and nothing happened."""
    return delta == NOTHING


NOTHING = Delta()
