"""Streams in one connection: two sides that keep the rules, and one that does not."""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from liqod.errors import ProtocolError, Unconnected
from liqod.handshake.protocol.mux import (
    FIRST_WINDOW,
    FRAME,
    GROWTH,
    LARGEST,
    STREAMS,
    UNANSWERED,
    WINDOW,
    FrameKind,
    Mux,
    StreamState,
)


def said(kind: int, number: int, body: bytes = b"") -> bytes:
    """A message."""
    return bytes([kind]) + number.to_bytes(4, "big") + body


def pair() -> tuple[Mux, Mux]:
    """The one that dialled, and the one that listens."""
    return Mux(dialler=True, targets=frozenset({"api"})), Mux(
        dialler=False, targets=frozenset({"api"})
    )


def drained(mux: Mux) -> list[bytes]:
    """All that it has to say now."""
    found = []
    while (one := mux.message()) is not None:
        found.append(one[0])
    return found


def exchange(one: Mux, other: Mux) -> None:
    """Deliver what both have to say until neither has more."""
    moved = True
    while moved:
        moved = False
        for source, sink in ((one, other), (other, one)):
            for message in drained(source):
                heard = sink.receive(message)
                moved = True
                if heard is not None and heard[0] is FrameKind.OPEN:
                    sink.accept(heard[1])


def opened(one: Mux, other: Mux) -> tuple[StreamState, StreamState]:
    """A stream, as both see it."""
    state = one.open("api")
    exchange(one, other)
    return state, other.streams[state.number]


def test_bytes_go_both_ways_and_both_ends_are_told() -> None:
    one, other = pair()
    here, there = opened(one, other)
    assert here.opened
    one.give(here, b"question")
    one.finish(here)
    other.give(there, b"answer")
    exchange(one, other)
    assert other.take(there) == b"question"
    assert there.got_end
    assert not there.over
    assert one.take(here) == b"answer"
    other.finish(there)
    exchange(one, other)
    assert here.over
    assert not one.streams
    assert not other.streams


def test_nobody_sends_more_than_is_taken_and_reading_widens_the_window() -> None:
    one, other = pair()
    here, there = opened(one, other)
    one.give(here, bytes(2 * WINDOW))
    exchange(one, other)
    assert there.buffered == FIRST_WINDOW
    seen = [len(other.take(there))]
    while here.unsent or there.buffered:
        exchange(one, other)
        seen.append(len(other.take(there)))
    assert sum(seen) == 2 * WINDOW
    assert there.window == WINDOW
    assert sorted(seen[:4]) == seen[:4]  # it grows


def test_windows_grow_from_one_store_which_is_given_back() -> None:
    one, other = pair()
    streams = [opened(one, other) for _ in range(40)]
    for here, there in streams:
        one.give(here, bytes(2 * WINDOW))
        while here.unsent or there.buffered:
            exchange(one, other)
            other.take(there)
    assert sum(there.window - FIRST_WINDOW for _, there in streams) == GROWTH
    for here, _ in streams:
        one.abort(here)
    exchange(one, other)
    here, there = opened(one, other)
    one.give(here, bytes(2 * WINDOW))
    while here.unsent or there.buffered:
        exchange(one, other)
        other.take(there)
    assert there.window == WINDOW


def test_streams_have_turns_and_one_that_waits_holds_up_no_other() -> None:
    one, other = pair()
    stuck, _ = opened(one, other)
    one.give(stuck, bytes(WINDOW))
    exchange(one, other)
    assert stuck.unsent
    first, second = opened(one, other)[0], opened(one, other)[0]
    for each in (first, second):
        each.credit = 4 * FRAME
        one.give(each, bytes(4 * FRAME))
    order = [int.from_bytes(message[1:5], "big") for message in drained(one)]
    assert order == [first.number, second.number] * 4


def test_a_stream_that_is_refused_or_broken_off_ends_on_both_sides() -> None:
    one, other = pair()
    refused = one.open("etcd")
    exchange(one, other)
    assert refused.reset == "nothing of that name can be reached here"
    here, there = opened(one, other)
    one.give(here, b"half")
    one.abort(here, "no more of this")
    exchange(one, other)
    assert there.reset == "no more of this"
    assert not one.streams
    assert not other.streams


