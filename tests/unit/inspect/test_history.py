"""Ring buffers: what is kept, in how many bytes; the figures of round trips, and the loop's lag."""

from types import SimpleNamespace

import pytest
import trio

from liqod.inspect import metrichistory
from liqod.inspect.metrichistory import (
    DAEMON,
    MINUTES,
    PEER,
    SECONDS,
    Histories,
    History,
    LoopTurns,
    Ring,
)
from liqod.model.peering.roundtrips import rounds
from liqod.model.view.daemonfacts import ProcessFacts
from liqod.model.view.facts import ClusterFacts, LinkFacts, PeerFacts, Report, WorkFacts


def facts(peer: str, rtt: float | None, pods_out: int = 0, lag: float | None = None) -> PeerFacts:
    """Of a peer with that round trip and so many pods."""
    return PeerFacts(
        now=0.0,
        peer=peer,
        cluster=ClusterFacts(now=0.0),
        link=LinkFacts(rtt=rtt),
        work=WorkFacts(lag=lag),
        pods_out=pods_out,
        pods_in=1,
    )


def report(rss: int, *peers: PeerFacts) -> Report:
    """The facts of a second."""
    own = ClusterFacts(now=0.0, process=ProcessFacts(rss=rss))
    return Report(own, {each.peer: each for each in peers})


def test_a_ring_keeps_the_newest_in_order():
    ring = Ring(3)
    for value in range(5):
        ring.push(value)
    assert ring.newest(3) == [2, 3, 4]
    assert ring.newest(2) == [3, 4]
    assert ring.newest(0) == []
    assert len(ring) == 3


def test_a_day_of_one_peer_fits_in_a_hundred_kilobytes():
    history = History(PEER)
    for second in range(MINUTES * 60 + SECONDS):
        history.record(facts("milan", second / 1000))
    assert history.bytes <= 100_000
    step, values = history.series("rtt", 86_400)
    assert step == 60
    assert len(values) == MINUTES


def test_seconds_come_for_ten_minutes_and_minutes_for_a_day():
    history = History(PEER)
    for second in range(120):
        history.record(facts("milan", float(second), lag=float(second)))
    assert history.series("rtt", 5) == (1.0, (115.0, 116.0, 117.0, 118.0, 119.0))
    assert history.series("rtt", 3600) == (60.0, (29.5, 89.5))  # the mean of each minute
    assert history.series("lag", 3600) == (60.0, (59.0, 119.0))  # the worst


def test_what_was_not_measured_is_none_and_spoils_no_mean():
    history = History(PEER)
    for second in range(60):
        history.record(facts("milan", 1.0 if second % 2 else None))
    assert history.series("rtt", 2)[1] == (None, 1.0)
    assert history.series("rtt", 3600)[1] == (1.0,)
    assert history.series("loss", 3600)[1] == (None,)


def test_a_metric_that_there_is_not():
    with pytest.raises(KeyError):
        History(DAEMON).series("mood", 1)


def test_peers_that_have_gone_are_forgotten():
    histories = Histories()
    histories.record(report(5, facts("milan", 0.1, 3), facts("oslo", 0.2, 4)))
    histories.record(report(6, facts("milan", 0.3, 3)))
    assert set(histories.peers) == {"milan"}
    assert histories.of("milan").series("rtt", 9)[1] == (0.1, 0.3)
    assert histories.of("").series("pods_out", 9)[1] == (7.0, 3.0)
    assert histories.of("").series("rss", 9)[1] == (5.0, 6.0)
    with pytest.raises(KeyError):
        histories.of("oslo")


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], (None, None, None, None, None)),
        ([0.1], (0.1, 0.1, 0.1, None, 0.0)),
        ([None], (None, None, None, None, 1.0)),
        ([0.1, None, 0.3], (0.3, 0.3, 0.3, 0.2, 0.333)),
        ([0.1, 0.2, None], (None, 0.2, 0.2, 0.1, 0.333)),
    ],
)
def test_figures_of_round_trips(taken, expected):
    assert rounds(taken) == tuple(pytest.approx(each) if each else each for each in expected)


def test_one_slow_round_trip_in_a_hundred_is_no_95th_percentile():
    _, p50, p95, _, loss = rounds([0.001] * 99 + [5.0])
    assert (p50, p95, loss) == (0.001, 0.001, 0.0)


async def test_what_holds_the_loop_up_is_seen_once(monkeypatch: pytest.MonkeyPatch):
    now = 7.0
    monkeypatch.setattr(metrichistory, "time", SimpleNamespace(perf_counter=lambda: now))
    turns = LoopTurns()
    trio.lowlevel.add_instrument(turns)
    try:
        await trio.sleep(0.01)
        turns.take()
        now += 0.125  # a component computes for too long
        await trio.sleep(0.01)
        assert turns.take() == 0.125
        await trio.sleep(0.01)
        assert turns.take() == 0.0
    finally:
        trio.lowlevel.remove_instrument(turns)
