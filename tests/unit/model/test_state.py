"""The state that the inspector shows: changes apply to it, and make the difference of two."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.problems import Problem
from liqod.model.view.roomrows import NodeRoom, RoomSums
from liqod.model.view.rows import Pulse
from liqod.model.view.state import NOTHING, TABLES, Delta, LiveState, apply, diff, empty, join
from tests.unit.model.states import peer, state

NAMES = st.sampled_from(["milan", "turin", "oslo", "bern"])
PULSES = st.dictionaries(
    NAMES, st.builds(Pulse, rtt=st.none() | st.floats(0, 9), backlog=st.integers(0, 3))
)
PEERS = st.dictionaries(NAMES, st.builds(peer, NAMES, pods_out=st.integers(0, 3)))
STATES = st.builds(
    LiveState,
    daemon=st.builds(
        ProcessFacts, cpu=st.floats(0, 1), state=st.sampled_from(["leading", "starting"])
    ),
    peers=PEERS,
    pulses=PULSES,
    room=st.builds(RoomSums, here=st.integers(0, 3)),
    problems=st.lists(st.builds(Problem, st.integers(0, 3), NAMES), max_size=2).map(tuple),
)


@given(STATES, STATES)
def test_a_difference_leads_from_one_state_to_the_other(old: LiveState, new: LiveState):
    delta = diff(old, new)
    assert apply(old, delta) == new
    assert empty(delta) == (old == new)


@given(STATES, STATES)
def test_a_difference_survives_the_wire(old: LiveState, new: LiveState):
    sent = msgspec.json.encode(diff(old, new))
    assert apply(old, msgspec.json.decode(sent, type=Delta)) == new


@given(STATES)
def test_parts_of_a_snapshot_add_up(whole: LiveState):
    names = sorted(whole.peers)
    halves = [
        msgspec.structs.replace(whole, peers={name: whole.peers[name] for name in some})
        for some in (names[::2], names[1::2])
    ]
    assert join(*halves) == whole


def test_a_change_shares_the_tables_that_it_does_not_touch():
    before = state(peer())
    after = apply(before, Delta(pulses={"milan": Pulse(rtt=1.0)}))
    assert after.peers is before.peers
    assert before.pulses["milan"].rtt == 0.002
    assert apply(before, NOTHING) is before


def test_every_table_of_the_state_is_in_the_delta():
    assert set(TABLES) < set(Delta.__struct_fields__)


def test_a_viewer_of_before_the_tables_on_room_reads_the_rest():
    new = ("rooms", "waits", "avoided", "room")
    before = [
        (each.name, each.type, msgspec.field(default_factory=each.type))
        for each in msgspec.structs.fields(LiveState)
        if each.name not in new and each.default is msgspec.NODEFAULT
    ]
    older: Any = msgspec.defstruct("LiveState", before, frozen=True, omit_defaults=True)
    sent = state(
        peer(), rooms={"milan": NodeRoom("milan", told=True)}, room=RoomSums(nodes=1, here=2)
    )
    found = msgspec.json.decode(msgspec.json.encode(sent), type=older)
    assert found.peers == sent.peers
    assert msgspec.json.decode(msgspec.json.encode(sent), type=LiveState) == sent
    assert msgspec.json.decode(msgspec.json.encode(found), type=LiveState).room is None


def test_fields_of_a_newer_daemon_are_ignored():
    found = msgspec.json.decode(
        b'{"pulses":{"milan":{"rtt":1,"mood":"good"}},"moons":{}}', type=LiveState
    )
    assert found.pulses["milan"].rtt == 1
