"""The reducer: messages in, what is known out."""

from __future__ import annotations

from liqod.inspect.protocol import RequestRefused, Series, Tasks
from liqod.model.view.rows import EventRow, Line
from liqod.model.view.state import LiveState
from tests.unit.model.states import NOW, peer, state
from tests.unit.tui.sessions import after, hello, pulse, session, snapshot, update
from tui.session import KEPT_EVENTS, TREND, Lost, Session, Trend, follows


def test_nothing_is_known_before_the_first_snapshot() -> None:
    greeted = after(hello())
    assert (greeted.title, greeted.acting) == ("rome", True)
    assert greeted.connection == "connecting"
    assert after(hello(), pulse(8, 0.1)).state == LiveState()


def test_a_snapshot_is_the_truth() -> None:
    known = session(peer("milan"))
    assert known.connection == "live"
    assert list(known.state.peers) == ["milan"]
    assert after(snapshot(state(peer("turin")), 20), start=known).state.peers.keys() == {"turin"}


def test_parts_of_a_snapshot_add_up_and_show_only_when_whole() -> None:
    one = snapshot(LiveState(peers={"milan": peer("milan")}), more=True)
    begun = after(hello(), one)
    assert begun.state == LiveState()
    whole = after(snapshot(state(peer("turin"))), start=begun)
    assert whole.state.peers.keys() == {"milan", "turin"}
    assert whole.parts == ()


def test_updates_apply_in_order_and_a_gap_does_not() -> None:
    known = session(peer("milan"))
    gone = after(update(8, peers={"milan": None}), start=known)
    assert not gone.state.peers
    assert not follows(known, update(9))
    assert after(update(9, peers={"milan": None}), start=known) == known


def test_trends_grow_by_one_value_and_keep_a_minute() -> None:
    known = session(peer("milan"))
    for number in range(100):
        known = after(pulse(8 + number, number / 1e3), start=known)
    trend = known.trends["milan"]
    assert len(trend.rtt) == len(trend.traffic) == TREND
    assert trend.rtt[-1] == 0.099
    gone = after(update(108, pulses={"milan": None}), start=known)
    assert not gone.trends


def test_a_history_comes_before_what_was_seen() -> None:
    known = after(pulse(8, 0.5), start=session(peer("milan")))
    values = tuple(float(number) for number in range(100))
    series = Series(
        id=1, metric="rtt", unit="seconds", peer="milan", end=NOW, step=1.0, values=values
    )
    rtt = after(series, start=known).trends["milan"].rtt
    assert len(rtt) == TREND
    assert rtt[-2:] == known.trends["milan"].rtt
    assert rtt[0] == 100 - (TREND - 2)


def test_events_and_lines_are_kept_to_a_bound() -> None:
    known = session()
    events = tuple(EventRow(number, NOW, "peer.link") for number in range(KEPT_EVENTS + 10))
    known = after(update(8, events=events, lines=(Line(NOW, "info", "hello"),)), start=known)
    assert len(known.events) == KEPT_EVENTS
    assert known.events[-1].sequence == KEPT_EVENTS + 9
    assert [line.text for line in known.lines] == ["hello"]


def test_a_lost_connection_keeps_what_was_seen_and_says_why() -> None:
    lost = Lost("the daemon stopped", NOW, NOW + 1)
    known = after(lost, start=session(peer("milan")))  # type: ignore[arg-type]
    assert known.connection == "lost"
    assert known.lost == lost
    assert "milan" in known.state.peers
    assert after(hello(), snapshot(state()), start=known).lost is None


def test_another_life_of_the_daemon_is_counted() -> None:
    known = session(peer("milan"))
    assert after(hello(), start=known).restarts == 0
    assert after(hello(started=NOW), start=known).restarts == 1


def test_answers_change_nothing_but_the_tasks() -> None:
    known = session(peer("milan"))
    assert after(RequestRefused(id=1, code="busy", reason="no"), start=known) == known
    tree = Tasks(id=2, tasks=())
    assert after(tree, start=known).tasks == tree


def test_a_trend_of_nothing_is_empty() -> None:
    assert Trend() == Trend((), ())
    assert (Session("x").title, session().title) == ("x", "rome")