def test_who_ends_both_at_once_forgets_it_on_both_sides() -> None:
    one, other = pair()
    here, there = opened(one, other)
    one.finish(here)
    other.finish(there)
    crossing = drained(one), drained(other)
    for message in crossing[0]:
        other.receive(message)
    one.abort(here)
    for message in crossing[1]:
        one.receive(message)
    exchange(one, other)
    assert not one.streams
    assert not other.streams


def test_as_many_streams_as_there_may_be() -> None:
    one, other = pair()
    first = one.open("api")
    for _ in range(STREAMS - 1):
        one.open("api")
    with pytest.raises(Unconnected, match="512 streams are open already"):
        one.open("api")
    exchange(one, other)
    one.abort(first)
    exchange(one, other)
    one.open("api")
    exchange(one, other)
    assert other.theirs == STREAMS


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([b""], "a message of 0 bytes"),
        ([said(FrameKind.DATA, 1, bytes(LARGEST))], "a message of"),
        ([said(9, 1)], "kind 9"),
        ([said(FrameKind.OPEN, 2, b"api")], "not its to use"),
        ([said(FrameKind.OPEN, 3, b"api"), said(FrameKind.OPEN, 1, b"api")], "not its to use"),
        ([said(FrameKind.OPEN, 1, b"x" * 65)], "without a target's name"),
        ([said(FrameKind.DATA, 1, b"x")], "not open"),
        ([said(FrameKind.RESET, 1)], "not open"),
        ([said(FrameKind.WINDOW, 0, bytes(4))], "not open"),
        ([said(FrameKind.OPEN, 1, b"api"), said(FrameKind.OPENED, 1)], "nothing was asked"),
        ([said(FrameKind.OPEN, 1, b"api"), said(FrameKind.DATA, 1, b"x")], "before OPENED"),
        (
            [said(FrameKind.OPEN, 1, b"api"), said(FrameKind.WINDOW, 1, bytes(4))],
            "a size that can be",
        ),
        (
            [said(FrameKind.OPEN, 1, b"api"), said(FrameKind.WINDOW, 1, b"\xff" * 4)],
            "a size that can be",
        ),
        (
            [said(FrameKind.OPEN, 1, b"api"), said(FrameKind.SHUT, 1), said(FrameKind.SHUT, 1)],
            "behind the end",
        ),
        (
            [said(FrameKind.OPEN, 1, b"api"), said(FrameKind.RESET, 1, bytes(999))],
            "too long a reason",
        ),
    ],
)
def test_who_breaks_the_rules_is_cut_off(messages: list[bytes], why: str) -> None:
    listener = pair()[1]
    *fine, last = messages
    for message in fine:
        listener.receive(message)
    with pytest.raises(ProtocolError, match=why):
        listener.receive(last)


def test_who_sends_more_than_is_taken_is_cut_off_also_after_the_end() -> None:
    for aborted in (False, True):
        one, other = pair()
        here, there = opened(one, other)
        if aborted:
            other.abort(there)
        other.receive(said(FrameKind.DATA, here.number, bytes(FIRST_WINDOW)))
        with pytest.raises(ProtocolError, match="more than is taken"):
            other.receive(said(FrameKind.DATA, here.number, b"x"))


def test_who_opens_too_many_is_cut_off() -> None:
    listener = pair()[1]
    for number in range(1, 2 * STREAMS, 2):
        listener.receive(said(FrameKind.OPEN, number, b"api"))
    with pytest.raises(ProtocolError, match="more than 512 streams"):
        listener.receive(said(FrameKind.OPEN, 2 * STREAMS + 1, b"api"))


def test_who_asks_and_reads_no_answers_is_cut_off() -> None:
    listener = pair()[1]

    def ask() -> None:
        for number in range(1, 4 * UNANSWERED, 2):
            listener.receive(said(FrameKind.OPEN, number, b"api"))
            listener.receive(said(FrameKind.RESET, number))

    with pytest.raises(ProtocolError, match="without reading the answers"):
        ask()


