"""The supervisor: back-off, parking, and what it lets through."""

import itertools

import pytest
import trio

from liqod.errors import Forbidden, NotStarted, Unreachable
from liqod.runtime.supervise import PARKED_RETRY, Failure, Supervision, explain, walled


async def run_for(seconds: float, supervision: Supervision) -> None:
    with trio.move_on_after(seconds):
        await supervision.forever()


async def test_transient_failures_back_off_by_doubling(autojump_clock):
    starts: list[float] = []

    async def fail() -> None:
        starts.append(trio.current_time())
        raise Unreachable("gone")

    supervision = Supervision(fail, lambda failure, error: None, jitter=lambda: 1.0)
    await run_for(200, supervision)
    gaps = [round(b - a) for a, b in itertools.pairwise(starts)]
    assert gaps == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_what_hangs_at_its_start_was_never_well(autojump_clock):
    starts: list[float] = []

    async def hang() -> None:
        starts.append(trio.current_time())
        await trio.sleep(60)
        raise ExceptionGroup("", [NotStarted("nothing comes")])

    supervision = Supervision(hang, lambda failure, error: None, jitter=lambda: 1.0)
    await run_for(590, supervision)
    gaps = [round(b - a - 60) for a, b in itertools.pairwise(starts)]
    assert gaps == [1, 2, 4, 8, 16, 32, 60]


async def test_what_fails_for_days_is_still_tried(autojump_clock):
    reports: list[Failure] = []

    async def fail() -> None:
        raise Unreachable("gone")

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None:
            reports.append(failure)

    await run_for(2 * 86400, Supervision(fail, report, jitter=lambda: 1.0))
    assert (reports[-1].failures, reports[-1].retry_in) == (len(reports), 60)
    assert len(reports) > 2000


async def test_permanent_failures_park(autojump_clock):
    starts: list[float] = []
    reports: list[Failure | None] = []

    async def fail() -> None:
        starts.append(trio.current_time())
        raise Forbidden("no")

    supervision = Supervision(fail, lambda failure, error: reports.append(failure))
    await run_for(PARKED_RETRY + 10, supervision)
    assert [round(start - starts[0]) for start in starts] == [0, PARKED_RETRY]
    assert PARKED_RETRY > 100
    last = reports[-1]
    assert last is not None
    assert last.parked
    assert last.reason == "no"


async def test_a_long_healthy_run_resets_the_back_off(autojump_clock):
    lives = iter([0, 0, 100, 0, 0])
    reports: list[int] = []

    async def fail() -> None:
        await trio.sleep(next(lives))
        raise Unreachable("gone")

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None:
            reports.append(failure.failures)

    await run_for(110, Supervision(fail, report, jitter=lambda: 0.0))
    assert reports[:4] == [1, 2, 1, 2]


async def test_a_group_is_explained_once_per_text():
    group = ExceptionGroup("x", [Unreachable("a"), ExceptionGroup("y", [Unreachable("a")])])
    assert explain(group) == "a"


async def test_what_is_no_error_passes_through(autojump_clock):
    async def stop() -> None:
        raise KeyboardInterrupt

    supervision = Supervision(stop, lambda failure, error: None)
    with pytest.raises(KeyboardInterrupt):
        await supervision.forever()


async def test_what_is_walled_ends_nothing_else_and_is_begun_again(autojump_clock, caplog):
    starts = 0

    async def breaks() -> None:
        nonlocal starts
        starts += 1
        raise KeyError("a fault of ours")

    with trio.move_on_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(walled, "the room", breaks)
            nursery.start_soon(trio.sleep_forever)
    assert starts > 2
    assert "the room failed" in caplog.text
    assert "KeyError" in caplog.text
