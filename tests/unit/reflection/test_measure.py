"""However often a status changes, it is written at a steady pace."""

from liqod.reflection.measure import BURST, EVERY, Measure

POD = ("shop", "web")


def test_what_changes_without_end_is_written_at_a_steady_pace():
    measure, times = Measure(), []
    for tick in range(10_000):
        now = tick / 100
        if not measure.waits(POD, now):
            measure.wrote(POD, now)
            times.append(now)
    assert times[BURST - 1] < 1
    assert BURST + 100 / EVERY - 2 <= len(times) <= BURST + 100 / EVERY + 1


def test_what_rested_may_change_at_once_again():
    measure = Measure()
    for _ in range(BURST):
        assert measure.waits(POD, 5.0) == 0
        measure.wrote(POD, 5.0)
    assert measure.waits(POD, 5.0) == EVERY
    assert measure.waits(("shop", "other"), 5.0) == 0
    assert measure.waits(POD, 5.0 + EVERY) == 0
    for _ in range(BURST):
        assert measure.waits(POD, 100.0) == 0
        measure.wrote(POD, 100.0)
    measure.forget(POD)
    assert measure.waits(POD, 100.0) == 0
