"""How long a test takes by its own clocks does not depend on what else the machine does."""

import time

import trio
import trio.lowlevel

from tests.testbed import virtualtime

KEPT_AWAY = 0.3
"""Seconds for which the process does not run, as where others have the processor."""


def both() -> tuple[float, float]:
    return trio.current_time(), time.time()


async def test_what_the_process_waits_for_the_processor_takes_no_time() -> None:
    await trio.sleep(1)
    began, said = both()
    time.sleep(KEPT_AWAY)  # noqa: ASYNC251 - nothing goes on meanwhile
    await trio.lowlevel.checkpoint()
    now, says = both()
    assert now - began < KEPT_AWAY / 2
    assert 0 <= says - said < KEPT_AWAY / 2


async def test_what_only_waits_takes_its_time_at_once() -> None:
    passed = time.perf_counter()
    began, said = both()
    await trio.sleep(3600)
    now, says = both()
    assert now - began >= 3600
    assert abs(says - said - (now - began)) < 0.1
    assert time.perf_counter() - passed < 60


async def test_while_somebody_is_outside_time_is_real() -> None:
    with virtualtime.real():
        began, said = both()
        time.sleep(KEPT_AWAY)  # noqa: ASYNC251 - as a program that does not answer yet
        now, says = both()
        assert now - began >= KEPT_AWAY
        assert says - said >= KEPT_AWAY * 0.9
    await trio.lowlevel.checkpoint()
    assert abs(both()[1] - says) < KEPT_AWAY
