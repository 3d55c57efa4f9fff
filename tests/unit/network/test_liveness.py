"""A peer that is gone is noticed within 1.5 s; one that is there is never thought to be gone."""

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.model.network.liveness import DEADLINE, HURRY, REST, Liveness

NOTICED = 1.5


class Way:
    """A peer at the end of a way that loses packets each way; time passes by events."""

    def __init__(self, *, loss: float, trip: float, seed: int) -> None:
        self.loss, self.trip = loss, trip
        self.random = random.Random(seed)
        self.there = True
        self.now = 1000.0
        self.liveness = Liveness(self.now)
        self.sent = 0
        self.verdicts: list[tuple[float, bool | None]] = []
        self._answers: list[tuple[float, int]] = []

    def live(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = self.liveness.due(self.now)
            answer = self._answers[0][0] if self._answers else end + 1
            self.now = min(due, answer, end)
            if self.now >= end:
                return
            if answer <= due:
                self.liveness.on_answer(heapq.heappop(self._answers)[1], self.now)
            if self.liveness.judge(self.now):
                self.verdicts.append((self.now, self.liveness.alive))
            if self.liveness.sends(self.now):
                self.liveness.sent(self.sent, self.now)
                if self.there and self.random.random() < (1 - self.loss) ** 2:
                    late = self.trip * (1 + self.random.random() / 2)
                    heapq.heappush(self._answers, (self.now + late, self.sent))
                self.sent += 1


@pytest.mark.parametrize("trip", [0.0005, 0.03, 0.3])
def test_a_tenth_of_the_packets_lost_is_no_reason_for_alarm(trip: float):
    """Four simulated hours at each distance."""
    for seed in range(4):
        way = Way(loss=0.1, trip=trip, seed=seed)
        way.live(3600.0)
        assert [alive for _, alive in way.verdicts] == [True]
        assert way.liveness.lost < 0.5
        assert way.liveness.latency == pytest.approx(trip * 1.25, rel=0.2)


@given(
    st.floats(5, 8),
    st.sampled_from([0.0, 0.05, 0.1]),
    st.sampled_from([0.0005, 0.02, 0.08]),
    st.integers(0, 1 << 30),
)
def test_one_that_is_gone_is_noticed(after: float, loss: float, trip: float, seed: int):
    way = Way(loss=loss, trip=trip, seed=seed)
    way.live(after)
    assert way.liveness.alive
    way.there = False
    gone = way.now
    way.live(3.0)
    at, alive = way.verdicts[-1]
    assert not alive
    # Besides the deadline, the answer that was on its way when it went.
    assert at - gone <= max(NOTICED, DEADLINE + 4 * trip)
    way.there = True
    came = way.now
    way.live(2.0 if loss == 0 else 20.0)
    at, alive = way.verdicts[-1]
    assert alive
    assert loss > 0 or at - came <= REST + 2 * trip


def test_at_rest_two_probes_a_second_go():
    way = Way(loss=0.0, trip=0.001, seed=1)
    way.live(10.0)
    before = way.sent
    way.live(60.0)
    assert way.sent - before <= 60 / REST + 1


def test_one_that_was_never_there_is_said_not_to_be():
    way = Way(loss=0.0, trip=0.001, seed=1)
    way.there = False
    way.live(3.0)
    assert [alive for _, alive in way.verdicts] == [False]
    # Nor is it asked more often for that.
    before = way.sent
    way.live(60.0)
    assert way.sent - before <= 60 / REST + 1


def test_a_program_that_was_held_up_raises_no_alarm():
    liveness = Liveness(0.0)
    liveness.sent("a", 0.0)
    liveness.on_answer("a", 0.01)
    assert liveness.judge(0.01)
    due = liveness.due(0.01)
    late = due + 5.0
    liveness.stalled(late - due)
    assert not liveness.judge(late)
    assert liveness.alive
    assert liveness.sends(late)


def test_answers_to_what_was_not_asked_count_for_nothing():
    liveness = Liveness(0.0)
    assert not liveness.on_answer("forged", 0.1)
    liveness.sent("a", 0.1)
    assert liveness.on_answer("a", 0.2)
    assert not liveness.on_answer("a", 0.3)
    assert liveness.latency == pytest.approx(0.1)


def test_a_miss_is_followed_by_many():
    liveness = Liveness(0.0)
    liveness.sent("a", 0.0)
    liveness.on_answer("a", 0.01)
    liveness.judge(0.01)
    liveness.sent("b", 0.5)
    assert 0.5 < liveness.due(0.51) < 0.5 + 2 * 0.01 + 0.06
    now = liveness.due(0.51)
    assert liveness.sends(now)
    liveness.sent("c", now)
    assert liveness.due(now) == pytest.approx(now + HURRY)


def test_what_waited_for_the_tunnel_to_be_made_is_not_taken_for_the_way():
    liveness = Liveness(0.0)
    for number in range(20):
        liveness.sent(number, number * 0.05)
    for number in range(20):  # the handshake was lost, and all come at once
        liveness.on_answer(number, 1.7)
    assert liveness.latency == pytest.approx(0.75)
    liveness.sent("alone", 2.0)
    liveness.on_answer("alone", 2.1)
    assert liveness.latency == pytest.approx(0.1)
    liveness.sent("later", 3.0)
    liveness.on_answer("later", 3.9)
    assert liveness.latency == pytest.approx(0.2)
