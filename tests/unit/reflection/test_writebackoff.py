"""Reports of a peer's refusals, and writes that wait: refused, contested, too frequent."""

import pytest

from liqod.apimachinery.kinds import PODS
from liqod.plugins.contracts import Refusal
from liqod.reflection import writebackoff
from liqod.reflection.timings import ReflectionTimings
from liqod.reflection.writebackoff import BURST, EVERY, Contest, Rate, RefusalBackoff

FORBIDDEN = Refusal(403, "quota exceeded", PODS, True)
INVALID = Refusal(422, "spec.containers: Required", PODS, False)
POD = ("shop", "web")


def test_the_first_403_is_tried_again_at_once_and_not_shown():
    found = writebackoff.refused(None, (FORBIDDEN,), "a", 100.0)
    assert found.shown == ()
    assert found.waits("a", 100.0) == pytest.approx(writebackoff.FIRST)


def test_further_refusals_are_shown_and_wait_longer():
    found: RefusalBackoff | None = None
    waits = []
    for _ in range(8):
        found = writebackoff.refused(found, (FORBIDDEN,), "a", 100.0)
        waits.append(found.due - 100.0)
    assert found is not None
    assert found.shown == (FORBIDDEN,)
    assert waits[0] < 1 <= waits[1]
    assert 30 <= waits[-1] <= 60


def test_what_the_peer_cannot_accept_is_shown_at_once_and_not_sent_again():
    found = writebackoff.refused(None, (INVALID,), "a", 100.0)
    assert found.shown == (INVALID,)
    assert found.waits("a", 500.0) == pytest.approx(200.0)


def test_another_object_is_sent_at_once():
    found = writebackoff.refused(None, (INVALID,), "a", 100.0)
    assert found.waits("b", 100.0) is None
    assert writebackoff.refused(found, (INVALID,), "b", 100.0).tries == 1


def test_the_same_written_again_and_again_is_a_contest_and_what_changes_is_none():
    contested = ReflectionTimings().contested
    fight, key = Contest(contested), ("shop", "lamp")
    for number in range(20):
        assert fight.wrote(key, f"status {number}", 100.0 + number) is None
    for _ in range(writebackoff.TIMES - 1):
        assert fight.wrote(key, "red", 200.0) is None
    first = fight.wrote(key, "red", 201.0)
    assert first is not None
    assert fight.waits(key, 202.0) == pytest.approx(first - 1)
    assert fight.waits(key, 201.0 + first) is None
    for _ in range(writebackoff.TIMES):
        second = fight.wrote(key, "red", 300.0)
    assert second is not None
    assert second >= contested.first
    for number in range(20):
        assert fight.wrote(key, "slow", 2000.0 + number * writebackoff.WITHIN) is None
    fight.forget(key)
    assert fight.waits(key, 300.0) is None


def test_what_changes_without_end_is_written_at_a_steady_pace():
    rate, times = Rate(), []
    for tick in range(10_000):
        now = tick / 100
        if not rate.waits(POD, now):
            rate.wrote(POD, now)
            times.append(now)
    assert times[BURST - 1] < 1
    assert BURST + 100 / EVERY - 2 <= len(times) <= BURST + 100 / EVERY + 1


def test_what_rested_may_change_at_once_again():
    rate = Rate()
    for _ in range(BURST):
        assert rate.waits(POD, 5.0) == 0
        rate.wrote(POD, 5.0)
    assert rate.waits(POD, 5.0) == EVERY
    assert rate.waits(("shop", "other"), 5.0) == 0
    assert rate.waits(POD, 5.0 + EVERY) == 0
    for _ in range(BURST):
        assert rate.waits(POD, 100.0) == 0
        rate.wrote(POD, 100.0)
    rate.forget(POD)
    assert rate.waits(POD, 100.0) == 0
