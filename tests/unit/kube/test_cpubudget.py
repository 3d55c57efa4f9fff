"""The share of the daemon's time that a backlog may take."""

import time
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from liqod.kube.http.cpubudget import SHARE, TURN_OBJECTS, CpuBudget, Turn
from liqod.peers.peer import WORK_SHARE


async def read(turn: Turn, until: float, *, backlog: bool = True) -> float:
    """Read without end, half a millisecond an object; the seconds that it took by itself."""
    worked = 0.0
    while time.perf_counter() < until:
        began = time.process_time()
        while time.process_time() - began < 0.0005:
            pass
        worked += time.process_time() - began
        await turn.spend(100, backlog=backlog)
    return worked


async def test_all_backlogs_of_a_peer_together_take_their_share_of_the_time():
    budget = CpuBudget()
    until = time.perf_counter() + 1.5
    took: list[float] = []

    async def one() -> None:
        took.append(await read(Turn(budget), until))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(one)
    # The last turns may end late; what counts is that others have most of the time.
    assert 0 < sum(took) < 2 * SHARE * 1.5


async def test_who_keeps_up_does_not_pause(autojump_clock: trio.testing.MockClock):
    began = trio.current_time()
    turn = Turn(CpuBudget())
    for _ in range(10 * TURN_OBJECTS):
        await turn.spend(1, backlog=False)
    for _ in range(TURN_OBJECTS - 1):
        await turn.spend(1)
    assert trio.current_time() == began


async def test_this_clusters_own_api_server_is_read_at_full_speed():
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        turn = Turn()
        for _ in range(10 * TURN_OBJECTS):
            await turn.spend(1)
        nursery.cancel_scope.cancel()
    assert turns >= 9


async def test_waiting_is_no_work(autojump_clock: trio.testing.MockClock):
    budget = CpuBudget()
    turn = Turn(budget)
    began = time.thread_time()
    time.sleep(0.3)  # noqa: ASYNC251  # only the thread's own time is real here
    turn.exclude(time.thread_time() - began)
    began = trio.current_time()
    for _ in range(TURN_OBJECTS):
        await turn.spend(1)
    assert trio.current_time() - began < 0.3


async def test_what_other_programs_do_meanwhile_is_not_charged(
    autojump_clock: trio.testing.MockClock,
):
    budget = CpuBudget(credit=0.1)
    turn = Turn(budget)
    time.sleep(0.3)  # noqa: ASYNC251  # the processor is another program's
    for _ in range(TURN_OBJECTS):
        await turn.spend(1)
    assert not budget.spent


async def test_reading_and_the_work_that_follows_stay_below_a_twentieth_together(
    autojump_clock: trio.testing.MockClock,
):
    reading, work = CpuBudget(credit=0.0), CpuBudget(credit=0.0, share=WORK_SHARE)
    turn, lasts, used = 0.3, 600.0, 0.0  # turns of the largest objects

    async def go_on(pause: Callable[[float], Awaitable[None]]) -> None:
        nonlocal used
        while True:
            used += turn
            await pause(turn)

    began = trio.current_time()
    with trio.move_on_after(lasts):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(go_on, reading.rest)
            nursery.start_soon(go_on, work.spend)
    assert used / (trio.current_time() - began) < 0.035