@given(
    messages=st.lists(
        st.binary(max_size=40)
        | st.builds(said, st.integers(0, 7), st.integers(0, 6), st.binary(max_size=20)),
        max_size=30,
    )
)
@settings(max_examples=50, deadline=None)
def test_whatever_comes_is_taken_or_refused_and_little_is_kept(messages: list[bytes]) -> None:
    listener = pair()[1]
    for message in messages:
        try:
            heard = listener.receive(message)
        except ProtocolError:
            break
        if heard is not None and heard[0] is FrameKind.OPEN:
            listener.accept(heard[1])
        assert all(state.buffered <= state.window for state in listener.streams.values())


class Sides(RuleBasedStateMachine):
    """Two sides that keep the rules, with messages on their way between them."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = pair()
        self.way: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.sent: dict[tuple[int, int], bytes] = {}
        self.got: dict[tuple[int, int], bytes] = {}
        self.count = 0

    def states(self, side: int) -> list[StreamState]:
        return [self.sides[side].streams[each] for each in sorted(self.sides[side].streams)]

    @rule(side=st.integers(0, 1))
    def open(self, side: int) -> None:
        if self.sides[side].mine < 4:
            self.sides[side].open("api")

    @rule(side=st.integers(0, 1), which=st.integers(0, 7), size=st.integers(1, 3 * FIRST_WINDOW))
    def give(self, side: int, which: int, size: int) -> None:
        free = [
            each
            for each in self.states(side)
            if each.opened and not (each.unsent or each.closing or each.sent_end)
        ]
        if free:
            state = free[which % len(free)]
            self.count += 1
            data = bytes([self.count % 256]) * size
            self.sides[side].give(state, data)
            key = (1 - side, state.number)
            self.sent[key] = self.sent.get(key, b"") + data

    @rule(side=st.integers(0, 1), which=st.integers(0, 7), abort=st.booleans())
    def end(self, side: int, which: int, abort: bool) -> None:
        if states := self.states(side):
            state = states[which % len(states)]
            if abort:
                self.sides[side].abort(state, "enough")
            elif state.opened and not state.closing and not state.sent_end:
                self.sides[side].finish(state)

    @rule(side=st.integers(0, 1), which=st.integers(0, 7))
    def read(self, side: int, which: int) -> None:
        if states := self.states(side):
            state = states[which % len(states)]
            data = self.sides[side].take(state)
            key = (side, state.number)
            self.got[key] = self.got.get(key, b"") + data

    @rule(side=st.integers(0, 1))
    def send(self, side: int) -> None:
        found = self.sides[side].message()
        if found is not None:
            self.way[1 - side].append(found[0])

    @precondition(lambda self: any(self.way))
    @rule(side=st.integers(0, 1), many=st.integers(1, 9))
    def deliver(self, side: int, many: int) -> None:
        for _ in range(min(many, len(self.way[side]))):
            heard = self.sides[side].receive(self.way[side].popleft())
            if heard is not None and heard[0] is FrameKind.OPEN:
                self.sides[side].accept(heard[1])

    @invariant()
    def nothing_is_lost_or_turned_round(self) -> None:
        for key, data in self.got.items():
            assert self.sent.get(key, b"").startswith(data)
        for mux in self.sides:
            assert all(each.buffered <= each.window <= WINDOW for each in mux.streams.values())

    def teardown(self) -> None:
        """When all has been delivered and ended, neither side has anything left."""
        for side in (0, 1):
            for state in self.states(side):
                self.sides[side].abort(state)
        for _ in range(4):
            for side in (0, 1):
                while (found := self.sides[side].message()) is not None:
                    self.way[1 - side].append(found[0])
            for side in (0, 1):
                self.deliver(side, len(self.way[side]))
                for state in self.states(side):
                    self.sides[side].abort(state)
        for mux in self.sides:
            assert not mux.streams
            assert mux.mine == mux.theirs == 0


Sides.TestCase.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)
TestSides = Sides.TestCase
