"""Sessions for the tests of the terminal program: what a daemon would have said."""

from __future__ import annotations

from typing import Any

from liqod.inspect.protocol import InspectorHello, ServerMessage, StateSnapshot, Update
from liqod.model.view.rows import Pulse, WidePeerRow
from liqod.model.view.state import Delta, LiveState
from tests.unit.model.states import NOW, state
from tui.session import Session, reduce


def hello(**changes: Any) -> InspectorHello:
    """A greeting of a daemon that lets this client act."""
    values: dict[str, Any] = {
        "protocol": 1,
        "version": "0.1.0",
        "cluster_id": "rome",
        "started": NOW - 7200,
        "at": NOW,
        "user": "root",
        "acting": True,
        **changes,
    }
    return InspectorHello(**values)


def session(*peers: WidePeerRow, **tables: Any) -> Session:
    """The session after a greeting and a snapshot with these peers."""
    return after(hello(), snapshot(state(*peers, **tables)))


def snapshot(of: LiveState, sequence: int = 7, **changes: Any) -> StateSnapshot:
    """All of a state."""
    return StateSnapshot(sequence=sequence, at=NOW, state=of, **changes)


def update(sequence: int, **delta: Any) -> Update:
    """A change."""
    return Update(sequence=sequence, at=NOW + sequence, delta=Delta(**delta))


def pulse(sequence: int, rtt: float, name: str = "milan") -> Update:
    """One more value of a peer."""
    return update(sequence, pulses={name: Pulse(heard=NOW + sequence, rtt=rtt, sent=1.0)})


def after(*messages: ServerMessage, start: Session | None = None) -> Session:
    """A session after these messages."""
    made = start or Session("rome.sock")
    for message in messages:
        made = reduce(made, message)
    return made
